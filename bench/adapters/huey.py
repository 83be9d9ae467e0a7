"""huey: its Redis storage pops, so a consumer that dies loses what it took."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import huey

from bench.adapters.base import Peer, Tally
from bench.payload import BODY, check, correlation_id, properties


class Huey(Peer):
    """Tasks are queued and popped by the storage, and not run."""

    acknowledges = False
    tally: Callable[[object], None] = staticmethod(check)

    def open(self) -> None:
        self.huey: Any = huey.RedisHuey("bench", url=self.url, blocking=True, read_timeout=5, results=False)

        def work(body: str, **_: Any) -> None:
            self.tally(body)

        self.work: Any = self.huey.task()(work)

    def close(self) -> None:
        self.huey.storage.conn.close()

    def send(self, first: int, count: int) -> None:
        for number in range(first, first + count):
            self.work(BODY, id=correlation_id(number), properties=properties(number))

    def receive(self, count: int) -> None:
        for _ in range(count):
            check(self.huey.dequeue().args[0])


class HueyWorker(Huey):
    """Its consumer with one worker thread."""

    works = ("send", "drain")
    settings = "one worker thread, as it comes"

    def arrivals(self, count: int) -> list[float]:
        enough = threading.Event()
        tally = Tally(count, enough.set)
        self.tally = tally
        consumer = self.huey.create_consumer(workers=1, periodic=False, check_worker_health=False)
        consumer._set_signal_handlers = lambda: None  # they belong to the main thread of a program of its own
        consumer.start()
        enough.wait()
        consumer.stop(graceful=True)
        return tally.times
