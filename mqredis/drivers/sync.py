"""The blocking driver: runs operations in the caller's thread. Thread safe.

``mqredis.connect`` makes one, and ``QueueManager.run`` calls ``run``. ``calls`` does the work, which is generated from
``calls_aio``; docs/extending.md lists what integrations may use.
"""

from __future__ import annotations

import threading

from mqredis.drivers.calls import Calls
from mqredis.drivers.net.redaction import redact
from mqredis.drivers.net.wire import REDIS_ERRORS
from mqredis.drivers.subscription import Subscription
from mqredis.drivers.waiting.registry import WaiterRegistry
from mqredis.errors import BrokerUnavailable


class Driver(Calls):
    """Runs operations against one queue manager."""

    def _setup(self) -> None:
        # Re-entrant, since a signal handler may make a call while its thread opens the session.
        self._opening = threading.RLock()
        self._waiters = WaiterRegistry(self)

    def after_fork(self) -> None:
        """In a child process: leave the parent's session and connections alone, and open new ones when needed."""
        self._waiters.after_fork()
        super().after_fork()

    def subscribe(self, channel: str) -> Subscription:
        """Subscribe to a channel. Raises BrokerUnavailable."""
        try:
            return Subscription(self.backend.pubsub_connection(), channel)
        except REDIS_ERRORS as error:
            raise BrokerUnavailable(redact(error)) from None
