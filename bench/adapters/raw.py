"""The unit of every table: the reliable list that people write by hand, with redis-py and hiredis.

Send: LPUSH. Receive: LMOVE to a list of what is in hand. Acknowledge: LREM from there.
"""

from __future__ import annotations

import socket
import time
from typing import Any, ClassVar
from urllib.parse import urlsplit

import hiredis
import redis
import redis.asyncio

from bench.adapters.base import WORKS, AsyncPeer, Peer
from bench.payload import check_envelope, envelope

QUEUE, BUSY, TARGET = "bench", "bench:busy", "bench:target"


class RawList(Peer):
    """redis-py, sync."""

    works: ClassVar[tuple[str, ...]] = WORKS

    def open(self) -> None:
        self.client = redis.Redis.from_url(self.url)
        self.client.ping()

    def close(self) -> None:
        self.client.close()

    def send(self, first: int, count: int) -> None:
        push = self.client.lpush
        for number in range(first, first + count):
            push(QUEUE, envelope(number))

    def receive(self, count: int) -> None:
        client: Any = self.client
        for _ in range(count):
            data = client.lmove(QUEUE, BUSY, "RIGHT", "LEFT")
            check_envelope(data)
            client.lrem(BUSY, 1, data)

    def send_batch(self, first: int, count: int, size: int) -> None:
        for start in range(first, first + count, size):
            self.client.lpush(QUEUE, *[envelope(start + i) for i in range(min(size, first + count - start))])

    def receive_batch(self, count: int, size: int) -> None:
        for start in range(0, count, size):
            many = min(size, count - start)
            with self.client.pipeline(transaction=False) as pipe:
                for _ in range(many):
                    pipe.lmove(QUEUE, BUSY, "RIGHT", "LEFT")
                batch = pipe.execute()
            for data in batch:
                check_envelope(data)
            with self.client.pipeline(transaction=False) as pipe:
                for data in batch:
                    pipe.lrem(BUSY, 1, data)
                pipe.execute()

    def transact(self, count: int) -> None:
        client: Any = self.client
        for _ in range(count):
            data = client.lmove(QUEUE, BUSY, "RIGHT", "LEFT")
            check_envelope(data)
            client.lpush(TARGET, data)
            client.lrem(BUSY, 1, data)

    def transact_batch(self, count: int, size: int) -> None:
        for start in range(0, count, size):
            many = min(size, count - start)
            with self.client.pipeline(transaction=False) as pipe:
                for _ in range(many):
                    pipe.lmove(QUEUE, BUSY, "RIGHT", "LEFT")
                batch = pipe.execute()
            for data in batch:
                check_envelope(data)
            self.client.lpush(TARGET, *batch)
            with self.client.pipeline(transaction=False) as pipe:
                for data in batch:
                    pipe.lrem(BUSY, 1, data)
                pipe.execute()

    def arrivals(self, count: int) -> list[float]:
        client: Any = self.client
        times = []
        for _ in range(count):
            while (data := client.blmove(QUEUE, BUSY, 4, "RIGHT", "LEFT")) is None:
                pass
            times.append(time.monotonic())
            check_envelope(data)
            client.lrem(BUSY, 1, data)
        return times


class RawFloor(Peer):
    """No client library at all: a socket, and hiredis to pack and parse. What a round trip costs at least."""

    def open(self) -> None:
        where = urlsplit(self.url)
        self.socket = socket.create_connection((where.hostname or "localhost", where.port or 6379))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.reader = hiredis.Reader()

    def close(self) -> None:
        self.socket.close()

    def tell(self, *args: Any) -> None:
        """Send a command."""
        self.socket.sendall(hiredis.pack_command(args))

    def hear(self) -> Any:
        """Read a reply."""
        answer = self.reader.gets()
        while answer is False:
            self.reader.feed(self.socket.recv(65_536))
            answer = self.reader.gets()
        return answer

    def _ask(self, *args: Any) -> Any:
        self.tell(*args)
        return self.hear()

    def send(self, first: int, count: int) -> None:
        for number in range(first, first + count):
            self._ask("LPUSH", QUEUE, envelope(number))

    def receive(self, count: int) -> None:
        for _ in range(count):
            data = self._ask("LMOVE", QUEUE, BUSY, "RIGHT", "LEFT")
            check_envelope(data)
            self._ask("LREM", BUSY, "1", data)


class RawAsyncio(AsyncPeer):
    """redis-py, asyncio, one task."""

    def open(self) -> None:
        self.client: Any = redis.asyncio.Redis.from_url(self.url)
        self.wait(self._ping())

    def close(self) -> None:
        self.wait(self.client.aclose())

    async def _ping(self) -> None:
        await self.client.ping()

    def send(self, first: int, count: int) -> None:
        async def one(start: int, many: int) -> None:
            for number in range(first + start, first + start + many):
                await self.client.lpush(QUEUE, envelope(number))

        self.share(one, count)

    def receive(self, count: int) -> None:
        async def one(_: int, many: int) -> None:
            client: Any = self.client
            for _ in range(many):
                data = await client.lmove(QUEUE, BUSY, "RIGHT", "LEFT")
                check_envelope(data)
                await client.lrem(BUSY, 1, data)

        self.share(one, count)


class RawAsyncio20(RawAsyncio):
    """redis-py, asyncio, 20 tasks that share a pool of connections."""

    settings = "20 tasks"
    tasks = 20


class RawUnreliable(RawList):
    """BRPOP-style: a consumer that dies loses what it took. For comparison only."""

    works = ("send", "receive")
    acknowledges = False

    def receive(self, count: int) -> None:
        for _ in range(count):
            data = self.client.rpop(QUEUE)
            assert isinstance(data, bytes)
            check_envelope(data)
