"""A destructive streaming read, exactly once with a checkpoint.

``source`` makes it unless the query browses.

Nothing is locked before Spark has logged the offset: ``latestOffset`` only counts. ``partitions`` then claims the
messages that the logged offset names under (reader, sequence), and claims the same messages again after a crash. Spark
may never call ``commit``. So a claim, with all earlier ones, is received by the first of these calls: ``commit``, the
next ``latestOffset``, or the next claim, whose start is in Spark's commit log. Its messages are removed in a thread,
while Spark goes on. docs/spark.md has a diagram; ``make reliability-full`` ends the driver at each kill point.

``claimed``, ``group_exclusive`` and the resources are only for speed or for this process: a restarted driver begins
without them, with the offsets that Spark has logged.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
)
from pyspark.sql.types import StructType

from mqredis.commands.address import Address
from mqredis.commands.claims import WHY, Backlog, Claimed, Order
from mqredis.commands.filters import Filter
from mqredis.errors import ClaimLost, InvalidArgument, QueueNotAvailable, QueueNotFound
from mqredis.operations import pipelines
from mqredis.operations.matching import selection
from mqredis.spark import progress, starting
from mqredis.spark.batch import NOTHING, pieces
from mqredis.spark.batch_id import batch_id, split_key
from mqredis.spark.claim_commits import ClaimCommits
from mqredis.spark.claim_slice import ClaimSlice
from mqredis.spark.connection import DOCS, SourceError, backlog, manager_of, source_errors
from mqredis.spark.fetch import Place
from mqredis.spark.kill_points import kill_point
from mqredis.spark.lookup_ids import sequential
from mqredis.spark.offsets import Offset, Plan
from mqredis.spark.options import Options
from mqredis.spark.planning import has_open_claim, has_work, next_offset
from mqredis.spark.stream_reader import StreamReader
from mqredis.spark.targets import Target, deleted, stream_targets
from mqredis.spark.threads import TwoThreads
from mqredis.spark.waits import LivenessSubscription


class Resources:
    """What this process keeps open for the query."""

    def __init__(self, options: Options) -> None:
        self.liveness = LivenessSubscription()
        self.threads = TwoThreads()
        self.commits = ClaimCommits(options, self.threads)


class ReceiveReader(StreamReader):
    """The claims of a query."""

    def __init__(self, options: Options, schema: StructType) -> None:
        super().__init__(options, schema)
        self.initial: Offset | None = None
        chosen = selection(options.selector or None)  # a wrong one is refused before a job starts
        hints = chosen.index_hints if chosen else ()
        self.match = Filter(programs=[chosen.program], hints=hints).text() if chosen else b""
        self.group_exclusive: dict[str, bool] = {}  # by the queues that were read
        self.claimed: dict[str, int] = {}  # sequence of the last claim of each queue that is known to exist
        self._resources: Resources | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_resources": None}

    @property
    def resources(self) -> Resources:
        """What this process keeps open; opened at the first use."""
        if self._resources is None:
            self._resources = Resources(self.options)
        return self._resources

    # ---- planning --------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Where a query without a checkpoint begins: behind what a named consumer has received already."""
        with source_errors():
            if self.initial is None:
                lineage = uuid.uuid4().hex
                owner = self.options.consumerName or lineage
                offset = Offset(owner, lineage)
                for key, (name, path) in stream_targets(self.options).items():
                    offset.queues[key] = self._first(name, path, owner)
                self.initial = offset
            return self.initial.json()

    def _first(self, name: str, path: str, owner: str) -> Plan:
        manager = manager_of(self.options.address, name)
        seen = backlog(manager, path, owner)
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

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """The next offset to log. Locks nothing; receives what is done; waits a while if there is nothing."""
        with source_errors():
            begun = Offset.parse(start)
            queues = stream_targets(self.options, begun.queues)
            self._subscribe(begun)
            self._check_claimed(begun, queues)
            self._start_commits(begun)
            seen = self._poll(begun, queues)
            if not has_work(begun, seen) and self.resources.commits.finish():
                seen = self._poll(begun, queues)
            behind = partial(self._behind, begun, seen)
            if self.ends is None and not has_work(begun, seen) and self._wait(queues, seen, behind):
                seen = self._poll(begun, queues)
            if self.ends is None and self._too_few(begun, seen):
                return start
            offset = self._next(begun, seen, limit)
            if offset.new_claims(begun):
                return offset.json()
            # A query that is idle, or ends, leaves no received message in the queue.
            self.resources.commits.finish()
            return start

    def _behind(self, begun: Offset, seen: dict[str, Backlog], key: str) -> str:
        """The SequentialID behind which a message of this queue is waited for."""
        # With a selector everything up to the last id was looked at and did not match.
        return seen[key].last if self.match else (begun.queues.get(key) or Plan()).after

    def _too_few(self, begun: Offset, seen: dict[str, Backlog]) -> bool:
        """True if there are too few messages for a micro-batch as yet, after waiting for some time."""
        total = sum(each.available for each in seen.values())
        return bool(total) and not has_open_claim(begun, seen) and self._wait_for_minimum(total)

    def _next(self, begun: Offset, seen: dict[str, Backlog], limit: ReadLimit) -> Offset:
        # Spark hands over one limit, but both options may be set: then that is the rows, and the bytes apply as well.
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else 0
        most_bytes = 0 if isinstance(limit, ReadAllAvailable) else self.options.maxBytesPerTrigger
        offset = next_offset(
            begun, seen, rows, most_bytes, {key: starting.bound(self.ends, key) for key in seen}
        )
        taken = {key: plan.wanted for key, plan in offset.new_claims(begun).items()}
        if self.report:
            self.report = progress.behind(self.report, taken)
        kill_point("after-latest")
        return offset

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Claim what the logged offset names; the same again if it was claimed before."""
        with source_errors():
            begun, ending = Offset.parse(start), Offset.parse(end)
            stream_targets(self.options, ending.queues)
            self._subscribe(ending)
            commits = self.resources.commits
            commits.wait_until_received()
            found: list[InputPartition] = []
            with commits.urgent():
                for key, plan in ending.new_claims(begun).items():
                    found += self._claim(ending, key, plan)
            kill_point("after-claim")
            return found or [NOTHING]

    def _claim(self, offset: Offset, key: str, plan: Plan) -> list[InputPartition]:
        name, path = split_key(key)
        manager = manager_of(self.options.address, name)
        self.resources.commits.receive(offset, key, plan, plan.sequence - 1)
        kill_point("before-claim")
        queue = Address(manager.context.keys, path, plan.generation)
        # A claim that is not the first one of its checkpoint follows the claim before, unless that was lost.
        is_first = plan.sequence == plan.initial + 1 or not self.options.failOnDataLoss
        owner, lineage, sequence = offset.owner, offset.lineage, plan.sequence
        order = Order(plan.wanted, plan.most_bytes or None, plan.after, plan.bound, self.match)

        def claim() -> Claimed:
            operation = pipelines.claim(
                queue, owner, lineage, sequence, order, is_first, lambda: kill_point("mid-claim")
            )
            return manager.run(operation)

        try:
            # A search continues where the call before has stopped, which only one thread can.
            claimed = claim() if self.match else self.resources.threads.run(claim, plan.wanted)
        except QueueNotAvailable:
            if self.options.failOnDataLoss:
                raise deleted(name, path) from None
            return []
        self.claimed[key] = sequence
        place = Place(self.options.address, name, path, plan.generation)
        identity = batch_id(name, path, owner, sequence)
        parts = pieces(self.options, claimed.count)
        cuts = [n * claimed.count // parts for n in range(parts)] + [claimed.count]
        return [
            ClaimSlice(place, owner, lineage, sequence, low, high - low, identity)
            for low, high in pairwise(cuts)
        ]

    def commit(self, end: dict[str, Any]) -> None:
        """Receive everything up to this offset, or move it to the journal where the queue keeps one. What
        ``latestOffset`` has begun is not waited for: the next claim does."""
        with source_errors():
            offset = Offset.parse(end)
            kill_point("before-commit")
            self.resources.commits.receive_others(offset)

    def stop(self) -> None:
        """Remove what is received, and let another query use the name. Spark rarely calls it, and a claim outlives
        the process by design."""
        with source_errors():
            self.resources.commits.finish()
            self.resources.liveness.close()

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """Record batches of a part of a claim; runs in the executors."""
        with source_errors():
            if isinstance(partition, ClaimSlice):
                yield from partition.read(self.schema, self.options)

    # ---- helpers ---------------------------------------------------------------------------------

    def _start_commits(self, begun: Offset) -> None:
        """Receive the finished claims in a thread, or at once if they decide which messages can be claimed: in queues
        with ``group_exclusive``, and before the first read of the backlog."""
        commits = self.resources.commits
        for key, plan in begun.queues.items():
            if self.group_exclusive.get(key, True):
                commits.receive(begun, key, plan)
        commits.start(begun)

    def _check_claimed(self, begun: Offset, queues: dict[str, Target]) -> None:
        """Refuse to continue after a batch that Spark calls done, but whose messages were never claimed.

        Spark asks for partitions only when something reads the rows. A file sink that has a batch of this number
        from an earlier checkpoint in its output folder does not read them, and neither does a function for
        foreachBatch that returns at once.
        """
        if not self.options.failOnDataLoss:
            return
        for key, (name, path) in queues.items():
            plan = begun.queues.get(key) or Plan()
            if not plan.has_claim or self.claimed.get(key) == plan.sequence:
                continue
            seen = backlog(manager_of(self.options.address, name), path, begun.owner)
            if seen.generation != plan.generation:
                raise deleted(name, path)
            if seen.claim is None and plan.sequence > plan.initial + 1:
                raise ClaimLost(WHY["gap"], why="gap")  # the server has lost the claims before, too
            if seen.claim is None or seen.claim.sequence < plan.sequence:
                raise SourceError(
                    f"mqredis: the sink has skipped batch {batch_id(name, path, begun.owner, plan.sequence)}: "
                    "Spark reports the batch as done, but nothing has read its messages, so they stay in the queue. "
                    "The output folder of a file sink knows a batch of this number from an earlier checkpoint, or the "
                    "server has lost what it knew of this query. Start with a new checkpoint and a new output folder, "
                    "or write by the column batch_id "
                    f"({DOCS}, A lost checkpoint)"
                )
            self.claimed[key] = plan.sequence

    def _subscribe(self, offset: Offset) -> None:
        if self.options.consumerName and offset.owner != self.options.consumerName:
            raise SourceError(
                f"mqredis: the checkpoint belongs to the reader {offset.owner!r}, but consumerName is "
                f"{self.options.consumerName!r}; use the same name, or a new checkpoint"
            )
        for name in self.options.managers:
            manager = manager_of(self.options.address, name)
            self.resources.liveness.subscribe(manager, offset.owner, offset.lineage)

    def _poll(self, begun: Offset, queues: dict[str, Target]) -> dict[str, Backlog]:
        """Read the backlogs of the queues, and do and note what follows from them."""
        seen = self._backlogs(begun, queues)
        self._remove_received(begun, seen)
        self.group_exclusive.update((key, each.turns) for key, each in seen.items())
        arrived = [each.oldest_ms for each in seen.values() if each.oldest_ms is not None]
        age = max(each.now_ms for each in seen.values()) - min(arrived) if arrived else 0
        self.report = progress.report({key: each.available for key, each in seen.items()}, max(0, age))
        return seen

    def _backlogs(self, begun: Offset, queues: dict[str, Target]) -> dict[str, Backlog]:
        seen: dict[str, Backlog] = {}
        for key, (name, path) in queues.items():
            bound = starting.bound(self.ends, key)
            plan = begun.queues.get(key) or Plan()
            manager = manager_of(self.options.address, name)
            try:
                each = backlog(manager, path, begun.owner, bound, plan.after)
                if self.match and each.available:
                    order = Order(1, None, plan.after, bound, self.match)
                    queue = Address(manager.context.keys, path, each.generation)
                    if not manager.run(pipelines.matches(queue, order)):
                        each.available = 0
            except QueueNotFound:
                if self.options.failOnDataLoss:
                    raise
                continue
            if self.options.failOnDataLoss and plan.has_claim and each.generation != plan.generation:
                raise deleted(name, path)
            seen[key] = each
        return seen

    def _remove_received(self, begun: Offset, seen: dict[str, Backlog]) -> None:
        """Remove messages that a reader of this name has received and that were left in the queue when it ended.

        Once this query has a claim of its own, the commit of that claim removes them.
        """
        for key, each in seen.items():
            plan = begun.queues.get(key) or Plan()
            if each.claim and each.claim.draining and not plan.has_claim:
                name, path = split_key(key)
                manager = manager_of(self.options.address, name)
                queue = Address(manager.context.keys, path, each.generation)
                manager.run(pipelines.commit(queue, begun.owner, begun.lineage, 0))
