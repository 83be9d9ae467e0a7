"""What a streaming query keeps open in the driver's Python process: the subscription that shows that it is alive, the
waiting reader of an idle query, and the thread that works while Spark writes its logs and plans."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from threading import Event
from typing import Any, TypeVar

from mqredis.client import QueueManager
from mqredis.commands.common import Address
from mqredis.errors import BrokerUnavailable
from mqredis.keys import encode
from mqredis.operations import pipelines
from mqredis.spark.connection import context_of, manager_of, run
from mqredis.spark.options import Options, delay_seconds

R = TypeVar("R")

# How often a query looks for a queue that does not exist yet, or whether enough messages have come.
LOOK_SECONDS = 1.0
# Messages that one call of a claim takes, or receives, at most (lua/claims/claim: run).
ONE_CALL = 1_000


class Beacon:
    """A subscription for as long as this process lives, so that no other query takes its claims over meanwhile.

    It only protects a named consumer from a second query; where it cannot be had, the newer query wins.
    """

    def __init__(self) -> None:
        self._held: dict[tuple[str, str], Any] = {}

    def hold(self, manager: QueueManager, owner: str, lineage: str) -> None:
        """Subscribe, unless an earlier subscription is alive."""
        keys = context_of(manager).keys
        channel = keys.claim_channel(encode(owner), lineage)
        key = (keys.tag, channel)
        held = self._held.get(key)
        if held is not None and held.alive:
            return
        if held is not None:
            self._held.pop(key).close()
        with suppress(BrokerUnavailable):
            self._held[key] = manager.driver.subscribe(channel)

    def __del__(self) -> None:
        # Spark drops a reader without a call. A socket that is closed by the garbage collection warns.
        self.close()

    def close(self) -> None:
        """End the subscriptions."""
        while self._held:
            self._held.popitem()[1].close()


class Idle:
    """Waits until any queue of any manager holds a message, with one waiting reader for each manager."""

    def __init__(self) -> None:
        self._pid = 0
        self._waits: dict[str, Future[bool]] = {}
        self._pool: ThreadPoolExecutor | None = None

    def wait(self, url: str, queues: dict[str, list[tuple[Address, str]]], seconds: float) -> bool:
        """Is there a message, newer than the SequentialID beside its queue? At once, or within ``seconds``."""
        if not queues:  # they are made by their first message, so look for them now and then
            time.sleep(min(seconds, LOOK_SECONDS))
            return True
        if len(queues) == 1:
            ((name, addresses),) = queues.items()
            return _wait(manager_of(url, name), addresses, seconds)
        if self._pool is None or self._pid != os.getpid():
            self._pid, self._waits, self._pool = os.getpid(), {}, ThreadPoolExecutor(max(len(queues), 1))
        for name, addresses in queues.items():
            if name not in self._waits:
                self._waits[name] = self._pool.submit(_wait, manager_of(url, name), addresses, seconds)
        done, _ = wait(self._waits.values(), timeout=seconds, return_when=FIRST_COMPLETED)
        for name, future in list(self._waits.items()):
            if future in done:
                del self._waits[name]
        return any(future.result() for future in done)


class Minimum:
    """Delays a micro-batch until there are enough messages (options minMessagesPerTrigger, maxTriggerDelay)."""

    def __init__(self, options: Options) -> None:
        self._least = options.minMessagesPerTrigger
        self._delay = delay_seconds(options.maxTriggerDelay)
        self._poll = options.pollTimeoutMs / 1000
        self._since = time.monotonic()

    def wait(self, messages: int) -> bool:
        """True: these are too few as yet; some time has been waited."""
        left = self._since + self._delay - time.monotonic()
        if messages < self._least and left > 0:
            time.sleep(min(self._poll, LOOK_SECONDS, left))
            return True
        self._since = time.monotonic()
        return False


class Beside:
    """Work in a thread, in two parts. Other calls wait for the end of the first part; the second part waits while other
    calls run."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._parts: list[Future[None]] = []
        self._free = Event()
        self._free.set()

    def start(self, first: Callable[[], None], rest: Callable[[], None]) -> None:
        """Begin it, once the work before is done. Raises what that one raised."""
        self.settle()
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1)
        begun = self._pool.submit(first)

        def go_on() -> None:
            if begun.exception() is None:
                rest()

        self._parts = [begun, self._pool.submit(go_on)]

    def begun(self) -> None:
        """Wait for the end of the first part. Raises what it raised."""
        for part in self._parts[:1]:
            part.result()

    @contextmanager
    def urgent(self) -> Iterator[None]:
        """What is done meanwhile goes before the second part."""
        self._free.clear()
        try:
            yield
        finally:
            self._free.set()

    def give_way(self) -> None:
        """Called by the second part between two steps: waits while something urgent is done."""
        self._free.wait()

    def settle(self) -> bool:
        """Wait for the end of it; False if there was nothing. Raises what it raised."""
        parts, self._parts = self._parts, []
        for part in parts:
            part.result()
        return bool(parts)


class Pair:
    """Two threads that run one loop of repeatable calls, so that the server always has a call to work on."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None

    def run(self, work: Callable[[], R], few: bool) -> R:
        """Do it here and in the other thread, unless there are ``few`` calls; both have ended then. Raises what it
        raised."""
        if few:
            return work()
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1)
        other = self._pool.submit(work)
        try:
            return work()
        finally:
            other.result()


def _wait(manager: QueueManager, queues: Sequence[tuple[Address, str]], seconds: float) -> bool:
    return run(manager, pipelines.wait(context_of(manager), queues, seconds))
