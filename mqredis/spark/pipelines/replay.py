"""Sends archived messages back into queues: filtered, at a rate, and resumable without duplicates.

``mqredis pipeline replay`` and ``mqredis.spark.pipelines`` call it; ``migrate`` takes ``published_rows``.

The version of a publication is the number of the last row that was sent, in the order of SORT_COLUMNS. The broker keeps
it under the name of the replay, so another order would repeat and skip rows of a replay that is continued.
docs/pipelines.md lists what a message keeps (MESSAGE_COLUMNS).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from mqredis.commands import stages as commands
from mqredis.errors import InvalidArgument
from mqredis.spark import options as parsing
from mqredis.spark import rows, sink
from mqredis.spark.connection import manager_of
from mqredis.spark.schema import FIELDS
from mqredis.spark.staging import named_sink
from mqredis.steps import perform

# Columns of an archive that make a message again; the others describe what happened to it. The queue is another one.
MESSAGE_COLUMNS = tuple(name for name in rows.COLUMNS if name in FIELDS and name != "queue")
# The order of the messages, the same in each call.
SORT_COLUMNS = ("arrived", "lookup_id", "manager", "queue")


def published_rows(url: str, manager: str, name: str) -> int:
    """How much of the work called ``name`` has been published already."""
    client = manager_of(url, manager)
    return max(0, client.run(perform(commands.sink(client.context.keys, named_sink(name)))).committed)


@dataclass(frozen=True)
class Publisher:
    """Publishes the rows of one sorted partition, chunk by chunk. The version of a chunk is the number of its last
    row."""

    url: str
    manager: str
    name: str
    queue: str
    chunk: int
    rate: float

    def options(self) -> parsing.Options:
        """Those of a writer of one chunk."""
        texts = {
            "url": self.url,
            "queueManager": self.manager,
            "queue": self.queue,
            "txnAppId": self.name,
            "atomicPublishLimit": str(max(self.chunk, parsing.Options.atomicPublishLimit)),
        }
        return parsing.parse(texts)

    def publish(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Called by Spark in one task. A task that is tried again goes on behind the last version."""
        done, begun, sent = published_rows(self.url, self.manager, self.name), time.monotonic(), 0
        options = self.options()
        for start, part in chunks(batches, self.chunk, done):
            if self.rate:
                time.sleep(max(0.0, sent / self.rate - (time.monotonic() - begun)))
            sink.publish_part(options, start + part.num_rows, part.to_batches())
            sent += part.num_rows
        yield pa.RecordBatch.from_pydict({"sent": pa.array([sent], pa.int64())})


def chunks(batches: Iterator[pa.RecordBatch], size: int, done: int) -> Iterator[tuple[int, pa.Table]]:
    """Tables of ``size`` rows from row ``done`` on, each with the number of rows before it; the last may be shorter."""
    pending: list[pa.RecordBatch] = []
    at, start = 0, done
    for batch in batches:
        at += batch.num_rows
        if at <= done:
            continue
        new = batch.slice(max(0, done - (at - batch.num_rows)))
        pending.append(new)
        while sum(each.num_rows for each in pending) >= size:
            table = pa.Table.from_batches(pending)
            yield start, table.slice(0, size)
            start += size
            pending = table.slice(size).to_batches()
    if pending:
        yield start, pa.Table.from_batches(pending)


def replay(
    spark: Any,
    path: str,
    name: str,
    *,
    url: str,
    manager: str = "default",
    queue: str = "",
    where: str = "",
    rate: float = 0,
    chunk: int = 10_000,
) -> int:
    """Send archived messages again; returns how many this call sent. One Spark task reads and sorts the archive.

    A message keeps its body, label, priority, content type, identifiers, properties with their types, and application
    tag. It does not keep its times, nor its delivery options (lifetime, acknowledgements, journal copies).

    :param path: the archive.
    :param name: name of this replay. A later call with the same name, also after a crash, continues where the last one
        ended and sends nothing twice. The archive and ``where`` must not have changed.
    :param url: URL of the server.
    :param manager: name of the queue manager.
    :param queue: target queue; default: the queue from which the archived copy came.
    :param where: a condition in Spark SQL over the columns of the archive.
    :param rate: messages a second on average; 0: no limit. A chunk is sent at once.
    :param chunk: messages published together.
    :raises InvalidArgument: a chunk of less than 1, or a negative rate; the archive has no column ``body``.
    """
    from pyspark.sql import functions as f

    if chunk < 1:
        raise InvalidArgument(f"chunk must be at least 1, not {chunk}")
    if rate < 0:
        raise InvalidArgument(f"rate must not be negative, as {rate} is; 0 sets no limit")
    frame = spark.read.parquet(path)
    if where:
        frame = frame.where(where)
    origin = f.coalesce(f.col("original_queue"), f.split_part(f.col("queue"), f.lit(";"), f.lit(1)))
    kept = [column for column in MESSAGE_COLUMNS if column in frame.columns]
    ordered = frame.repartition(1).sortWithinPartitions(*SORT_COLUMNS)
    messages = ordered.select(*kept) if queue else ordered.select(origin.alias("queue"), *kept)
    rows.check(messages.schema, queue)
    before = published_rows(url, manager, name)
    messages.mapInArrow(Publisher(url, manager, name, queue, chunk, rate).publish, "sent BIGINT").collect()
    return published_rows(url, manager, name) - before
