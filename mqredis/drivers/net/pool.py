"""Sync connections: a small pool over redis-py's connection classes, without its retries and its locks."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from time import monotonic
from typing import Any

from redis import exceptions as rx

from mqredis.drivers.net.blocking import SocketConnection, connect
from mqredis.drivers.net.discovery import Plan, Search
from mqredis.drivers.net.endpoint import endpoint_of
from mqredis.drivers.net.owner import Owner
from mqredis.drivers.net.urls import redact
from mqredis.drivers.net.wire import REDIS_ERRORS, digits, packed_command
from mqredis.errors import BrokerUnavailable

#: Seconds after which an idle connection is probed before its next use, since the server may have closed it.
PROBE_AFTER_SECONDS = 1.0


class Connection:
    """One connection."""

    __slots__ = ("_lost", "conn", "epoch", "exchange", "run_id", "used")

    #: Send a packed request and read its reply; an empty one: read the reply of what was sent before.
    exchange: Callable[[Sequence[bytes | memoryview]], Any]

    def __init__(self, conn: Any, epoch: int) -> None:
        self.conn = conn
        self.exchange = conn.exchange if isinstance(conn, SocketConnection) else self._exchange
        self._lost = False
        self.epoch = epoch
        #: run_id of the server; None: not asked yet.
        self.run_id: str | None = None
        #: When it was last taken into use.
        self.used = monotonic()

    def _exchange(self, request: Sequence[bytes | memoryview]) -> Any:
        """Send a request over a redis-py connection."""
        try:
            if request:
                self.conn.send_packed_command(request, check_health=False)
            return self.conn.read_response()
        except rx.ResponseError:
            raise
        except BaseException:
            self._lost = True
            raise

    def command(self, *args: str | bytes | int) -> Any:
        """Run a command."""
        return self.exchange((packed_command(digits(args)),))

    @property
    def connected(self) -> bool:
        """Can the connection take another request? (redis-py closes it on errors it does not trust.)"""
        return self.conn.connected if isinstance(self.conn, SocketConnection) else not self._lost

    def close(self) -> None:
        """Close; never raises."""
        try:
            self.conn.disconnect()
        except Exception:  # noqa: BLE001 - a socket in any state at all
            return


class Backend(Owner):
    """Connections to the node that owns the manager's slot."""

    def __init__(self, plan: Plan, on_close: Callable[[], None] | None = None) -> None:
        self.plan = plan
        self.database = plan.target.database
        #: Without secrets.
        self.address = plan.target.describe()
        self._limit = plan.settings.max_connections
        self._on_close = on_close
        self.on_move = lambda: None
        self.after_fork()

    def after_fork(self) -> None:
        """Start anew, also in a child: the parent's sockets are never written to."""
        self._idle: deque[Connection] = deque()
        self._cond = threading.Condition()
        self._count = 0
        self._waiting = 0
        self._epoch = 0
        self._closed = False

    @property
    def memory(self) -> bool:
        """Is this a fakeredis in the process?"""
        return self.plan.memory

    def acquire(
        self,
        deadline: float,
        node: tuple[str, int] | None = None,
        alone: bool = True,  # noqa: ARG002 - as of AsyncBackend
    ) -> Connection:
        """A connected link, at the latest at ``deadline`` (monotonic seconds); ``node``: a new one; ``alone``: one that
        is not shared, as none is here."""
        while True:
            if node is None and (link := self.take()) is not None:
                return link
            if self._reserve(deadline):
                return self._open(deadline, node)
            if node is not None and (link := self.take()) is not None:
                self.discard(link)  # makes room

    def _reserve(self, deadline: float) -> bool:
        """Reserve a place for a new connection, and wait until there is one. False: an open connection came free."""
        with self._cond:
            self._waiting += 1  # before the look, so that whoever gives one back after it says so
            try:
                while self._count >= self._limit:
                    if self._idle:
                        return False
                    if not self._cond.wait(deadline - monotonic()):
                        raise BrokerUnavailable(
                            f"all {self._limit} connections are busy; raise max_connections"
                        )
            finally:
                self._waiting -= 1
            self._count += 1
            return True

    def take(self) -> Connection | None:
        """A connected link that nobody uses now, if there is one."""
        while True:
            try:
                link = self._idle.pop()
            except IndexError:
                return None
            now = monotonic()
            rest = now - link.used
            if link.epoch == self._epoch and (rest < PROBE_AFTER_SECONDS or self._usable(link)):
                link.used = now
                return link
            self.discard(link)

    def _usable(self, link: Connection) -> bool:
        try:
            # Readable while idle means closed by the server, or a reply that is not ours.
            return not link.conn.can_read(0)
        except REDIS_ERRORS:
            return False

    def give(self, link: Connection) -> bool:
        """Give a healthy link back: its reply has been read to the end. False: it has to be discarded."""
        if link.epoch != self._epoch or self._closed:
            return False
        self._idle.append(link)
        # If another thread dropped the idle ones in between, it may have looked before this one was there.
        if link.epoch != self._epoch:
            self._close_idle()
        if self._waiting:
            with self._cond:
                self._cond.notify()
        return True

    def release(self, link: Connection) -> None:
        """Give a healthy link back, or close it."""
        if not self.give(link):
            self.discard(link)

    def abandon(self, link: Connection) -> None:
        """The user of a link was interrupted: a reply may still arrive on it."""
        self.discard(link)

    def discard(self, link: Connection) -> None:
        """Close a link whose state is unknown."""
        link.close()
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
                link = self._idle.pop()
            except IndexError:
                return
            self.discard(link)

    def pubsub_connection(self) -> Any:
        """A connection for subscriptions, to the same node; not counted, not pooled."""
        deadline = monotonic() + self.plan.settings.connect_timeout_seconds
        return self._make(self._current(), deadline)

    def close(self) -> None:
        """Close the idle connections now, and those in use when they come back. No new ones are made."""
        self._closed = True
        self.drop_idle()
        if self._on_close is not None:
            self._on_close()
            self._on_close = None

    def _open(self, deadline: float, node: tuple[str, int] | None) -> Connection:
        try:
            self._require_open()
            if node is not None:
                return Connection(self._make(self.plan.at(node), deadline), -1)  # for once: never pooled
            kwargs = self._current()
            epoch = self._epoch
            return Connection(self._make(kwargs, deadline), epoch)
        except BaseException:
            with self._cond:
                self._count -= 1
                self._cond.notify()
            raise

    def _make(self, kwargs: dict[str, Any], deadline: float) -> Any:
        patience = self.plan.patience(deadline - monotonic())
        if "socket_connect_timeout" in kwargs:
            kwargs = kwargs | {"socket_connect_timeout": patience}
        endpoint = endpoint_of(self.plan.connection, kwargs)
        conn: Any = None
        try:
            if endpoint is not None:
                return connect(endpoint, patience)
            conn = self.plan.connection(**kwargs)
            conn.connect()
        except REDIS_ERRORS as error:
            if conn is not None:
                conn.disconnect()
            if self.plan.secrets and redact(error, *self.plan.secrets) != str(error):
                raise type(error)(redact(error, *self.plan.secrets)) from None
            raise
        except BaseException:
            if conn is not None:
                conn.disconnect()
            raise
        conn.connect = conn.connect_check_health = _refuse_reconnect
        return conn

    def _ask(self, node: tuple[str, int], search: Search) -> None:
        plan, deadline = self.plan, search.deadline(monotonic())
        kwargs = plan.at(node, sentinel=plan.supervised)
        if search.found is not None:
            kwargs["socket_timeout"] = max(deadline - monotonic(), 0.001)
        conn = self._make(kwargs, deadline)
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
