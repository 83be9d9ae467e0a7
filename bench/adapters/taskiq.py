"""taskiq on Redis: ``kiq`` to send, the broker's ``listen`` to receive."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

import taskiq
import taskiq.receiver
import taskiq_redis

from bench.adapters.base import AsyncPeer, Tally
from bench.payload import BODY, check, correlation_id, properties


class TaskiqStream(AsyncPeer):
    """RedisStreamBroker: reads 100 at once, acknowledges one by one."""

    broker_class: ClassVar[Any] = taskiq_redis.RedisStreamBroker

    def open(self) -> None:
        self.broker: Any = self.broker_class(url=self.url)

        async def work(body: str, **_: Any) -> None:
            """Does nothing."""

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
                await self.work.kiq(BODY, id=correlation_id(number), properties=properties(number))

        self.wait(everything())

    def receive(self, count: int) -> None:
        async def everything() -> None:
            done = 0
            async for message in self.messages:
                acknowledged = isinstance(message, taskiq.AckableMessage)
                data = message.data if acknowledged else message
                check(self.broker.formatter.loads(message=data).args[0])
                if acknowledged:
                    await message.ack()
                done += 1
                if done == count:
                    return

        self.wait(everything())


class TaskiqList(TaskiqStream):
    """ListQueueBroker: pops, so a worker that dies loses what it took."""

    acknowledges = False
    broker_class: ClassVar[Any] = taskiq_redis.ListQueueBroker


class TaskiqWorker(TaskiqStream):
    """Its receiver on the stream broker."""

    works = ("send", "drain")
    settings = "one process, as it comes"

    def arrivals(self, count: int) -> list[float]:
        enough = asyncio.Event()
        tally = Tally(count, enough.set)

        async def work(body: str, **_: Any) -> None:
            tally(body)

        self.broker.task(task_name="bench.work")(work)
        receiver = taskiq.receiver.Receiver(self.broker, run_startup=False, max_async_tasks=100)
        self.wait(receiver.listen(enough))
        return tally.times
