"""Blocking connections, and a pool in which each call has one to itself.

``drivers.connect`` makes it, and ``calls`` and the deploy step (``drivers.deploy``) take connections from it, in any
thread.

The pool of asyncio (``pool_aio``) shares connections between calls and has no locks, so it is written by hand, too. The
head of ``Owner`` lists the rules that both keep: a change of one is made in both. ``tests/drivers`` runs each pool for
itself.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import nullcontext, suppress
from time import monotonic
from typing import Any

from redis import exceptions as rx

from mqredis.drivers.net.blocking import SocketConnection, connect
from mqredis.drivers.net.discovery import Search
from mqredis.drivers.net.endpoint import Connector
from mqredis.drivers.net.owner import Owner
from mqredis.drivers.net.wire import REDIS_ERRORS, packed_command

# Seconds after which an idle connection is probed before its next use, since the server may have closed it.
PROBE_AFTER_SECONDS = 1.0


class Connection:
    """A connection: our own, or one of redis-py. One call at a time uses it."""

    __slots__ = ("_lost", "conn", "epoch", "exchange", "run_id", "used")

    conn: Any
    """A ``SocketConnection``, or a connection of redis-py, whose methods for subscriptions are named alike."""
    greeting = nullcontext()
    """A lock where calls share connections."""
    exchange: Callable[[bytes], Any]
    """Send a packed request and read its reply; an empty one: read the reply of what was sent before."""

    def __init__(self, conn: Any, epoch: int) -> None:
        self.conn = conn
        self.exchange = conn.exchange if isinstance(conn, SocketConnection) else self._exchange
        self._lost = False
        self.epoch = epoch
        # run_id of the server; None: not asked yet.
        self.run_id: str | None = None
        # When it was last taken into use.
        self.used = monotonic()

    def _exchange(self, request: bytes) -> Any:
        """Send a request over a redis-py connection."""
        try:
            if request:
                self.conn.send_packed_command((request,), check_health=False)
            return self.conn.read_response()
        except rx.ResponseError:
            raise
        except BaseException:
            self._lost = True
            raise

    def command(self, *args: str | bytes | int) -> Any:
        """Run a command."""
        return self.exchange(packed_command(args))

    @property
    def connected(self) -> bool:
        """Can the connection take another request? (redis-py closes it on errors it does not trust.)"""
        return self.conn.connected if isinstance(self.conn, SocketConnection) else not self._lost

    @property
    def address(self) -> str:
        """IP address of this end; "" of a unix socket, and of a connection of redis-py, which does not tell it."""
        return self.conn.address if isinstance(self.conn, SocketConnection) else ""

    def close(self) -> None:
        """Close; never raises."""
        try:
            self.conn.disconnect()
        except Exception:  # noqa: BLE001 - a socket in any state at all
            return


class Backend(Owner):
    """Connections to the node that owns the manager's slot."""

    def after_fork(self) -> None:
        """Begin with an empty pool, also in a child process: the parent's sockets are never written to."""
        for connection in getattr(self, "_idle", ()):
            connection.close()  # only the child's copy; the interpreter would warn of an open socket
        # The connections that no call uses. Threads append and pop without the lock.
        self._idle: deque[Connection] = deque()
        # What follows is written under its lock, but for ``_closed``. ``take`` and ``give`` read it without: ``give``
        # first appends, and then looks at ``_epoch`` and ``_waiting``, so a thread that changes these later
        # finds the connection.
        self._cond = threading.Condition()
        self._count = 0
        # Threads that wait for a connection.
        self._waiting = 0
        self._epoch = 0
        self._closed = False

    def acquire(
        self,
        deadline: float,
        node: tuple[str, int] | None = None,
        alone: bool = True,  # noqa: ARG002 - as of AsyncBackend
    ) -> Connection:
        """An open connection, at the latest at ``deadline`` (monotonic seconds). ``node``: a new one to this node.
        ``alone``: one that is not shared, as none is here."""
        deadline = self.plan.deadline(deadline, monotonic())
        while True:
            if node is None and (connection := self.take()) is not None:
                return connection
            if self._reserve(deadline):
                return self._open(deadline, node)
            if node is not None and (connection := self.take()) is not None:
                self.discard(connection)  # makes room

    def _reserve(self, deadline: float) -> bool:
        """Reserve a place for a new connection, and wait until there is one. False: an open connection came free."""
        with self._cond:
            self._waiting += 1  # before the pool is looked at: from then on ``give`` notifies
            try:
                while self._count >= self._limit:
                    if self._idle:
                        return False
                    if not self._cond.wait(deadline - monotonic()):
                        raise self._busy()
            except BaseException:
                self._cond.notify()  # perhaps it was notified: then the free place goes to the next one that waits
                raise
            finally:
                self._waiting -= 1
            self._count += 1
            return True

    def take(self) -> Connection | None:
        """An open connection that no call uses now, if there is one."""
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return None
            now = monotonic()
            rest = now - connection.used
            if connection.epoch == self._epoch and (rest < PROBE_AFTER_SECONDS or self._usable(connection)):
                connection.used = now
                return connection
            self.discard(connection)

    def _usable(self, connection: Connection) -> bool:
        """Is an idle connection still open, with nothing to read?"""
        try:
            # Readable while idle means closed by the server, or a reply that is not ours.
            return not connection.conn.can_read(0)
        except REDIS_ERRORS:
            return False

    def give(self, connection: Connection) -> bool:
        """Give a healthy connection back: its reply was read to the end. False: it has to be discarded."""
        if connection.epoch != self._epoch or self._closed:
            return False
        self._idle.append(connection)
        # If another thread has dropped the idle connections in between, this one may have come too late for it.
        if connection.epoch != self._epoch:
            self._close_idle()
        if self._waiting:
            with self._cond:
                self._cond.notify()
        return True

    def abandon(self, connection: Connection) -> None:
        """The call that used a connection was interrupted: its reply may still arrive."""
        self.discard(connection)

    def discard(self, connection: Connection) -> None:
        """Close a connection whose state is unknown."""
        connection.close()
        with self._cond:
            self._count -= 1
            self._cond.notify()

    def drop_idle(self) -> None:
        """Close the idle connections, and those in use when they come back: one was lost, so none is trusted."""
        with self._cond:
            self._epoch += 1
        self._close_idle()

    def _close_idle(self) -> None:
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return
            self.discard(connection)

    def pubsub_connection(self) -> Any:
        """A connection for subscriptions, to the same node; not counted, not pooled."""
        deadline = monotonic() + self.plan.settings.connect_timeout_seconds
        return self._make(self._current(), deadline)

    def _open(self, deadline: float, node: tuple[str, int] | None) -> Connection:
        try:
            self._require_open()
            if node is not None:
                return Connection(self._make(self.plan.at(node), deadline), -1)  # for one call: never pooled
            # Read before the node is looked up: another thread may find a later one, and drop what leads to this one.
            epoch = self._epoch
            return Connection(self._make(self._current(), deadline), epoch)
        except BaseException:
            with self._cond:
                self._count -= 1
                self._cond.notify()
            raise

    def _make(self, connector: Connector, deadline: float) -> Any:
        patience = self.plan.patience(deadline - monotonic())
        endpoint, conn = connector.endpoint(), None
        try:
            if endpoint is not None:
                return connect(endpoint, patience)
            if "socket_connect_timeout" in connector.kwargs:
                connector = connector.having(socket_connect_timeout=patience)
            conn = connector.connection(**connector.kwargs)
            conn.connect()
        except REDIS_ERRORS as error:
            if conn is not None:
                conn.disconnect()
            hidden = self.plan.without_secrets(error)
            if hidden is not None:
                raise hidden from None
            raise
        except BaseException:
            if conn is not None:
                conn.disconnect()
            raise
        conn.connect = conn.connect_check_health = _refuse_reconnect
        return conn

    def _ask(self, node: tuple[str, int], search: Search) -> None:
        plan, deadline = self.plan, search.deadline()
        connector = plan.asking(node)
        if search.found is not None:
            connector = connector.having(socket_timeout=max(deadline - monotonic(), 0.001))
        conn = self._make(connector, deadline)
        try:
            conn.send_command(*plan.query())
            reply, master = conn.read_response(), None
            if plan.supervised:
                with suppress(rx.ResponseError):  # a user that may not ask
                    conn.send_command(*plan.epoch_query())
                    master = conn.read_response()
            search.take(node, reply, master)
        finally:
            conn.disconnect()


def _refuse_reconnect(*_: Any, **__: Any) -> None:
    """Replaces redis-py's ``connect``, which redis-py calls by itself wherever it finds a connection closed.

    The new socket would lack the state of the old one: a subscription would have the last channel only, and a
    connection would send calls without asking which server is behind it. Also, it would never be closed.
    """
    raise rx.ConnectionError("the connection was closed")
