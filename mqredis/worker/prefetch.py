"""Prefetched messages: a thread of a worker locks several with one call and handles them one by one.

``loop`` makes one, and ``lock_loop`` runs it in the thread of the handlers. While it runs, the thread of
``lease_renewer`` renews the leases, and ``threads`` may call ``give_back`` from the thread that ends the worker.
docs/worker.md (Prefetch) tells users of the numbers and effects, and tests/contract/test_cost.py counts the calls.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from mqredis.client import LockedMessage, Queue
from mqredis.commands.settlement import RENEW
from mqredis.errors import MqError
from mqredis.operations import giveback
from mqredis.operations.locked import mark_renewed
from mqredis.operations.settle import settle_locks
from mqredis.worker.held_messages import HeldMessages
from mqredis.worker.lease_renewer import LeaseRenewer
from mqredis.worker.outcomes import accept_lower_durability

log = logging.getLogger("mqredis.worker")

QUICK_RUN_SECONDS = 0.1
"""A thread aims to handle its prefetched messages within this time, and commits handled ones at least this often."""

# ``max_hold`` limits the time in the handler, not the time that a message waits for its handler.
_NO_LIMIT = 1e9


class Prefetch:
    """The messages that one thread has locked and not begun."""

    def __init__(self, most: int, lease: float, renewer: LeaseRenewer) -> None:
        self.most = most
        self.count = 1
        """How many messages the next call locks. Only the thread of the handlers uses it."""
        self._lease = lease
        self._renewer = renewer
        # Those that were not begun. Used under the lock, as all threads may give them back.
        self._waiting: deque[LockedMessage] = deque()
        self._lock = threading.Lock()

    def run(
        self,
        queue: Queue,
        locks: Sequence[LockedMessage],
        handle: Callable[[LockedMessage], bool],
        done: Callable[[], Sequence[LockedMessage]],
        commit: Callable[[], None],
        must_stop: Callable[[], bool],
    ) -> None:
        """Handle the messages in their order. When ``must_stop()`` is true, give back those that were not begun.

        :param handle: handles one message and returns whether it succeeded.
        :param done: returns the handled messages whose commit has not been sent; ``commit`` sends it.
        """
        begun = since = time.monotonic()
        with self._lock:
            self._waiting = deque(locks)
        held = HeldMessages(
            partial(self._renew, queue, done),
            self._lease,
            max_hold=_NO_LIMIT,
            time_limit=None,
        )
        self._renewer.add(held)
        well, now = True, begun
        try:
            while (lock := self._next(must_stop)) is not None:
                well = handle(lock) and well
                now = time.monotonic()
                # After the last message, the call that reads the next ones commits the handled ones.
                if now - since > QUICK_RUN_SECONDS and self._waiting:
                    commit()
                    since = now
        finally:
            self._renewer.remove(held)
            self.give_back()
        # Twice as many after a quick run, half after a slow one, one after a failure.
        quick = well and now - begun < QUICK_RUN_SECONDS
        self.count = min(self.count * 2, self.most) if quick else max(self.count // 2, 1) if well else 1

    def _next(self, must_stop: Callable[[], bool]) -> LockedMessage | None:
        with self._lock:
            while self._waiting and not must_stop():
                lock = self._waiting.popleft()
                if lock.expires_at > time.monotonic():
                    return lock
                log.warning(
                    "the lease of message %#018x lapsed before its handler began; it is delivered again",
                    lock.lookup_id,
                )
        return None

    def give_back(self) -> None:
        """Give back the messages that were not begun: each returns to its place, and this is not a failed attempt."""
        with self._lock:
            waiting, self._waiting = self._waiting, deque()
        if not waiting:
            return
        queue = waiting[0].queue
        try:
            self._settle(queue, giveback.unattempted(), waiting)
        except MqError as error:
            log.warning("%d message(s) of %s could not be given back: %s", len(waiting), queue.name, error)

    def _renew(self, queue: Queue, done: Callable[[], Sequence[LockedMessage]]) -> None:
        """Renew the leases of all messages. Raises MqError.

        Handled ones are renewed, too; their commit tells which of them were lost.
        """
        with self._lock:
            waiting = [*self._waiting]
        until = time.monotonic() + self._lease
        lost = self._settle(queue, RENEW, [*waiting, *done()])
        with self._lock:
            for lock in waiting:
                mark_renewed(lock, until)
            self._waiting = deque(lock for lock in self._waiting if lock.key not in lost)

    def _settle(self, queue: Queue, action: str, locks: Sequence[LockedMessage]) -> set[str]:
        """Settle those of the messages that are of this queue with one call, and return the keys of the locks that were
        lost. Raises MqError."""
        operation = settle_locks(queue, action, locks, self._lease)
        ended = accept_lower_durability(partial(queue.manager.run, operation))
        return {key for key, _ in ended.lost}
