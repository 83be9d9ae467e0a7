"""The asyncio hub: the twin of ``bells``."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from typing import TYPE_CHECKING

from mqredis.drivers.bells import Journal
from mqredis.drivers.session import Run
from mqredis.steps import Wait, Woken

if TYPE_CHECKING:
    from mqredis.drivers.aio import AsyncDriver


class AsyncHub:
    """Waits of tasks."""

    def __init__(self, driver: AsyncDriver) -> None:
        self._settings = driver.settings
        self._journal = Journal()
        self._waits: dict[Run, tuple[Wait, asyncio.Event]] = {}
        self.mode_name = ""

    async def listen(self, run: Run | None) -> str:
        """Subscribe to the bell of the run's slot."""
        if run is not None:
            run.listening = True
            run.mark = self._journal.position
        self.mode_name = "poll"
        return ""

    def recheck(self) -> float:
        """How long a wait may sleep before it looks again though nothing rang, in seconds."""
        return self._settings.recheck_seconds * random.uniform(0.8, 1.0)

    async def wait(self, run: Run, step: Wait) -> Woken:
        """Sleep until something happens."""
        event = asyncio.Event()
        limit = self._settings.poll_seconds
        nap = limit if step.nap is None else min(step.nap, limit)
        end = None if step.nap is None else time.monotonic() + step.nap
        self._waits[run] = (step, event)
        try:
            if not self._journal.since(run.mark, step.scopes):
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(max(nap, 0)):
                        await event.wait()
        finally:
            del self._waits[run]
        cancelled = self._journal.since(run.mark, step.scopes)
        run.mark = self._journal.position
        if cancelled:
            return Woken.CANCELLED
        return Woken.TIMED_OUT if end is not None and time.monotonic() >= end else Woken.RUNG

    def cancel(self, scope: object) -> None:
        """End the waits of this scope."""
        self._journal.add(scope)
        for step, event in self._waits.values():
            if scope in step.scopes:
                event.set()

    def ring_all(self) -> None:
        """Let every wait look again."""
        for _, event in self._waits.values():
            event.set()

    async def close(self) -> None:
        """End."""
        self.ring_all()
