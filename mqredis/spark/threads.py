"""Threads of a streaming query in the driver's Python process.

``receive_reader`` and ``claim_commits`` start them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event
from typing import TypeVar

R = TypeVar("R")

# Messages that one call claims or receives at most (page_without_records in lua/claims/claims.lua;
# tests/contract/test_arguments.py compares).
ONE_CALL = 1_000


class BackgroundWork:
    """Work in a thread, in two parts. Other calls wait for the end of the first part; the second part pauses while
    urgent calls run."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1)
        self._parts: list[Future[None]] = []
        self._no_urgent_calls = Event()
        self._no_urgent_calls.set()

    def start(self, first: Callable[[], None], rest: Callable[[], None]) -> None:
        """Start it when the work before has ended. Raises what that work raised."""
        self.finish()
        first_part = self._pool.submit(first)

        def run_rest() -> None:
            if first_part.exception() is None:
                rest()

        self._parts = [first_part, self._pool.submit(run_rest)]

    def wait_for_first(self) -> None:
        """Wait for the end of the first part. Raises what it raised."""
        for part in self._parts[:1]:
            part.result()

    @contextmanager
    def urgent(self) -> Iterator[None]:
        """Pause the second part meanwhile."""
        self._no_urgent_calls.clear()
        try:
            yield
        finally:
            self._no_urgent_calls.set()

    def pause(self) -> None:
        """Called by the second part between two steps: waits while urgent calls run."""
        self._no_urgent_calls.wait()

    def finish(self) -> bool:
        """Wait for the end of both parts. False if there was no work. Raises what it raised."""
        parts, self._parts = self._parts, []
        for part in parts:
            part.result()
        return bool(parts)


class TwoThreads:
    """Runs one loop of repeatable calls in two threads, so that the server always has a call to work on."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1)

    def run(self, loop: Callable[[], R], messages: int) -> R:
        """Run the loop in this thread, and in the other one as well if the messages need several calls.

        Both have ended then. Returns what the loop has returned in this thread; raises what it raised.
        """
        if messages <= ONE_CALL:
            return loop()
        other = self._pool.submit(loop)
        try:
            return loop()
        finally:
            other.result()
