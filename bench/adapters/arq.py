"""arq: only the sending side; its receiving side cannot be had without its worker."""

from __future__ import annotations

from typing import Any

import arq
from arq.connections import RedisSettings

from bench.adapters.base import AsyncPeer
from bench.payload import BODY, correlation_id, properties


class Arq(AsyncPeer):
    """``enqueue_job``."""

    works = ("send",)

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
