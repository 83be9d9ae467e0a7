"""The rate limit of a consumer.

``Worker.consumer`` reads it when a handler is registered, and ``threads`` asks it before each read. docs/worker.md
describes the text. A pause counts ``Consumer.batch`` messages, whether the read brings as many or none.
"""

from __future__ import annotations

import re
import threading
import time

from mqredis.errors import InvalidArgument

_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*/\s*([smh])")
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def rate_of(text: object) -> float:
    """Messages per second, from "10/s", "100/m" or "1000/h"."""
    match = _RATE.fullmatch(text) if isinstance(text, str) else None
    if match is None or float(match[1]) <= 0:
        raise InvalidArgument(f"rate must look like 10/s, 100/m or 1000/h, not {text!r:.40}")
    return float(match[1]) / _UNITS[match[2]]


class Rate:
    """Spaces the messages of all threads of a consumer: so many per second, and no burst after a pause."""

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
