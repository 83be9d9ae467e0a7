"""``OPTIONS`` of the backend, checked; and the clients that the backends of all threads share.

``backend`` uses it. Settings of projects hold the names of ``Options``, in capitals. Backends with the same url,
manager and settings share one client, whatever their other options.
"""

from __future__ import annotations

import atexit
import contextlib
import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from django.core.exceptions import ImproperlyConfigured
from pydantic import BaseModel, ConfigDict, Field

from mqredis.client import Queue, QueueManager, connect
from mqredis.errors import QueueExists, QueueNotFound
from mqredis.handles import Handles
from mqredis.models.validation import translated
from mqredis.settings import LONGEST_LEASE, Settings

R = TypeVar("R")


class Options(BaseModel):
    """What ``TASKS["..."]["OPTIONS"]`` may hold; in Django's manner the names may be written in capitals.

    docs/django.md has a table of them, which a test in tests/django compares.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str | None = None
    """URL of the broker; None: ``MQREDIS_URL``."""
    manager: str | None = None
    """Name of the queue manager; None: ``MQREDIS_MANAGER``."""
    queue_prefix: str = Field(default="django.", max_length=64)
    """Prefix of the names of Django's queues in the broker."""
    result_ttl: float = Field(default=86_400.0, ge=0, le=31_536_000)
    """How long results are kept after the last change of their state, in seconds; 0: there are no results."""
    max_attempts: int = Field(default=5, ge=1)
    """How often a task is begun if its worker is killed or lost. After that the task is failed, and its message goes to
    ;poison. Attempts are counted as in a RetryPolicy: the shutdown of a worker is not an attempt."""
    lease: float = Field(default=30.0, gt=0, le=LONGEST_LEASE)
    """Seconds after which another worker begins the tasks of a dead worker again."""
    enqueue_on_commit: bool = False
    """Enqueue when the transaction of the default database is committed, instead of at once."""
    modules: tuple[str, ...] = ()
    """Modules with tasks besides the ``tasks`` module of each application."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """Fields of ``mqredis.Settings``."""


def options_of(options: Mapping[str, Any], alias: str) -> Options:
    """Check the options. Raises ImproperlyConfigured."""
    with translated(Options, f"TASKS[{alias!r}]['OPTIONS']:", lambda text, _: ImproperlyConfigured(text)):
        return Options(**{str(name).lower(): value for name, value in options.items()})


class Client:
    """One client of a queue manager, and its open queues, for all threads that have the same options."""

    def __init__(self, manager: QueueManager) -> None:
        self.manager = manager
        self._handles = Handles(manager)

    def use(self, name: str, action: Callable[[Queue], R]) -> R:
        """Do something with an open queue. It is created if it does not exist, or was deleted during the action, which
        is begun again then."""
        try:
            return self._handles.use(name, action)
        except QueueNotFound:
            with contextlib.suppress(QueueExists):
                self.manager.create_queue(name)
            return self._handles.use(name, action)


_clients: dict[str, Client] = {}
_connecting = threading.Lock()


def client_of(options: Options) -> Client:
    """The client for these options. Raises BrokerUnavailable.

    Connects the first time, and again when the data of the queue manager were gone: one call has failed with that.
    """
    key = options.model_dump_json(include={"url", "manager", "settings"})
    with _connecting:
        found = _clients.get(key)
        if found is not None and found.manager.driver.stopped:
            found.manager.close()
            found = None
        if found is None:
            settings = Settings.from_env(url=options.url, manager=options.manager, **options.settings)
            found = _clients[key] = Client(connect(settings=settings))
        return found


@atexit.register
def disconnect() -> None:
    """Close every client; the next use connects again."""
    with _connecting:
        for client in _clients.values():
            client.manager.close()
        _clients.clear()
