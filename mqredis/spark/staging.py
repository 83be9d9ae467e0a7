"""What a task of a write does: it encodes its rows and stages them in the broker, where no reader sees them.

``sink`` uses it in Spark's tasks.

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
from mqredis.commands import stages as commands
from mqredis.commands.stages import Stage
from mqredis.errors import MessageTooLarge, QueueNotFound, TransactionUsage
from mqredis.models import QueueInfo
from mqredis.operations.server_checks import refuse_volatile
from mqredis.spark import rows
from mqredis.spark.columns import any_special
from mqredis.spark.connection import manager_of
from mqredis.spark.kill_points import kill_point
from mqredis.spark.options import Options
from mqredis.steps import perform

# One call stages about so many messages, or so many bytes. A portion of the messages is measured at once.
CALL_MESSAGES = 1_000
CALL_BYTES = 2_097_152
PORTION = 100
# The broker puts the arrival time in front of a message, in 13 digits.
_ARRIVAL = 13
_FLAG = itemgetter(0)


@dataclass
class Staged(WriterCommitMessage):
    """What one task has staged."""

    sink: str
    batch: int
    identity: str
    partition: int
    stages: list[Stage] = field(default_factory=list)
    messages: int = 0


def targets(options: Options, wanted: set[str]) -> dict[str, QueueInfo]:
    """The queues to write to. Raises QueueNotFound, TransactionUsage."""
    manager = manager_of(options.address, options.managers[0])
    if manager.context.server_state.volatile:
        raise refuse_volatile(f"nothing is written to {', '.join(sorted(wanted))}")
    found = {}
    for name in sorted(wanted):
        keys.check_name(name)
        try:
            found[name] = manager.queue_info(name)
        except QueueNotFound:
            raise QueueNotFound(f"queue manager {options.managers[0]!r} has no queue {name!r}") from None
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
        partition = context.partitionId() if context else 0
        self.staged = Staged(sink, batch, identity, partition)
        self.unique = f"{batch}-{uuid.uuid4().hex}"
        self.manager = manager_of(options.address, options.managers[0])
        self.encoder = rows.Encoder(options.queue, self.transaction)
        self.targets: dict[str, QueueInfo] = {}
        self.waiting: dict[str, _Waiting] = {}
        self.done_before = False

    def write(self, batches: Iterator[pa.RecordBatch]) -> Staged:
        """Stage everything; stops early if the batch has been published before."""
        kill_point("before-stage")
        for batch in batches:
            for queue, lines, large in self.encoder.encode(batch):
                waiting = self.waiting.get(queue)
                if waiting is None:
                    waiting = self._new(queue)
                for at in range(0, len(lines), PORTION):
                    part = {n - at: body for n, body in large.items() if at <= n < at + PORTION}
                    waiting.add(lines[at : at + PORTION], part)
                    if waiting.messages >= CALL_MESSAGES or waiting.bytes >= CALL_BYTES:
                        self._flush(waiting)
            if self.done_before:
                return self.staged
            kill_point("mid-stage")
        for waiting in self.waiting.values():
            self._flush(waiting)
        kill_point("after-stage")
        return self.staged

    def transaction(self, queue: str) -> str:
        """The name of the unit of work, for messages of a transactional queue."""
        if queue not in self.targets:
            self.targets.update(targets(self.options, {queue}))
        return f"{self.staged.sink}.{self.staged.batch}" if self.targets[queue].transactional else ""

    def _new(self, queue: str) -> _Waiting:
        most = self.targets[queue].max_message_bytes
        stage = Stage(f"{self.unique}-{len(self.waiting)}", queue)
        self.staged.stages.append(stage)
        self.waiting[queue] = waiting = _Waiting(stage, most)
        return waiting

    def _flush(self, waiting: _Waiting) -> None:
        if not waiting.messages or self.done_before:
            return
        call = commands.stage(
            self.manager.context.keys,
            self.staged.sink,
            self.staged.batch,
            waiting.stage,
            self.options.stageTtlSeconds * 1000,
            waiting.messages,
            waiting.bytes,
            waiting.special,
            waiting.elements,
        )
        self.done_before = self.manager.run(perform(call))
        self.staged.messages += waiting.messages
        waiting.clear()


class _Waiting:
    """Messages for one stage that are not sent yet."""

    def __init__(self, stage: Stage, most: int) -> None:
        self.stage = stage
        self.most = most
        self.clear()

    def clear(self) -> None:
        self.elements: list[bytes | str] = []
        self.messages = self.bytes = 0
        self.special = False

    def add(self, lines: Sequence[bytes], large: Mapping[int, bytes]) -> None:
        """Take some more. ``large``: bodies that stand apart, by the number of their line."""
        sizes = [*map(len, lines)]
        if not large:
            self.elements.extend(lines)
        else:
            for n, line in enumerate(lines):
                self.elements.append(line)
                if n in large:
                    self.elements.append(large[n])
                    sizes[n] += len(large[n])
        largest = max(sizes) + _ARRIVAL
        if largest > self.most:
            raise MessageTooLarge(
                f"a message takes {largest} bytes; queue {self.stage.queue!r} allows {self.most}"
            )
        self.messages += len(lines)
        self.bytes += sum(sizes) + _ARRIVAL * len(lines)
        self.special = self.special or any_special(bytes(set(map(_FLAG, lines))))
