"""The waits of the tasks of one driver, woken by one subscription.

``drivers.aio`` has one; ``calls_aio`` runs the steps Listen and Wait with it. Two tasks of its own begin with the first
wait: ``mqredis-subscription`` runs ``_keep_forever``, ``mqredis-recheck`` runs ``_recheck_forever``.

``registry`` does the same for threads. What both do is in ``waits_aio``; a change of a method that is here has to be
made there, too, as far as it is about the subscription: its names, its heartbeat, its end.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from contextvars import Context
from typing import TYPE_CHECKING, Any

from redis import exceptions as rx

from mqredis.drivers.net.aio import Subscription
from mqredis.drivers.net.pool_aio import hang_up
from mqredis.drivers.net.wire import REDIS_ERRORS
from mqredis.drivers.waiting.table import HEALTH_SECONDS, LEAVE_SECONDS, Heartbeat
from mqredis.drivers.waiting.waits_aio import AsyncWaits

if TYPE_CHECKING:
    from mqredis.drivers.aio import AsyncDriver


class AsyncWaiterRegistry(AsyncWaits[asyncio.Event]):
    """Waits of tasks. One task reads the subscription, another one polls for all waits now and then.

    What follows is not generated: tasks need no locks, and are cancelled where threads have to notice the end.
    """

    def __init__(self, driver: AsyncDriver) -> None:
        super().__init__(driver, asyncio.Event, contextlib.nullcontext())
        self._probing = asyncio.Lock()
        self._closed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._conn: Any = None
        driver.backend.on_move = self._hang_up

    async def close(self) -> None:
        """End the tasks and the waits."""
        self._end_waits()
        end = time.monotonic() + LEAVE_SECONDS
        while self.table.registered_runs and time.monotonic() < end:  # noqa: ASYNC110 - at most a second, once
            await asyncio.sleep(0.002)  # the operations take back their registrations
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _sleep(self, flag: asyncio.Event, seconds: float) -> bool:
        if flag.is_set():
            return True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                return await flag.wait()
        return flag.is_set()

    async def _closes_within(self, seconds: float) -> bool:
        return await self._sleep(self._closed, seconds)

    # ---- the subscription ------------------------------------------------------------------------

    async def _subscribe(self, channel: str) -> None:
        if not self._tasks and not self._closed.is_set():
            # In an empty context: that of the first task which waits would live as long as the client.
            self._tasks = [
                asyncio.create_task(self._keep_forever(), name="mqredis-subscription", context=Context()),
                asyncio.create_task(self._recheck_forever(), name="mqredis-recheck", context=Context()),
            ]
        await self._send("SUBSCRIBE", channel)

    async def _send(self, *command: str) -> None:
        if self._conn is not None:
            try:
                await self._conn.send_command(*command, check_health=False)
            except (*REDIS_ERRORS, AttributeError):
                return  # the task that reads notices the loss

    async def _hang_up(self) -> None:
        """Close the connection, since the manager has moved to another node; its task then makes a new one."""
        if self._conn is not None:
            await hang_up(self._conn)

    async def _keep(self) -> None:
        conn = await self._driver.backend.subscription(self.table.received)
        try:
            self._conn = conn  # before the names are read: a channel made later is subscribed by its maker
            for names in self.table.names():
                await conn.send_command("SUBSCRIBE", *names, check_health=False)
            self._reset_pause()
            heartbeat, own = Heartbeat(), isinstance(conn, Subscription)
            while True:
                if heartbeat.next_period(await (conn.news(HEALTH_SECONDS) if own else self._read(conn))):
                    await self._send("PING")
        finally:
            self._conn = None
            await hang_up(conn)

    async def _read(self, conn: Any) -> bool:
        """Read the next message of a redis-py connection. Has one arrived?"""
        try:
            async with asyncio.timeout(HEALTH_SECONDS):
                self.table.received(await conn.read_response(disconnect_on_error=False))
        except (TimeoutError, rx.TimeoutError):
            return False
        except rx.ResponseError as error:
            self.table.received(error)
        return True
