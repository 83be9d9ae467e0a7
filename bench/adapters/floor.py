"""The floor of the table: what each call has to read and write, in one function call with constants (bench/floor.py).

It is no product and promises nothing. The client is a socket with hiredis, as that of the raw floor; beside it the same
through redis-py, and through an asyncio protocol of a few lines.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Any, ClassVar
from urllib.parse import urlsplit

import hiredis
import redis

from bench import floor
from bench.adapters.base import AsyncPeer
from bench.adapters.raw import RawFloor
from bench.payload import check_packed, packed

ABOUT = "not a product: its functions read and write what a call must, and decide nothing"


def prepare(url: str) -> None:
    """Load the functions and put there what they read, unless another process has."""
    client: Any = redis.Redis.from_url(url)
    try:
        client.execute_command(*floor.LOAD)
    except redis.ResponseError as error:
        if "already exists" not in str(error):
            raise
    for command in floor.setting():
        client.execute_command(*command)
    client.close()


def sending(number: int, size: int = 1) -> list[str | bytes]:
    """The call that sends so many."""
    keys = floor.PLAIN_KEYS if size == 1 else floor.KEYS
    return floor.words("send", keys, *[packed(number + n) for n in range(size)])


def receiving(size: int) -> list[str | bytes]:
    """The call that locks so many and settles the last."""
    return floor.words("receive", floor.KEYS, str(size), "1")


def batches(count: int, size: int) -> list[int]:
    """So many messages, in batches; 0 at the end settles the last."""
    return [min(size, count - start) for start in range(0, count, size)] + [0]


class Floor(RawFloor):
    """One call of a function for each call of ours."""

    works: ClassVar[tuple[str, ...]] = ("send", "receive", "send_batch", "receive_batch", "transact")
    settings = ABOUT

    def open(self) -> None:
        prepare(self.url)
        super().open()

    def send(self, first: int, count: int) -> None:
        for number in range(first, first + count):
            self._ask(*sending(number))

    def receive(self, count: int) -> None:
        self.receive_batch(count, 1)

    def send_batch(self, first: int, count: int, size: int) -> None:
        for start in range(first, first + count, size):
            self._ask(*sending(start, min(size, first + count - start)))

    def receive_batch(self, count: int, size: int) -> None:
        for many in batches(count, size):
            reply = self._ask(*receiving(many))
            for record in reply[3:]:
                check_packed(record)

    def transact(self, count: int) -> None:
        for _ in range(count):
            record = self._ask(*floor.words("tx_receive", floor.KEYS))[3]
            check_packed(record)
            self._ask(*floor.words("tx_send", floor.TARGET_KEYS, record))
            self._ask(*floor.words("tx_commit", floor.KEYS + floor.TARGET_KEYS[2:]))


class FloorRedisPy(Floor):
    """The same calls through redis-py, as one would write them by hand."""

    settings = f"{ABOUT}; through redis-py"

    def open(self) -> None:
        super().open()
        self.client: Any = redis.Redis.from_url(self.url)

    def close(self) -> None:
        self.client.close()
        super().close()

    def _ask(self, *args: Any) -> Any:
        return self.client.execute_command(*args)


class FloorRecords(RawFloor):
    """The least memory: a sorted set of lookup ids of eight bytes, their records in a hash, no index, no counters."""

    works: ClassVar[tuple[str, ...]] = ("send_batch",)
    settings = "not a product: ZADD of eight bytes and HSET of the record"

    def send(self, first: int, count: int) -> None:
        self.send_batch(first, count, 1)

    def send_batch(self, first: int, count: int, size: int) -> None:
        for start in range(first, first + count, size):
            numbers = range(start, min(start + size, first + count))
            ids = [number.to_bytes(8, "big") for number in numbers]
            self.tell("ZADD", floor.KEYS[3], *[word for one in ids for word in ("0", one)])
            records = [word for one, n in zip(ids, numbers, strict=True) for word in (one, packed(n))]
            self.tell("HSET", floor.KEYS[5], *records)
            self.hear()
            self.hear()


class FloorReader(Floor):
    """A reader whom a keyspace notification wakes, and who then makes one call: it is waked twice for a message."""

    works = ("send",)

    def send(self, first: int, count: int) -> None:
        for number in range(first, first + count):
            self._ask(*floor.words("ring", [*floor.KEYS, floor.BELL], packed(number)))

    def arrivals(self, count: int) -> list[float]:
        bells = RawFloor(self.url)
        bells.open()
        bells.tell("SUBSCRIBE", f"__keyspace@0__:{floor.BELL}")
        bells.hear()
        take = floor.words("receive", floor.KEYS, "1", "0")
        times: list[float] = []
        reply = self._ask(*take)
        while len(times) < count:
            if len(reply) <= 3:  # waiting, and registered
                while bells.hear()[2] != b"sadd":
                    pass
                reply = self._ask(*take)
                continue
            times.append(time.monotonic())
            check_packed(reply[3])
            reply = self._ask(*receiving(1))
        bells.close()
        return times


class _Protocol(asyncio.Protocol):
    """What an event loop needs at least: write, and hand out the replies in order."""

    def __init__(self) -> None:
        self.reader = hiredis.Reader()
        self.waiting: deque[asyncio.Future[Any]] = deque()
        self.loop = asyncio.get_running_loop()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def ask(self, args: Any) -> asyncio.Future[Any]:
        """Send one command."""
        return self.put(hiredis.pack_command(tuple(args)))

    def put(self, request: bytes) -> asyncio.Future[Any]:
        """Send one that is packed."""
        future: asyncio.Future[Any] = self.loop.create_future()
        self.waiting.append(future)
        self.transport.write(request)
        return future

    def data_received(self, data: bytes) -> None:
        self.reader.feed(data)
        while (reply := self.reader.gets()) is not False:
            self.waiting.popleft().set_result(reply)


class FloorAsyncio(AsyncPeer):
    """One task."""

    settings = ABOUT

    def open(self) -> None:
        prepare(self.url)
        self.wait(self.connect())

    async def connect(self) -> None:
        """To the server, past everything."""
        where = urlsplit(self.url)
        loop = asyncio.get_running_loop()
        _, self.line = await loop.create_connection(
            _Protocol, where.hostname or "localhost", where.port or 6379
        )

    def close(self) -> None:
        self.line.transport.close()

    def send(self, first: int, count: int) -> None:
        async def one(start: int, many: int) -> None:
            for number in range(first + start, first + start + many):
                await self.line.ask(sending(number))

        self.share(one, count)

    def receive(self, count: int) -> None:
        async def one(_: int, many: int) -> None:
            for size in batches(many, 1):
                for record in (await self.line.ask(receiving(size)))[3:]:
                    check_packed(record)

        self.share(one, count)


class FloorAsyncio20(FloorAsyncio):
    """20 tasks that share a connection."""

    settings = f"{ABOUT}; 20 tasks"
    tasks = 20
