"""Messages that wait for their time."""

from __future__ import annotations

from datetime import UTC, datetime

from starlette.responses import Response

from mqredis.console.visit import Visit
from mqredis.models import StoredMessage

# Rows on one page; queues whose delayed messages one page shows.
ROWS, QUEUES = 100, 40
_LATE = datetime.max.replace(tzinfo=UTC)


async def scheduled(visit: Visit) -> Response:
    """Delayed and resting messages of one queue page by page, or the first ones of each queue, by their time."""
    state = await visit.console.overview(visit.name).state(fresh=True)
    manager = await visit.manager()
    name, following = visit.query.get("queue", ""), None
    found: list[StoredMessage] = []
    if name:
        page = await manager.scheduled(
            name,
            selector=visit.query.get("selector") or None,
            after=visit.query.get("after") or None,
            limit=ROWS,
        )
        found += page.items
        following = page.next
    else:
        waiting = [row.depth.name for row in state.queues.values() if row.depth.delayed]
        for each in waiting[:QUEUES]:
            found += await manager.scheduled(each, limit=max(1, ROWS // len(waiting)))
        found.sort(key=lambda stored: stored.due_at or _LATE)
    return visit.page(
        "scheduled.html",
        found=found,
        queue=name,
        following=following and visit.here(after=following),
        delayed=sum(row.depth.delayed for row in state.queues.values()),
    )
