"""``mqredis pipeline archive|analyse|replay|migrate ...``; the same for ``spark-submit``.

``mqredis.cli.pipeline`` calls it.
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


def parser() -> argparse.ArgumentParser:
    """The arguments of all commands."""
    root = argparse.ArgumentParser(prog="mqredis pipeline", description="Data pipelines of mqredis on Spark.")
    commands = root.add_subparsers(dest="pipeline", required=True)

    def add(name: str, about: str) -> argparse.ArgumentParser:
        one = commands.add_parser(name, help=about, description=about)
        one.add_argument(
            "--url", default=os.environ.get("MQREDIS_URL", ""), help="URL of the broker (MQREDIS_URL)"
        )
        one.add_argument(
            "--manager", default=os.environ.get("MQREDIS_MANAGER", "default"), help="queue manager"
        )
        return one

    one = add("archive", "journals and dead letters to Parquet, by day and queue")
    one.add_argument("path", help="folder of the lake")
    one.add_argument(
        "--queue",
        action="append",
        default=[],
        help="a queue or pattern; default: all journals and dead letters",
    )
    one.add_argument("--name", default="archive", help="of two archives of one queue each needs its own")
    one.add_argument("--skip-deleted", action="store_true", help="go on without queues that were deleted")
    one.add_argument("--checkpoint", default="", help="default: <path>/_checkpoint")
    one.add_argument("--follow", action="store_true", help="go on until stopped")
    one = add("analyse", "what is in the queues: tables, and a report as a page")
    one.add_argument("--out", default=None, help="folder for the report, index.html")
    one.add_argument("--queue", action="append", default=[], help="a queue; default: all")
    one = add("replay", "from the lake back into queues")
    one.add_argument("path", help="folder of the lake")
    one.add_argument("name", help="names this replay, so that it can be resumed")
    one.add_argument("--queue", default="", help="where to; default: where each message was")
    one.add_argument("--where", default="", help="condition in Spark SQL")
    one.add_argument("--rate", type=float, default=0, help="messages a second at most")
    one.add_argument("--chunk", type=int, default=10_000, help="messages published together")
    one = add("migrate", "a Redis list, stream or Celery queue into mqredis")
    one.add_argument("source", choices=("list", "stream", "celery"))
    one.add_argument("key", help="key of the source")
    one.add_argument("queue", help="queue to send to")
    one.add_argument("--source-url", required=True, help="URL of the Redis that holds the source")
    one.add_argument("--name", default="", help="names this migration, so that it can be resumed")
    one.add_argument(
        "--newest-right",
        action="store_true",
        help="a list whose producers push on the right; default: on the left",
    )
    add("publications", "writes of which only a part is in the queues")
    for name, about in (("recover", "finish such a write"), ("withdraw", "give up the rest of such a write")):
        add(name, about).add_argument("name", help="as `publications` shows it")
    return root


def main(argv: Sequence[str] | None = None) -> int:
    """Run one pipeline and print what it did as JSON. 0: done."""
    given = parser().parse_args(argv)
    if not given.url:
        raise InvalidArgument("give --url, or set MQREDIS_URL")
    print(json.dumps(run(given), default=str))  # noqa: T201 - a program
    return 0


def run(given: argparse.Namespace) -> dict[str, Any]:
    """Run what was asked for; a summary."""
    from mqredis.spark import admin, pipelines
    from mqredis.spark.connection import manager_of

    where = {"url": given.url, "manager": given.manager}
    if given.pipeline == "migrate":
        sent = pipelines.migrate(
            given.source, given.key, given.queue, source_url=given.source_url, name=given.name,
            newest_left=not given.newest_right, **where,
        )  # fmt: skip
        return {"sent": sent}
    client = manager_of(given.url, given.manager)
    if given.pipeline == "publications":
        return {"publications": [asdict(each) for each in admin.publications(client)]}
    if given.pipeline == "recover":
        return {"sent": admin.recover(client, given.name)}
    if given.pipeline == "withdraw":
        return {"withdrawn": admin.withdraw(client, given.name)}
    spark = session()
    if given.pipeline == "archive":
        started = pipelines.archive(
            spark, given.path, queues=given.queue, checkpoint=given.checkpoint, name=given.name,
            once=not given.follow, fail_on_data_loss=not given.skip_deleted, **where,
        )  # fmt: skip
        return {"archived": started.wait()}
    if given.pipeline == "analyse":
        return dict(pipelines.analyse(spark, given.out, queues=given.queue, **where))
    more = {"queue": given.queue, "where": given.where, "rate": given.rate, "chunk": given.chunk}
    return {"sent": pipelines.replay(spark, given.path, given.name, **more, **where)}


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
