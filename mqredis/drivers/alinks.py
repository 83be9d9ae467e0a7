"""Asyncio connections: the twin of ``links``. Time-outs are kept here: redis-py makes a task for each."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from redis import exceptions as rx

from mqredis.drivers.links import IDLE_CHECK
from mqredis.drivers.nodes import Plan
from mqredis.drivers.urls import redact
from mqredis.drivers.wire import REDIS_ERRORS
from mqredis.errors import BrokerUnavailable


class AsyncLink:
    """One connection."""

    __slots__ = ("conn", "epoch", "patience", "run_id", "used")

    def __init__(self, conn: Any, epoch: int, patience: float) -> None:
        self.conn = conn
        self.epoch = epoch
        self.patience = patience
        self.run_id: str | None = None
        self.used = time.monotonic()

    async def exchange(self, request: list[bytes]) -> Any:
        """Send a packed request and read its reply."""
        async with asyncio.timeout(self.patience):
            await self.conn.send_packed_command(request, check_health=False)
            return await self.conn.read_response()

    async def command(self, *args: str | bytes | int) -> Any:
        """Run a command."""
        async with asyncio.timeout(self.patience):
            await self.conn.send_command(*args, check_health=False)
            return await self.conn.read_response()

    @property
    def connected(self) -> bool:
        """Is the connection still open on our side? (redis-py closes it on errors it does not trust.)"""
        return bool(self.conn.is_connected)

    async def close(self) -> None:
        """Close at once; never raises."""
        try:
            await hang_up(self.conn)
        except Exception:  # noqa: BLE001 - a socket in any state at all
            return


class AsyncBackend:
    """Connections to the node that owns the manager's slot, for one event loop."""

    def __init__(self, plan: Plan, on_close: Callable[[], None] | None = None) -> None:
        self.plan = plan
        self.database = plan.target.database
        self.address = plan.target.describe()
        self._limit = plan.settings.max_connections
        self._on_close = on_close
        self.after_fork()

    def after_fork(self) -> None:
        """Start anew, also in a child or another event loop."""
        self._idle: deque[AsyncLink] = deque()
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._count = 0
        self._epoch = 0
        self._closed = False

    @property
    def memory(self) -> bool:
        """Is this a fakeredis in the process?"""
        return self.plan.memory

    def moved(self) -> None:
        """The node may be another one now: the next connection asks for the way."""
        if self.plan.movable:
            self.plan.node = None

    def describe(self) -> str:
        """The address, without secrets."""
        return self.address

    async def acquire(self, deadline: float, node: tuple[str, int] | None = None) -> AsyncLink:
        """A connected link, at the latest at ``deadline`` (monotonic seconds); ``node``: a new one."""
        if node is not None:
            return await self._open(deadline, node)
        while True:
            while self._idle:
                link = self._idle.pop()
                try:
                    if link.epoch == self._epoch and await self._usable(link):
                        return link
                except BaseException:
                    await self.discard(link)
                    raise
                await self.discard(link)
            if self._count < self._limit:
                return await self._open(deadline)
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                async with asyncio.timeout(deadline - time.monotonic()):
                    await waiter
            except TimeoutError:
                raise BrokerUnavailable(
                    f"all {self._limit} connections are busy; raise max_connections"
                ) from None
            except BaseException:
                if waiter.done() and not waiter.cancelled():
                    self._wake()  # the turn was ours; hand it on
                raise

    async def _usable(self, link: AsyncLink) -> bool:
        if time.monotonic() - link.used < IDLE_CHECK:
            return True
        try:
            return not await _dirty(link.conn)()
        except REDIS_ERRORS:
            return False

    async def release(self, link: AsyncLink) -> None:
        """Give a healthy link back: its reply has been read to the end."""
        if link.epoch != self._epoch or self._closed:
            await self.discard(link)
            return
        link.used = time.monotonic()
        self._idle.append(link)
        if self._waiters:
            self._wake()

    def _wake(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    async def discard(self, link: AsyncLink) -> None:
        """Close a link whose state is unknown."""
        self._count -= 1
        self._wake()
        await link.close()

    async def suspect(self) -> None:
        """A connection was lost: do not trust the idle ones either."""
        self._epoch += 1
        while self._idle:
            await self.discard(self._idle.pop())

    async def rediscover(self) -> None:
        """Look up again who owns the manager, before the next connection is made."""
        await self.suspect()
        if self.plan.movable:
            await self._locate()

    async def pubsub_connection(self) -> Any:
        """A connection for subscriptions, to the same node; not counted, not pooled."""
        return await self._connect(time.monotonic() + self.plan.settings.connect_timeout_seconds)

    async def close(self) -> None:
        """Close what is idle."""
        self._closed = True
        await self.suspect()
        if self._on_close is not None:
            self._on_close()
            self._on_close = None

    async def _open(self, deadline: float, node: tuple[str, int] | None = None) -> AsyncLink:
        self._count += 1
        epoch = self._epoch
        try:
            if node is not None:
                conn, epoch = (
                    await self._make(self.plan.at(node), deadline),
                    -1,
                )  # for once: checked when reused
            else:
                conn = await self._connect(deadline)
        except BaseException:
            self._count -= 1
            self._wake()
            raise
        return AsyncLink(conn, epoch, self.plan.settings.reply_timeout_seconds)

    async def _connect(self, deadline: float) -> Any:
        if self._closed:
            raise BrokerUnavailable("the connection was closed by this process")
        if not self.plan.found:
            await self._locate()
        return await self._make(self.plan.current(), deadline)

    async def _make(self, kwargs: dict[str, Any], deadline: float) -> Any:
        conn = self.plan.connection(**kwargs)
        patience = min(self.plan.settings.connect_timeout_seconds, max(deadline - time.monotonic(), 0.05))
        try:
            async with asyncio.timeout(patience):
                await conn.connect()
        except TimeoutError:
            await hang_up(conn)
            raise rx.TimeoutError("Timeout connecting to server") from None
        except REDIS_ERRORS as error:
            await hang_up(conn)
            if self.plan.secrets and redact(error, *self.plan.secrets) != str(error):
                raise type(error)(redact(error, *self.plan.secrets)) from None
            raise
        except BaseException:
            await hang_up(conn)
            raise
        conn.connect = conn.connect_check_health = _once
        return conn

    async def _locate(self) -> None:
        plan, errors = self.plan, []
        deadline = time.monotonic() + plan.settings.connect_timeout_seconds
        for node in plan.candidates():
            try:
                conn = await self._make(plan.at(node, sentinel=plan.target.kind == "sentinel"), deadline)
                try:
                    async with asyncio.timeout(plan.settings.reply_timeout_seconds):
                        await conn.send_command(*plan.query())
                        if plan.learn(node, await conn.read_response()):
                            return
                finally:
                    await hang_up(conn)
            except rx.AuthenticationError:
                raise
            except REDIS_ERRORS as error:
                errors.append(f"{node[0]}:{node[1]}: {error}")
        raise rx.ConnectionError(str(plan.lost(errors)))


async def _once(*_: Any, **__: Any) -> None:
    """See ``links._once``."""
    raise rx.ConnectionError("the connection was closed")


async def hang_up(conn: Any) -> None:
    """Close a connection without waiting for the other side.

    A TLS transport that is closed politely waits for the server's farewell, which an ending event loop does not hear.
    """
    transport = getattr(getattr(conn, "_writer", None), "transport", None)
    if transport is not None and transport.get_extra_info("ssl_object") is not None:
        transport.abort()
    await conn.disconnect(nowait=True)


def _dirty(conn: Any) -> Callable[[], Any]:
    # Renamed in redis-py 8; the old name warns there.
    found: Callable[[], Any] = getattr(conn, "can_read", None) or conn.can_read_destructive
    return found
