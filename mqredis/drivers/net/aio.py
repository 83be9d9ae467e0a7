"""An asyncio connection: one transport and hiredis, with requests of several tasks in one write."""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import Context
from time import monotonic
from typing import Any, TypeVar

import hiredis
from redis import exceptions as rx

from mqredis.drivers.net.blocking import SILENT
from mqredis.drivers.net.endpoint import Endpoint
from mqredis.drivers.net.wire import digits, packed_command, reply_error

P = TypeVar("P", bound=asyncio.Protocol)


class Reply(asyncio.Future[Any]):
    """What one task awaits. It goes on from where the reply was read, not in a later turn of the loop."""

    wake: Callable[[Any], object] | None = None
    """What makes the task go on, and the context that it runs in."""
    context: Context | None = None

    def add_done_callback(
        self, callback: Callable[[Any], object], /, *, context: Context | None = None
    ) -> None:
        """The task, which is the only one to ask."""
        self.wake, self.context = callback, context

    def cancel(self, msg: Any | None = None) -> bool:
        """The task gives up."""
        if not super().cancel(msg):
            return False
        self.later()
        return True

    def later(self) -> None:
        """Let the task go on in the next turn: it is not to run inside of another one."""
        if self.wake is not None:
            self.get_loop().call_soon(self.wake, self, context=self.context)


class PipelinedConnection(asyncio.Protocol):
    """An asyncio connection's transport: requests of several tasks follow each other, and so do their replies.

    What tasks send in one turn of the loop is written at once; a task that was alone the last time does not wait for
    the turn's end. A task whose reply is read goes on at once, and what all of them send then is one write, too. A task
    that is cancelled leaves its place in the queue of replies: its reply is dropped when it comes.
    """

    def __init__(self, patience: float) -> None:
        self._transport: Any = None
        self._reader = hiredis.Reader(protocolError=rx.InvalidResponse, replyError=reply_error)
        self._patience = patience
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[Reply] = deque()
        self._unsent: list[bytes | memoryview] = []
        #: How many requests came since the last write of some together, and whether that had but one.
        self._count = 0
        self._alone = False
        #: Replies are being handed out: what is sent meanwhile is written afterwards.
        self._reading = False
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        #: Why the connection is of no use any more.
        self.lost: Exception | None = None

    @property
    def connected(self) -> bool:
        """Is the connection still open on our side?"""
        return self.lost is None

    def command(self, *args: str | bytes | int) -> Reply:
        """Send a command; its reply is the future's result, or its exception."""
        return self.exchange((packed_command(digits(args)),))

    def exchange(self, request: Sequence[bytes | memoryview]) -> Reply:
        """Send a packed request; its reply is the future's result, or its exception."""
        future = Reply(loop=self._loop)
        if self.lost is not None:
            future.set_exception(rx.ConnectionError(str(self.lost)))
            return future
        if not self._waiting:
            self._due = monotonic() + self._patience
            if self._timer is None:
                self._timer = self._loop.call_later(self._patience, self._late)
            # While replies are handed out, nobody is left who could go on and send something, too.
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
        self._unsent += request
        return future

    def _flush(self) -> None:
        data, self._unsent = self._unsent, []
        self._alone, self._count = self._count == 1, 0
        if data and self.lost is None:
            self._write(data)

    def _write(self, data: Sequence[bytes | memoryview]) -> None:
        if self._transport.is_closing():  # it has failed; connection_lost comes in a later turn
            self._lose(rx.ConnectionError("the connection is gone"))
            return
        self._transport.write(data[0] if len(data) == 1 else b"".join(data))

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
        """Use the connection for subscriptions from now on. No reply may be outstanding."""
        if self._timer is not None:
            self._timer.cancel()
        subscription = Subscription(heard)
        subscription.connection_made(self._transport)
        self._transport.set_protocol(subscription)
        return subscription

    # ---- called by the event loop ----------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        """The transport is there."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Bytes came."""
        due = self._due
        # No task runs while the loop calls us; who calls us from a task has the others wait for the next turn.
        at_once = asyncio.current_task(self._loop) is None
        self._reading = True
        try:
            self._reader.feed(data)
            while (reply := self._reader.gets()) is not False:
                if not self._waiting:
                    if self.lost is not None:
                        return  # a task that went on has closed it
                    raise rx.InvalidResponse("a reply that nobody has asked for")
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
            if self._due is due and self._waiting:  # the next reply may take as long again
                self._due = monotonic() + self._patience
        except rx.RedisError as error:
            self._lose(error)
        except BaseException:
            self._loop.call_soon(
                self.data_received, b""
            )  # a task has ended the loop: the others are still to be told
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
        """The connection is gone."""
        self._lose(rx.ConnectionError(str(error) if error else "the connection was closed"))

    def close(self) -> None:
        """Close at once."""
        self._lose(rx.ConnectionError("the connection was closed by this process"))


class Subscription(asyncio.Protocol):
    """The transport of an asyncio connection's subscription: what comes is heard where it is read, by no task."""

    def __init__(self, heard: Callable[[Any], None]) -> None:
        self._transport: Any = None
        self._reader = hiredis.Reader(protocolError=rx.InvalidResponse, replyError=reply_error)
        self._heard = heard
        self._news = self._known = 0
        self._lost = asyncio.Event()
        self._why = "the connection was closed"

    async def send_command(self, *args: str | bytes | int, check_health: bool = False) -> None:  # noqa: ARG002
        """Send a command; its reply is heard."""
        if self._lost.is_set() or self._transport.is_closing():
            raise rx.ConnectionError(self._why)
        self._transport.write(packed_command(digits(args)))

    def close(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()

    async def news(self, seconds: float) -> bool:
        """Hear for so long; did anything come since this was asked last? Raises ConnectionError once it is closed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._lost.wait()
        if self._lost.is_set():
            raise rx.ConnectionError(self._why)
        known, self._known = self._known, self._news
        return known != self._known

    # ---- called by the event loop ----------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        """The transport is there."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Bytes came."""
        try:
            self._reader.feed(data)
            while (message := self._reader.gets()) is not False:
                self._news += 1
                self._heard(message)
        except Exception as error:  # noqa: BLE001 - whatever it is: the connection is made anew
            self._why = str(error)
            self._transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        """The connection is gone."""
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
    """An open connection, whose replies may take ``patience`` seconds. Raises OSError or a RedisError."""
    connection = await dial(endpoint, lambda: PipelinedConnection(patience))
    try:
        for command in endpoint.greeting:
            await connection.exchange((command,))
    except BaseException:
        connection.close()
        raise
    return connection
