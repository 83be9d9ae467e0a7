"""The locks of handled messages whose commit is still to be sent.

``lock_loop`` makes one for each thread. The order of the locks is that in which their messages were handled.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

from mqredis.client import LockedMessage


class HandledLocks:
    """A list that the thread of a loop fills, and that another thread may empty when the worker ends.

    A lock is in one place at a time: here, or with the caller of ``take``. So no lock is committed twice.
    """

    def __init__(self) -> None:
        # Used under the mutex.
        self._locks: list[LockedMessage] = []
        self._mutex = threading.Lock()

    def add(self, locks: Iterable[LockedMessage]) -> None:
        """Add locks of messages that were handled."""
        with self._mutex:
            self._locks.extend(locks)

    def take(self) -> list[LockedMessage]:
        """Remove and return all, in order to commit them."""
        with self._mutex:
            taken, self._locks = self._locks, []
        return taken

    def restore(self, locks: list[LockedMessage]) -> None:
        """Put locks that could not be committed back in front."""
        with self._mutex:
            self._locks = [*locks, *self._locks]

    def copy(self) -> list[LockedMessage]:
        """The locks that were not taken yet."""
        with self._mutex:
            return [*self._locks]
