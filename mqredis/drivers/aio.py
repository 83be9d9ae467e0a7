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
from mqredis.keys import ManagerKeys
from mqredis.settings import Settings
from mqredis.steps import Operation

R = TypeVar("R")


class AsyncDriver(AsyncCalls):
    """Runs operations against one queue manager, in one event loop."""

    def __init__(self, settings: Settings, keys: ManagerKeys, backend: AsyncBackend) -> None:
        """Make the driver in the event loop in which it connects."""
        super().__init__(settings, keys, backend)
        self._loop = asyncio.get_running_loop()

    def _setup(self) -> None:
        self._opening = asyncio.Lock()
        self._waiters = AsyncWaiterRegistry(self)

    def _adopt(self, loop: asyncio.AbstractEventLoop) -> None:
        """Go on in another loop than before: connections and tasks of the old one are of no use."""
        self.backend.after_fork()
        self._setup()
        self._loop = loop

    def run(self, operation: Operation[R]) -> Coroutine[Any, Any, R]:
        """Run an operation to its end in this task. Raises what the operation raises.

        What several tasks do at the same time goes in one call where it can (:class:`Batcher`).
        """
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._adopt(loop)
        shared = operation.shareable
        if shared is None:
            return self.run_alone(operation)
        batcher: Batcher[R] | None = shared.batchers.get(type(shared))
        if batcher is None or batcher.loop is not loop:
            batcher = shared.batchers[type(shared)] = Batcher(self, type(shared))
        return batcher.run(shared)
