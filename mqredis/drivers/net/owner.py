# Generated from mqredis/drivers/net/owner_aio.py by tools/generate_blocking.py. Do not edit: run `make format`.
"""What a pool of connections does with the node that owns the manager: find it, follow it, stop using it.

Backend (``pool``) derives from it; ``calls`` calls ``rediscover``, ``release`` and ``lose``, ``waits``
calls ``confirm`` and ``moved``.

The owner is the primary that Sentinel names, or the node of a cluster with the manager's slot.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

from redis import exceptions as rx

from mqredis.drivers.net.discovery import Plan, Search
from mqredis.drivers.net.endpoint import Connector
from mqredis.drivers.net.wire import REDIS_ERRORS
from mqredis.errors import BrokerUnavailable, InvalidHandle

if TYPE_CHECKING:
    from mqredis.drivers.net.pool import Connection


class Owner(ABC):
    """The part of :class:`~mqredis.drivers.net.pool.Backend` that does not depend on how connections are
    pooled.

    The two pools are written by hand. Each of these rules stands in both, and a change of one is made in both
    (tests/drivers/test_pool.py; tests/client/test_failover.py moves the manager):

    - The pool has an epoch, and each connection that of its opening. ``drop_idle`` begins the next epoch, and no
      connection of an earlier one is given out or taken back. One to a node that was named has the epoch -1.
    - A connection that was idle for PROBE_AFTER_SECONDS is probed before it is given out. Our own of an event loop
      notice their end by themselves.
    - ``max_connections`` counts all connections but those of subscriptions. A call for which there is none waits, and
      goes on when one is given back or closed. Only the asyncio pool opens one to a named node without waiting.
    - A call that was interrupted leaves a reply behind, so its connection is closed, unless that drops late replies.
    - What ``acquire`` or ``take`` gave goes to one of ``give``, ``release``, ``lose``, ``discard`` and ``abandon``,
      once.
    - redis-py must not reconnect by itself, and errors of connecting do not repeat passwords (``_make``).
    """

    on_move: Callable[[], object] | None = None
    """Called when the manager has moved to another node, to replace a connection that is not in the pool. It must
    not wait for a reply. The registry of ``waiting`` sets it, for its subscription."""
    _closed: bool
    """Set by :meth:`after_fork`, and by :meth:`close`."""
    _epoch: int

    def __init__(self, plan: Plan, on_close: Callable[[], None] | None = None) -> None:
        self.plan = plan
        self.database = plan.target.database
        self.address = plan.target.describe()  # without secrets
        self._limit = plan.settings.max_connections
        self._on_close = on_close
        self.after_fork()

    @property
    def memory(self) -> bool:
        """Is this a fakeredis in the process?"""
        return self.plan.memory

    def close(self) -> None:
        """Close the idle connections now, and those in use when they come back. No new ones are made."""
        self._closed = True
        self.drop_idle()
        if self._on_close is not None:
            self._on_close()
            self._on_close = None

    def release(self, connection: Connection) -> None:
        """Give a healthy connection back, or close it."""
        if not self.give(connection):
            self.discard(connection)

    def lose(self, connection: Connection) -> None:
        """Close a connection that was lost, or whose node does not own the manager any more. The other ones of its
        epoch are not trusted either, but those that were opened after its loss was noticed are."""
        if connection.epoch == self._epoch:
            self.drop_idle()
        self.discard(connection)

    # ---- the owner -------------------------------------------------------------------------------

    def moved(self) -> None:
        """A node of a cluster may have failed: the next connection asks which one owns the manager."""
        if not self.plan.supervised:
            self.plan.node = None

    def rediscover(self) -> None:
        """Look up the owner again, before the next connection is made."""
        if self.plan.movable:
            self._locate()

    def confirm(self) -> None:
        """Ask Sentinel whether the primary is still the same one, for a client that only waits.

        Connections to a primary that was cut off from its replicas may live on, and a call that only reads is not
        refused there. Raises what a connection raises if no Sentinel answers.
        """
        if self.plan.supervised:
            self._locate()

    def _current(self) -> Connector:
        """How to connect to the node that owns the manager now.

        Sentinel is asked before every connection, as its documentation demands: a primary that was replaced while it
        was down takes writes again after its restart, until Sentinel makes it a replica of the new one. In a cluster
        such a node refuses all calls in that time.
        """
        self._require_open()
        node = self.plan.node
        if self.plan.supervised or (self.plan.movable and node is None):
            node = self._locate()
        return self.plan.at(node)

    def _require_open(self) -> None:
        if self._closed:
            raise InvalidHandle("the connection was closed by this process")

    def _busy(self) -> BrokerUnavailable:
        """The error of a call for which no connection came free in time."""
        return BrokerUnavailable(f"all {self._limit} connections are busy; raise max_connections")

    def _locate(self) -> tuple[str, int]:
        """Look up the node that owns the manager. If it is another one, nothing is sent to the earlier one any more.

        Several tasks or threads may search at the same time, and the last one to end sets ``plan.node``. An answer
        that is out of date by then does no harm: a Sentinel is asked again before each connection, and a node of a
        cluster that does not own the manager says so, and the call looks again (``rediscover``).
        """
        plan, search = self.plan, Search(self.plan)
        for node in search.nodes():
            try:
                self._ask(node, search)
            except rx.AuthenticationError:
                raise
            except REDIS_ERRORS as error:
                search.failed(node, error)
        if search.found is None:
            # Not the BrokerUnavailable itself: after an MqError a call is not tried again.
            raise rx.ConnectionError(str(plan.lost(search.errors)))
        before, plan.node = plan.node, search.found
        if before not in (None, search.found):
            self.drop_idle()
            if self.on_move is not None:
                self.on_move()
        return search.found

    # ---- the pool --------------------------------------------------------------------------------

    @abstractmethod
    def after_fork(self) -> None:
        """Begin with an empty pool, also in a child process: the parent's sockets are never written to."""

    @abstractmethod
    def drop_idle(self) -> None:
        """Close the idle connections, and those in use when they come back: one was lost, so none is trusted."""

    @abstractmethod
    def give(self, connection: Connection) -> bool:
        """Give a healthy connection back: its reply was read to the end. False: it has to be discarded."""

    @abstractmethod
    def discard(self, connection: Connection) -> None:
        """Close a connection whose state is unknown."""

    @abstractmethod
    def _ask(self, node: tuple[str, int], search: Search) -> None:
        """Ask this node which node owns the manager, for the search."""
