"""Finding the node that owns a manager: the primary that Sentinel names, or the node of a cluster with its slot."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

from redis import exceptions as rx

from mqredis.drivers.net.discovery import Plan, Search
from mqredis.drivers.net.wire import REDIS_ERRORS
from mqredis.errors import BrokerUnavailable


class AsyncOwner:
    """The part of :class:`~mqredis.drivers.net.pool_aio.AsyncBackend` that finds the node."""

    plan: Plan
    #: Called when the manager has moved to another node: who keeps a connection of its own makes it anew.
    on_move: Callable[[], Awaitable[object]]
    _closed: bool

    def moved(self) -> None:
        """A node of a cluster may have failed: the next connection asks which one owns the manager."""
        if not self.plan.supervised:
            self.plan.node = None

    async def rediscover(self) -> None:
        """Look up again who owns the manager, before the next connection is made."""
        await self.drop_idle()
        if self.plan.movable:
            await self._locate()

    async def confirm(self) -> None:
        """Ask Sentinel whether the primary is still the same one, for a client that only waits.

        Connections to a primary that was cut off from its replicas may live on, and a call that only reads is not
        refused there. Raises what a connection raises if no Sentinel answers.
        """
        if self.plan.supervised:
            await self._locate()

    async def _current(self) -> dict[str, Any]:
        """Keyword arguments of a connection to the node that owns the manager now.

        Sentinel is asked before every connection, as its documentation demands: a primary that was replaced while it
        was down takes writes again after its restart, until Sentinel makes it a replica of the new one. In a cluster
        such a node refuses all calls in that time.
        """
        self._require_open()
        node = self.plan.node
        if self.plan.supervised or (self.plan.movable and node is None):
            node = await self._locate()
        return self.plan.current(node)

    def _require_open(self) -> None:
        if self._closed:
            raise BrokerUnavailable("the connection was closed by this process")

    async def _locate(self) -> tuple[str, int]:
        """Look up the node that owns the manager. If it is another one, nothing is sent to the earlier one any more."""
        plan, search = self.plan, Search(self.plan, time.monotonic())
        for node in search.nodes():
            try:
                await self._ask(node, search)
            except rx.AuthenticationError:
                raise
            except REDIS_ERRORS as error:
                search.failed(node, error)
        if search.found is None:
            raise rx.ConnectionError(str(plan.lost(search.errors)))
        before, plan.node = plan.node, search.found
        if before not in (None, search.found):
            await self.drop_idle()
            await self.on_move()
        return search.found

    async def drop_idle(self) -> None:
        """Close the idle connections: one was lost, so none is trusted."""
        raise NotImplementedError

    async def _ask(self, node: tuple[str, int], search: Search) -> None:
        """Ask this node who owns the manager, for the search."""
        raise NotImplementedError
