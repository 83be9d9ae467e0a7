"""Helpers that hold calls back, and that report how they ended."""

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
NO_RETRIES = SETTINGS.model_copy(update={"retry_seconds": 0})
Queue = mqredis.asyncio.Queue


def send_batcher(queue: Any) -> Any:
    """The batcher of the sends to this queue."""
    return queue._handle.batchers[Send]


class Gate:
    """Holds the calls of a client back, and counts their messages and settlements."""

    def __init__(self, qm: Any) -> None:
        self.open = asyncio.Event()
        self.open.set()
        self.waiting = 0
        # Number of messages of each send call.
        self.sizes: list[int] = []
        # Number of locks settled by each settle call.
        self.settled: list[int] = []
        self._driver = qm._driver
        self._call = qm._driver.call
        qm._driver.call = self.call

    def remove(self) -> None:
        """Remove the gate: from now on calls are neither held nor counted."""
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
        await turns(1)  # a fake server replies at once
        await self.open.wait()
        self.waiting -= 1


async def turns(count: int = 3) -> None:
    """Let other tasks run for ``count`` iterations of the event loop."""
    loop = asyncio.get_running_loop()
    for _ in range(count):
        turned = loop.create_future()
        loop.call_soon(turned.set_result, None)
        await turned


async def gathered(gate: Gate, *sends: Coroutine[Any, Any, Any]) -> list[asyncio.Task[Any]]:
    """Start the sends: the first is held at the gate, the others wait to be batched."""
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
    """Let the first call finish; return when the call of the others is held at the gate."""
    gate.open.set()
    await asyncio.wait([tasks[0]])
    gate.open.clear()
    while gate.waiting == 0:
        await turns(1)
