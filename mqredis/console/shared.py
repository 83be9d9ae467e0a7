"""What all requests to one console share: its managers, its keys, and the latest readings of the broker.

``application`` makes one; each visit has it, and templates/base.html reads its ``managers`` and ``token``. All of it
belongs to one event loop, and to one process: several processes behind one address share only ``secret``, and each
counts wrong tokens and reads the broker for itself.

``overviews`` and ``worker_pollers`` are followed by events (``pages.overview``); the others are read only when a page
asks, so ``pages`` may forget one at any time. ``find`` takes all actions from a visitor of a console that only reads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from inspect import isawaitable
from typing import Any, NamedTuple, TypeVar

from starlette.requests import Request

from mqredis.console import charts
from mqredis.console.access import Access, Visitor
from mqredis.console.attempts import Attempts
from mqredis.console.managers import Managers
from mqredis.console.overview import Overview
from mqredis.console.poller import Poller
from mqredis.console.security import Cookie, Signer
from mqredis.models import QueueHistory
from mqredis.models.worker import Pause, WorkerInfo

S = TypeVar("S")

# Pages of different addresses whose readings are kept; of more the oldest goes.
PAGES = 32
# A page may take many calls, so it is read once in so many intervals: docs/console.md says every six seconds.
SLOWER = 3


class Workers(NamedTuple):
    """The workers that live, and what operators have paused."""

    workers: list[WorkerInfo]
    pauses: list[Pause]


@dataclass
class Console:
    """One console."""

    managers: Managers
    signer: Signer
    # None: visitors are asked for ``token``.
    access: Access | None
    token: str
    read_only: bool
    hide_bodies: bool
    # Seconds between two readings of the state of a queue manager that is being looked at.
    interval: float
    # Titles and paths of the pages in the navigation.
    navigation: tuple[tuple[str, str], ...] = ()
    attempts: Attempts = field(default_factory=Attempts)
    # Held while the doctor examines a queue manager for the page of a visitor.
    examining: asyncio.Lock = field(default_factory=asyncio.Lock)
    # By the name of a queue manager.
    overviews: dict[str, Poller[Overview]] = field(default_factory=dict)
    histories: dict[str, Poller[dict[str, QueueHistory]]] = field(default_factory=dict)
    worker_pollers: dict[str, Poller[Workers]] = field(default_factory=dict)
    # By the address of a page.
    pages: dict[str, Poller[Any]] = field(default_factory=dict)

    def overview(self, name: str) -> Poller[Overview]:
        """The poller of the queues of a queue manager."""

        async def read(before: Overview | None) -> Overview:
            return await Overview.read(await self.managers.get(name), before)

        if name not in self.overviews:
            self.overviews[name] = Poller(read, self.interval)
        return self.overviews[name]

    def workers(self, name: str) -> Poller[Workers]:
        """The poller of the workers of a queue manager."""

        async def read(_: Workers | None) -> Workers:
            manager = await self.managers.get(name)
            return Workers(await manager.workers(), await manager.pauses())

        if name not in self.worker_pollers:
            self.worker_pollers[name] = Poller(read, self.interval)
        return self.worker_pollers[name]

    def page(self, address: str, read: Callable[[S | None], Awaitable[S]]) -> Poller[S]:
        """What a page shows, for all who have it open; ``read`` is what the first of them gave."""
        if address not in self.pages:
            while len(self.pages) >= PAGES:
                del self.pages[next(iter(self.pages))]
            self.pages[address] = Poller(read, SLOWER * self.interval)
        return self.pages[address]

    async def last_hour(self, name: str) -> dict[str, QueueHistory]:
        """The last hour of each queue in the overview, by name, as read at most 5 minutes ago."""

        async def read(_: dict[str, QueueHistory] | None) -> dict[str, QueueHistory]:
            state = await self.overview(name).state()
            manager = await self.managers.get(name)
            return await manager.histories(
                [row.depth.name for row in state.rows], since=charts.SPANS["hour"].since
            )

        if name not in self.histories:
            self.histories[name] = Poller(read, charts.SPANS["hour"].step)
        return await self.histories[name].state()

    async def find(self, request: Request, cookie: Cookie | None) -> Visitor | None:
        """The visitor behind a request; None: refused, or the token has to be given first."""
        if self.access is None:
            host = request.client.host if request.client else "unknown"
            found = Visitor(f"token from {host}", "all") if cookie is not None and cookie.admitted else None
        else:
            answer = self.access(request)
            found = await answer if isawaitable(answer) else answer
        return Visitor(found.name) if found is not None and self.read_only else found
