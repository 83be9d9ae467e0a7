"""The commands of ``mqredis pipeline`` and their arguments.

The command line (``cli.pipeline``) and the script for spark-submit (``spark.pipelines.command``) parse with it. Without
PySpark ``mqredis.spark`` cannot be imported, but the help of the command line needs the arguments; so they are here.

A new command also needs a branch in ``mqredis.spark.pipelines.command.run``, and a section in docs/pipelines.md. Its
defaults are those of the function (tests/spark/test_pipelines.py compares).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

ABOUT = "archive, analyse, replay, migrate with Spark; publications, recover, withdraw"


def add_commands(add: Callable[[str, str], argparse.ArgumentParser]) -> None:
    """Add each command with ``add(name, about)``, which makes its parser."""
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
