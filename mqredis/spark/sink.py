"""``df.write`` and ``df.writeStream``: tasks stage messages (mqredis/spark/staging.py), and the driver publishes them
as one unit of work.

``source`` makes the writers, and the pipeline ``replay`` calls ``publish_part``.

The manifest lists the stages to publish: those that Spark reports as done, in the order of partitions. A batch that is
published in part is finished by its stored manifest; a published batch is never published again. The broker stores the
names of sinks (``app-``, ``query-`` and ``job-``), so their forms stay: a restarted query, and a job with
txnAppId, is known by its name.
"""

from __future__ import annotations

import getpass
import logging
import socket
import time
import uuid
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from mqredis.commands import stages as commands
from mqredis.errors import ClaimLost, InvalidArgument
from mqredis.operations import pipelines
from mqredis.operations.publications import UNNAMED, publications
from mqredis.spark import rows
from mqredis.spark.connection import manager_of, source_errors
from mqredis.spark.kill_points import kill_point
from mqredis.spark.options import Options, check_sink
from mqredis.spark.staging import NO_IDENTITY, Staged, Stager, named_sink, targets
from mqredis.steps import perform

_LOG = logging.getLogger("mqredis.spark")


def check(options: Options, schema: StructType, overwrite: bool) -> None:
    """Everything that can be wrong, before a job starts."""
    check_sink(options)
    if overwrite:
        raise InvalidArgument("mqredis only appends: use mode('append') or outputMode('append')")
    rows.check(schema, options.queue)
    if options.queue:
        targets(manager_of(options.address, options.managers[0]), {options.queue})


def refuse_abandoned(options: Options, queues: set[str]) -> None:
    """Refuse to write to queues to which an earlier write without a name has published a part of its messages.

    That write may have been an earlier run of the same job, and then this one would publish the part again. Waits for a
    write whose driver may be at work still. Raises ClaimLost.
    """
    manager = manager_of(options.address, options.managers[0])
    while True:
        found = [
            each
            for each in manager.run(publications(manager.context))
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
    """Log the number of steps of a publication that needs more than one, before the first."""
    limit = options.atomicPublishLimit
    if messages > limit:
        _LOG.warning(
            "mqredis: %d messages to %s become visible in %d steps of at most %d, as publication %r. Readers see the "
            "first steps before the last one. If the driver stops in between, mqredis.spark.publications lists it. "
            "atomicPublishLimit=%d makes it one step",
            messages, ", ".join(queues), -(-messages // limit), limit, name, messages,
        )  # fmt: skip


def _staged(messages: Iterable[WriterCommitMessage | None]) -> list[Staged]:
    """What the tasks have staged; a task that failed has None."""
    return [each for each in messages if isinstance(each, Staged)]


def _publish(options: Options, messages: Iterable[WriterCommitMessage | None], keep: bool) -> None:
    """Publish what the tasks report, and clean up. Harmless when repeated.

    ``keep``: the broker remembers the batch of this sink, since a later write may have the same name and number.
    """
    staged = sorted(_staged(messages), key=lambda each: each.partition)
    if not staged:
        return
    sink, batch, identity = staged[0].sink, staged[0].batch, staged[0].identity
    manager = manager_of(options.address, options.managers[0])
    stages = [stage for each in staged for stage in each.stages]
    queues = dict.fromkeys(stage.queue for stage in stages)
    if sink.startswith(UNNAMED):
        refuse_abandoned(options, set(queues))
    say_steps(options, sink, sum(each.messages for each in staged), queues)
    kill_point("before-publish")
    limit, after_page = options.atomicPublishLimit, lambda: kill_point("mid-publish")
    manager.run(pipelines.publish(manager.context, sink, batch, identity, limit, keep, stages, after_page))
    kill_point("after-publish")
    manager.run(pipelines.sweep(manager.context, sink, batch))
    kill_point("after-sweep")


def publish_part(options: Options, version: int, batches: Iterable[pa.RecordBatch]) -> None:
    """Write rows from one process, as a version of the sink ``txnAppId``. Writes nothing if it was published before."""
    sink = named_sink(options.txnAppId)
    _publish(options, [Stager(options, sink, version, NO_IDENTITY).write(iter(batches))], keep=True)


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
        self.sink = named_sink(options.txnAppId) if options.txnAppId else unnamed(options.queue)
        self.batch = options.txnVersion if options.txnAppId else 0

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Stage one partition."""
        with source_errors():
            return Stager(self.options, self.sink, self.batch, NO_IDENTITY).write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """All tasks are done: publish."""
        with source_errors():
            _publish(self.options, messages, keep=bool(self.options.txnAppId))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:  # noqa: ARG002
        """The job failed: remove its stages, and refuse late tasks."""
        with source_errors():
            manager = manager_of(self.options.address, self.options.managers[0])
            ttl = self.options.stageTtlSeconds * 1000
            # With a name of its own a sink may be used again, for the same version: then it stays open.
            close = not self.options.txnAppId
            manager.run(pipelines.sweep(manager.context, self.sink, self.batch, ttl if close else None))


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
        with source_errors():
            context = TaskContext.get()
            query = context.getLocalProperty("sql.streaming.queryId") if context else None
            batch = context.getLocalProperty("streaming.sql.batchId") if context else None
            if query is None or batch is None:
                raise InvalidArgument("Spark gave the task no query id: it is not part of a micro-batch")
            sink = named_sink(self.options.txnAppId) if self.options.txnAppId else f"query-{query}"
            return Stager(self.options, sink, int(batch), query).write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803, ARG002
        """All tasks of the micro-batch are done: publish it, once."""
        with source_errors():
            _publish(self.options, messages, keep=True)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803, ARG002
        """The micro-batch failed: the stages of its finished tasks are removed, the others with the next
        publication."""
        with source_errors():
            manager = manager_of(self.options.address, self.options.managers[0])
            for each in _staged(messages):
                names = [stage.name for stage in each.stages]
                manager.run(perform(commands.discard(manager.context.keys, each.sink, names)))
