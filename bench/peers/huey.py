"""huey: its Redis storage pops a task, so a consumer that dies loses it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import huey

from bench.messages import LABEL, check, correlation_id, properties
from bench.peers.base import Peer, Tally


class Huey(Peer):
    """Tasks are queued and popped by the storage, and not run."""

    handler: Callable[[], object] | None = None

    def open(self) -> None:
        self.huey: Any = huey.RedisHuey("bench", url=self.url, blocking=True, read_timeout=5, results=False)

        def work(body: str, label: str, identity: str, properties: Any) -> None:
            check(body, self.text, label, identity, properties)
            if self.handler is not None:
                self.handler()

        self.work: Any = self.huey.task()(work)

    def close(self) -> None:
        self.huey.storage.conn.close()

    def send(self, first: int, count: int) -> None:
        for number in range(first, first + count):
            self.work(self.text, label=LABEL, identity=correlation_id(number), properties=properties(number))

    def receive(self, count: int) -> None:
        for _ in range(count):
            task = self.huey.dequeue()
            check(
                task.args[0], self.text, *(task.kwargs[name] for name in ("label", "identity", "properties"))
            )


class HueyWorker(Huey):
    """Its consumer with one worker thread."""

    def drain(self, count: int) -> list[float]:
        enough = threading.Event()
        tally = Tally(count, enough.set)
        self.handler = tally
        consumer = self.huey.create_consumer(workers=1, periodic=False, check_worker_health=False)
        consumer._set_signal_handlers = lambda: None  # they belong to the main thread of a program of its own
        consumer.start()
        enough.wait()
        consumer.stop(graceful=True)
        return tally.times
