"""BullMQ for Python: ``add`` and ``addBulk``; the worker's own fetch and its completion of the job."""

from __future__ import annotations

import asyncio
from typing import Any

import bullmq

from bench.adapters.base import AsyncPeer, Tally
from bench.payload import BODY, check, correlation_id, properties

TOKEN = "bench"  # noqa: S105 (the name of the worker that holds a job)


class BullMQ(AsyncPeer):
    """Jobs are removed when complete."""

    works = ("send", "receive", "send_batch")
    settings = "removeOnComplete"

    def open(self) -> None:
        async def nothing(job: Any, token: str) -> None:
            """Never called: the benchmark fetches by itself."""

        async def start() -> None:
            self.queue: Any = bullmq.Queue("bench", {"connection": self.url})
            self.worker: Any = bullmq.Worker("bench", nothing, {"connection": self.url, "autorun": False})

        self.wait(start())

    def close(self) -> None:
        self.wait(self.worker.close(force=True))
        self.wait(self.queue.close())

    def _job(self, number: int) -> dict[str, Any]:
        data = {"body": BODY, "id": correlation_id(number), "properties": properties(number)}
        return {"name": "work", "data": data, "opts": {"removeOnComplete": True}}

    def send(self, first: int, count: int) -> None:
        async def everything() -> None:
            for number in range(first, first + count):
                job = self._job(number)
                await self.queue.add(job["name"], job["data"], job["opts"])

        self.wait(everything())

    def send_batch(self, first: int, count: int, size: int) -> None:
        async def everything() -> None:
            for start in range(first, first + count, size):
                stop = min(start + size, first + count)
                await self.queue.addBulk([self._job(number) for number in range(start, stop)])

        self.wait(everything())

    def receive(self, count: int) -> None:
        async def everything() -> None:
            for _ in range(count):
                job = await self.worker.getNextJob(TOKEN)
                check(job.data["body"])
                await job.moveToCompleted(None, TOKEN, fetchNext=False)

        self.wait(everything())


class BullMQWorker(BullMQ):
    """Its worker, one job at a time."""

    works = ("send", "send_batch", "drain")
    settings = "concurrency 1, removeOnComplete"

    def arrivals(self, count: int) -> list[float]:
        async def everything() -> list[float]:
            enough = asyncio.Event()
            tally = Tally(count, enough.set)

            async def work(job: Any, _: str) -> None:
                tally(job.data["body"])

            worker: Any = bullmq.Worker("bench", work, {"connection": self.url})
            await enough.wait()
            await worker.close(force=True)
            return tally.times

        times: list[float] = self.wait(everything())
        return times
