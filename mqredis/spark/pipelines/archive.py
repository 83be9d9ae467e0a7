"""Moves journals and dead letters into Parquet files by day and queue, each message once.

``mqredis pipeline archive`` and ``mqredis.spark.pipelines`` call it. The archives and checkpoints of users hold the
folders, the columns and the default name ``archive``, which is the reader of the claims, so they stay; ``replay`` reads
the archives. docs/pipelines.md describes them.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from mqredis import keys
from mqredis.spark.options import parse
from mqredis.spark.targets import read_targets

# Queues that keep copies: journals, poison messages, dead letters of the queue manager.
PATTERNS = ("*;journal", "*;poison", keys.DEAD_LETTER, keys.TRANSACTIONAL_DEAD_LETTER)


class Archive(StreamingQueryListener):
    """A running archive. ``query`` is the streaming query of Spark."""

    def __init__(self) -> None:
        self.query: Any = None
        self._counts: dict[str, int] = {}
        self._ended: dict[str, threading.Event] = {}

    def wait(self) -> int:
        """Wait for the end of the query; the number of messages that it has archived. Raises what ended it."""
        self.query.awaitTermination()
        run = str(self.query.runId)
        # Spark tells of the last batches and of the end in the order in which they happened, a little later.
        self._ended.setdefault(run, threading.Event()).wait(60)
        return self._counts.get(run, 0)

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """Nothing to do."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """Count the messages of a batch."""
        run = str(event.progress.runId)
        self._counts[run] = self._counts.get(run, 0) + event.progress.numInputRows

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Nothing to do."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """The counts of this query are complete."""
        self._ended.setdefault(str(event.runId), threading.Event()).set()


class Folders:
    """Writes each batch into its own folders, which it overwrites if Spark repeats the batch."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __call__(self, frame: Any, batch: int) -> None:  # noqa: ARG002 - Spark gives it
        """Called by Spark for each batch."""
        writer = frame.write.mode("overwrite").option("partitionOverwriteMode", "dynamic")
        writer.partitionBy("day", "queue", "batch_id").parquet(self.path)


def archive(
    spark: Any,
    path: str,
    *,
    url: str,
    manager: str = "default",
    queues: Sequence[str] = (),
    checkpoint: str = "",
    name: str = "archive",
    once: bool = True,
    messages_per_trigger: int = 100_000,
    fail_on_data_loss: bool = True,
) -> Archive:
    """Move messages from queues into Parquet files under ``path/day=.../queue=.../batch_id=.../``.

    :param queues: names or patterns (``orders*;journal``); default: every journal, dead-letter and poison queue. A
        queue that is created later is archived by the next call, or without ``once`` from the next batch on.
    :param checkpoint: default: ``path/_checkpoint``. The archive also survives the loss of its checkpoint.
    :param name: names the archive (``consumerName``). Two archives of one queue need two names.
    :param once: take what is there and return then; False: return at once, and go on until the query is stopped.
    :param messages_per_trigger: messages of one batch at most.
    :param fail_on_data_loss: False: go on where a queue was deleted before it was archived.
    :raises QueueNotFound: there is no such queue.
    """
    from pyspark.sql import functions as f

    wanted = list(queues) or list(PATTERNS)
    where = {"url": url, "queueManager": manager}
    for pattern in queues or [",".join(PATTERNS)]:
        # This refuses what does not exist before a query starts.
        read_targets(parse({**where, "queuePattern": pattern}))
    options = {
        **where,
        "queuePattern": ",".join(wanted),
        "consumerName": name,
        "maxMessagesPerTrigger": str(messages_per_trigger),
        "failOnDataLoss": str(fail_on_data_loss).lower(),
    }
    frame = spark.readStream.format("mqredis").options(**options).load()
    # In UTC: with ``to_date`` a batch that a session of another time zone repeats would go to other folders.
    utc_day = f.date_from_unix_date(f.floor(f.unix_seconds("arrived") / 86_400).cast("int"))
    archived = Archive()
    spark.streams.addListener(archived)
    try:
        writer = (
            frame.withColumn("day", utc_day)
            .writeStream.foreachBatch(Folders(path))
            .option("checkpointLocation", checkpoint or str(PurePosixPath(path) / "_checkpoint"))
            .queryName(f"mqredis archive {', '.join(wanted)}")
        )
        archived.query = (writer.trigger(availableNow=True) if once else writer).start()
        if once:
            archived.wait()
    finally:
        if once:
            spark.streams.removeListener(archived)
    return archived
