"""The asyncio driver: runs operations in the caller's task. One driver serves the tasks of one event loop.

``mqredis.asyncio.connect`` makes one, and ``QueueManager.run`` calls ``run``. ``calls_aio`` does the work, and
``coalescing`` joins what several tasks do at the same time; docs/extending.md lists what integrations may use.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from mqredis.drivers.calls_aio import AsyncCalls
from mqredis.drivers.coalescing import Batcher
from mqredis.drivers.net.pool_aio import AsyncBackend
from mqredis.drivers.waiting.registry_aio import AsyncWaiterRegistry
from mqredis.errors import InvalidHandle
from mqredis.keys import ManagerKeys
from mqredis.settings import Settings
from mqredis.steps import Operation

R = TypeVar("R")


class AsyncDriver(AsyncCalls):
    """Runs operations against one queue manager, in one event loop."""

    def __init__(self, settings: Settings, keys: ManagerKeys, backend: AsyncBackend) -> None:
        """Make the driver in the event loop in which it connects."""
        super().__init__(settings, keys, backend)
        self._loop: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()

    def _setup(self) -> None:
        self._opening = asyncio.Lock()
        self._waiters = AsyncWaiterRegistry(self)
        self._loop = None  # in a child process that of the parent does not count

    def _enter_loop(self) -> asyncio.AbstractEventLoop:
        """The running loop. If it is another one than before, connections and tasks of that one are of no use.

        Raises InvalidHandle while the one before runs in another thread, since its tasks would wait without an end.
        """
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            if self._loop is not None and self._loop.is_running():
                raise InvalidHandle(
                    "this client belongs to an event loop that runs in another thread: connect once in each event loop"
                )
            self.backend.after_fork()
            self._setup()
            self._loop = loop
        return loop

    async def close(self) -> None:
        """End the waits and the session, and close every connection. A closed driver stays closed."""
        self._enter_loop()
        await super().close()

    def run(self, operation: Operation[R]) -> Coroutine[Any, Any, R]:
        """Run an operation to its end in this task. Raises what the operation raises.

        What several tasks do at the same time goes in one call where it can (:class:`Batcher`).
        """
        loop = self._enter_loop()
        shared = operation.shareable
        if shared is None:
            return self.run_alone(operation)
        batcher: Batcher[R] | None = shared.batchers.get(type(shared))
        if batcher is None or batcher.loop is not loop:
            batcher = shared.batchers[type(shared)] = Batcher(self, type(shared))
        return batcher.run(shared)
