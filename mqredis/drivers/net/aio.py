"""Asyncio connections over a transport and hiredis: one for requests of several tasks, one for subscriptions.

``net.pool_aio`` makes them, and ``waiting.registry_aio`` listens on a ``Subscription``. The event loop calls their
methods, and these continue the tasks; no other thread may. ``net.blocking`` has the connections of threads.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context
from time import monotonic
from typing import Any, TypeVar

import hiredis
from redis import exceptions as rx

from mqredis.drivers.net.blocking import SILENT
from mqredis.drivers.net.endpoint import Endpoint
from mqredis.drivers.net.wire import address_of, packed_command, reply_error

P = TypeVar("P", bound=asyncio.Protocol)


class Reply(asyncio.Future[Any]):
    """The future that a task awaits. The task continues while the reply is read, not in a later turn of the loop."""

    wake: Callable[[Any], object] | None = None
    """The callback that continues the task."""
    context: Context | None = None

    def add_done_callback(
        self, callback: Callable[[Any], object], /, *, context: Context | None = None
    ) -> None:
        """Note the callback of the task, which is the only one that awaits this future."""
        self.wake, self.context = callback, context

    def cancel(self, msg: Any | None = None) -> bool:
        """Cancel the future, and continue the task in the next turn of the loop."""
        if not super().cancel(msg):
            return False
        self.later()
        return True

    def later(self) -> None:
        """Continue the task in the next turn of the loop, since it must not run inside of another task."""
        if self.wake is not None:
            self.get_loop().call_soon(self.wake, self, context=self.context)


class PipelinedConnection(asyncio.Protocol):
    """A connection on which several tasks send requests without waiting for each other. Replies come in the same order.

    Requests of one turn of the loop are joined into one write. If the last turn had only one request, the next one is
    written at once. Tasks continue while their replies are read, and the requests that they then send are one write,
    too. The place of a cancelled task stays in the queue of replies: its reply is dropped when it comes.
    """

    def __init__(self, patience: float) -> None:
        self._transport: Any = None
        self._reader = hiredis.Reader(protocolError=rx.InvalidResponse, replyError=reply_error)
        self._patience = patience
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[Reply] = deque()
        self._unsent: list[bytes] = []
        # Requests since the last joined write, and whether that had only one.
        self._count = 0
        self._alone = False
        # Are replies being read now? Requests that are sent meanwhile are written afterwards.
        self._reading = False
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        # Why the connection was lost; None while it is open.
        self.lost: Exception | None = None

    @property
    def connected(self) -> bool:
        """Is the connection still open on our side?"""
        return self.lost is None

    @property
    def address(self) -> str:
        """IP address of this end; "" of a unix socket."""
        return address_of(self._transport.get_extra_info("sockname"))

    def exchange(self, request: bytes) -> Reply:
        """Send a packed request. The future's result is the reply; an error reply is its exception."""
        future = Reply(loop=self._loop)
        if self.lost is not None:
            future.set_exception(rx.ConnectionError(str(self.lost)))
            return future
        if not self._waiting:
            self._due = monotonic() + self._patience
            if self._timer is None:
                self._timer = self._loop.call_later(self._patience, self._late)
            # If replies are being read, no other task can continue and add a request to this write.
            if self._alone or self._reading:
                self._waiting.append(future)
                self._count = 1
                self._write(request)
                return future
        self._waiting.append(future)
        self._count += 1
        if not self._reading:
            self._alone = False
            if not self._unsent:
                self._loop.call_soon(self._flush)
        self._unsent.append(request)
        return future

    def _flush(self) -> None:
        data, self._unsent = self._unsent, []
        self._alone, self._count = self._count == 1, 0
        if data and self.lost is None:
            self._write(b"".join(data))

    def _write(self, data: bytes) -> None:
        if self._transport.is_closing():  # the connection has failed; connection_lost follows in a later turn
            self._lose(rx.ConnectionError("the connection is gone"))
            return
        self._transport.write(data)

    def _late(self) -> None:
        self._timer = None
        if not self._waiting:
            return
        left = self._due - monotonic()
        if left > 0:
            self._timer = self._loop.call_later(left, self._late)
        else:
            self._lose(rx.TimeoutError(SILENT))

    def _lose(self, error: Exception) -> None:
        if self.lost is None:
            self.lost = error
            self._transport.abort()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting = self._waiting, deque()
        for future in waiting:
            if not future.done():
                future.set_exception(type(error)(str(error)))
                future.later()

    def become(self, heard: Callable[[Any], None]) -> Subscription:
        """Use the connection for subscriptions from now on, with ``heard`` called for each message. No reply may be
        outstanding."""
        if self._timer is not None:
            self._timer.cancel()
        subscription = Subscription(heard)
        subscription.connection_made(self._transport)
        self._transport.set_protocol(subscription)
        return subscription

    # ---- called by the event loop ----------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        """Note the transport."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Read the replies in ``data``."""
        due = self._due
        # Usually the loop calls this method and no task runs. If a task calls it, others continue in the next turn.
        at_once = asyncio.current_task(self._loop) is None
        self._reading = True
        try:
            self._reader.feed(data)
            while (reply := self._reader.gets()) is not False:
                if not self._waiting:
                    if self.lost is not None:
                        return  # a task that continued has closed the connection
                    raise rx.InvalidResponse("a reply without a request")
                future = self._waiting.popleft()
                if future.done():
                    continue  # its task was cancelled
                if isinstance(reply, Exception):
                    future.set_exception(reply)
                else:
                    future.set_result(reply)
                if at_once and future.wake is not None:
                    future.context.run(future.wake, future)  # type: ignore[union-attr]
                else:
                    future.later()
            if self._due == due and self._waiting:  # the next reply may take as long again
                self._due = monotonic() + self._patience
        except rx.RedisError as error:
            self._lose(error)
        except BaseException:
            # A task has raised through the loop: the other tasks still have to get their replies.
            self._loop.call_soon(self.data_received, b"")
            raise
        finally:
            self._reading = False
            if self._unsent:
                self._flush()

    def eof_received(self) -> bool:
        """The server closed the connection."""
        self._lose(rx.ConnectionError("the server closed the connection"))
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """Fail everything that waits for the connection."""
        self._lose(rx.ConnectionError(str(error) if error else "the connection was closed"))

    def close(self) -> None:
        """Close at once."""
        self._lose(rx.ConnectionError("the connection was closed by this process"))


class Subscription(asyncio.Protocol):
    """A connection for subscriptions. ``heard`` is called with each message when it is read; no task reads."""

    def __init__(self, heard: Callable[[Any], None]) -> None:
        self._transport: Any = None
        self._reader = hiredis.Reader(protocolError=rx.InvalidResponse, replyError=reply_error)
        self._heard = heard
        # Messages so far, and how many they were at the last call of ``news``.
        self._news = self._known = 0
        self._lost = asyncio.Event()
        self._why = "the connection was closed"

    async def send_command(self, *args: str | bytes | int, check_health: bool = False) -> None:  # noqa: ARG002
        """Send a command. ``heard`` is called with its reply."""
        if self._lost.is_set() or self._transport.is_closing():
            raise rx.ConnectionError(self._why)
        self._transport.write(packed_command(args))

    def close(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()

    async def news(self, seconds: float) -> bool:
        """Wait for so many seconds. Has anything arrived since the last call? Raises ConnectionError if it was
        closed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._lost.wait()
        if self._lost.is_set():
            raise rx.ConnectionError(self._why)
        known, self._known = self._known, self._news
        return known != self._known

    # ---- called by the event loop ----------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        """Note the transport."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Read the replies in ``data``."""
        try:
            self._reader.feed(data)
            while (message := self._reader.gets()) is not False:
                self._news += 1
                self._heard(message)
        except Exception as error:  # noqa: BLE001 - after any error the connection is replaced
            self._why = str(error)
            self._transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        """Fail everything that waits for the connection."""
        self._why = str(error or self._why)
        self._lost.set()


async def dial(endpoint: Endpoint, make: Callable[[], P]) -> P:
    """Open a transport for a protocol. Raises OSError."""
    loop = asyncio.get_running_loop()
    if endpoint.path:
        _, protocol = await loop.create_unix_connection(make, endpoint.path)
        return protocol
    name = endpoint.host if endpoint.tls is not None else None
    transport, protocol = await loop.create_connection(
        make, endpoint.host, endpoint.port, ssl=endpoint.tls, server_hostname=name
    )
    sock = transport.get_extra_info("socket")
    if endpoint.keepalive and sock is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return protocol


async def connect(endpoint: Endpoint, patience: float) -> PipelinedConnection:
    """Open a connection whose replies may take ``patience`` seconds. Raises OSError or a RedisError."""
    connection = await dial(endpoint, lambda: PipelinedConnection(patience))
    try:
        for command in endpoint.greeting:
            await connection.exchange(command)
    except BaseException:
        connection.close()
        raise
    return connection
