"""Journals and dead letters into a lake: Parquet, by day and queue, exactly once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

from mqredis.errors import QueueNotFound
from mqredis.spark.connection import manager_of

#: Queues of the system that keep copies.
SYSTEM = ("system$;journal", "system$;deadletter", "system$;deadxact")


def default_queues(url: str, manager: str) -> list[str]:
    """Every journal, dead-letter and poison queue there is. Raises QueueNotFound if there is none."""
    names = [info.name for info in manager_of(url, manager).queues()]
    found = [name for name in names if name in SYSTEM or name.endswith((";journal", ";poison"))]
    if not found:
        raise QueueNotFound(f"queue manager {manager!r} has no journal and no dead-letter queue")
    return sorted(set(found))


def archive(
    spark: Any,
    path: str,
    *,
    url: str,
    manager: str = "default",
    queues: Sequence[str] = (),
    checkpoint: str = "",
    once: bool = True,
    messages_per_trigger: int = 100_000,
) -> Any:
    """Move messages from queues into Parquet files under ``path/day=.../queue=.../``; answers the streaming query.

    :param queues: default: every journal, dead-letter and poison queue that exists now.
    :param checkpoint: default: ``path/_checkpoint``. The messages are received from the queue exactly once with it.
    :param once: take what is there and end (the call returns then); False: go on until the query is stopped.
    """
    from pyspark.sql import functions as f

    wanted = list(queues) or default_queues(url, manager)
    options = {
        "url": url,
        "queueManager": manager,
        "queues": ",".join(wanted),
        "maxMessagesPerTrigger": str(messages_per_trigger),
    }
    frame = spark.readStream.format("mqredis").options(**options).load()
    writer = (
        frame.withColumn("day", f.to_date("arrived"))
        .writeStream.format("parquet")
        .partitionBy("day", "queue")
        .option("path", path)
        .option("checkpointLocation", checkpoint or str(PurePosixPath(path) / "_checkpoint"))
        .queryName("mqredis archive")
    )
    query = (writer.trigger(availableNow=True) if once else writer).start()
    if once:
        query.awaitTermination()
    return query
