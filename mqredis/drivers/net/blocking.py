"""A blocking connection: one socket and hiredis. Its methods for subscriptions are named as in redis-py.

``net.pool`` makes them; one thread at a time uses a connection. Those for subscriptions of waits are shared: threads
send over them under the lock of ``waiting.registry``, and ``waiting.reader`` lets one thread at a time read. Over TLS
the thread of the registry reads, under that lock. ``drivers.subscription`` and ``pool._ask`` use one in one thread.

Change together with: ``dial`` in ``net.aio``, for options of sockets and TLS.
"""

from __future__ import annotations

import selectors
import socket
import struct
import sys
from collections.abc import Iterator
from typing import Any

import hiredis
from redis import exceptions as rx

from mqredis.drivers.net.endpoint import Endpoint
from mqredis.drivers.net.wire import address_of, packed_command, reply_error

# Bytes read at once.
CHUNK = 65_536
_POSIX = sys.platform.startswith(("linux", "darwin"))
SILENT = "no reply came in time"


class SocketConnection:
    """A connection over a connected socket. ``reply_timeout``: seconds that a reply may take (None: any time)."""

    def __init__(self, sock: socket.socket, reply_timeout: float | None) -> None:
        self._sock: socket.socket | None = sock
        self._reader: Any = hiredis.Reader(protocolError=rx.InvalidResponse, replyError=reply_error)
        self._buffer = bytearray(CHUNK)
        # The file descriptor, to be polled.
        self.number = sock.fileno()
        sock.settimeout(reply_timeout)
        by_system = _let_system_keep_time(sock, reply_timeout)
        # May threads share its subscription by polling the socket? Not if a layer above the socket (TLS, or a library
        # that replaces sockets) may hold back data.
        self.pollable = by_system and type(sock).__module__ == "socket"

    @property
    def connected(self) -> bool:
        """Is the connection still open on our side?"""
        return self._sock is not None

    @property
    def address(self) -> str:
        """IP address of this end; "" of a unix socket."""
        return address_of(self._socket().getsockname())

    def exchange(self, request: bytes) -> Any:
        """Send a packed request and read its reply. An empty request reads a further reply to an earlier request.

        Raises an error reply as an exception.
        """
        sock, reader, buffer = self._socket(), self._reader, self._buffer
        try:
            if request:
                sock.sendall(request)
                reply = False  # the reply to this request cannot be here yet
            else:
                reply = reader.gets()
            while reply is False:  # False is never a reply
                count = sock.recv_into(buffer)
                if not count:
                    raise rx.ConnectionError("the server closed the connection")
                reader.feed(buffer, 0, count)
                reply = reader.gets()
        except (TimeoutError, BlockingIOError):
            raise rx.TimeoutError(SILENT) from None
        if isinstance(reply, Exception):
            raise reply
        return reply

    def _socket(self) -> socket.socket:
        if self._sock is None:
            raise rx.ConnectionError("the connection was closed")
        return self._sock

    # ---- subscriptions ---------------------------------------------------------------------------

    def send_command(self, *args: str | bytes | int, check_health: bool = False) -> None:  # noqa: ARG002
        """Send a command without reading its reply."""
        self._socket().sendall(packed_command(args))

    def read_response(self) -> Any:
        """The next message."""
        return self.exchange(b"")

    def can_read(self, timeout: float) -> bool:
        """Has data arrived, or the end of the connection, within so many seconds?"""
        if self._reader.has_data():
            return True
        sock = self._socket()
        if getattr(sock, "pending", int)():  # TLS has decrypted more than was read
            return True
        with selectors.DefaultSelector() as selector:
            selector.register(sock, selectors.EVENT_READ)
            return bool(selector.select(timeout))

    def take(self) -> Iterator[Any]:
        """The messages that have arrived, error replies among them. Raises ConnectionError if the connection is
        closed."""
        try:
            count = self._socket().recv_into(self._buffer, 0, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        if not count:
            raise rx.ConnectionError("the server closed the connection")
        self._reader.feed(self._buffer, 0, count)
        while (message := self._reader.gets()) is not False:
            yield message

    def disconnect(self) -> None:
        """Close at once; never raises."""
        sock, self._sock = self._sock, None
        if sock is not None:
            sock.close()


def connect(endpoint: Endpoint, timeout: float) -> SocketConnection:
    """Open a connection within ``timeout`` seconds. Raises OSError or a RedisError."""
    connection = SocketConnection(_dial(endpoint, timeout), endpoint.reply_timeout)
    try:
        for command in endpoint.greeting:
            connection.exchange(command)
    except BaseException:
        connection.disconnect()
        raise
    return connection


def _dial(endpoint: Endpoint, timeout: float) -> socket.socket:
    if endpoint.path:
        sock = socket.socket(socket.AF_UNIX)
        try:
            sock.settimeout(timeout)
            sock.connect(endpoint.path)
        except BaseException:
            sock.close()
            raise
    else:
        sock = socket.create_connection((endpoint.host, endpoint.port), timeout)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if endpoint.keepalive:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if endpoint.tls is not None:
                sock = endpoint.tls.wrap_socket(sock, server_hostname=endpoint.host)
        except BaseException:
            sock.close()
            raise
    return sock


def _let_system_keep_time(sock: socket.socket, seconds: float | None) -> bool:
    """Let the operating system time out sends and reads, if it can. Python would call poll() before each of them."""
    if not _POSIX or type(sock) is not socket.socket:
        return False
    if seconds:
        limit = struct.pack("ll", int(seconds), int(seconds % 1 * 1e6))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        sock.settimeout(None)
    return seconds is None or seconds > 0
