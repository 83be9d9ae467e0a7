"""``spark.read.format("mqredis")``: a snapshot of queues, split by ranges of lookup ids. Removes nothing.

``source`` makes the reader. ``browse`` and ``receive_reader`` take ``pieces`` and ``NOTHING`` from it.

Locked and delayed messages are listed by their ids when the read is planned. ``Range.without`` leaves them out of the
ranges, which are read later, so that one that becomes available meanwhile is not shown twice.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from mqredis.client import QueueManager
from mqredis.keys import AVAILABLE
from mqredis.operations.matching import selection
from mqredis.spark import schema as columns
from mqredis.spark import starting, unavailable
from mqredis.spark.columns import Builder, numbers
from mqredis.spark.connection import backlog, manager_of, source_errors
from mqredis.spark.fetch import Place, Reader, part, walk
from mqredis.spark.filters import HIGHEST, Pushed
from mqredis.spark.lookup_ids import SEQUENTIAL_MASK, stored_id
from mqredis.spark.options import Options
from mqredis.spark.targets import read_targets

# Ids that one partition of locked or delayed messages names at most.
LISTED = 10_000


@dataclass
class Range(InputPartition):
    """Available messages of a range of lookup ids."""

    place: Place
    low: bytes
    """The first id of the range."""
    high: bytes
    """The first id behind it; b"+": there is none."""
    after: int
    """The SequentialID behind which the messages stand (option startingPosition)."""
    last: int
    """The last SequentialID that is read (option endingPosition)."""
    now_ms: int
    """The server's time of the snapshot."""
    without: frozenset[bytes]
    """Ids in the range that were locked or delayed when the read was planned: :class:`Listed` has them."""


@dataclass
class Listed(InputPartition):
    """Messages by their ids: locked or delayed ones."""

    place: Place
    ids: list[bytes]
    state: str
    now_ms: int


def pieces(options: Options, count: int) -> int:
    """Into how many partitions ``count`` messages are cut. docs/spark.md has the defaults (Options, Speed)."""
    if count == 0:
        return 0
    fitting = -(-count // options.maxMessagesPerPartition)
    least = options.minPartitions or (2 if count > 2_000 else 1)
    return min(max(fitting, least), count)


class BatchReader(DataSourceReader):
    """Plans on the driver, reads in the executors."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self.options = options
        self.schema = columns.selected(schema)
        self.pushed = Pushed()
        selection(options.selector or None)  # a wrong one is refused before a job starts

    # ---- driver ----------------------------------------------------------------------------------

    def partitions(self) -> list[InputPartition]:
        """One for each range of lookup ids."""
        with source_errors():
            found: list[InputPartition] = []
            for name, path in read_targets(self.options):
                found += self._plan(manager_of(self.options.address, name), name, path)
            return found or [NOTHING]

    def _plan(self, manager: QueueManager, name: str, path: str) -> list[InputPartition]:
        states = self.pushed.states(self.options.message_states)
        low, high = self.pushed.ids()
        seen = backlog(manager, path)
        place = Place(self.options.address, name, path, seen.generation)
        after = starting.position(manager, path, self.options, seen.last)
        last = min(int(seen.last, 16), starting.end(manager, path, self.options, seen.last))
        found: list[InputPartition] = []
        apart: set[bytes] = set()
        for state, read in (("locked", unavailable.locked), ("delayed", unavailable.delayed)):
            ids = read(manager, path)
            apart.update(ids)
            ids = between(ids, after, last)
            if state in states:
                starts = range(0, len(ids), LISTED)
                found += [Listed(place, ids[at : at + LISTED], state, seen.now_ms) for at in starts]
        if "available" in states and seen.available:
            end = stored_id(high + 1) if high < HIGHEST else b"+"
            bounds = self._bounds(manager, path, stored_id(low), end)
            for start, stop in pairwise([*bounds, end]):
                without = frozenset(lid for lid in apart if start <= lid and (stop == b"+" or lid < stop))
                found.append(Range(place, start, stop, after, last, seen.now_ms, without))
        return found

    def _bounds(self, manager: QueueManager, path: str, low: bytes, end: bytes) -> list[bytes]:
        """Where the partitions of the ids from ``low`` to before ``end`` begin; none if there is no such id."""
        key = part(manager, path, AVAILABLE)
        first = manager.driver.command("ZLEXCOUNT", key, "-", b"(" + low)
        count = manager.driver.command("ZLEXCOUNT", key, b"[" + low, end if end == b"+" else b"(" + end)
        parts = pieces(self.options, count)
        bounds = [low] if parts else []
        for n in range(1, parts):
            at = first + n * count // parts
            bounds += [lid for lid in manager.driver.command("ZRANGE", key, at, at) if bounds[-1] < lid]
        return bounds

    # ---- executors -------------------------------------------------------------------------------

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """Record batches of one partition."""
        with source_errors():
            if not isinstance(partition, Range | Listed):
                return
            place = partition.place
            manager = manager_of(place.url, place.manager)
            wanted = [field.name for field in self.schema.fields]
            extra = [columns.FIELDS[name] for name in sorted(self.pushed.columns() - set(wanted))]
            shape = columns.arrow(StructType([*self.schema.fields, *extra]))
            builder = Builder(shape)
            reader = Reader(manager, place, builder, selection(self.options.selector or None))
            state = "available" if isinstance(partition, Range) else partition.state
            for ids in self._pages(manager, partition):
                batch = reader.batch(ids, state, strict=False, now_ms=partition.now_ms)
                if batch is not None:
                    batch = self.pushed.apply(batch)
                    yield batch.select(wanted) if extra else batch

    def _pages(self, manager: QueueManager, partition: Range | Listed) -> Iterable[list[bytes]]:
        size = self.options.fetchSize
        if isinstance(partition, Listed):
            return (partition.ids[at : at + size] for at in range(0, len(partition.ids), size))
        without = partition.without

        def keep(ids: list[bytes]) -> list[bytes]:
            ids = between(ids, partition.after, partition.last)
            return [lid for lid in ids if lid not in without] if without else ids

        key = part(manager, partition.place.path, AVAILABLE)
        return map(keep, walk(manager, key, partition.low, partition.high, size))


def between(ids: list[bytes], after: int, last: int) -> list[bytes]:
    """The ids whose SequentialID is behind ``after`` and not behind ``last``."""
    if not ids:
        return ids
    sequential = numbers(ids) & SEQUENTIAL_MASK
    outside = (sequential > last) | (sequential <= after)
    if not outside.any():
        return ids
    return [lid for lid, gone in zip(ids, outside, strict=True) if not gone]


class PushingReader(BatchReader):
    """A reader that takes filters. Spark refuses one while its setting for that is off, so it is chosen only
    when on."""

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802 - Spark's name
        """Keep the filters that are understood; Spark evaluates the rest."""
        return list(self.pushed.push(filters))


def reader(options: Options, schema: StructType) -> BatchReader:
    """The reader that fits this Spark session: its planner loads the module of filter pushdown only when that
    is on."""
    on = "pyspark.sql.worker.data_source_pushdown_filters" in sys.modules
    return PushingReader(options, schema) if on else BatchReader(options, schema)


# Spark wants at least one partition. A task has a copy of it, so tasks know it by its type.
NOTHING = InputPartition(None)
