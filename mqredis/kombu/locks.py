"""The messages that a kombu connection has locked: their delivery tags, and the renewal of their leases.

``transport`` has one ``Locks`` for each connection. Messages are added when they are locked, and delivered later; a
thread renews them in between, too. The channels settle them. docs/celery.md tells users what becomes of rejected
messages.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence

from mqredis.client import LockedMessage, Queue
from mqredis.commands.settlement import ABORT, COMMIT, REJECT, RENEW
from mqredis.errors import InvalidHandle, LockLost, QueueNotAvailable
from mqredis.models import Journal
from mqredis.operations import giveback
from mqredis.operations.locked import mark_renewed
from mqredis.operations.settle import settle_locks

log = logging.getLogger("mqredis.kombu")


class Locks:
    """Locked messages by their delivery tags; a thread renews their leases, of ``lease`` seconds each."""

    def __init__(self, lease: float) -> None:
        self._lease = lease
        # It guards what follows, and is not held during calls of the broker.
        self._changed = threading.Condition()
        self._held: dict[str, LockedMessage] = {}
        self._thread: threading.Thread | None = None
        self._closed = False

    def add(self, locks: Iterable[LockedMessage]) -> list[str]:
        """Hold locked messages until they are settled. Returns their tags, which are new for each delivery."""
        added = {f"{lock.key}.{lock.fence}": lock for lock in locks}
        with self._changed:
            self._held.update(added)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._renew, name="mqredis-kombu-leases", daemon=True)
                self._thread.start()
        return list(added)

    def held(self, tag: str) -> LockedMessage | None:
        """The message of this tag, which is about to be delivered; None if its lock was lost or its lease is over."""
        with self._changed:
            lock = self._held.get(tag)
        if lock is None or lock.expires_at > time.monotonic():
            return lock
        log.warning("the lease of message %s lapsed before its delivery; it is delivered again", tag)
        self.give_back([tag])
        return None

    def _take(self, tag: str) -> LockedMessage | None:
        """Remove and return a message that is settled now; None if its lock was lost."""
        with self._changed:
            return self._held.pop(tag, None)

    def settle(self, tag: str, action: str) -> bool:
        """Acknowledge (COMMIT), give back (ABORT) or reject (REJECT) a message. False: its lock was lost.

        A rejected message goes to its dead letter exchange, or else to the queue's ``;poison``, as in workers.
        """
        lock = self._take(tag)
        if lock is None:
            log.warning("message %s is not held any more: it was or will be delivered again", tag)
            return False
        if action == REJECT and Journal.DEAD_LETTER not in lock.message.journal:
            self._end([lock], giveback.final_failure("rejected", {}))
            return True
        ends: dict[str, Callable[[], None]] = {COMMIT: lock.commit, ABORT: lock.abort, REJECT: lock.reject}
        try:
            ends[action]()
        except (InvalidHandle, LockLost, QueueNotAvailable) as error:
            log.warning("message %s: %s", tag, error)
            return False
        return True

    def give_back(self, tags: Iterable[str]) -> None:
        """Return messages to their places. Their deliveries count as no attempts."""
        taken = [self._take(tag) for tag in tags]
        self._end([lock for lock in taken if lock is not None], giveback.unattempted())

    def _end(self, locks: Sequence[LockedMessage], action: str) -> None:
        for queue in {lock.queue for lock in locks}:
            try:
                lost = self._settle(queue, action, locks)
            except QueueNotAvailable as error:
                # They are gone with their queue, as with one that is deleted when its consumer ends: no warning.
                log.debug("messages of %s: %s", queue.name, error)
            else:
                for lookup_id in lost:
                    log.warning(
                        "the lock on message %s is lost: it was or will be delivered again", lookup_id
                    )

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
                soon = time.monotonic() + self._lease * 2 / 3
                due = {tag: lock for tag, lock in self._held.items() if lock.expires_at <= soon}
            for queue in {lock.queue for lock in due.values()}:
                try:
                    self._extend(queue, {tag: lock for tag, lock in due.items() if lock.queue is queue})
                except Exception as error:  # noqa: BLE001 - the thread renews other leases, too
                    log.warning("leases of queue %s could not be renewed: %r", queue.name, error)

    def _extend(self, queue: Queue, due: dict[str, LockedMessage]) -> None:
        """Renew the leases of these messages of one queue, by their tags. Those that were lost are forgotten."""
        until = time.monotonic() + self._lease
        lost = self._settle(queue, RENEW, due.values())
        with self._changed:
            for tag, lock in due.items():
                if lock.key not in lost:
                    mark_renewed(lock, until)
                elif self._held.pop(tag, None) is not None:  # else it was settled meanwhile
                    log.warning("message %s was lost: its lease had lapsed", tag)

    def _settle(self, queue: Queue, action: str, locks: Iterable[LockedMessage]) -> set[str]:
        """Settle the locks of one queue. Returns the lookup ids of those that were lost."""
        settled = queue.manager.run(settle_locks(queue, action, locks, self._lease))
        return {lookup_id for lookup_id, _ in settled.lost}
