"""Who holds messages, and which clients are connected."""

from __future__ import annotations

from starlette.responses import Response

from mqredis.console.visit import Visit
from mqredis.models import LockInfo
from mqredis.models.inspection import ClaimInfo
from mqredis.operations import inspection
from mqredis.operations.publications import publications

# Rows on one page; queues whose locks one page shows.
ROWS, QUEUES = 100, 40


async def in_flight(visit: Visit) -> Response:
    """Locked messages of one queue page by page, or the first of each queue; transactions, claims, publications, and
    readers that wait."""
    state = await visit.console.overview(visit.name).state(fresh=True)
    manager = await visit.manager()
    workers = (await visit.console.workers(visit.name).state(fresh=True)).workers
    name, following = visit.query.get("queue", ""), None
    locks: list[LockInfo] = []
    if name:
        after = visit.query.get("after") or None
        page = await manager.run(inspection.locks(manager.context, name, after, ROWS, workers))
        locks += page.items
        following = page.next
    else:
        holding = [row.depth.name for row in state.queues.values() if row.depth.locked > row.depth.claimed]
        for each in holding[:QUEUES]:
            most = max(1, ROWS // len(holding))
            locks += await manager.run(inspection.locks(manager.context, each, None, most, workers))
        locks.sort(key=lambda lock: lock.lease_until)
    claims: list[ClaimInfo] = []
    for row in state.queues.values():
        if row.depth.claimed and name in ("", row.depth.name) and len(claims) < ROWS:
            claims += await manager.claims(row.depth.name)
    return visit.page(
        "in_flight.html",
        locks=locks,
        queue=name,
        following=following and visit.here(after=following),
        locked=sum(row.depth.locked - row.depth.claimed for row in state.queues.values()),
        claims=claims,
        transactions=await manager.transactions(),
        publications=await manager.run(publications(manager.context)),
        waiting=[
            (session, queue, count)
            for session in await manager.sessions(limit=ROWS)
            for queue, count in sorted(session.waiting.items())
            if name in ("", queue)
        ],
    )


async def clients(visit: Visit) -> Response:
    """The sessions of clients."""
    manager = await visit.manager()
    page = await manager.sessions(after=visit.query.get("after") or None, limit=ROWS)
    return visit.page("clients.html", sessions=page, following=page.next and visit.here(after=page.next))
