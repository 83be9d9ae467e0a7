"""Messages that a thread has locked ahead of the one it handles: ``prefetch``."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from mqredis.client import LockedMessage, Queue
from mqredis.errors import MqError
from mqredis.operations import giveback, settle
from mqredis.worker.keeper import Held, Keeper
from mqredis.worker.outcomes import reached

log = logging.getLogger("mqredis.worker")

#: A run of messages should not take longer, in seconds: so long they wait, and so long may an end wait for its commit.
SOON = 0.1
#: The handler's own time counts, not that of what waits behind it.
_EVER = 1e9


class Ahead:
    """What one thread holds besides the message that it handles. Other threads renew it and give it back."""

    def __init__(self, most: int, lease: float, keeper: Keeper) -> None:
        self.most = most
        #: How many to lock next: more while runs are quick and end well, one after anything else.
        self.count = 1
        self._lease = lease
        self._keeper = keeper
        self._waiting: deque[LockedMessage] = deque()
        self._lock = threading.Lock()

    def run(
        self,
        queue: Queue,
        locks: Sequence[LockedMessage],
        handle: Callable[[LockedMessage], bool],
        done: Callable[[], Sequence[LockedMessage]],
        commit: Callable[[], None],
        ending: Callable[[], bool],
    ) -> None:
        """Handle them in their order until ``ending``; what was not begun then is given back.

        ``handle`` tells whether it went well. ``done``: those that wait for their commit, which ``commit`` makes.
        """
        begun = since = time.monotonic()
        self._waiting = deque(locks)
        held = Held(
            partial(self._renew, queue, done), self._lease, max_hold=_EVER, time_limit=None, ahead=True
        )
        self._keeper.add(held)
        well, now = True, begun
        try:
            while (lock := self._next(ending)) is not None:
                well = handle(lock) and well
                now = time.monotonic()
                if now - since > SOON and self._waiting:  # else the call that reads the next ones does it
                    commit()
                    since = now
        finally:
            self._keeper.remove(held)
            self.give_back()
        quick = well and now - begun < SOON
        self.count = min(self.count * 2, self.most) if quick else max(self.count // 2, 1) if well else 1

    def _next(self, ending: Callable[[], bool]) -> LockedMessage | None:
        with self._lock:
            while self._waiting and not ending():
                lock = self._waiting.popleft()
                if lock.expires_at > time.monotonic():
                    return lock
                log.warning(
                    "message %#018x waited too long for its turn; somebody else has it", lock.lookup_id
                )
        return None

    def give_back(self) -> None:
        """What was not begun is available again, in its old place. It was delivered, but that is no attempt."""
        with self._lock:
            waiting, self._waiting = self._waiting, deque()
        if waiting:
            self._settle(waiting[0].queue, giveback.orderly(), waiting, "given back")

    def _renew(self, queue: Queue, done: Callable[[], Sequence[LockedMessage]]) -> None:
        with self._lock:
            waiting = [*self._waiting]
        lost = self._settle(
            queue, "x", [*waiting, *(lock for lock in done() if lock.queue is queue)], "renewed"
        )
        with self._lock:
            self._waiting = deque(lock for lock in self._waiting if lock.key not in lost)

    def _settle(self, queue: Queue, action: str, locks: Sequence[LockedMessage], what: str) -> set[str]:
        """All in one call; answers which were lost."""
        settlements = [(action, lock.fence, lock.key) for lock in locks]
        try:
            ended = reached(lambda: queue.manager.run(settle.settle(queue.handle, settlements, self._lease)))
        except MqError as error:
            log.warning("%d message(s) of %s could not be %s: %s", len(locks), queue.name, what, error)
            return set()
        return {lock.key for lock in locks}.difference(key for key, _ in ended.lost)
