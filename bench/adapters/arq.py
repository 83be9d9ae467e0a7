"""arq: only the sending side; its receiving side cannot be had without its worker."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, ClassVar

import arq
import arq.worker
from arq.connections import RedisSettings

from bench.adapters.base import AsyncPeer, Tally
from bench.payload import BODY, correlation_id, properties


class Arq(AsyncPeer):
    """``enqueue_job``."""

    works: ClassVar[tuple[str, ...]] = ("send",)

    def open(self) -> None:
        self.pool: Any = self.wait(arq.create_pool(RedisSettings.from_dsn(self.url)))

    def close(self) -> None:
        self.wait(self.pool.aclose())

    def send(self, first: int, count: int) -> None:
        async def everything() -> None:
            for number in range(first, first + count):
                await self.pool.enqueue_job(
                    "work", BODY, _job_id=correlation_id(number), properties=properties(number)
                )

        self.wait(everything())


class ArqWorker(Arq):
    """Its worker, ten at a time."""

    works = ("send", "drain")
    settings = "10 jobs at a time as it comes, keep_result=0"

    def arrivals(self, count: int) -> list[float]:
        async def everything() -> list[float]:
            enough = asyncio.Event()
            tally = Tally(count, enough.set)

            async def work(_: Any, body: str, **__: Any) -> None:
                tally(body)

            settings = RedisSettings.from_dsn(self.url)
            functions = [arq.worker.func(work, name="work")]
            worker = arq.worker.Worker(
                functions, redis_settings=settings, keep_result=0, handle_signals=False, log_results=False
            )
            running = asyncio.create_task(worker.async_run())
            await enough.wait()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            with contextlib.suppress(asyncio.CancelledError):  # of the job that ended it
                await worker.close()
            return tally.times

        times: list[float] = self.wait(everything())
        return times
