"""Reads the state of a queue manager for all viewers at once.

``shared`` has one for the queues, the workers and the histories of each queue manager, and one for each page with
shared readings. Only those of queues and workers are followed (``pages.overview``). All callers are tasks of one event
loop. An error of a reading leaves the state before, and every caller of ``state`` gets its own error.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from time import monotonic
from typing import Generic, TypeVar

from mqredis.errors import MqError

S = TypeVar("S")


class Poller(Generic[S]):
    """Calls ``read`` every ``interval`` seconds while at least one viewer follows it, and not otherwise.

    ``read`` gets the state before, or None. A page that is asked for in between is made from the latest state.
    """

    def __init__(self, read: Callable[[S | None], Awaitable[S]], interval: float) -> None:
        self._read = read
        self.interval = interval
        self.viewers = 0
        self._state: S | None = None
        self._read_at = -1e9
        self._reading = asyncio.Lock()
        self._round = 0
        self._event = "tick"
        self._changed = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None

    async def state(self, *, fresh: bool = False) -> S:
        """The latest state, not older than the interval; ``fresh``: read now. Raises what ``read`` raises."""
        async with self._reading:
            if fresh or self._state is None or monotonic() - self._read_at >= self.interval:
                self._state = await self._read(self._state)
                self._read_at = monotonic()
            return self._state

    async def follow(self) -> AsyncGenerator[str, None]:
        """Yields "tick" after each reading, and "down" after each that failed. Ends never; close it.

        static/console.js listens to events with these names.
        """
        self.viewers += 1
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._poll())
        seen = self._round
        try:
            while True:
                async with self._changed:
                    while self._round == seen:
                        await self._changed.wait()
                    seen = self._round
                yield self._event
        finally:
            self.viewers -= 1
            if self.viewers == 0 and self._task is not None:
                ending, self._task = self._task, None  # a viewer who comes before it has ended starts another
                ending.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await ending

    async def _poll(self) -> None:
        while True:
            try:
                await self.state()
                event = "tick"
            except MqError:
                event = "down"
            async with self._changed:
                self._event = event
                self._round += 1
                self._changed.notify_all()
            await asyncio.sleep(self.interval)
