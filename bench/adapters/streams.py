"""Redis Streams by hand: XADD, XREADGROUP, then XACK and XDEL."""

from __future__ import annotations

import contextlib
import time
from typing import Any, ClassVar

import redis

from bench.adapters.base import PLAIN, Peer
from bench.payload import check_envelope, envelope

STREAM, GROUP, CONSUMER = "bench", "workers", "one"


class Streams(Peer):
    """redis-py, sync; entries are deleted once acknowledged, as a queue must."""

    works: ClassVar[tuple[str, ...]] = (*PLAIN, "drain")

    def open(self) -> None:
        self.client: Any = redis.Redis.from_url(self.url)
        with contextlib.suppress(redis.ResponseError):  # another process has made it
            self.client.xgroup_create(STREAM, GROUP, id="0", mkstream=True)

    def close(self) -> None:
        self.client.close()

    def send(self, first: int, count: int) -> None:
        for number in range(first, first + count):
            self.client.xadd(STREAM, {"d": envelope(number)})

    def receive(self, count: int) -> None:
        self.receive_batch(count, 1)

    def send_batch(self, first: int, count: int, size: int) -> None:
        for start in range(first, first + count, size):
            with self.client.pipeline(transaction=False) as pipe:
                for number in range(start, min(start + size, first + count)):
                    pipe.xadd(STREAM, {"d": envelope(number)})
                pipe.execute()

    def receive_batch(self, count: int, size: int) -> None:
        done = 0
        while done < count:
            answer = self.client.xreadgroup(GROUP, CONSUMER, {STREAM: ">"}, count=min(size, count - done))
            entries = answer[0][1]
            for _, fields in entries:
                check_envelope(fields[b"d"])
            ids = [entry_id for entry_id, _ in entries]
            with self.client.pipeline(transaction=False) as pipe:
                pipe.xack(STREAM, GROUP, *ids)
                pipe.xdel(STREAM, *ids)
                pipe.execute()
            done += len(ids)

    def arrivals(self, count: int) -> list[float]:
        times = []
        for _ in range(count):
            while not (answer := self.client.xreadgroup(GROUP, CONSUMER, {STREAM: ">"}, count=1, block=4000)):
                pass
            times.append(time.monotonic())
            entry, fields = answer[0][1][0]
            check_envelope(fields[b"d"])
            self.client.xack(STREAM, GROUP, entry)
            self.client.xdel(STREAM, entry)
        return times
