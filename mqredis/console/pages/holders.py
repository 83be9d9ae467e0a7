"""Who holds messages, and which clients are connected.

``console.pages`` has the routes. What ``_in_flight`` reads is shown to all visitors with the same address, so it may
not depend on the visitor (``Visit.reading``). ``locked`` of a queue counts claims of pipelines, too, which are shown
apart. The workers are passed on, since locks are shown with the consumer that has them.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from starlette.responses import Response

from mqredis.console.pages.messages import match_of
from mqredis.console.shared import Console
from mqredis.console.visit import Visit
from mqredis.errors import QueueNotFound
from mqredis.models import LockInfo
from mqredis.models.inspection import ClaimInfo, Page, SessionInfo, TransactionInfo
from mqredis.operations import inspection
from mqredis.operations.publications import Publication, publications

# Rows on one page; queues whose locks one page shows.
ROWS, QUEUES = 100, 40


@dataclass(frozen=True)
class InFlight:
    """Locked messages, transactions, claims, publications, and readers that wait."""

    locks: list[LockInfo]
    # Where the next page begins; None: this is the last one.
    following: str | None
    locked: int
    claims: list[ClaimInfo]
    transactions: Page[TransactionInfo]
    publications: list[Publication]
    # Sessions, queues, and the number of readers there.
    waiting: list[tuple[SessionInfo, str, int]]


async def in_flight(visit: Visit) -> Response:
    """Locked messages of one queue page by page, or the first of each queue; and everything else that is under way."""
    found = await visit.reading(_in_flight)
    return visit.page(
        "in_flight.html",
        found=found,
        queue=visit.query.get("queue", ""),
        following=found.following and visit.here(after=found.following),
        searched=bool(visit.query.get("selector") or match_of(visit.query)),
    )


async def _in_flight(console: Console, manager_name: str, query: dict[str, str], before: object) -> InFlight:
    # An update of a page uses what the overview and the workers have read at most an interval ago.
    fresh = before is None
    state = await console.overview(manager_name).state(fresh=fresh)
    manager = await console.managers.get(manager_name)
    workers = (await console.workers(manager_name).state(fresh=fresh)).workers
    name, following = query.get("queue", ""), None
    locks: list[LockInfo] = []
    if name:
        match, selector = match_of(query), query.get("selector") or None
        page = await manager.run(
            inspection.locks(
                manager.context, name, query.get("after") or None, ROWS, match, selector, workers
            )
        )
        locks += page.items
        following = page.next
    else:
        holding = [row.depth.name for row in state.queues.values() if row.depth.locked > row.depth.claimed]
        for each in holding[:QUEUES]:
            most = max(1, ROWS // len(holding))
            with suppress(QueueNotFound):  # deleted meanwhile
                locks += await manager.run(
                    inspection.locks(manager.context, each, None, most, workers=workers)
                )
        locks.sort(key=lambda lock: lock.lease_until)
    claims: list[ClaimInfo] = []
    for row in state.queues.values():
        if row.depth.claimed and name in ("", row.depth.name) and len(claims) < ROWS:
            with suppress(QueueNotFound):
                claims += await manager.claims(row.depth.name)
    return InFlight(
        locks,
        following,
        sum(row.depth.locked - row.depth.claimed for row in state.queues.values()),
        claims,
        await manager.transactions(),
        await manager.run(publications(manager.context)),
        [
            (session, queue, count)
            for session in await manager.sessions(limit=ROWS)
            for queue, count in sorted(session.waiting.items())
            if name in ("", queue)
        ],
    )


async def clients(visit: Visit) -> Response:
    """The sessions of clients."""
    page = await visit.reading(_sessions)
    return visit.page("clients.html", sessions=page, following=page.next and visit.here(after=page.next))


async def _sessions(console: Console, name: str, query: dict[str, str], _: object) -> Page[SessionInfo]:
    manager = await console.managers.get(name)
    return await manager.sessions(after=query.get("after") or None, limit=ROWS)
