"""Open handles by the names of their queues, of which only some are kept.

A worker has one ``Handles`` for the queues to which its handlers send; kombu has one for queues to which it sends, and
one for those with bindings. A handle that is closed here may be in use in another thread, which opens it again then
(``Handles.use``). A handle that holds locks must not be opened here, since its close ends them.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TypeVar

from mqredis.client import Queue, QueueManager
from mqredis.errors import InvalidHandle, MqError, QueueNotAvailable
from mqredis.keys import path_of
from mqredis.models import Access

R = TypeVar("R")
log = logging.getLogger("mqredis")

# Most handles that are kept. Without a limit, each temporary response queue of a request would leave one behind.
MOST = 256


class Handles:
    """Handles by the names of their queues, which all threads share."""

    def __init__(self, manager: QueueManager, access: Access = Access.ALL) -> None:
        self._manager = manager
        self._access = access
        # The one that was used least recently first. Used under the lock.
        self._handles: dict[str, Queue] = {}
        self._lock = threading.Lock()

    def open(self, name: str) -> Queue:
        """The handle of this queue. Raises QueueNotFound."""
        name = path_of(name)
        with self._lock:
            handle = self._handles.pop(name, None) or self._manager.open(name, self._access)
            self._handles[name] = handle
            dropped = self._handles.pop(next(iter(self._handles))) if len(self._handles) > MOST else None
        if dropped is not None:
            close_handle(dropped)
        return handle

    def _reopen(self, handle: Queue) -> Queue:
        """A new handle in place of one that was closed to keep another, or whose queue was deleted. Raises
        QueueNotFound."""
        with self._lock:
            if self._handles.get(handle.name) is handle:
                del self._handles[handle.name]
        return self.open(handle.name)

    def use(self, name: str, work: Callable[[Queue], R]) -> R:
        """The result of ``work`` with the handle of this queue. Raises QueueNotFound.

        ``work`` is begun again with a new handle if this one was closed to keep another, or its queue was deleted.
        """
        handle = self.open(name)
        try:
            return work(handle)
        except (InvalidHandle, QueueNotAvailable):
            return work(self._reopen(handle))

    def close(self) -> None:
        """Close all handles."""
        while self._handles:
            close_handle(self._handles.popitem()[1])


def close_handle(handle: Queue) -> None:
    """Close a handle at the end of its use. An error is logged."""
    try:
        handle.close()
    except MqError as error:
        log.debug("a handle could not be closed: %s", error)
