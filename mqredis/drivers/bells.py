"""The hub: all waits of one driver, woken by one subscription."""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from typing import TYPE_CHECKING

from mqredis.drivers.session import Run
from mqredis.steps import Wait, Woken

if TYPE_CHECKING:
    from mqredis.drivers.sync import Driver


class Journal:
    """Cancellations, so that one that falls between a look and its wait is not lost."""

    def __init__(self) -> None:
        self.position = 0
        self._entries: deque[tuple[int, object]] = deque(maxlen=4096)

    def add(self, scope: object) -> None:
        """Note a cancellation."""
        self.position += 1
        self._entries.append((self.position, scope))

    def since(self, mark: int, scopes: tuple[object, ...]) -> bool:
        """Was one of the scopes cancelled after ``mark``?"""
        return self.position != mark and any(at > mark and scope in scopes for at, scope in self._entries)


class Hub:
    """Waits of threads."""

    def __init__(self, driver: Driver) -> None:
        self._settings = driver.settings
        self._lock = threading.Lock()
        self._journal = Journal()
        self._waits: dict[Run, tuple[Wait, threading.Event]] = {}
        self.mode_name = ""

    def listen(self, run: Run | None) -> str:
        """Subscribe to the bell of the run's slot."""
        if run is not None:
            run.listening = True
            run.mark = self._journal.position
        self.mode_name = "poll"
        return ""

    def recheck(self) -> float:
        """How long a wait may sleep before it looks again though nothing rang, in seconds."""
        return self._settings.recheck_seconds * random.uniform(0.8, 1.0)

    def wait(self, run: Run, step: Wait) -> Woken:
        """Sleep until something happens."""
        event = threading.Event()
        limit = self._settings.poll_seconds
        nap = limit if step.nap is None else min(step.nap, limit)
        end = None if step.nap is None else time.monotonic() + step.nap
        with self._lock:
            self._waits[run] = (step, event)
        try:
            if not self._journal.since(run.mark, step.scopes):
                event.wait(max(nap, 0))
        finally:
            with self._lock:
                del self._waits[run]
        cancelled = self._journal.since(run.mark, step.scopes)
        run.mark = self._journal.position
        if cancelled:
            return Woken.CANCELLED
        return Woken.TIMED_OUT if end is not None and time.monotonic() >= end else Woken.RUNG

    def cancel(self, scope: object) -> None:
        """End the waits of this scope."""
        with self._lock:
            self._journal.add(scope)
            for step, event in self._waits.values():
                if scope in step.scopes:
                    event.set()

    def ring_all(self) -> None:
        """Let every wait look again."""
        with self._lock:
            for _, event in self._waits.values():
                event.set()

    def close(self) -> None:
        """End."""
        self.ring_all()
