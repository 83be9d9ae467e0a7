"""What workers say of themselves, and what operators have told all of them."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from mqredis.models.queue import Model


class RunningHandler(Model):
    """A handler that a worker runs now."""

    consumer: str
    queue: str
    #: Lookup ids of its messages, the first 100.
    lookup_ids: tuple[int, ...]
    #: For how long it has run, in seconds, when the worker said so.
    seconds: float


class WorkerConsumer(Model):
    """A consumer of a worker."""

    name: str
    queues: tuple[str, ...]
    #: Handlers that may run at a time, and that run now.
    concurrency: int
    busy: int
    #: Messages since the worker started.
    handled: int
    failed: int
    rejected: int
    #: The last failure, as text; "" if there was none. With sealed bodies it is the type of the exception alone.
    last_error: str = ""


class WorkerInfo(Model):
    """A worker that lives (``QueueManager.workers``)."""

    #: Of this run of the worker; operators name it by this.
    id: str
    name: str
    host: str
    pid: int
    #: Of mqredis.
    version: str
    started_at: datetime
    consumers: tuple[WorkerConsumer, ...]
    #: Names of its schedules.
    schedules: tuple[str, ...]
    #: The first 100.
    running: tuple[RunningHandler, ...]
    #: When its last heartbeat came.
    last_seen: datetime
    #: Seconds until the worker counts as gone, unless it says again that it lives.
    expires_in: float


class Pause(Model):
    """A queue that no worker reads, or a consumer that reads nothing, until an operator ends that."""

    kind: Literal["queue", "consumer"]
    name: str
    since: datetime
    operator: str
    reason: str
