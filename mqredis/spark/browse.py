"""A streaming read that removes nothing: a cursor over the SequentialIDs of each queue.

``source`` makes it for the option ``readMode=browse``.

A message that becomes available after one with a later id was shown is not shown: its transaction was committed late,
its delay ended, or a reader released it. If a batch is read twice, messages that other readers have received meanwhile
are missing the second time. docs/spark.md says so (Limits).

Its offsets are in the checkpoints of users (``offsets``). Of the limits of a micro-batch only maxMessagesPerTrigger
counts: maxBytesPerTrigger is accepted and has no effect. Ids are read by plain commands from the list of available
messages, in which each band has its own order by SequentialID (``lookup_ids``).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows
from pyspark.sql.types import StructType

from mqredis.client import QueueManager
from mqredis.commands.claims import Backlog
from mqredis.errors import QueueNotFound
from mqredis.keys import AVAILABLE, RECORDS
from mqredis.models.record_parts import arrival_ms
from mqredis.operations.matching import selection
from mqredis.spark import progress, starting
from mqredis.spark import schema as columns
from mqredis.spark.batch import NOTHING, pieces
from mqredis.spark.batch_id import batch_id, split_key
from mqredis.spark.columns import Builder
from mqredis.spark.connection import backlog, manager_of, source_errors
from mqredis.spark.fetch import Place, Reader, part, walk
from mqredis.spark.lookup_ids import BANDS, in_band, sequential, sequential_of
from mqredis.spark.offsets import BrowseOffset
from mqredis.spark.options import Options
from mqredis.spark.planning import share
from mqredis.spark.stream_reader import StreamReader
from mqredis.spark.targets import Target, stream_targets


@dataclass
class Span(InputPartition):
    """Available messages behind one SequentialID up to another."""

    place: Place
    after: int
    upto: int
    now_ms: int
    batch_id: str


class BrowseReader(StreamReader):
    """The positions of a query, and what lies behind them."""

    def __init__(self, options: Options, schema: StructType) -> None:
        super().__init__(options, schema)
        self.initial: BrowseOffset | None = None
        self.selector = selection(options.selector or None)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """The options startingPosition and startingTimestamp."""
        with source_errors():
            if self.initial is None:
                queues = stream_targets(self.options)
                positions = {key: self._first(name, path) for key, (name, path) in queues.items()}
                self.initial = BrowseOffset(uuid.uuid4().hex, positions)
            return self.initial.json()

    def _first(self, name: str, path: str) -> int:
        manager = manager_of(self.options.address, name)
        return starting.position(manager, path, self.options, backlog(manager, path).last)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """How much one micro-batch takes at most."""
        rows = self.options.maxMessagesPerTrigger
        return ReadMaxRows(rows) if rows else ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """The next offset; waits a while if nothing new was sent."""
        with source_errors():
            offset = BrowseOffset.parse(start)
            begun = offset.positions
            queues = stream_targets(self.options, begun)
            seen = self._look(begun, queues)
            if (
                not any(each.available for each in seen.values())
                and self.ends is None
                and self._wait(queues, seen, lambda key: sequential(begun.get(key, 0)))
            ):
                seen = self._look(begun, queues)
            if not any(each.available for each in seen.values()):
                return start
            total = sum(each.available for each in seen.values())
            if self.ends is None and self._wait_for_minimum(total):
                return start
            rows = limit.max_rows if isinstance(limit, ReadMaxRows) else 0
            shares = share({key: each.available for key, each in seen.items()}, rows)
            if self.report:
                self.report = progress.behind(self.report, shares)
            positions = dict(begun)
            for key, each in seen.items():
                after = begun.get(key, 0)
                # An option startingPosition may be behind all messages.
                upto = max(after, int(starting.bound(self.ends, key) or each.last, 16))
                if 0 < shares[key] < each.available:
                    name, path = queues[key]
                    upto = nth(manager_of(self.options.address, name), path, after, upto, shares[key])
                elif each.available and not shares[key]:
                    upto = after  # the queue gives nothing to this micro-batch
                positions[key] = upto
            return BrowseOffset(offset.lineage, positions).json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Ranges of SequentialIDs."""
        with source_errors():
            begun, ending = BrowseOffset.parse(start), BrowseOffset.parse(end)
            found: list[InputPartition] = []
            for key, upto in ending.positions.items():
                after = begun.positions.get(key, 0)
                if upto <= after:
                    continue
                name, path = split_key(key)
                seen = self._backlog(name, path, sequential(upto), after)
                if seen is None:
                    continue
                place = Place(self.options.address, name, path, seen.generation)
                parts = min(pieces(self.options, seen.available), upto - after)
                cuts = [after + n * (upto - after) // parts for n in range(parts)] + [upto] if parts else []
                identity = batch_id(name, path, ending.lineage, upto)
                found += [Span(place, a, b, seen.now_ms, identity) for a, b in pairwise(cuts)]
            return found or [NOTHING]

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing to do: nothing was taken."""

    def stop(self) -> None:
        """Nothing to do."""

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """Record batches of one range."""
        with source_errors():
            if not isinstance(partition, Span):
                return
            manager = manager_of(partition.place.url, partition.place.manager)
            builder = Builder(columns.arrow(self.schema))
            reader = Reader(manager, partition.place, builder, self.selector, partition.batch_id)
            for band in BANDS:
                for ids in band_pages(manager, partition, band, self.options.fetchSize):
                    batch = reader.batch(ids, "available", strict=False, now_ms=partition.now_ms)
                    if batch is not None:
                        yield batch

    def _backlog(self, name: str, path: str, bound: str, after: int) -> Backlog | None:
        """None: the queue was deleted, and failOnDataLoss is false."""
        try:
            return backlog(manager_of(self.options.address, name), path, "", bound, sequential(after))
        except QueueNotFound:
            if self.options.failOnDataLoss:
                raise
            return None

    def _look(self, begun: dict[str, int], queues: dict[str, Target]) -> dict[str, Backlog]:
        seen: dict[str, Backlog] = {}
        ages = [0]
        for key, (name, path) in queues.items():
            after = begun.get(key, 0)
            each = self._backlog(name, path, starting.bound(self.ends, key), after)
            if each is None:
                continue
            seen[key] = each
            manager = manager_of(self.options.address, name)
            arrived = oldest(manager, path, after, int(each.last, 16)) if each.available else None
            if arrived is not None:
                ages.append(each.now_ms - arrived)
        self.report = progress.report({key: each.available for key, each in seen.items()}, max(ages))
        return seen


def band_pages(manager: QueueManager, span: Span, band: int, size: int) -> Iterator[list[bytes]]:
    """Ids of a range in one band (mqredis/spark/lookup_ids.py), a page at a time."""
    key = part(manager, span.place.path, AVAILABLE)
    low, high = (in_band(band, position + 1).encode() for position in (span.after, span.upto))
    return walk(manager, key, low, high, size)


def nth(manager: QueueManager, path: str, after: int, upto: int, count: int) -> int:
    """The SequentialID of the ``count``-th message behind ``after``, over all priorities."""
    found = firsts(manager, path, after, upto, count)
    return sequential_of(found[min(count, len(found)) - 1]) if found else upto


def oldest(manager: QueueManager, path: str, after: int, upto: int) -> int | None:
    """When the first message behind ``after`` arrived, in ms since the epoch."""
    for lid in firsts(manager, path, after, upto, 1)[:1]:
        record: bytes | None = manager.driver.command("HGET", part(manager, path, RECORDS), lid)
        if record is not None:
            return arrival_ms(record)
    return None


def firsts(manager: QueueManager, path: str, after: int, upto: int, count: int) -> list[bytes]:
    """Ids of at least the first ``count`` messages behind ``after``, over all priorities, the oldest first."""
    key = part(manager, path, AVAILABLE)
    found: list[bytes] = []
    for band in BANDS:
        start, stop = f"({in_band(band, after)}", f"[{in_band(band, upto)}"
        found += manager.driver.command("ZRANGEBYLEX", key, start, stop, "LIMIT", 0, count)
    return sorted(found, key=sequential_of)
