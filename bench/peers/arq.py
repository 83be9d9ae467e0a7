"""arq: ``enqueue_job`` and its worker. Its receiving side cannot be had without the worker."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import arq
import arq.worker
from arq.connections import RedisSettings

from bench.messages import LABEL, check, correlation_id, properties
from bench.peers.base import AsyncPeer, Tally


class ArqWorker(AsyncPeer):
    """Ten jobs at a time; no results are kept."""

    def open(self) -> None:
        self.pool: Any = self.wait(arq.create_pool(RedisSettings.from_dsn(self.url)))

    def close(self) -> None:
        self.wait(self.pool.aclose())

    def send(self, first: int, count: int) -> None:
        async def everything() -> None:
            for number in range(first, first + count):
                values = {"label": LABEL, "properties": properties(number)}
                await self.pool.enqueue_job("work", self.text, _job_id=correlation_id(number), **values)

        self.wait(everything())

    def drain(self, count: int) -> list[float]:
        async def everything() -> list[float]:
            enough = asyncio.Event()
            tally = Tally(count, enough.set)

            async def work(_: Any, body: str, label: str, properties: Any) -> None:
                check(body, self.text, label, "c-", properties)
                tally()

            worker = arq.worker.Worker(
                [arq.worker.func(work, name="work")],
                redis_settings=RedisSettings.from_dsn(self.url),
                keep_result=0,
                handle_signals=False,
                log_results=False,
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
