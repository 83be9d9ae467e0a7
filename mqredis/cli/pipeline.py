"""``mqredis pipeline ...``: data pipelines on Spark, for which the extra ``mqredis[spark]`` must be installed.

``cli.app`` adds the command.
"""

from __future__ import annotations

import argparse

from mqredis.cli.common import common_options
from mqredis.cli.exits import Exit
from mqredis.cli.output import Output


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the subcommand. Its own arguments are parsed by the pipelines: they need pyspark, this does not."""
    about = "archive, analyse, replay, migrate with Spark; publications, recover, withdraw"
    parser = subparsers.add_parser("pipeline", help=about, description=about, parents=[common_options()])
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="archive --help tells more, and so on")
    parser.set_defaults(run=pipeline)


def pipeline(arguments: argparse.Namespace, output: Output) -> Exit:  # noqa: ARG001 - pipelines print by themselves
    """Hand over to the pipelines."""
    from mqredis.spark.pipelines import command

    given = {"--url": getattr(arguments, "url", None), "--manager": getattr(arguments, "manager", None)}
    more = [word for name, value in given.items() if value for word in (name, value)]
    command.main([*arguments.arguments, *more])
    return Exit.DONE
