"""A thread that renews leases and watches time limits, beside the threads of the handlers.

``run`` has one; the loops and prefetch tell it what they hold.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import math
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from types import TracebackType
from typing import Any

from mqredis.errors import TransactionSequence
from mqredis.worker.outcomes import Cancelled, HandlerCancelled, TimeLimitExceeded

log = logging.getLogger("mqredis.worker")

# A lease is renewed when so much of it is over.
_RENEW_AT = 1 / 3
# Seconds that a cancelled handler has to end before its messages are given back, at most half of what its lease has
# left.
_GRACE = 2.0


class Held:
    """Messages on which a handler works, with their lease."""

    def __init__(
        self,
        renew: Callable[[], object],
        lease: float,
        *,
        max_hold: float,
        time_limit: float | None,
        on_cancel: Callable[[], object] = lambda: None,
        on_overdue: Callable[[Exception], object] = lambda _: None,
        prefetched: bool = False,
    ) -> None:
        # Prefetched messages have no running handler, so there is nothing to cancel.
        self.prefetched = prefetched
        now = time.monotonic()
        self.renew = renew
        self.lease = lease
        self.next = now + lease * _RENEW_AT
        self.until = now + lease
        self.hold_until = now + max_hold
        self.limit = now + time_limit if time_limit else None
        self.reason: Exception | None = None
        # When the messages are given back if the handler was cancelled and has not ended.
        self.give_up_at = math.inf
        self._on_cancel = on_cancel
        self._on_overdue = on_overdue
        self._ended = False
        self._thread: int | None = None
        self._interrupt: Callable[[], object] | None = None
        self._lock = threading.Lock()

    def due(self) -> float:
        """When the keeper has to act next, by ``time.monotonic()``: to renew, to cancel, or to give up."""
        if self.reason is not None:
            return self.give_up_at
        return min(self.next, self.limit) if self.limit is not None else self.next

    def cancel(self, reason: Exception) -> None:
        """Cancel the handler, if it runs. The first reason counts."""
        with self._lock:
            if self.reason is not None:
                return
            if isinstance(
                reason, TimeLimitExceeded | HandlerCancelled
            ):  # else the messages are lost, or given back
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
        """Settle the messages of a cancelled handler that does not end. Called by the thread of the keeper."""
        self.give_up_at = math.inf
        if self.reason is not None and self.end():
            self._on_overdue(self.reason.with_traceback(_stack(self._thread)))

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

    def run_async(self, coroutine: Coroutine[Any, Any, Any], loop: asyncio.AbstractEventLoop) -> Any:
        """Run a coroutine on the loop, and wait until it has ended, also when it is cancelled.

        Raises what it raises, in this thread: SystemExit and KeyboardInterrupt must not end the loop, on which other
        coroutines run.
        """
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
                done.set_exception(Cancelled(str(self.reason)))

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


def _stack(thread: int | None) -> TracebackType | None:
    """Where a thread is now, in the form of a traceback."""
    frame, found = sys._current_frames().get(thread or 0), None
    while frame is not None:
        found = TracebackType(found, frame, frame.f_lasti, frame.f_lineno or 0)
        frame = frame.f_back
    return found


class Keeper:
    """One thread that renews the leases of all messages of a worker, and cancels handlers at their time limits."""

    def __init__(self) -> None:
        self._held: set[Held] = set()
        # Used without the condition where no thread is notified, which saves two calls.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._closed = False
        self._thread: threading.Thread | None = None
        # When the thread checks next. Notifying it for each message would cost more than a short handler.
        self._looks = math.inf

    def add(self, held: Held) -> None:
        """Renew the lease of these messages from now on, and watch their handler."""
        with self._lock:
            self._held.add(held)
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="mqredis-leases", daemon=True)
                self._thread.start()
            if held.due() < self._looks:
                self._looks = held.due()
                self._changed.notify()

    def remove(self, held: Held) -> None:
        """Stop renewing these messages: they were settled."""
        with self._lock:
            self._held.discard(held)

    def cancel_all(self, reason: Exception) -> int:
        """Cancel every running handler, and return how many."""
        with self._changed:
            every = [held for held in self._held if not held.prefetched]
        for held in every:
            held.cancel(reason)
        return len(every)

    def close(self) -> None:
        """End the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(5)

    def _watch(self) -> None:
        while True:
            with self._changed:
                now = time.monotonic()
                due = [held for held in self._held if held.due() <= now]
                if self._closed:
                    return
                if not due:
                    # Messages that were settled early leave this check behind: the next one is due no sooner.
                    kept = self._looks if self._looks > now else math.inf
                    self._looks = min((held.due() for held in self._held), default=kept)
                    self._changed.wait(None if self._looks == math.inf else max(self._looks - now, 0.001))
                    continue
            for held in due:
                self._serve(held)

    def _serve(self, held: Held) -> None:
        now = time.monotonic()
        if held.reason is not None:
            try:
                held.give_up()
            except Exception as error:  # noqa: BLE001 - the thread serves other messages, too
                log.warning("the messages of a cancelled handler could not be given back: %s", error)
            return
        if held.limit is not None and now >= held.limit:
            held.cancel(TimeLimitExceeded("the handler took longer than its time limit"))
            return
        if now < held.next:
            return
        if now >= held.hold_until:
            held.cancel(TimeLimitExceeded("the message was held as long as max_hold allows"))
            return
        try:
            held.renew()
        except TransactionSequence as lost:
            with self._changed:
                if held not in self._held:
                    return  # settled meanwhile
            held.cancel(lost)
        except Exception as error:  # noqa: BLE001 - the thread serves other messages, too
            log.warning("a lease could not be renewed: %r", error)
            held.next = now + held.lease * _RENEW_AT / 2
            if now > held.until:
                held.cancel(error)
        else:
            held.until = now + held.lease
            held.next = now + held.lease * _RENEW_AT
