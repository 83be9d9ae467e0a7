"""``mqredis pipeline ...``: data pipelines on Spark, for which the extra ``mqredis[spark]`` must be installed.

``cli.app`` adds the command. The commands and their arguments: mqredis/pipeline_arguments.py, apart from
``mqredis.spark`` because the help has to work without PySpark. Pipelines get the URL and the name of the manager and no
other setting of the options; ``cli.app`` refuses ``--read-only``.
"""

from __future__ import annotations

import argparse

from mqredis.cli.common import Arguments, Subparsers, command, common_options, given_settings
from mqredis.cli.output import Output
from mqredis.pipeline_arguments import ABOUT, add_commands


def register(subparsers: Subparsers) -> None:
    """Add the commands."""
    pipeline = subparsers.add_parser("pipeline", help=ABOUT, description=ABOUT, parents=[common_options()])
    inner = pipeline.add_subparsers(metavar="ACTION", required=True, dest="pipeline")

    def add(name: str, about: str) -> argparse.ArgumentParser:
        return command(inner, name, about, _pipeline)

    add_commands(add)


def _pipeline(arguments: Arguments, output: Output) -> None:  # noqa: ARG001 - pipelines print by themselves
    from mqredis.spark.pipelines import command as pipelines  # needs PySpark, which the help does not

    settings = given_settings(arguments)
    pipelines.run(arguments, settings.url or "", settings.manager)
