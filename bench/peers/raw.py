"""Plain redis-py: a reliable list, to which all ratios are (``peers.UNIT``), and a stream with a consumer group."""

from __future__ import annotations

import time
from typing import Any

import redis
import redis.asyncio

from bench.messages import check_envelope, envelope
from bench.peers.base import AsyncPeer, Peer

QUEUE, BUSY, TARGET, GROUP, CONSUMER = "bench", "bench:busy", "bench:target", "workers", "one"


class RawList(Peer):
    """LPUSH; LMOVE to a list of messages in progress; LREM there."""

    def open(self) -> None:
        # BLMOVE waits longer than redis-py waits for a reply by default.
        self.client: Any = redis.Redis.from_url(self.url, socket_timeout=None)
        self.client.ping()

    def close(self) -> None:
        self.client.close()

    def send(self, first: int, count: int) -> None:
        for number in range(first, first + count):
            self.client.lpush(QUEUE, envelope(number, self.text))

    def receive(self, count: int) -> None:
        for _ in range(count):
            data = self.client.lmove(QUEUE, BUSY, "RIGHT", "LEFT")
            check_envelope(data, self.text)
            self.client.lrem(BUSY, 1, data)

    def send_batch(self, first: int, count: int, size: int) -> None:
        for start in range(first, first + count, size):
            numbers = range(start, min(start + size, first + count))
            self.client.lpush(QUEUE, *[envelope(number, self.text) for number in numbers])

    def receive_batch(self, count: int, size: int) -> None:
        for _ in range(0, count, size):
            with self.client.pipeline(transaction=False) as pipe:
                for _ in range(size):
                    pipe.lmove(QUEUE, BUSY, "RIGHT", "LEFT")
                batch = pipe.execute()
            for data in batch:
                check_envelope(data, self.text)
            with self.client.pipeline(transaction=False) as pipe:
                for data in batch:
                    pipe.lrem(BUSY, 1, data)
                pipe.execute()

    def transact(self, count: int) -> None:
        for _ in range(count):
            data = self.client.lmove(QUEUE, BUSY, "RIGHT", "LEFT")
            check_envelope(data, self.text)
            self.client.lpush(TARGET, data)
            self.client.lrem(BUSY, 1, data)

    def drain(self, count: int) -> list[float]:
        times = []
        for _ in range(count):
            data = self.client.blmove(QUEUE, BUSY, 30, "RIGHT", "LEFT")
            times.append(time.monotonic())
            check_envelope(data, self.text)
            self.client.lrem(BUSY, 1, data)
        return times


class RawAsyncio(AsyncPeer):
    """The list with redis.asyncio, in one task."""

    def open(self) -> None:
        self.client: Any = redis.asyncio.Redis.from_url(self.url)

    def close(self) -> None:
        self.wait(self.client.aclose())

    def send(self, first: int, count: int) -> None:
        async def one(start: int, many: int) -> None:
            for number in range(first + start, first + start + many):
                await self.client.lpush(QUEUE, envelope(number, self.text))

        self.share(one, count)

    def receive(self, count: int) -> None:
        async def one(_: int, many: int) -> None:
            for _ in range(many):
                data = await self.client.lmove(QUEUE, BUSY, "RIGHT", "LEFT")
                check_envelope(data, self.text)
                await self.client.lrem(BUSY, 1, data)

        self.share(one, count)


class RawAsyncio20(RawAsyncio):
    """Twenty tasks that share a pool of connections."""

    tasks = 20


class Streams(Peer):
    """XADD, XREADGROUP, then XACK and XDEL."""

    def open(self) -> None:
        self.client: Any = redis.Redis.from_url(self.url)
        self.client.xgroup_create(QUEUE, GROUP, id="0", mkstream=True)

    def close(self) -> None:
        self.client.close()

    def send(self, first: int, count: int) -> None:
        for number in range(first, first + count):
            self.client.xadd(QUEUE, {"d": envelope(number, self.text)})

    def receive(self, count: int) -> None:
        self.receive_batch(count, 1)

    def send_batch(self, first: int, count: int, size: int) -> None:
        for start in range(first, first + count, size):
            with self.client.pipeline(transaction=False) as pipe:
                for number in range(start, min(start + size, first + count)):
                    pipe.xadd(QUEUE, {"d": envelope(number, self.text)})
                pipe.execute()

    def receive_batch(self, count: int, size: int) -> None:
        done = 0
        while done < count:
            answer = self.client.xreadgroup(GROUP, CONSUMER, {QUEUE: ">"}, count=min(size, count - done))
            entries = answer[0][1]
            for _, fields in entries:
                check_envelope(fields[b"d"], self.text)
            ids = [entry_id for entry_id, _ in entries]
            with self.client.pipeline(transaction=False) as pipe:
                pipe.xack(QUEUE, GROUP, *ids)
                pipe.xdel(QUEUE, *ids)
                pipe.execute()
            done += len(ids)
