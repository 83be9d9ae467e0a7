"""A destructive streaming read, exactly once with a checkpoint.

Nothing is locked before Spark has logged the offset: ``latestOffset`` only counts. ``partitions`` then claims the
messages that the logged offset names under (reader, sequence), and claims the same messages again after a crash. Spark
may never call ``commit``. So a claim, with all earlier ones, is received by the first of these calls: ``commit``, the
next ``latestOffset``, or the next claim, whose start is in Spark's commit log. Its messages are removed in a thread,
while Spark goes on. docs/spark.md has a diagram.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from mqredis.commands.common import Address
from mqredis.commands.filters import Filter
from mqredis.commands.pipelines import Backlog, Claimed, Order
from mqredis.errors import InvalidArgument, QueueNotAvailable, QueueNotFound
from mqredis.operations import pipelines
from mqredis.operations.matching import selection
from mqredis.spark import progress, starting
from mqredis.spark import schema as columns
from mqredis.spark.batch import NOTHING, pieces
from mqredis.spark.batch_id import batch_id, split_key
from mqredis.spark.claim_slice import ClaimSlice
from mqredis.spark.connection import (
    DOCS,
    SourceError,
    address,
    look,
    manager_of,
    planned,
    run,
    told,
)
from mqredis.spark.crash import point
from mqredis.spark.fetch import Place
from mqredis.spark.offsets import Offset, Plan, sequential
from mqredis.spark.options import Options
from mqredis.spark.planning import has_open_claim, has_work, next_offset
from mqredis.spark.receiving import Receiving
from mqredis.spark.watch import ONE_CALL, Beacon, Idle, Minimum, Pair


class Tools:
    """What this process keeps open for the query."""

    def __init__(self, options: Options) -> None:
        self.beacon, self.idle, self.pair = Beacon(), Idle(), Pair()
        self.minimum = Minimum(options)
        self.receiving = Receiving(options, self.pair)


class ReceiveReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Lives in one process of the driver for as long as the query runs; ``read`` runs in copies of it."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self.options = options
        self.schema = columns.selected(schema)
        self.initial: Offset | None = None
        self.bounds: dict[str, str] | None = None  # SequentialIDs at which AvailableNow ends
        self.report: dict[str, Any] | None = None
        chosen = selection(options.selector or None)  # a wrong one is refused before a job starts
        hints = chosen.index_hints if chosen else ()
        self.match = Filter(programs=[chosen.program], hints=hints).text() if chosen else b""
        self.turns: dict[str, bool] = {}  # do groups take turns in this queue?
        self.claimed: dict[str, int] = {}  # sequence of the last claim of each queue that is known to exist
        self._open: Tools | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_open": None}

    # ---- planning --------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Where a query without a checkpoint begins: behind what a named consumer has received already."""
        with told():
            if self.initial is None:
                lineage = uuid.uuid4().hex
                owner = self.options.consumerName or lineage
                offset = Offset(owner, lineage)
                for key, (name, path) in planned(self.options).items():
                    offset.queues[key] = self._first(name, path, owner)
                self.initial = offset
            return self.initial.json()

    def _first(self, name: str, path: str, owner: str) -> Plan:
        manager = manager_of(self.options.address, name)
        seen = look(manager, path, owner)
        done = starting.sequence(seen)
        after = starting.position(manager, path, self.options, seen.last)
        if after and manager.queue_info(path).group_exclusive:
            raise InvalidArgument(
                f"queue {path!r} has one active message per group: a query takes them from the first one on, "
                "without startingPosition and startingTimestamp"
            )
        return Plan(done, done, generation=seen.generation, after=sequential(after) if after else "")

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """How much one micro-batch takes at most."""
        if self.options.maxMessagesPerTrigger:
            return ReadMaxRows(self.options.maxMessagesPerTrigger)
        if self.options.maxBytesPerTrigger:
            return ReadMaxBytes(self.options.maxBytesPerTrigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Take only what has been sent by now."""
        with told():
            self.bounds = {
                key: look(manager_of(self.options.address, name), path).last
                for key, (name, path) in planned(self.options).items()
            }

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """The next offset to log. Locks nothing; receives what is done; waits a while if there is nothing."""
        with told():
            begun = Offset.parse(start)
            queues = planned(self.options, begun.queues)
            self._hold(begun)
            self._check_claimed(begun, queues)
            self._begin_receiving(begun)
            seen = self._look(begun, queues)
            if not has_work(begun, seen) and self._tools().receiving.beside.settle():
                seen = self._look(begun, queues)
            if self.bounds is None and not has_work(begun, seen) and self._wait(begun, queues, seen):
                seen = self._look(begun, queues)
            total = sum(each.available for each in seen.values())
            if (
                self.bounds is None
                and total
                and not has_open_claim(begun, seen)
                and self._tools().minimum.wait(total)
            ):
                return start
            offset = self._next(begun, seen, limit)
            if any(plan.sequence > max(plan.first, begun.done(key)) for key, plan in offset.queues.items()):
                return offset.json()
            # Nothing is left behind by a query that is idle, or ends.
            self._tools().receiving.beside.settle()
            return start

    def _wait(self, begun: Offset, queues: dict[str, tuple[str, str]], seen: dict[str, Backlog]) -> bool:
        """Wait in the broker for a message. True: look again."""
        if not self.options.pollTimeoutMs:
            return False
        waiting: dict[str, list[tuple[Address, str]]] = {}
        for key, each in seen.items():
            name, path = queues[key]
            queue = address(manager_of(self.options.address, name), path, each.generation)
            plan = begun.queues.get(key) or Plan()
            # With a selector everything up to the last id was looked at and did not match.
            waiting.setdefault(name, []).append((queue, each.last if self.match else plan.after))
        return self._tools().idle.wait(self.options.address, waiting, self.options.pollTimeoutMs / 1000)

    def _next(self, begun: Offset, seen: dict[str, Backlog], limit: ReadLimit) -> Offset:
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else 0
        most_bytes = 0 if isinstance(limit, ReadAllAvailable) else self.options.maxBytesPerTrigger
        offset = next_offset(begun, seen, rows, most_bytes, self.bounds or {})
        taken = {
            key: offset.queues[key].wanted for key in seen if offset.queues[key].sequence > begun.done(key)
        }
        if self.report:
            self.report = progress.behind(self.report, taken)
        point("after-latest")
        return offset

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Backlog and the age of the oldest message, for the progress of the query."""
        return self.report

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Claim what the logged offset names; the same again if it was claimed before."""
        with told():
            begun, ending = Offset.parse(start), Offset.parse(end)
            planned(self.options, ending.queues)
            self._hold(ending)
            beside = self._tools().receiving.beside
            beside.begun()
            # A driver that starts again in the first batch asks for a new initial offset, which says nothing of it.
            same = begun.lineage == ending.lineage
            done = {key: plan.sequence for key, plan in begun.queues.items()} if same else {}
            found: list[InputPartition] = []
            with beside.urgent():
                for key, plan in ending.queues.items():
                    if plan.sequence > done.get(key, plan.first):
                        found += self._claim(ending, key, plan)
            point("after-claim")
            return found or [NOTHING]

    def _claim(self, offset: Offset, key: str, plan: Plan) -> list[InputPartition]:
        name, path = split_key(key)
        manager = manager_of(self.options.address, name)
        self._tools().receiving.receive(offset, key, plan, plan.sequence - 1)
        point("before-claim")
        queue = address(manager, path, plan.generation)
        first = plan.sequence == plan.first + 1 or not self.options.failOnDataLoss
        who = (offset.owner, offset.lineage, plan.sequence)
        order = Order(plan.wanted, plan.most_bytes or None, plan.after, plan.bound, self.match)

        def claim() -> Claimed:
            return run(manager, pipelines.claim(queue, *who, order, first, lambda: point("mid-claim")))

        # A search goes on where it has stopped, which only one can.
        few = bool(self.match) or plan.wanted <= ONE_CALL
        try:
            claimed = self._tools().pair.run(claim, few)
        except QueueNotAvailable:
            if self.options.failOnDataLoss:
                raise
            return []
        self.claimed[key] = plan.sequence
        place = Place(self.options.address, name, path, plan.generation)
        identity = batch_id(name, path, offset.owner, plan.sequence)
        parts = pieces(self.options, claimed.count)
        cuts = [n * claimed.count // parts for n in range(parts)] + [claimed.count]
        return [ClaimSlice(place, *who, low, high - low, identity) for low, high in pairwise(cuts)]

    def commit(self, end: dict[str, Any]) -> None:
        """Receive everything up to this offset, or move it to the journal where the queue keeps one. What
        ``latestOffset`` has begun is not waited for: the next claim does."""
        with told():
            offset = Offset.parse(end)
            point("before-commit")
            self._tools().receiving.rest(offset)
            point("after-commit")

    def stop(self) -> None:
        """Remove what is received, and let another query use the name. Spark rarely calls it, and a claim outlives
        the process by design."""
        with told():
            self._tools().receiving.beside.settle()
            self._tools().beacon.close()

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """Record batches of a part of a claim; runs in the executors."""
        with told():
            if isinstance(partition, ClaimSlice):
                yield from partition.read(self.schema, self.options)

    # ---- helpers ---------------------------------------------------------------------------------

    def _tools(self) -> Tools:
        if self._open is None:
            self._open = Tools(self.options)
        return self._open

    def _begin_receiving(self, begun: Offset) -> None:
        """Receive the finished claims in a thread, or at once if they decide which messages can be claimed: in queues
        with ``group_exclusive``, and before the first read of the backlog."""
        receiving = self._tools().receiving
        for key, plan in begun.queues.items():
            if self.turns.get(key, True):
                receiving.receive(begun, key, plan)
        receiving.begin(begun)

    def _check_claimed(self, begun: Offset, queues: dict[str, tuple[str, str]]) -> None:
        """Refuse to continue after a batch that Spark calls done, but whose messages were never claimed.

        Spark asks for partitions only when something reads the rows. A file sink that has a batch of this number
        from an earlier checkpoint in its output folder does not read them, and neither does a function for
        foreachBatch that returns at once.
        """
        if not self.options.failOnDataLoss:
            return
        for key, (name, path) in queues.items():
            plan = begun.queues.get(key) or Plan()
            if plan.sequence == plan.first or self.claimed.get(key) == plan.sequence:
                continue
            claim = look(manager_of(self.options.address, name), path, begun.owner).claim
            if claim is None or claim.sequence < plan.sequence:
                raise SourceError(
                    f"mqredis: the sink has skipped batch {batch_id(name, path, begun.owner, plan.sequence)}: "
                    "Spark reports the batch as done, but nothing has read its messages, so they stay in the queue. "
                    "The output folder of a file sink knows a batch of this number from an earlier checkpoint. Start "
                    "with a new checkpoint and a new output folder, or write by the column batch_id "
                    f"({DOCS}, A lost checkpoint)"
                )
            self.claimed[key] = plan.sequence

    def _hold(self, offset: Offset) -> None:
        if self.options.consumerName and offset.owner != self.options.consumerName:
            raise SourceError(
                f"mqredis: the checkpoint belongs to the reader {offset.owner!r}, but consumerName is "
                f"{self.options.consumerName!r}; use the same name, or a new checkpoint"
            )
        for name in self.options.managers:
            self._tools().beacon.hold(manager_of(self.options.address, name), offset.owner, offset.lineage)

    def _look(self, begun: Offset, queues: dict[str, tuple[str, str]]) -> dict[str, Backlog]:
        seen: dict[str, Backlog] = {}
        oldest, now = None, 0
        for key, (name, path) in queues.items():
            bound = self.bounds.get(key, "") if self.bounds else ""
            plan = begun.queues.get(key) or Plan()
            manager = manager_of(self.options.address, name)
            try:
                each = look(manager, path, begun.owner, bound, plan.after)
                order = Order(1, None, plan.after, bound, self.match)
                queue = address(manager, path, each.generation)
                if self.match and each.available and not run(manager, pipelines.matches(queue, order)):
                    each.available = 0
            except QueueNotFound:
                if self.options.failOnDataLoss:
                    raise
                continue
            if each.claim and each.claim.draining and plan.sequence == plan.first:
                # Received by a reader that is gone; this one has nothing yet with which it would remove that.
                run(manager, pipelines.commit(queue, begun.owner, begun.lineage, 0))
            seen[key] = each
            self.turns[key] = each.turns
            now = max(now, each.now_ms)
            if each.oldest_ms is not None:
                oldest = each.oldest_ms if oldest is None else min(oldest, each.oldest_ms)
        age = 0 if oldest is None else max(0, now - oldest)
        self.report = progress.report({key: each.available for key, each in seen.items()}, age)
        return seen
