"""mqredis.asyncio, with one task and with twenty."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import ClassVar

import mqredis
import mqredis.asyncio
from bench.adapters.base import PLAIN, AsyncPeer
from bench.adapters.mqredis_sync import SETTINGS, message
from bench.payload import BODY_BYTES, check, correlation_id, properties


class MqredisAsyncio(AsyncPeer):
    """One task; the call that locks the next message settles the last."""

    works: ClassVar[tuple[str, ...]] = PLAIN
    settings = "lock, settled by the next lock"
    many = True

    def open(self) -> None:
        async def start() -> None:
            self.qm = await mqredis.asyncio.connect(self.url, settings=SETTINGS)
            with contextlib.suppress(mqredis.QueueExists):  # another process has made it
                await self.qm.create_queue("bench")
            self.queue = await self.qm.open("bench")

        self.wait(start())

    def close(self) -> None:
        async def stop() -> None:
            await self.queue.close()
            await self.qm.close()

        self.wait(stop())

    def send(self, first: int, count: int) -> None:
        async def one(start: int, many: int) -> None:
            send = self.queue.send
            for number in range(first + start, first + start + many):
                await send(BODY_BYTES, correlation_id=correlation_id(number), properties=properties(number))

        self.share(one, count)

    def receive(self, count: int) -> None:
        self.receive_batch(count, 1)

    def send_batch(self, first: int, count: int, size: int) -> None:
        async def one(offset: int, many: int) -> None:
            for start in range(first + offset, first + offset + many, size):
                stop = min(start + size, first + offset + many)
                await self.queue.send_many([message(number) for number in range(start, stop)])

        self.share(one, count)

    def receive_batch(self, count: int, size: int) -> None:
        async def one(_: int, many: int) -> None:
            held: list[mqredis.asyncio.LockedMessage] = []
            done = 0
            while done < many:
                held = await self.queue.lock_many(min(size, many - done), timeout=0, settle=held)
                for locked in held:
                    check(locked.body)
                done += len(held)
            await self.queue.commit_many(held)

        self.share(one, count)

    def arrivals(self, count: int, waiters: int = 1) -> list[float]:
        times: list[float] = []

        async def one() -> None:
            held: list[mqredis.asyncio.LockedMessage] = []
            while True:
                held = await self.queue.lock_many(1, settle=held)
                times.append(time.monotonic())
                check(held[0].body)
                if len(times) == count:
                    enough.set()

        async def everything() -> None:
            tasks = [asyncio.create_task(one()) for _ in range(waiters)]
            await enough.wait()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        enough = asyncio.Event()
        self.wait(everything())
        return times


class MqredisAsyncio20(MqredisAsyncio):
    """Twenty tasks on one queue manager."""

    works = ("send", "receive")
    settings = "20 tasks; lock, settled by the next lock"
    tasks = 20
