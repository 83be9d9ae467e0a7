"""Open handles by the names of their queues, of which only some are kept.

A worker has one ``Handles`` for the queues to which its handlers send; kombu has one for queues to which it sends, and
one for those with bindings; a client of Django's backend has one for all its queues. A handle that is closed here may
be in use in another thread, which opens it again then (``Handles.use``). A handle that holds locks must not be opened
here, since its close ends them.
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
        self.manager = manager
        """The queue manager of the handles."""
        self._access = access
        # The one that was used least recently first. The lock guards it, and is not held during calls of the broker.
        self._handles: dict[str, Queue] = {}
        self._lock = threading.Lock()

    def open(self, name: str) -> Queue:
        """The handle of this queue. Raises QueueNotFound."""
        name = path_of(name)
        with self._lock:
            handle = self._handles.pop(name, None)
            if handle is not None:
                self._handles[name] = handle
                return handle
        opened = self.manager.open(name, self._access)
        dropped = None
        with self._lock:
            handle = self._handles.setdefault(name, opened)
            if handle is not opened:  # another thread has opened the queue meanwhile
                dropped = opened
            elif len(self._handles) > MOST:
                dropped = self._handles.pop(next(iter(self._handles)))
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
        with self._lock:
            handles = [*self._handles.values()]
            self._handles.clear()
        for handle in handles:
            close_handle(handle)


def close_handle(handle: Queue) -> None:
    """Close a handle at the end of its use. An error is logged."""
    try:
        handle.close()
    except MqError as error:
        log.debug("a handle could not be closed: %s", error)
