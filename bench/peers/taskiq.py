"""taskiq on Redis Streams: ``kiq`` to send, the broker's ``listen`` to receive, and its receiver."""

from __future__ import annotations

import asyncio
from typing import Any

import taskiq
import taskiq.receiver
import taskiq_redis

from bench.messages import LABEL, check, correlation_id, properties
from bench.peers.base import AsyncPeer, Tally


class Taskiq(AsyncPeer):
    """RedisStreamBroker: reads 100 at once, acknowledges one by one."""

    def open(self) -> None:
        self.broker: Any = taskiq_redis.RedisStreamBroker(url=self.url)

        async def work(body: str, **_: Any) -> None:
            """An empty task."""

        self.work: Any = self.broker.task(task_name="bench.work")(work)
        self.broker.is_worker_process = True
        self.wait(self.broker.startup())
        self.messages = self.broker.listen()

    def close(self) -> None:
        self.wait(self.messages.aclose())
        self.wait(self.broker.shutdown())

    def send(self, first: int, count: int) -> None:
        async def everything() -> None:
            for number in range(first, first + count):
                values = {
                    "label": LABEL,
                    "identity": correlation_id(number),
                    "properties": properties(number),
                }
                await self.work.kiq(self.text, **values)

        self.wait(everything())

    def receive(self, count: int) -> None:
        async def everything() -> None:
            for _ in range(count):
                message = await anext(self.messages)
                task = self.broker.formatter.loads(message=message.data)
                check(
                    task.args[0],
                    self.text,
                    *(task.kwargs[name] for name in ("label", "identity", "properties")),
                )
                await message.ack()

        self.wait(everything())


class TaskiqWorker(Taskiq):
    """Its receiver, up to 100 tasks at a time."""

    def drain(self, count: int) -> list[float]:
        enough = asyncio.Event()
        tally = Tally(count, enough.set)

        async def work(body: str, label: str, identity: str, properties: Any) -> None:
            check(body, self.text, label, identity, properties)
            tally()

        self.broker.task(task_name="bench.work")(work)
        receiver = taskiq.receiver.Receiver(self.broker, run_startup=False, max_async_tasks=100)
        self.wait(receiver.listen(enough))
        return tally.times
