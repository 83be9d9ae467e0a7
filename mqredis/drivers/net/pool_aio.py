"""Asyncio connections, and a pool that shares each of them between calls.

``drivers.connect`` makes it, ``calls_aio`` sends through it, and ``waiting.registry_aio`` gets its subscription here.

The pool of threads (``pool``) needs locks and shares nothing, so it is written by hand, too. The head of ``AsyncOwner``
lists the rules that both keep: a change of one is made in both. Time limits are kept here, since redis-py makes a task
for each.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from redis import exceptions as rx

from mqredis.drivers.net import aio as net
from mqredis.drivers.net.aio import PipelinedConnection, Subscription
from mqredis.drivers.net.discovery import Search
from mqredis.drivers.net.endpoint import Connector
from mqredis.drivers.net.owner_aio import AsyncOwner
from mqredis.drivers.net.pool import PROBE_AFTER_SECONDS
from mqredis.drivers.net.wire import REDIS_ERRORS, packed_command

# So many calls share a connection at most: their requests are written together, and their replies come in order.
DEPTH = 32


class AsyncConnection:
    """A connection: our own, which several calls may share, or one of redis-py."""

    __slots__ = (
        "_lost",
        "alone",
        "conn",
        "depth",
        "epoch",
        "exchange",
        "free",
        "greeting",
        "own",
        "patience",
        "run_id",
        "used",
        "users",
    )

    exchange: Callable[[bytes], Awaitable[Any]]
    """Send a packed request; its reply is to be awaited."""

    def __init__(self, conn: Any, epoch: int, patience: float) -> None:
        self.conn = conn
        # That of the pool when it was opened: after a loss the pool has another one, and does not take it back. -1: it
        # is never taken back, since it was made for one call or has been discarded.
        self.epoch = epoch
        self.patience = patience
        self.own = isinstance(conn, PipelinedConnection)
        # How many calls may share it.
        self.depth = DEPTH if self.own else 1
        # Does no other call join it until all that use it are over, since one of them may hold up those behind it?
        self.alone = False
        self.exchange = conn.exchange if self.own else self._exchange
        self._lost = False
        # Calls that use it now.
        self.users = 1
        # Held by the call that greets the server behind it.
        self.greeting = asyncio.Lock()
        # Is it in the pool's list of those that take another call? A shared one may be, while calls use it.
        self.free = False
        self.run_id: str | None = None
        self.used = time.monotonic()

    def command(self, *args: str | bytes | int) -> Awaitable[Any]:
        """Run a command; its reply is to be awaited."""
        return self.exchange(packed_command(args))

    async def _exchange(self, request: bytes) -> Any:
        """Send a request over a redis-py connection."""
        try:
            async with asyncio.timeout(self.patience):
                if request:
                    await self.conn.send_packed_command((request,), check_health=False)
                return await self.conn.read_response()
        except rx.ResponseError:
            raise
        except BaseException:
            self._lost = True
            raise

    @property
    def connected(self) -> bool:
        """Can the connection take another request? (redis-py closes it on errors it does not trust.)"""
        return bool(self.conn.connected) if self.own else not self._lost

    @property
    def address(self) -> str:
        """IP address of this end; "" of a unix socket, and of a connection of redis-py, which does not tell it."""
        return str(self.conn.address) if self.own else ""

    async def close(self) -> None:
        """Close at once; never raises."""
        try:
            await hang_up(self.conn)
        except Exception:  # noqa: BLE001 - a socket in any state at all
            return


class AsyncBackend(AsyncOwner):
    """Connections to the node that owns the manager's slot, for one event loop."""

    def after_fork(self) -> None:
        """Begin with an empty pool, also in a child process or another event loop."""
        # Connections that take another call.
        self._free: list[AsyncConnection] = []
        # There is no lock: no ``await`` may come between a look at these attributes, or at ``users``, and their change.
        self._waiters: deque[asyncio.Future[None]] = deque()
        # The calls that wait for the connection that was begun last, which they will share; None: it is open, or was
        # not begun for several calls.
        self._joined: list[asyncio.Future[None]] | None = None
        # How many calls may share a connection, as far as this is known.
        self._depth = DEPTH
        self._count = 0
        self._epoch = 0
        self._closed = False

    async def acquire(
        self, deadline: float, node: tuple[str, int] | None = None, alone: bool = False
    ) -> AsyncConnection:
        """An open connection, at the latest at ``deadline`` (monotonic seconds). ``node``: a new one to this node.
        ``alone``: no other call comes behind this one, which may hold it up. Calls before it are answered first."""
        deadline = self.plan.deadline(deadline, time.monotonic())
        if node is not None:
            return await self._open(deadline, node)
        while True:
            while connection := self._idle(alone):
                self._share(connection, alone)
                try:
                    if connection.epoch == self._epoch and await self._usable(connection):
                        return connection
                except BaseException:
                    await self.discard(connection)
                    raise
                await self.discard(connection)
            joined = self._joined
            if not alone and joined is not None and len(joined) < self._depth - 1:
                await self._wait(joined, deadline, rx.TimeoutError("Timeout connecting to server"))
            elif self._count < self._limit:
                return await self._begin(deadline, alone)
            else:
                await self._wait(self._waiters, deadline, self._busy())

    async def _wait(
        self,
        waiters: list[asyncio.Future[None]] | deque[asyncio.Future[None]],
        deadline: float,
        late: Exception,
    ) -> None:
        """Wait among these until it is worth looking for a connection again. Raises ``late`` at the deadline."""
        waiter = asyncio.get_running_loop().create_future()
        waiters.append(waiter)
        try:
            async with asyncio.timeout(deadline - time.monotonic()):
                await waiter
        except BaseException as error:
            if waiters is self._waiters and waiter.done() and not waiter.cancelled():
                self._wake()  # the free place goes to the next one that waits
            if isinstance(error, TimeoutError):
                raise late from None
            raise

    def take(self) -> AsyncConnection | None:
        """An open connection that calls share, if there is one now. Unlike ``acquire`` it never waits."""
        for connection in reversed(self._free):
            if connection.depth > 1 and connection.connected and connection.epoch == self._epoch:
                self._share(connection)
                return connection
        return None

    def _share(self, connection: AsyncConnection, alone: bool = False) -> None:
        """Count one more call on a connection. One that takes no further call leaves the list of free ones."""
        connection.users += 1
        connection.alone = alone
        if alone or connection.users >= connection.depth:
            self._free.remove(connection)
            connection.free = False

    async def _usable(self, connection: AsyncConnection) -> bool:
        """Is a connection still open? Our own notices the end by itself."""
        if connection.own:
            return connection.connected
        if time.monotonic() - connection.used < PROBE_AFTER_SECONDS:
            return True
        try:
            return not await _dirty(connection.conn)()
        except REDIS_ERRORS:
            return False

    def give(self, connection: AsyncConnection) -> bool:
        """Give a healthy connection back: its reply was read to the end. False: it has to be discarded."""
        if connection.epoch != self._epoch or self._closed or not connection.connected:
            return False
        connection.users -= 1
        if connection.free:
            self._wake()
        elif not (connection.alone and connection.users):
            self._offer(connection)
        return True

    def _offer(self, connection: AsyncConnection) -> None:
        """Put a connection into the list of those that take another call."""
        connection.used = time.monotonic()
        connection.alone = False
        connection.free = True
        self._free.append(connection)
        for _ in range(min(connection.depth - connection.users, len(self._waiters))):
            self._wake()

    async def abandon(self, connection: AsyncConnection) -> None:
        """The call that used a connection was cancelled. On a shared connection its reply is dropped when it comes."""
        if connection.depth == 1 or connection.alone:
            await self.discard(connection)
        else:
            await self.release(connection)

    def _wake(self) -> None:
        """Let the first call that waits look for a connection again."""
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    async def discard(self, connection: AsyncConnection) -> None:
        """Close a connection whose state is unknown, once its last call has discarded it."""
        connection.users -= 1
        connection.epoch = -1
        if connection.free:
            self._free.remove(connection)
            connection.free = False
        if not connection.users:
            self._count -= 1
            self._wake()
            await connection.close()

    async def drop_idle(self) -> None:
        """Close the idle connections, and those in use when they come back: one was lost, so none is trusted."""
        self._epoch += 1
        free, self._free = self._free, []
        for connection in free:
            connection.free = False
            if not connection.users:
                connection.users = 1
                await self.discard(connection)

    async def subscription(self, heard: Callable[[Any], None]) -> Any:
        """A connection for subscriptions, to the same node; not counted, not pooled.

        Our own gives each message to ``heard`` where it is read; a redis-py connection is read by its user.
        """
        deadline = time.monotonic() + self.plan.settings.connect_timeout_seconds
        conn = await self._make(await self._current(), deadline)
        return conn.become(heard) if isinstance(conn, PipelinedConnection) else conn

    def _idle(self, alone: bool) -> AsyncConnection | None:
        """The connection that was given back last and takes another call; for one that is ``alone`` rather a new one
        than one in use, as long as there may be more."""
        unused = alone and self._count < self._limit
        found = (each for each in reversed(self._free) if not (unused and each.users))
        return min(found, key=lambda each: each.users > 0, default=None) if alone else next(found, None)

    async def _begin(self, deadline: float, alone: bool) -> AsyncConnection:
        """Open a connection. Unless it is for a call ``alone``, the calls that come meanwhile wait for it, too."""
        joined: list[asyncio.Future[None]] = []
        if not alone:
            self._joined = joined
        try:
            connection = await self._open(deadline, None)
        except Exception as error:
            self._end(joined, error)
            raise
        except BaseException:
            self._end(joined)  # the call was cancelled: another one opens the connection
            raise
        self._depth = connection.depth
        connection.alone = alone
        if not alone and connection.depth > 1 and connection.epoch == self._epoch and not self._closed:
            self._offer(connection)
        self._end(joined)
        return connection

    def _end(self, joined: list[asyncio.Future[None]], error: Exception | None = None) -> None:
        """Let the calls that wait for a connection look for it, or raise why it could not be opened."""
        if self._joined is joined:
            self._joined = None
        for waiter in joined:
            if waiter.done():
                continue
            if error is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(error)

    async def _open(self, deadline: float, node: tuple[str, int] | None) -> AsyncConnection:
        self._count += 1
        try:
            self._require_open()
            if node is not None:
                connector, epoch = self.plan.at(node), -1  # for one call: never pooled
            else:
                connector = await self._current()
                epoch = self._epoch
            conn = await self._make(connector, deadline)
        except BaseException:
            self._count -= 1
            self._wake()
            raise
        return AsyncConnection(conn, epoch, self.plan.settings.reply_timeout_seconds)

    async def _make(self, connector: Connector, deadline: float) -> Any:
        endpoint, conn = connector.endpoint(), None
        patience = self.plan.patience(deadline - time.monotonic())
        try:
            async with asyncio.timeout(patience):
                if endpoint is not None:
                    return await net.connect(endpoint, self.plan.settings.reply_timeout_seconds)
                conn = connector.connection(**connector.kwargs)
                await conn.connect()
        except TimeoutError:
            await hang_up(conn)
            raise rx.TimeoutError("Timeout connecting to server") from None
        except REDIS_ERRORS as error:
            await hang_up(conn)
            hidden = self.plan.without_secrets(error)
            if hidden is not None:
                raise hidden from None
            raise
        except BaseException:
            await hang_up(conn)
            raise
        conn.connect = conn.connect_check_health = _refuse_reconnect
        return conn

    async def _ask(self, node: tuple[str, int], search: Search) -> None:
        plan, deadline = self.plan, search.deadline()
        patience = plan.settings.reply_timeout_seconds
        if search.found is not None:
            patience = max(deadline - time.monotonic(), 0.001)
        conn = await self._make(plan.asking(node), deadline)
        try:
            async with asyncio.timeout(patience):
                connection = AsyncConnection(conn, -1, patience)
                reply, master = await connection.command(*plan.query()), None
                if plan.supervised:
                    with suppress(rx.ResponseError):  # a user that may not ask
                        master = await connection.command(*plan.epoch_query())
                search.take(node, reply, master)
        finally:
            await hang_up(conn)


async def _refuse_reconnect(*_: Any, **__: Any) -> None:
    """See ``pool._refuse_reconnect``."""
    raise rx.ConnectionError("the connection was closed")


async def hang_up(conn: Any) -> None:
    """Close a connection, if there is one, without waiting for the other side."""
    if isinstance(conn, (PipelinedConnection, Subscription)):
        conn.close()
    elif conn is not None:
        await conn.disconnect(nowait=True)


def _dirty(conn: Any) -> Callable[[], Any]:
    # Renamed in redis-py 8; the old name warns there.
    found: Callable[[], Any] = getattr(conn, "can_read", None) or conn.can_read_destructive
    return found
