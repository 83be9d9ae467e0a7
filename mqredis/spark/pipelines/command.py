"""Runs the commands of ``mqredis pipeline``; also a script for ``spark-submit``.

``mqredis.cli.pipeline`` calls it; demo/pipelines.py takes ``session``. The commands and their arguments:
mqredis/pipeline_arguments.py. Users run this file by its path, and read what is printed: one line of JSON
(docs/pipelines.md).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from mqredis.errors import InvalidArgument
from mqredis.pipeline_arguments import add_commands


def parser() -> argparse.ArgumentParser:
    """The parser of the script. ``mqredis pipeline`` has one of its own, with the same commands."""
    root = argparse.ArgumentParser(prog="mqredis pipeline", description="Data pipelines of mqredis on Spark.")
    commands = root.add_subparsers(dest="pipeline", required=True)

    def add(name: str, about: str) -> argparse.ArgumentParser:
        one = commands.add_parser(name, help=about, description=about)
        url, manager = os.environ.get("MQREDIS_URL", ""), os.environ.get("MQREDIS_MANAGER", "default")
        one.add_argument("--url", default=url, help="URL of the broker (MQREDIS_URL)")
        one.add_argument("--manager", default=manager, help="queue manager")
        return one

    add_commands(add)
    return root


def main(argv: Sequence[str] | None = None) -> int:
    """The script: run one pipeline. 0: done."""
    arguments = parser().parse_args(argv)
    run(arguments, arguments.url, arguments.manager)
    return 0


def run(arguments: argparse.Namespace, url: str, manager: str) -> None:
    """Run the pipeline ``arguments.pipeline``, and print what it did as JSON. Raises InvalidArgument without a URL."""
    if not url:
        raise InvalidArgument("give --url, or set MQREDIS_URL")
    print(json.dumps(_run(arguments, url, manager), default=str))  # noqa: T201 - a program


def _run(arguments: argparse.Namespace, url: str, manager: str) -> dict[str, Any]:
    """Run it; a summary. The attributes of ``arguments`` are the arguments in mqredis/pipeline_arguments.py."""
    from mqredis.spark import admin, pipelines
    from mqredis.spark.connection import manager_of

    where: dict[str, Any] = {"url": url, "manager": manager}
    if arguments.pipeline == "migrate":
        sent = pipelines.migrate(
            arguments.source, arguments.key, arguments.queue, source_url=arguments.source_url, name=arguments.name,
            newest_left=not arguments.newest_right, **where,
        )  # fmt: skip
        return {"sent": sent}
    client = manager_of(url, manager)
    if arguments.pipeline == "publications":
        return {"publications": [asdict(each) for each in admin.publications(client)]}
    if arguments.pipeline == "recover":
        return {"sent": admin.recover(client, arguments.name)}
    if arguments.pipeline == "withdraw":
        return {"withdrawn": admin.withdraw(client, arguments.name)}
    spark = session()
    if arguments.pipeline == "archive":
        started = pipelines.archive(
            spark, arguments.path, queues=arguments.queue, checkpoint=arguments.checkpoint, name=arguments.name,
            once=not arguments.follow, fail_on_data_loss=not arguments.skip_deleted, **where,
        )  # fmt: skip
        return {"archived": started.wait()}
    if arguments.pipeline == "analyse":
        return dict(pipelines.analyse(spark, arguments.out, queues=arguments.queue, **where))
    sent = pipelines.replay(
        spark, arguments.path, arguments.name, queue=arguments.queue, where=arguments.where, rate=arguments.rate,
        chunk=arguments.chunk, **where,
    )  # fmt: skip
    return {"sent": sent}


def session() -> Any:
    """The session of spark-submit, or a local one on this machine."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder: Any = SparkSession.builder
    if "SPARK_ENV_LOADED" not in os.environ:
        # One machine: no UI, no bars between the lines, and few parts in what is small.
        local = {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.shuffle.partitions": "4",
        }
        builder = builder.master("local[*]")
        for name, value in local.items():
            builder = builder.config(name, value)
    return builder.appName("mqredis pipeline").getOrCreate()


if __name__ == "__main__":
    raise SystemExit(main())
