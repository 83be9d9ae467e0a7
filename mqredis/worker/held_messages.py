"""Messages on which a handler works: runs the handler, and cancels it from another thread.

``attempts`` makes one for each run of a handler, and ``prefetch`` one for messages that wait for their handlers. The
thread of ``lease_renewer`` renews their lease and cancels the handler. The heartbeat and the end of the worker cancel
with ``LeaseRenewer.cancel``, so that the renewer knows when to give the messages back.
docs/worker.md tells users of _RENEW_AT and _GRACE.
"""

from __future__ import annotations

import asyncio
import ctypes
import math
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import Future
from types import FrameType, TracebackType
from typing import Any

from mqredis.worker.outcomes import Cancelled, HandlerCancelled, TimeLimitExceeded

# A lease is renewed when so much of it is over.
_RENEW_AT = 1 / 3
# Seconds that a cancelled handler has to end before its messages are given back, at most half of what its lease has
# left.
_GRACE = 2.0


class HeldMessages:
    """Messages on which a handler works, with their lease. Times are seconds.

    The thread of the renewer calls ``renew`` and ``on_overdue``. ``on_cancel`` is called in any thread and under the
    lock, so it must not wait.
    """

    def __init__(
        self,
        renew: Callable[[], object],
        lease: float,
        *,
        max_hold: float,
        time_limit: float | None,
        on_cancel: Callable[[], object] = lambda: None,
        on_overdue: Callable[[Exception], object] = lambda _: None,
    ) -> None:
        now = time.monotonic()
        self.renew = renew
        self.lease = lease
        self.hold_until = now + max_hold
        self.limit = now + time_limit if time_limit else math.inf
        self._on_cancel = on_cancel
        self._on_overdue = on_overdue
        # When the renewer renews next, and until when the lease lasts. Only the renewer's thread changes them.
        self.next = now + lease * _RENEW_AT
        self.until = now + lease
        # The thread of the handler, which sets it. If the handler is a coroutine: this, its event loop, and the loop's
        # thread.
        self._thread: int | None = None
        self._coroutine: Coroutine[Any, Any, Any] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        # The attributes below are changed under this lock, since any thread may cancel while the handler ends.
        self._lock = threading.Lock()
        # Why the handler is cancelled, once it is.
        self.reason: Exception | None = None
        # When the messages are given back if the handler was cancelled and has not ended. The renewer resets it.
        self.give_up_at = math.inf
        # Were the messages given back, although the handler has not ended? The renewer sets it.
        self.given_up = False
        self._ended = False
        # Interrupts the handler while it runs.
        self._interrupt: Callable[[], object] | None = None

    def due(self) -> float:
        """When the renewer has to act next, by ``time.monotonic()``: to renew, to cancel, or to give up."""
        if self.reason is not None:
            return self.give_up_at
        return min(self.next, self.limit, self.hold_until)

    def renewed(self, now: float) -> None:
        """The lease was renewed at this time."""
        self.until = now + self.lease
        self.next = now + self.lease * _RENEW_AT

    def not_renewed(self, now: float) -> None:
        """The renewal has failed: it is tried again in half the time."""
        self.next = now + self.lease * _RENEW_AT / 2

    def cancel(self, reason: Exception) -> None:
        """Cancel the handler, if it runs. The first reason counts."""
        with self._lock:
            if self.reason is not None:
                return
            # For any other reason the messages are lost, or the end of the worker gives them back.
            if isinstance(reason, TimeLimitExceeded | HandlerCancelled):
                now = time.monotonic()
                self.give_up_at = now + max(min(_GRACE, (self.until - now) / 2), 0.0)
            self.reason = reason
            self._on_cancel()
            if self._interrupt is not None:
                self._interrupt()

    def end(self) -> bool:
        """The handler has ended, or is given up. False: the other came first, so the messages are settled already."""
        with self._lock:
            ended, self._ended = self._ended, True
            return not ended

    def give_up(self) -> None:
        """Settle the messages of a cancelled handler that does not end. Called by the thread of the renewer."""
        self.give_up_at = math.inf
        if self.reason is not None and self.end():
            self.given_up = True
            self._on_overdue(self.reason.with_traceback(_as_traceback(self._place())))

    def _place(self) -> list[FrameType]:
        """Where the handler is now, the innermost frame first.

        A coroutine whose event loop is blocked, perhaps by another handler, is where the thread of the loop is.
        """
        if self._loop is not None and asyncio.current_task(self._loop) is None:
            return _awaiting(self._coroutine)
        return _stack(self._thread)

    def run(self, handler: Callable[..., Any], *given: Any) -> Any:
        """Run a handler in this thread; ``cancel`` raises Cancelled in it."""
        thread = self._thread = threading.get_ident()
        self._interruptible(lambda: _raise_in(thread, Cancelled))
        try:
            return handler(*given)
        finally:
            # What was raised and has not come yet comes here, at the next turn of a loop. It is not taken back: CPython
            # before 3.13 would go on looking for it at every call, and never come back from one that is traced.
            try:  # and no context: to enter one is a call, at which it could come
                if self._uninterruptible() is not None:
                    for _ in range(2):
                        pass
            except Cancelled:
                pass

    def _interruptible(self, interrupt: Callable[[], object]) -> None:
        with self._lock:
            if self.reason is not None:
                raise Cancelled(str(self.reason))
            self._interrupt = interrupt

    def _uninterruptible(self) -> Exception | None:
        with self._lock:
            self._interrupt = None
            return self.reason

    def run_async(
        self, coroutine: Coroutine[Any, Any, Any], loop: asyncio.AbstractEventLoop, thread: int | None
    ) -> Any:
        """Run a coroutine on the loop, which this thread runs, and wait until it has ended, also when it is cancelled.

        Raises what it raises, in this thread: SystemExit and KeyboardInterrupt must not end the loop, on which other
        coroutines run.
        """
        self._coroutine, self._loop, self._thread = coroutine, loop, thread
        done: Future[Any] = Future()
        tasks: list[asyncio.Task[None]] = []

        async def caught() -> None:
            try:
                done.set_result(await coroutine)
            except asyncio.CancelledError:
                raise
            except BaseException as error:  # noqa: BLE001 - ``done.result`` raises it
                done.set_exception(error)

        def finished(task: asyncio.Task[None]) -> None:
            if task.cancelled():
                coroutine.close()  # it may not have begun
                done.set_exception(Cancelled())

        def stop() -> None:
            tasks[0].cancel()

        def start() -> None:
            tasks.append(loop.create_task(caught()))
            tasks[0].add_done_callback(finished)

        loop.call_soon_threadsafe(start)
        try:
            self._interruptible(lambda: loop.call_soon_threadsafe(stop))
        except Cancelled:
            loop.call_soon_threadsafe(stop)
        try:
            return done.result()
        finally:
            self._uninterruptible()


def _raise_in(thread: int, error: type[BaseException]) -> None:
    """Raise an exception in another thread as soon as that runs Python code."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(error))


def _stack(thread: int | None) -> list[FrameType]:
    """The frames of a thread, the innermost first."""
    frame, found = sys._current_frames().get(thread or 0), []
    while frame is not None:
        found.append(frame)
        frame = frame.f_back
    return found


def _awaiting(coroutine: Any) -> list[FrameType]:
    """The frames of a coroutine that waits, and of those that it awaits, the innermost first."""
    found: list[FrameType] = []
    while (frame := getattr(coroutine, "cr_frame", None)) is not None:
        found.insert(0, frame)
        coroutine = coroutine.cr_await
    return found


def _as_traceback(frames: Iterable[FrameType]) -> TracebackType | None:
    found = None
    for frame in frames:
        found = TracebackType(found, frame, frame.f_lasti, frame.f_lineno or 0)
    return found
