"""Whether a run of a worker ends, and why.

``Worker.run`` makes one. ``Worker.stop``, signals, orders of operators and threads that fail end the run with it, and
so does ``failed_attempts`` with ``errors="raise"``; all threads that read ask it.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Flag(threading.Event):
    """An event that a signal handler may set in the middle of a call of its thread, perhaps of this very event."""

    def __init__(self) -> None:
        super().__init__()
        self._cond = threading.Condition(threading.RLock())  # that of an Event is not re-entrant


class Shutdown:
    """The end of one run, which cannot be taken back. Every thread may call it, and every signal handler."""

    def __init__(self) -> None:
        self.stopping: threading.Event = Flag()
        """Set: nothing more is read."""
        self.killed: threading.Event = Flag()
        """Set: running handlers are cancelled now, not at the deadline."""
        # What the run raises: the first error of a thread, else the first one of a handler; of two at the same moment
        # either may count.
        self._fatal: BaseException | None = None
        self._failure: Exception | None = None

    @property
    def error(self) -> BaseException | None:
        """What ``Worker.run`` raises: the error of a thread, or else the failure of a handler; None: nothing."""
        return self._failure if self._fatal is None else self._fatal

    def stop(self) -> None:
        """Stop reading. Running handlers are finished, or their messages given back at the deadline. If the end has
        begun already, because of a signal, an order, ``Worker.stop`` or a failure, they are given back now."""
        if self.stopping.is_set():
            self.killed.set()
        self.stopping.set()

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        """Stop at SIGTERM and SIGINT while the block lasts; then their old handlers come back.

        In a thread other than the main one this does nothing, since Python allows no handlers there. A supervisor has
        handlers of its own (``processes``).
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        numbers = (signal.SIGTERM, signal.SIGINT)
        old = {number: signal.signal(number, lambda *_: self.stop()) for number in numbers}
        try:
            yield
        finally:
            for number, handler in old.items():
                signal.signal(number, handler)

    def thread_failed(self, error: BaseException) -> None:
        """Stop, since a thread of the worker cannot go on."""
        self._fatal = self._fatal or error
        self.stopping.set()

    def handler_failed(self, error: Exception) -> None:
        """Stop, since a handler has failed and the run ends with its first failure."""
        self._failure = self._failure or error
        self.stopping.set()
