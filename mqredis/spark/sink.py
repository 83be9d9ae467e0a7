"""``df.write`` and ``df.writeStream``: tasks stage messages, the driver publishes them as one unit of
work.

A stage's name is unique for each run of ``write``, never made from the task attempt: that restarts at 0 with
a new driver. What is published is the manifest: the stages that Spark reports as done, in the order of
partitions. A batch that was begun is finished by its stored manifest; one that was published is never
published again.
"""

from __future__ import annotations

import getpass
import logging
import socket
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from mqredis import keys
from mqredis.commands import pipelines as commands
from mqredis.commands.pipelines import Stage
from mqredis.errors import ClaimLost, InvalidArgument, MessageTooLarge, QueueNotFound, TransactionUsage
from mqredis.models import QueueInfo
from mqredis.operations import pipelines
from mqredis.operations.publications import publications
from mqredis.operations.server_checks import refuse_volatile
from mqredis.spark import rows
from mqredis.spark.columns import any_special
from mqredis.spark.connection import context_of, manager_of, run, told
from mqredis.spark.crash import point
from mqredis.spark.options import Options, check_sink
from mqredis.steps import perform

_LOG = logging.getLogger("mqredis.spark")
#: How the names of writes begin that were given none.
UNNAMED = "job-"
#: One call stages about so many messages, or so many bytes. A portion, looked at together, is a part of that.
CALL_MESSAGES = 1_000
CALL_BYTES = 2_097_152
PORTION = 100


@dataclass
class Staged(WriterCommitMessage):
    """What one task has staged."""

    sink: str
    batch: int
    identity: str
    partition: int
    stages: list[Stage] = field(default_factory=list)
    messages: int = 0


def check(options: Options, schema: StructType, overwrite: bool) -> None:
    """Everything that can be wrong, before a job starts."""
    check_sink(options)
    if overwrite:
        raise InvalidArgument("mqredis only appends: use mode('append') or outputMode('append')")
    rows.check(schema, options.queue)
    if options.queue:
        targets(options, {options.queue})


def refuse_abandoned(options: Options, queues: set[str]) -> None:
    """Refuse to write to queues to which an earlier write without a name has published a part of its messages.

    That write may have been an earlier run of the same job, and then this one would publish the part again. Waits for a
    write whose driver may be at work still. Raises ClaimLost.
    """
    manager = manager_of(options.address, options.managers[0])
    while True:
        found = [
            each
            for each in run(manager, publications(context_of(manager)))
            if each.name.startswith(UNNAMED) and queues & set(each.queues) and not each.expired
        ]
        for each in found:
            if each.abandoned:
                raise ClaimLost(
                    f"an earlier write to {', '.join(each.queues)} was broken off: of the {each.messages} messages of "
                    f"{each.name!r} {each.left} are not in the queue yet. If it was this job, finish it with "
                    f"mqredis.spark.recover(manager, {each.name!r}) and do not run the job again; or give the rest up "
                    f"with mqredis.spark.withdraw(manager, {each.name!r}). With the options txnAppId and txnVersion "
                    "the next run of a job finishes it by itself",
                    why="open",
                )
        if not found:
            return
        time.sleep(1)


def say_steps(options: Options, name: str, messages: int, queues: Iterable[str]) -> None:
    """Log how a publication of more messages than appear in one instant goes, before its first step."""
    limit = options.atomicPublishLimit
    if messages > limit:
        _LOG.warning(
            "mqredis: %d messages to %s become visible in %d steps of at most %d, as publication %r. Readers see the "
            "first steps before the last one. If the driver stops in between, mqredis.spark.publications lists it. "
            "atomicPublishLimit=%d makes it one step",
            messages, ", ".join(queues), -(-messages // limit), limit, name, messages,
        )  # fmt: skip


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


class _Stager:
    """One run of ``write``: fills stages, one for each queue."""

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
        point("before-stage")
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
            point("mid-stage")
        for waiting in self.waiting.values():
            self._flush(waiting)
        point("after-stage")
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
            context_of(self.manager).keys,
            self.staged.sink,
            self.staged.batch,
            waiting.stage,
            self.options.stageTtlSeconds * 1000,
            waiting.messages,
            waiting.bytes,
            waiting.special,
            waiting.elements,
        )
        self.done_before = run(self.manager, perform(call))
        self.staged.messages += waiting.messages
        waiting.clear()


class _Waiting:
    """Messages for one stage that are not sent yet."""

    def __init__(self, stage: Stage, most: int) -> None:
        self.stage = stage
        self.most = most
        self.clear()

    def clear(self) -> None:
        self.elements: list[bytes | str | int] = []
        self.messages = self.bytes = 0
        self.special = False

    def add(self, lines: Sequence[bytes], large: Mapping[int, bytes]) -> None:
        """Take some more. ``large``: bodies that stand apart, by the number of their line."""
        # The broker takes the priority off and puts 13 digits of arrival time in front.
        sizes = [len(line) + 12 for line in lines]
        if not large:
            self.elements.extend(lines)
        else:
            for n, line in enumerate(lines):
                self.elements.append(line)
                if n in large:
                    self.elements.append(large[n])
                    sizes[n] += len(large[n])
        if max(sizes) > self.most:
            raise MessageTooLarge(
                f"a message takes {max(sizes)} bytes; queue {self.stage.queue!r} allows {self.most}"
            )
        self.messages += len(lines)
        self.bytes += sum(sizes)
        self.special = self.special or any_special(bytes({line[1] for line in lines}))


def _publish(options: Options, messages: Sequence[Staged], keep: bool) -> None:
    """Publish what the tasks report, and clean up. Harmless when repeated."""
    first = messages[0]
    manager = manager_of(options.address, options.managers[0])
    ordered = sorted(messages, key=lambda each: each.partition)
    stages = [stage for each in ordered for stage in each.stages]
    queues = dict.fromkeys(stage.queue for stage in stages)
    if first.sink.startswith(UNNAMED):
        refuse_abandoned(options, set(queues))
    say_steps(options, first.sink, sum(each.messages for each in messages), queues)
    point("before-publish")
    what = (first.sink, first.batch, first.identity, options.atomicPublishLimit, keep, stages)
    run(manager, pipelines.publish(context_of(manager), *what, between=lambda: point("mid-publish")))
    point("after-publish")
    run(manager, pipelines.sweep(context_of(manager), first.sink, first.batch))
    point("after-sweep")


def publish_part(options: Options, version: int, batches: Iterable[pa.RecordBatch]) -> None:
    """Write rows from one process, as a version of the sink ``txnAppId``. Writes nothing if it was published before."""
    sink = f"app-{options.txnAppId}"
    _publish(options, [_Stager(options, sink, version, "-").write(iter(batches))], True)


def unnamed(queue: str) -> str:
    """The name of a write without one: its queue, user, host and time, so that an operator recognises the job."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container without an entry for its user
        user = "unknown"
    begun = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    return f"{UNNAMED}{queue or 'queues'}-{user}@{socket.gethostname()}-{begun}-{uuid.uuid4().hex[:8]}"


class BatchWriter(DataSourceArrowWriter):
    """``df.write``: one object, copied to the tasks and to the commit, so its sink is named here."""

    def __init__(self, options: Options) -> None:
        if bool(options.txnAppId) != (options.txnVersion >= 0):
            raise InvalidArgument("give both options txnAppId and txnVersion, or neither")
        self.options = options
        self.sink = f"app-{options.txnAppId}" if options.txnAppId else unnamed(options.queue)
        self.batch = options.txnVersion if options.txnAppId else 0

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Stage one partition."""
        with told():
            return _Stager(self.options, self.sink, self.batch, "-").write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """All tasks are done: publish."""
        with told():
            staged = [each for each in messages if isinstance(each, Staged)]
            if staged:
                _publish(self.options, staged, bool(self.options.txnAppId))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:  # noqa: ARG002
        """The job failed: nothing stays behind, and late tasks are refused."""
        with told():
            manager = manager_of(self.options.address, self.options.managers[0])
            ttl = self.options.stageTtlSeconds * 1000
            # With a name of its own a sink may be used again, for the same version: then it stays open.
            close = not self.options.txnAppId
            run(manager, pipelines.sweep(context_of(manager), self.sink, self.batch, close, ttl))


class StreamWriter(DataSourceStreamArrowWriter):
    """``df.writeStream``: exactly once by query id and batch id. Made anew for each micro-batch and each
    commit."""

    def __init__(self, options: Options) -> None:
        if options.txnVersion >= 0:
            raise InvalidArgument(
                "option txnVersion belongs to batch writes: a stream counts by its batch id"
            )
        self.options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Stage one partition of a micro-batch."""
        with told():
            context = TaskContext.get()
            query = context.getLocalProperty("sql.streaming.queryId") if context else None
            batch = context.getLocalProperty("streaming.sql.batchId") if context else None
            if query is None or batch is None:
                raise InvalidArgument("Spark gave the task no query id: it is not part of a micro-batch")
            sink = f"app-{self.options.txnAppId}" if self.options.txnAppId else f"query-{query}"
            return _Stager(self.options, sink, int(batch), query).write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803, ARG002
        """All tasks of the micro-batch are done: publish it, once."""
        with told():
            staged = [each for each in messages if isinstance(each, Staged)]
            if staged:
                _publish(self.options, staged, True)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803, ARG002
        """The micro-batch failed: the stages of its finished tasks are removed, the others with the next
        publication."""
        with told():
            staged = [each for each in messages if isinstance(each, Staged)]
            manager = manager_of(self.options.address, self.options.managers[0])
            for each in staged:
                names = [stage.name for stage in each.stages]
                run(manager, perform(commands.discard(context_of(manager).keys, each.sink, names)))
