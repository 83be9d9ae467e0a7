"""What a task of a write does: it encodes its rows and stages them in the broker, where no reader sees them.

``sink`` uses it in Spark's tasks, and for checks on the driver. The pipeline ``migrate`` fills a ``Portion`` by itself
and takes names and ``targets`` from here; ``replay`` takes ``named_sink``.

A stage's name is unique for each run of ``write``, never made from the task attempt: that restarts at 0 with a new
driver.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from mqredis import keys
from mqredis.client import QueueManager
from mqredis.codec.sinks import NONE
from mqredis.commands import stages as commands
from mqredis.commands.stages import Stage
from mqredis.errors import MessageTooLarge, QueueNotFound, TransactionUsage
from mqredis.models import QueueInfo
from mqredis.models.record_parts import ARRIVAL_DIGITS, SPECIAL_FLAGS
from mqredis.operations.server_checks import refuse_volatile
from mqredis.spark import rows
from mqredis.spark.connection import manager_of
from mqredis.spark.kill_points import kill_point
from mqredis.spark.options import Options
from mqredis.steps import Call, perform

# Messages that one call stages at most (stage.lua; tests/contract/test_arguments.py compares), and bytes from which on
# a call is made. With their large bodies they must stay below 7,000: stage.lua passes them on by ``unpack``.
CALL_MESSAGES = 1_000
CALL_BYTES = 2_097_152
# Messages that are added, and measured, at once.
ADDED = 100
# The identity of a writer that is not a streaming query. The broker refuses another one under the name of a sink.
NO_IDENTITY = NONE


@dataclass
class Staged(WriterCommitMessage):
    """What one task has staged. Spark brings it from the task to the driver, which publishes it."""

    sink: str
    """The name under which batches are published, each once: see :func:`named_sink`."""
    batch: int
    """The number of the batch: txnVersion, or that of the micro-batch."""
    identity: str
    """The id of the streaming query, or NO_IDENTITY."""
    partition: int
    stages: list[Stage] = field(default_factory=list)
    messages: int = 0


def named_sink(name: str) -> str:
    """The sink of a write with the name ``name``: the option txnAppId, or the name of a pipeline.

    The broker remembers the last version by this name, so its form stays.
    """
    return f"app-{name}"


def stage_prefix(batch: int) -> str:
    """The beginning of the names of the stages of one writer, which no other writer has.

    ``operations.pipelines.sweep`` selects stages by the number of the batch at its beginning, and a manifest joins
    names with commas (lua/claims/sinks.lua).
    """
    return f"{batch}-{uuid.uuid4().hex}"


def unit_of(sink: str, batch: int) -> str:
    """The name of a batch as a unit of work, which readers of transactional queues see as ``transaction_id``."""
    return f"{sink}.{batch}"


def targets(manager: QueueManager, wanted: set[str]) -> dict[str, QueueInfo]:
    """The queues to write to. Raises QueueNotFound, TransactionUsage, UnsafeServer."""
    if manager.context.server_state.volatile:
        raise refuse_volatile(f"nothing is written to {', '.join(sorted(wanted))}")
    found = {}
    for name in sorted(wanted):
        keys.check_name(name)
        try:
            found[name] = manager.queue_info(name)
        except QueueNotFound:
            raise QueueNotFound(f"queue manager {manager.name!r} has no queue {name!r}") from None
        if found[name].topic:
            raise TransactionUsage(
                f"{name!r} is a topic: a unit of work is published to queues, not to topics"
            )
    return found


class Stager:
    """One run of ``write`` in a task: encodes rows and fills stages, one for each queue."""

    def __init__(self, options: Options, sink: str, batch: int, identity: str) -> None:
        self.options = options
        context = TaskContext.get()
        self.staged = Staged(sink, batch, identity, context.partitionId() if context else 0)
        self.prefix = stage_prefix(batch)
        self.manager = manager_of(options.address, options.managers[0])
        self.encoder = rows.Encoder(options.queue, self.transaction)
        self.targets: dict[str, QueueInfo] = {}
        self.portions: dict[str, Portion] = {}  # by queue
        self.done_before = False  # the batch was published by an earlier run

    def write(self, batches: Iterator[pa.RecordBatch]) -> Staged:
        """Stage everything; stops early if the batch has been published before."""
        kill_point("before-stage")
        for batch in batches:
            for queue, lines, large in self.encoder.encode(batch):
                portion = self.portions.get(queue) or self._new(queue)
                for at in range(0, len(lines), ADDED):
                    part = {n - at: body for n, body in large.items() if at <= n < at + ADDED}
                    portion.add(lines[at : at + ADDED], part)
                    if portion.messages + ADDED > CALL_MESSAGES or portion.bytes >= CALL_BYTES:
                        self._flush(portion)
            if self.done_before:
                return self.staged
            kill_point("mid-stage")
        for portion in self.portions.values():
            self._flush(portion)
        kill_point("after-stage")
        return self.staged

    def transaction(self, queue: str) -> str:
        """The name of the unit of work, for messages of a transactional queue."""
        if queue not in self.targets:
            self.targets.update(targets(self.manager, {queue}))
        return unit_of(self.staged.sink, self.staged.batch) if self.targets[queue].transactional else ""

    def _new(self, queue: str) -> Portion:
        stage = Stage(f"{self.prefix}-{len(self.portions)}", queue)
        self.staged.stages.append(stage)
        self.portions[queue] = portion = Portion(stage, self.targets[queue].max_message_bytes)
        return portion

    def _flush(self, portion: Portion) -> None:
        if not portion.messages or self.done_before:
            return
        ttl_ms = self.options.stageTtlSeconds * 1000
        call = portion.call(self.manager.context.keys, self.staged.sink, self.staged.batch, ttl_ms)
        self.done_before = self.manager.run(perform(call))
        self.staged.messages += portion.messages
        portion.clear()


class Portion:
    """Messages for one stage that are not sent yet."""

    def __init__(self, stage: Stage, most_bytes: int) -> None:
        self.stage = stage
        self.most_bytes = most_bytes  # that one message may take
        self.clear()

    def clear(self) -> None:
        """Forget the messages: they are sent."""
        self.elements: list[bytes | str] = []
        self.messages = self.bytes = 0
        self.special = False

    def add(self, lines: Sequence[bytes], large: Mapping[int, bytes]) -> None:
        """Take some more. Raises MessageTooLarge.

        :param lines: records without the time of arrival (mqredis/models/record_parts.py), so a flag stands first.
        :param large: bodies that stand apart, by the number of their line.
        """
        sizes = [len(line) + ARRIVAL_DIGITS for line in lines]
        if not large:
            self.elements.extend(lines)
        else:
            for n, line in enumerate(lines):
                self.elements.append(line)
                if n in large:
                    self.elements.append(large[n])
                    sizes[n] += len(large[n])
        largest = max(sizes, default=0)
        if largest > self.most_bytes:
            raise MessageTooLarge(
                f"a message takes {largest} bytes; queue {self.stage.queue!r} allows {self.most_bytes}"
            )
        self.messages += len(lines)
        self.bytes += sum(sizes)
        self.special = self.special or not SPECIAL_FLAGS.isdisjoint(map(itemgetter(0), lines))

    def call(self, manager: keys.ManagerKeys, sink: str, batch: int, ttl_ms: int) -> Call[bool]:
        """The call of stage.lua that appends the messages to the stage."""
        return commands.stage(
            manager, sink, batch, self.stage, ttl_ms, self.messages, self.bytes, self.special, self.elements
        )
