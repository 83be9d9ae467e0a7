"""Since when a worker cannot reach its broker, for the log.

``run`` has one; its loops tell it how their reads ended.
"""

from __future__ import annotations

import logging
import threading
import time

log = logging.getLogger("mqredis.worker")


class Outage:
    """The time from the first failed read of a worker to its next successful one."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._lock = threading.Lock()

    def failed(self) -> None:
        """A read has failed."""
        with self._lock:
            self._since = self._since or time.monotonic()

    def over(self) -> None:
        """A read has succeeded. The first one after an outage is logged."""
        if self._since is None:
            return
        with self._lock:
            since, self._since = self._since, None
        if since is not None:
            log.info("the worker reads again, %.1f s after the first failed read", time.monotonic() - since)
