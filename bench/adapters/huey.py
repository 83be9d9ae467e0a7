"""huey: its Redis storage pops, so a consumer that dies loses what it took."""

from __future__ import annotations

from typing import Any

import huey

from bench.adapters.base import Peer
from bench.payload import BODY, check, correlation_id, properties


class Huey(Peer):
    """Tasks are queued and popped by the storage, and not run."""

    acknowledges = False

    def open(self) -> None:
        self.huey: Any = huey.RedisHuey("bench", url=self.url, blocking=True, read_timeout=5, results=False)

        def work(body: str, **_: Any) -> None:
            check(body)

        self.work: Any = self.huey.task()(work)

    def close(self) -> None:
        self.huey.storage.conn.close()

    def send(self, first: int, count: int) -> None:
        for number in range(first, first + count):
            self.work(BODY, id=correlation_id(number), properties=properties(number))

    def receive(self, count: int) -> None:
        for _ in range(count):
            check(self.huey.dequeue().args[0])
