"""The handles of the queues to which the handlers of a worker send.

``run`` makes one for the worker, and the units use it; ``queues`` takes ``close_handle`` from it. A handle that is
closed here may be in use in another thread: ``Unit`` opens it again then.
"""

from __future__ import annotations

import logging
import threading

from mqredis.client import Queue, QueueManager
from mqredis.errors import MqError

log = logging.getLogger("mqredis.worker")

# Most handles that are kept. Without a limit, each temporary response queue of a request would leave one behind.
MOST = 256


class Targets:
    """Handles by the names of their queues, which all threads share."""

    def __init__(self, manager: QueueManager) -> None:
        self._manager = manager
        # The one that was used least recently first. Used under the lock.
        self._handles: dict[str, Queue] = {}
        self._lock = threading.Lock()

    def open(self, name: str) -> Queue:
        """The handle of this queue. Raises QueueNotFound."""
        with self._lock:
            handle = self._handles.pop(name, None) or self._manager.open(name)
            self._handles[name] = handle
            dropped = self._handles.pop(next(iter(self._handles))) if len(self._handles) > MOST else None
        if dropped is not None:
            close_handle(dropped)
        return handle

    def reopen(self, handle: Queue) -> Queue:
        """A new handle in place of one that was closed to keep another, or whose queue was deleted. Raises
        QueueNotFound."""
        with self._lock:
            if self._handles.get(handle.name) is handle:
                del self._handles[handle.name]
        return self.open(handle.name)

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
