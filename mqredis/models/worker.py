"""Reports of workers in their heartbeats, and pauses that operators have set.

Workers send them (``worker.heartbeat``) as JSON that ``commands.workers`` reads; ``QueueManager`` returns them,
operations find the handler of a lock in them, and ``cli.show`` and the console show them. Workers of other releases
send reports, too: give a new field a default.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import ConfigDict

from mqredis.models.queue import Model


class Report(Model):
    """A part of a report. Fields that a later release has added are ignored."""

    model_config = ConfigDict(extra="ignore")


class RunningHandler(Report):
    """A handler that a worker runs now."""

    consumer: str
    queue: str
    lookup_ids: tuple[int, ...]
    """Lookup ids of its messages, the first 100."""
    seconds: float
    """For how long it had run at the last heartbeat, in seconds."""


class WorkerConsumer(Report):
    """A consumer of a worker."""

    name: str
    queues: tuple[str, ...]
    concurrency: int
    """Handlers that may run at a time."""
    busy: int
    """Handlers that run now."""
    handled: int
    """Messages since the worker started."""
    failed: int
    rejected: int
    last_error: str = ""
    """The last failure, as text; "" if there was none. With sealed bodies it is the type of the exception alone."""


class WorkerInfo(Report):
    """A live worker (``QueueManager.workers``)."""

    id: str
    """Identifier of this run of the worker, by which operators name it."""
    name: str
    host: str
    pid: int
    version: str
    """Version of mqredis."""
    started_at: datetime
    consumers: tuple[WorkerConsumer, ...]
    schedules: tuple[str, ...]
    """Names of its schedules."""
    running: tuple[RunningHandler, ...]
    """The running handlers, the first 100."""
    last_seen: datetime
    """When its last heartbeat came."""
    expires_in: float
    """Seconds until the worker counts as gone, if no heartbeat comes."""


class Pause(Report):
    """A queue that no worker reads, or a consumer that reads nothing, until an operator ends that."""

    kind: Literal["queue", "consumer"]
    name: str
    since: datetime
    operator: str
    reason: str
