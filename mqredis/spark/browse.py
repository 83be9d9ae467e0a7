"""A streaming read that takes nothing: a cursor over the SequentialIDs of each queue.

It shows each message that is available when its turn comes. What becomes available later under an older id is
not shown: a message whose transaction commits late, whose delay ends, or that a reader gives back. What is
received by others between two readings of the same batch is missing in the second one. docs/spark.md says so
too.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from mqredis.client import QueueManager
from mqredis.commands.pipelines import Backlog
from mqredis.spark import schema as columns
from mqredis.spark.batch import NOTHING, pieces
from mqredis.spark.columns import Builder
from mqredis.spark.connection import command, look, manager_of, targets, told
from mqredis.spark.fetch import Place, Reader, part
from mqredis.spark.offsets import browse_json, browse_parse, check_queues
from mqredis.spark.options import Options
from mqredis.spark.receive import share

#: How often an idle browse looks again, in seconds: nothing rings for readers that take nothing and match
#: everything.
LOOK_SECONDS = 0.25


@dataclass
class Span(InputPartition):
    """Available messages behind one SequentialID up to another."""

    place: Place
    after: int
    upto: int
    now_ms: int


def sequential(position: int) -> str:
    """A SequentialID as the store spells it."""
    return f"{position:014x}"


class BrowseReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Lives in one process of the driver for as long as the query runs; ``read`` runs in copies of it."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self.options = options
        self.schema = columns.nullable(schema)
        self.json = columns.json_columns(self.schema, options.bodySchema)
        self.initial: dict[str, int] | None = None
        self.bounds: dict[str, int] | None = None
        self.report: dict[str, Any] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """The option startingPosition."""
        with told():
            if self.initial is None:
                position = self.options.startingPosition
                self.initial = {}
                for key, (name, path) in self._queues().items():
                    last = int(look(manager_of(self.options.address, name), path).last, 16)
                    self.initial[key] = (
                        int(position) if position.isdigit() else last if position == "latest" else 0
                    )
            return browse_json(self.initial)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """How much one micro-batch takes at most."""
        rows = self.options.maxMessagesPerTrigger
        return ReadMaxRows(rows) if rows else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Show only what has been sent by now."""
        with told():
            self.bounds = {
                key: int(look(manager_of(self.options.address, name), path).last, 16)
                for key, (name, path) in self._queues().items()
            }

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """The next offset; waits a while if nothing new was sent."""
        with told():
            begun, queues = browse_parse(start), self._queues()
            check_queues(set(begun), set(queues), bool(self.options.queuePattern))
            until = time.monotonic() + self.options.pollTimeoutMs / 1000
            while True:
                seen = self._look(begun, queues)
                if any(each.available for each in seen.values()) or self.bounds is not None:
                    break
                if time.monotonic() + LOOK_SECONDS > until:
                    break
                time.sleep(LOOK_SECONDS)
            if not any(each.available for each in seen.values()):
                return start
            rows = limit.max_rows if isinstance(limit, ReadMaxRows) else 0
            shares = share({key: each.available for key, each in seen.items()}, rows)
            positions = {}
            for key, each in seen.items():
                after = begun.get(key, 0)
                upto = min(int(each.last, 16), self._bound(key) or int(each.last, 16))
                name, path = queues[key]
                if not each.available or not shares[key]:
                    positions[key] = upto if not each.available else after
                elif shares[key] >= each.available:
                    positions[key] = upto
                else:
                    manager = manager_of(self.options.address, name)
                    positions[key] = nth(manager, path, after, upto, shares[key])
            return browse_json(positions)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """How much is still to be shown."""
        return self.report

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Ranges of SequentialIDs."""
        with told():
            begun, ending = browse_parse(start), browse_parse(end)
            found: list[InputPartition] = []
            for key, upto in ending.items():
                after = begun.get(key, 0)
                if upto <= after:
                    continue
                name, _, path = key.partition("/")
                seen = look(
                    manager_of(self.options.address, name), path, "", sequential(upto), sequential(after)
                )
                place = Place(self.options.address, name, path, seen.generation)
                parts = min(pieces(self.options, seen.available), upto - after)
                cuts = [after + n * (upto - after) // parts for n in range(parts)] + [upto] if parts else []
                found += [Span(place, a, b, seen.now_ms) for a, b in pairwise(cuts)]
            return found or [NOTHING]

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing to do: nothing was taken."""

    def stop(self) -> None:
        """Nothing to do."""

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """Record batches of one range."""
        with told():
            if not isinstance(partition, Span):
                return
            manager = manager_of(partition.place.url, partition.place.manager)
            builder = Builder(
                columns.arrow(self.schema), columns.arrow(self.json) if self.json.fields else None
            )
            reader = Reader(manager, partition.place, builder)
            for band in range(8):
                for ids in band_pages(manager, partition, band, self.options.fetchSize):
                    batch = reader.batch(ids, "available", strict=False, now_ms=partition.now_ms)
                    if batch is not None:
                        yield batch

    def _queues(self) -> dict[str, tuple[str, str]]:
        return {f"{name}/{path}": (name, path) for name, path in targets(self.options)}

    def _bound(self, key: str) -> int:
        return self.bounds.get(key, 0) if self.bounds else 0

    def _look(self, begun: dict[str, int], queues: dict[str, tuple[str, str]]) -> dict[str, Backlog]:
        seen = {}
        for key, (name, path) in queues.items():
            bound = sequential(self._bound(key)) if self.bounds else ""
            manager = manager_of(self.options.address, name)
            seen[key] = look(manager, path, "", bound, sequential(begun.get(key, 0)))
        self.report = {"backlog": sum(each.available for each in seen.values())}
        return seen


def band_pages(manager: QueueManager, span: Span, band: int, size: int) -> Iterator[list[bytes]]:
    """Ids of one priority in a range, a page at a time."""
    key = part(manager, span.place.path, "a")
    start, stop = f"({band:02x}{sequential(span.after)}", f"[{band:02x}{sequential(span.upto)}"
    while True:
        ids: list[bytes] = command(manager, "ZRANGEBYLEX", key, start, stop, "LIMIT", 0, size)
        if ids:
            yield ids
        if len(ids) < size:
            return
        start = "(" + ids[-1].decode()


def nth(manager: QueueManager, path: str, after: int, upto: int, count: int) -> int:
    """The SequentialID of the ``count``-th message behind ``after``, over all priorities."""
    key = part(manager, path, "a")
    found: list[int] = []
    for band in range(8):
        start, stop = f"({band:02x}{sequential(after)}", f"[{band:02x}{sequential(upto)}"
        ids = command(manager, "ZRANGEBYLEX", key, start, stop, "LIMIT", 0, count)
        found += [int(lid[2:], 16) for lid in ids]
    found.sort()
    return found[min(count, len(found)) - 1] if found else upto
