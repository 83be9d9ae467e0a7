"""One request and its reply without redis-py's command path, which costs as much as the round trip itself.

redis-py makes the connection (TLS, credentials, Sentinel, cluster); what is taken over is its socket, or its transport.
Where that cannot be had (no hiredis, fakeredis) its own path serves.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from contextvars import Context
from time import monotonic
from typing import Any, TypeVar

from redis import exceptions as rx

from mqredis.drivers.wire import hiredis

#: Bytes read at once.
CHUNK = 65_536
_POSIX = sys.platform.startswith(("linux", "darwin"))
_SILENT = "no reply came in time"

P = TypeVar("P", bound=asyncio.Protocol)


def _reader(conn: Any) -> Any:
    """A parser like that of the connection; None: it has another kind."""
    parser: Any = getattr(conn, "_parser", None)
    if hiredis is None or not isinstance(getattr(parser, "_reader", None), hiredis.Reader):
        return None
    return hiredis.Reader(protocolError=rx.InvalidResponse, replyError=parser.parse_error)


class Direct:
    """A blocking connection's socket."""

    __slots__ = ("_buffer", "_feed", "_gets", "_recv", "send")

    def __init__(self, sock: Any, reader: Any) -> None:
        #: Send a part of a request; raises OSError.
        self.send = sock.sendall
        self._recv = sock.recv_into
        self._feed = reader.feed
        self._gets = reader.gets
        self._buffer = bytearray(CHUNK)

    def exchange(self, request: Sequence[bytes | memoryview]) -> Any:
        """Send a packed request and read its reply. Raises whatever the reply or the system says.

        An empty request: a reply of what was sent before is read.
        """
        try:
            for part in request:
                self.send(part)
            # What is asked now cannot be here yet; the second reply of an earlier request can.
            if request or (reply := self._gets()) is False:  # which no reply is
                buffer = self._buffer
                while True:
                    count = self._recv(buffer)
                    if not count:
                        raise rx.ConnectionError("the server closed the connection")
                    self._feed(buffer, 0, count)
                    if (reply := self._gets()) is not False:
                        break
        except (TimeoutError, BlockingIOError):
            raise rx.TimeoutError(_SILENT) from None
        if type(reply) is not list and isinstance(reply, Exception):
            raise reply
        return reply


def direct(conn: Any) -> Direct | None:
    """The short way over a connected blocking connection, if there is one."""
    reader, sock = _reader(conn), getattr(conn, "_sock", None)
    if reader is None or not isinstance(sock, socket.socket):
        return None
    _hand_over_time(sock)
    return Direct(sock, reader)


def _hand_over_time(sock: socket.socket) -> bool:
    """Let the system keep the time, where it can: Python would ask poll() before each send and each read."""
    if not _POSIX or type(sock) is not socket.socket:
        return False
    seconds = sock.gettimeout()
    if seconds:
        limit = struct.pack("ll", int(seconds), int(seconds % 1 * 1e6))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        sock.settimeout(None)
    return seconds is None or seconds > 0


class Ear:
    """The socket of a blocking connection's subscription: what has come, without waiting."""

    __slots__ = ("_buffer", "_reader", "_sock", "number")

    def __init__(self, sock: socket.socket, reader: Any) -> None:
        self._sock = sock
        self._reader = reader
        self._buffer = bytearray(4096)
        #: To be polled.
        self.number = sock.fileno()

    def take(self) -> Iterator[Any]:
        """The messages that have come, errors of the server among them. Raises ConnectionError when it is closed."""
        try:
            count = self._sock.recv_into(self._buffer, 0, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        if not count:
            raise rx.ConnectionError("the server closed the connection")
        self._reader.feed(self._buffer, 0, count)
        while (message := self._reader.gets()) is not False:
            yield message


def ear(conn: Any) -> Ear | None:
    """The short way to hear what comes over a connected blocking connection, if there is one: not through TLS, whose
    layer may hold back what the system no longer has, nor where another library has put its sockets in Python's place.
    """
    reader, sock = _reader(conn), getattr(conn, "_sock", None)
    if reader is None or not isinstance(sock, socket.socket) or type(sock).__module__ != "socket":
        return None
    return Ear(sock, reader) if _hand_over_time(sock) else None


class AsyncEar(asyncio.Protocol):
    """The transport of an asyncio connection's subscription: what comes is heard where it is read, by no task."""

    def __init__(self, transport: Any, reader: Any, heard: Callable[[Any], None]) -> None:
        self._transport = transport
        self._reader = reader
        self._heard = heard
        self._news = self._known = 0
        self._lost = asyncio.Event()
        self._why = "the connection was closed"

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


def async_ear(conn: Any, heard: Callable[[Any], None]) -> AsyncEar | None:
    """The short way to hear what comes over a connected asyncio connection that has asked for nothing yet, if there is
    one."""
    return _take_over(conn, lambda transport, reader: AsyncEar(transport, reader, heard))


class Reply(asyncio.Future[Any]):
    """What one task awaits. It goes on from where the reply was read, not in a later turn of the loop."""

    #: What makes the task go on, and the context that it runs in.
    wake: Callable[[Any], object] | None = None
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


class Line(asyncio.Protocol):
    """An asyncio connection's transport: requests of several tasks follow each other, and so do their replies.

    What tasks send in one turn of the loop is written at once; a task that was alone the last time does not wait for
    the turn's end. A task whose reply is read goes on at once, and what all of them send then is one write, too. A task
    that is cancelled leaves its place in the queue of replies: its reply is dropped when it comes.
    """

    def __init__(self, transport: Any, reader: Any, patience: float) -> None:
        self._transport = transport
        self._reader = reader
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
            self._lose(rx.TimeoutError(_SILENT))

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

    # ---- called by the event loop ----------------------------------------------------------------

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


def line(conn: Any, patience: float) -> Line | None:
    """The short way over a connected asyncio connection, if there is one."""
    return _take_over(conn, lambda transport, reader: Line(transport, reader, patience))


def _take_over(conn: Any, make: Callable[[asyncio.Transport, Any], P]) -> P | None:
    """Let a protocol have the transport of an asyncio connection, with a parser; None where they cannot be had."""
    reader = _reader(conn)
    transport = getattr(getattr(conn, "_writer", None), "transport", None)
    if reader is None or not isinstance(transport, asyncio.Transport):
        return None
    own = make(transport, reader)
    transport.set_protocol(own)
    return own
