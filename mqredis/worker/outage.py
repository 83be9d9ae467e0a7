"""Since when a worker cannot reach its broker, for the log.

``run`` has one; ``threads`` and the heartbeat tell it how their calls ended.
"""

from __future__ import annotations

import logging
import threading
import time

from mqredis.errors import BrokerUnavailable, MqError

log = logging.getLogger("mqredis.worker")


class Outage:
    """The time from the first call of a worker that did not reach the broker to the next one that did."""

    def __init__(self) -> None:
        # Changed under the lock.
        self._since: float | None = None
        self._lock = threading.Lock()

    def failed(self, error: MqError) -> None:
        """A call has failed with this error, which need not be one of the connection."""
        if isinstance(error, BrokerUnavailable):
            with self._lock:
                self._since = self._since or time.monotonic()

    def over(self) -> None:
        """A call has succeeded. The first one after an outage is logged."""
        if self._since is None:
            return
        with self._lock:
            since, self._since = self._since, None
        if since is not None:
            log.info(
                "the broker can be reached again, %.1f s after the first failure", time.monotonic() - since
            )
