"""What the two drivers share: their parts, what they know of the manager, and the durability level.

``drivers.calls`` and ``drivers.calls_aio`` are subclasses. ``QueueManager`` and ``Transaction`` of both interfaces read
its properties (docs/extending.md), workers ``last_poll`` and ``wake_mode``, ``otel.patches`` ``endpoint``, and
``console.managers`` and ``django.options`` ``stopped``; workers and ``kombu`` call ``cancel``. ``waiting.base`` has the
waits of a driver.
"""

from __future__ import annotations

import os
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from mqredis.commands.transactions import Doubt
from mqredis.drivers.core import Core
from mqredis.keys import ManagerKeys
from mqredis.models import Durability
from mqredis.settings import Settings
from mqredis.steps import Call

_drivers: weakref.WeakSet[BaseDriver] = weakref.WeakSet()


def _after_fork() -> None:
    for driver in list(_drivers):
        driver.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class BaseDriver(ABC):
    """The part of a driver that threads and tasks share."""

    # Both have other types in the two drivers, which name them.
    backend: Any
    _waiters: Any
    on_fork: Callable[[], object] | None = None
    """Called in a child process, which must not end what the parent's client holds. ``connect`` sets it."""

    def __init__(self, settings: Settings, keys: ManagerKeys, backend: Any) -> None:
        self.settings = settings
        # The level that the permanent changes of all operations have to reach; None if they do not wait for one.
        self.level = None if settings.durability == Durability.MEMORY else settings.durability
        self.backend = backend
        self.core = Core(settings, keys, backend.memory, backend.address)
        # A single address that refuses a connection is probably wrong; Sentinel or a cluster may be electing a primary.
        self.core.reached = self.core.movable = backend.plan.movable
        self._setup()
        _drivers.add(self)

    @abstractmethod
    def _setup(self) -> None:
        """Make the parts that belong to one process, or to one event loop."""

    def after_fork(self) -> None:
        """In a child process: leave the parent's session and connections alone, and open new ones when needed.

        Each part makes its locks anew, since threads of the parent may have held them.
        """
        self.backend.after_fork()
        self.core.after_fork()
        self._setup()
        if self.on_fork is not None:
            self.on_fork()

    @property
    def session(self) -> str:
        """Number of the session; "" when none is open."""
        return self.core.session.number if self.core.session else ""

    @property
    def incarnation(self) -> str:
        """Incarnation of the queue manager."""
        return self.core.incarnation

    @property
    def endpoint(self) -> tuple[str, int] | None:
        """Host and port in the address; None where it names a socket or several nodes."""
        found: tuple[str, int] | None = self.backend.plan.target.endpoint
        return found

    @property
    def stopped(self) -> bool:
        """Has this client ended for good? It was closed, or the data of its queue manager are gone or were replaced."""
        return self.core.stopped

    @property
    def unknown(self) -> list[str]:
        """Tokens of calls whose outcome is unknown."""
        return list(self.core.outcomes.tokens)

    @property
    def last_poll(self) -> float:
        """When a poll for all waits last succeeded, on the clock of ``time.monotonic()``; 0.0 before the first one."""
        when: float = self._waiters.last_poll
        return when

    @property
    def wake_mode(self) -> str:
        """How waits are woken: "keyspace", "publish", "poll", or "" before the first wait."""
        mode: str = self._waiters.mode_name
        return mode

    def cancel(self, scope: object) -> None:
        """End the waits of this scope in this process, at once."""
        self._waiters.cancel(scope)

    def notify_all(self) -> None:
        """Let every waiting operation fetch again."""
        self._waiters.notify_all()

    def unfinished(self, token: object) -> Call[Any] | None:
        """The call with this token, if its outcome is unknown and it reads messages."""
        return self.core.outcomes.reads.get(token) if isinstance(token, str) else None

    def doubts(self, transaction: str) -> list[Doubt]:
        """The calls of this transaction whose outcome was unknown when they ended."""
        return [doubt for doubt in list(self.core.outcomes.doubts) if doubt.transaction == transaction]

    def resolved(self, token: str) -> None:
        """The outcome of this token is known now."""
        self.core.outcomes.resolved(token)
