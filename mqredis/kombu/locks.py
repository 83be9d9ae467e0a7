"""Messages that were delivered to kombu and not yet acknowledged: their locks, and the renewal of their leases.

``transport`` has one ``Locks`` for each connection. Its channels settle the locks; a thread renews them. A tag is made
in ``Channel.received`` and is new for each delivery. docs/celery.md tells users what becomes of rejected messages.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from typing import NamedTuple

from mqredis.client import LockedMessage, Queue
from mqredis.commands.settlement import ABORT, COMMIT, REJECT, RENEW
from mqredis.errors import LockLost, QueueNotAvailable
from mqredis.models import Journal
from mqredis.operations import giveback, settle

log = logging.getLogger("mqredis.kombu")

# Locks that one call settles or renews.
_BATCH = 256


class Held(NamedTuple):
    """A message that was delivered, and when its lease is renewed next, on the monotonic clock."""

    lock: LockedMessage
    renew_at: float


class Locks:
    """Messages that were delivered and not yet acknowledged; their leases are renewed by a thread."""

    def __init__(self, lease: float) -> None:
        self._lease = lease
        self._held: dict[str, Held] = {}  # by delivery tag
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    def add(self, tag: str, lock: LockedMessage) -> None:
        """A message was delivered under this tag."""
        with self._changed:
            self._held[tag] = self._until_renewal(lock)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._renew, name="mqredis-kombu-leases", daemon=True)
                self._thread.start()

    def take(self, tag: str) -> LockedMessage | None:
        """Remove and return a message that is settled now; None if its lock was lost."""
        with self._changed:
            found = self._held.pop(tag, None)
        return found.lock if found else None

    def settle(self, tag: str, action: str) -> bool:
        """Acknowledge (COMMIT), give back (ABORT) or reject (REJECT) a message. False: its lock was lost.

        A rejected message goes to its dead letter exchange, or else to the queue's ``;poison``, as in workers.
        """
        lock = self.take(tag)
        if lock is None:
            log.warning("message %s is not held any more: it was or will be delivered again", tag)
            return False
        if action == REJECT and Journal.DEAD_LETTER not in lock.message.journal:
            self.settle_many([lock], giveback.ended("rejected", {}))
            return True
        try:
            {COMMIT: lock.commit, ABORT: lock.abort, REJECT: lock.reject}[action]()
        except (LockLost, QueueNotAvailable) as error:
            log.warning("message %s: %s", tag, error)
            return False
        return True

    def settle_many(self, locks: Sequence[LockedMessage], action: str) -> None:
        """Settle messages of one or more queues, in batches (see :meth:`settle`)."""
        for queue in {lock.queue for lock in locks}:
            own = settle.ends(action, locks, queue)
            for start in range(0, len(own), _BATCH):
                operation = settle.settle(queue.handle, own[start : start + _BATCH])
                try:
                    queue.manager.run(operation)
                except QueueNotAvailable as error:
                    log.warning("messages of %s: %s", queue.name, error)

    def close(self) -> None:
        """Stop renewing. Messages that are still locked return when their leases end."""
        with self._changed:
            self._closed = True
            self._held.clear()
            self._changed.notify()

    def _renew(self) -> None:
        while True:
            with self._changed:
                self._changed.wait(self._lease / 6)
                if self._closed:
                    return
                now = time.monotonic()
                due = {tag: held.lock for tag, held in self._held.items() if held.renew_at <= now}
            for queue in {lock.queue for lock in due.values()}:
                try:
                    self._extend(queue, {tag: lock for tag, lock in due.items() if lock.queue is queue})
                except Exception as error:  # noqa: BLE001 - the thread renews other leases, too
                    log.warning("leases of queue %s could not be renewed: %r", queue.name, error)

    def _until_renewal(self, lock: LockedMessage) -> Held:
        return Held(lock, time.monotonic() + self._lease / 3)

    def _extend(self, queue: Queue, due: dict[str, LockedMessage]) -> None:
        """Renew the leases of these messages of one queue, by their tags. Those that were lost are forgotten."""
        every = list(due.items())
        for start in range(0, len(every), _BATCH):
            batch = every[start : start + _BATCH]
            renewals = [(RENEW, lock.fence, lock.key) for _, lock in batch]
            settled = queue.manager.run(settle.settle(queue.handle, renewals, self._lease))
            lost = {lookup_id for lookup_id, _ in settled.lost}
            with self._changed:
                for tag, lock in batch:
                    if tag not in self._held:
                        continue  # settled meanwhile
                    if lock.key in lost:
                        del self._held[tag]
                        log.warning("message %s was lost: its lease had lapsed", tag)
                    else:
                        self._held[tag] = self._until_renewal(lock)
