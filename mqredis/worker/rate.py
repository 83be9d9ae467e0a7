"""The rate limit of a consumer, which ``threads`` asks before each read."""

from __future__ import annotations

import threading
import time


class Rate:
    """A token bucket: so many messages per second, for all threads of a consumer."""

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        # When the next message may begin. Used under the lock.
        self._next = 0.0
        self._lock = threading.Lock()

    def pause(self, count: int) -> float:
        """Seconds to wait before the next ``count`` messages; they count as taken."""
        with self._lock:
            now = time.monotonic()
            start = max(self._next, now)
            self._next = start + count / self._per_second
            return start - now
