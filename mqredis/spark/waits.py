"""How a streaming query waits in the driver's Python process, for messages and for enough of them; and the subscription
that shows that the query runs.

The streaming readers use it. The channel of a subscription is what the broker looks at to tell whether a query runs
(``Backlog.alive``, by which ``planning`` refuses a second one).
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import Any

from mqredis.client import QueueManager
from mqredis.commands.address import Address
from mqredis.errors import BrokerUnavailable
from mqredis.keys import encode
from mqredis.operations import pipelines
from mqredis.spark.connection import manager_of
from mqredis.spark.options import Options, delay_seconds

# How often a query looks for a queue that does not exist yet, or whether enough messages have come.
POLL_SECONDS = 1.0


class LivenessSubscription:
    """A subscription for as long as this process lives, so that no other query takes over its claims meanwhile.

    It only protects a named consumer from a second query; where it cannot be had, the newer query wins.
    """

    def __init__(self) -> None:
        self._subscriptions: dict[tuple[str, str], Any] = {}

    def subscribe(self, manager: QueueManager, owner: str, lineage: str) -> None:
        """Subscribe, unless an earlier subscription is alive."""
        keys = manager.context.keys
        channel = keys.claim_channel(encode(owner), lineage)
        key = (keys.tag, channel)
        found = self._subscriptions.get(key)
        if found is not None and found.alive:
            return
        if found is not None:
            self._subscriptions.pop(key).close()
        with suppress(BrokerUnavailable):
            self._subscriptions[key] = manager.driver.subscribe(channel)

    def __del__(self) -> None:
        # Spark drops a reader without a call. A socket that is closed by the garbage collection warns.
        self.close()

    def close(self) -> None:
        """End the subscriptions."""
        while self._subscriptions:
            self._subscriptions.popitem()[1].close()


class MessageWaiter:
    """Waits until any queue of any manager holds a message, with one waiting reader for each manager."""

    def __init__(self) -> None:
        self._pid = 0
        self._waits: dict[str, Future[bool]] = {}
        self._pool: ThreadPoolExecutor | None = None

    def wait(self, url: str, queues: dict[str, list[tuple[Address, str]]], seconds: float) -> bool:
        """Wait up to ``seconds`` for a message that is newer than the SequentialID given with its queue. True: there is
        one, or there may be."""
        if not queues:  # their first messages create them, so the caller looks for them now and then
            time.sleep(min(seconds, POLL_SECONDS))
            return True
        if len(queues) == 1:
            ((name, addresses),) = queues.items()
            return _wait(manager_of(url, name), addresses, seconds)
        if self._pool is None or self._pid != os.getpid():
            self._pid, self._waits, self._pool = os.getpid(), {}, ThreadPoolExecutor(len(queues))
        for name, addresses in queues.items():
            if name not in self._waits:
                self._waits[name] = self._pool.submit(_wait, manager_of(url, name), addresses, seconds)
        done, _ = wait(self._waits.values(), timeout=seconds, return_when=FIRST_COMPLETED)
        for name, future in list(self._waits.items()):
            if future in done:
                del self._waits[name]
        return any(future.result() for future in done)


class MinimumMessages:
    """Delays a micro-batch until there are enough messages (options minMessagesPerTrigger, maxTriggerDelay)."""

    def __init__(self, options: Options) -> None:
        self._minimum = options.minMessagesPerTrigger
        self._delay = delay_seconds(options.maxTriggerDelay)
        self._poll = options.pollTimeoutMs / 1000
        self._since = time.monotonic()

    def wait(self, messages: int) -> bool:
        """True if these are too few as yet, after waiting for some time."""
        left = self._since + self._delay - time.monotonic()
        if messages < self._minimum and left > 0:
            time.sleep(min(self._poll, POLL_SECONDS, left))
            return True
        self._since = time.monotonic()
        return False


def _wait(manager: QueueManager, queues: Sequence[tuple[Address, str]], seconds: float) -> bool:
    return manager.run(pipelines.wait(manager.context, queues, seconds))
