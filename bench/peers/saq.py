"""SAQ: ``enqueue``, ``dequeue`` and ``finish``, and its worker."""

from __future__ import annotations

import asyncio
from typing import Any

import saq

from bench.messages import LABEL, check, correlation_id, properties
from bench.peers.base import AsyncPeer, Tally


class SAQ(AsyncPeer):
    """Finished jobs are removed at once."""

    def open(self) -> None:
        self.queue: Any = saq.Queue.from_url(self.url, name="bench")
        self.wait(self.queue.connect())

    def close(self) -> None:
        self.wait(self.queue.disconnect())

    def send(self, first: int, count: int) -> None:
        async def everything() -> None:
            for number in range(first, first + count):
                values = {"body": self.text, "label": LABEL, "properties": properties(number)}
                await self.queue.enqueue("work", key=correlation_id(number), ttl=-1, **values)

        self.wait(everything())

    def receive(self, count: int) -> None:
        async def everything() -> None:
            for _ in range(count):
                job = await self.queue.dequeue(timeout=5)
                values = job.kwargs
                check(values["body"], self.text, values["label"], "c-", values["properties"])
                await job.finish(saq.Status.COMPLETE)

        self.wait(everything())


class SAQWorker(SAQ):
    """Its worker, ten jobs at a time."""

    def drain(self, count: int) -> list[float]:
        async def everything() -> list[float]:
            enough = asyncio.Event()
            tally = Tally(count, enough.set)

            async def work(_: Any, *, body: str, label: str, properties: Any) -> None:
                check(body, self.text, label, "c-", properties)
                tally()

            worker: Any = saq.Worker(self.queue, [("work", work)])
            running = asyncio.create_task(worker.start())
            await enough.wait()
            await worker.stop()
            await asyncio.gather(running, return_exceptions=True)
            return tally.times

        times: list[float] = self.wait(everything())
        self.wait(self.queue.connect())
        return times
