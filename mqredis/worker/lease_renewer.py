"""A thread that renews leases and watches time limits, beside the threads of the handlers.

``run`` has one; ``attempts`` and ``prefetch`` tell it what they hold. ``heartbeat`` and ``liveness`` ask it for the
handlers that run, and ``threads`` lets it cancel all of them. Its thread calls the functions that a
``HeldMessages`` was given, so none of these may wait for long: other leases would lapse.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Sequence
from typing import NamedTuple

from mqredis.errors import TransactionSequence
from mqredis.models import Message
from mqredis.worker.consumer import Consumer
from mqredis.worker.held_messages import HeldMessages
from mqredis.worker.outcomes import TimeLimitExceeded

log = logging.getLogger("mqredis.worker")


class Handling(NamedTuple):
    """A handler that runs now."""

    consumer: Consumer
    messages: Sequence[Message]
    since: float
    """time.monotonic() of its start."""


class LeaseRenewer:
    """One thread that renews the leases of all messages of a worker, and cancels handlers at their time limits."""

    def __init__(self) -> None:
        # All attributes are read and changed under this lock, which ``_changed`` has, too. It is used without the
        # condition where no thread is notified, which saves two calls.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        # What is held, in the order of its beginning; None: no handler works on it yet, so there is nothing to cancel.
        self._held: dict[HeldMessages, Handling | None] = {}
        self._closed = False
        self._thread: threading.Thread | None = None
        # When the thread checks next. Notifying it for each message would cost more than a short handler.
        self._looks = math.inf

    def add(self, held: HeldMessages, handling: Handling | None = None) -> None:
        """Renew the lease of these messages from now on, and watch their handler; None: none has begun."""
        with self._lock:
            self._held[held] = handling
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="mqredis-leases", daemon=True)
                self._thread.start()
            self._look_at(held.due())

    def _look_at(self, due: float) -> None:
        """Let the thread check at this time, unless it does so earlier. Called under the lock."""
        if due < self._looks:
            self._looks = due
            self._changed.notify()

    def remove(self, held: HeldMessages) -> None:
        """Stop renewing these messages: they were settled."""
        with self._lock:
            self._held.pop(held, None)

    def handlers(self) -> dict[HeldMessages, Handling]:
        """The handlers that run now, the one that began first first."""
        with self._lock:
            return {held: handling for held, handling in self._held.items() if handling is not None}

    def cancel(self, held: HeldMessages, reason: Exception) -> None:
        """Cancel a handler. If it does not end, its messages are given back at ``HeldMessages.give_up_at``."""
        held.cancel(reason)
        with self._lock:
            self._look_at(held.due())

    def cancel_all(self, reason: Exception) -> int:
        """Cancel every running handler, and return how many."""
        every = self.handlers()
        for held in every:
            self.cancel(held, reason)
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

    def _serve(self, held: HeldMessages) -> None:
        now = time.monotonic()
        if held.reason is not None:
            try:
                held.give_up()
            except Exception as error:  # noqa: BLE001 - the thread serves other messages, too
                log.warning("the messages of a cancelled handler could not be given back: %s", error)
            return
        if now >= held.limit:
            held.cancel(TimeLimitExceeded("the handler took longer than its time limit"))
            return
        if now >= held.hold_until:
            held.cancel(TimeLimitExceeded("the message was held as long as max_hold allows"))
            return
        if now < held.next:
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
            held.not_renewed(now)
            if now > held.until:
                held.cancel(error)
        else:
            held.renewed(now)
