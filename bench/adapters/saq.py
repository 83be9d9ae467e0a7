"""SAQ: ``enqueue``, ``dequeue`` and ``finish``."""

from __future__ import annotations

import asyncio
from typing import Any

import saq

from bench.adapters.base import AsyncPeer, Tally
from bench.payload import BODY, check, correlation_id, properties


class SAQ(AsyncPeer):
    """Finished jobs are dropped at once."""

    settings = "ttl=-1"

    def open(self) -> None:
        self.queue: Any = saq.Queue.from_url(self.url, name="bench")
        self.wait(self.queue.connect())

    def close(self) -> None:
        self.wait(self.queue.disconnect())

    def send(self, first: int, count: int) -> None:
        async def everything() -> None:
            for number in range(first, first + count):
                await self.queue.enqueue(
                    "work", key=correlation_id(number), ttl=-1, body=BODY, properties=properties(number)
                )

        self.wait(everything())

    def receive(self, count: int) -> None:
        async def everything() -> None:
            for _ in range(count):
                job = await self.queue.dequeue(timeout=5)
                check(job.kwargs["body"])
                await job.finish(saq.Status.COMPLETE)

        self.wait(everything())


class SAQWorker(SAQ):
    """Its worker, ten at a time."""

    works = ("send", "drain")
    settings = "concurrency 10 as it comes, ttl=-1"

    def arrivals(self, count: int) -> list[float]:
        async def everything() -> list[float]:
            enough = asyncio.Event()
            tally = Tally(count, enough.set)

            async def work(_: Any, *, body: str, **__: Any) -> None:
                tally(body)

            worker: Any = saq.Worker(self.queue, [("work", work)])
            running = asyncio.create_task(worker.start())
            await enough.wait()
            await worker.stop()
            await asyncio.gather(running, return_exceptions=True)
            return tally.times

        times: list[float] = self.wait(everything())
        self.wait(self.queue.connect())
        return times
