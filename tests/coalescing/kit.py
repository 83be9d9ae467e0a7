"""What holds calls back, and what tells how they ended."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import mqredis
import mqredis.asyncio
from mqredis import Settings
from mqredis.operations.send import Send
from tests.support.counts import messages_of

SETTINGS = Settings(allow_volatile=True)
IMPATIENT = SETTINGS.model_copy(update={"retry_seconds": 0})
Queue = mqredis.asyncio.Queue


def lane_of(queue: Any) -> Any:
    """The lane of the sends of this queue."""
    return queue._handle.batchers[Send]


class Gate:
    """Keeps the calls of a client at its door, and counts what they carry."""

    def __init__(self, qm: Any) -> None:
        self.open = asyncio.Event()
        self.open.set()
        self.waiting = 0
        # How many messages went with each call.
        self.sizes: list[int] = []
        # How many locks were settled by each call that does nothing else.
        self.settled: list[int] = []
        self._driver = qm._driver
        self._call = qm._driver.call
        qm._driver.call = self.call

    def away(self) -> None:
        """Let all calls through from now on."""
        del self._driver.call

    async def call(self, call: Any, *args: Any) -> Any:
        if call.script == "send":
            self.sizes.append(messages_of(call))
        if call.script == "settle":
            self.settled.append(sum(len(ids) for ids in call.args[4::3]) // 16)
        await self.wait()
        return await self._call(call, *args)

    async def wait(self) -> None:
        self.waiting += 1
        await turns(1)  # a fake answers at once
        await self.open.wait()
        self.waiting -= 1


async def turns(count: int = 3) -> None:
    """Let the others go on."""
    loop = asyncio.get_running_loop()
    for _ in range(count):
        turned = loop.create_future()
        loop.call_soon(turned.set_result, None)
        await turned


async def gathered(gate: Gate, *sends: Coroutine[Any, Any, Any]) -> list[asyncio.Task[Any]]:
    """The first of them is under way, and stays so until the gate is opened; the others wait for it."""
    gate.open.clear()
    tasks = [asyncio.ensure_future(one) for one in sends]
    await turns()
    assert gate.waiting == 1
    return tasks


async def outcomes(gate: Gate, tasks: list[asyncio.Task[Any]]) -> list[Any]:
    gate.open.set()
    return await asyncio.gather(*tasks, return_exceptions=True)


async def bodies(queue: Queue) -> list[bytes]:
    found: list[bytes] = []
    while True:
        try:
            found += [message.body for message in await queue.receive_many(256, 0)]
        except mqredis.IoTimeout:
            return found


def kinds(found: list[Any]) -> list[str]:
    return ["" if isinstance(one, mqredis.Sent) else type(one).__name__ for one in found]


async def under_way(gate: Gate, tasks: list[asyncio.Task[Any]]) -> None:
    """The first is answered, and the others are under way, at the gate."""
    gate.open.set()
    await asyncio.wait([tasks[0]])
    gate.open.clear()
    while gate.waiting == 0:
        await turns(1)
