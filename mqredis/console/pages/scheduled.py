"""Messages that wait for their time.

``console.pages`` has the route. Readings are shared by all visitors (``Visit.reading``). With a queue in the address
the page goes on with ``after``; without one it has the first messages of 40 queues and no next page, and a selector is
ignored.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from starlette.responses import Response

from mqredis.console.pages.messages import match_of
from mqredis.console.shared import Console
from mqredis.console.visit import Visit
from mqredis.errors import QueueNotFound
from mqredis.models import StoredMessage

# Rows on one page; queues whose delayed messages one page shows.
ROWS, QUEUES = 100, 40
_LATE = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Scheduled:
    """Messages that wait, and where the next page of them begins; None: this is the last one."""

    found: list[StoredMessage]
    following: str | None
    # Of all queues.
    delayed: int


async def scheduled(visit: Visit) -> Response:
    """Delayed and resting messages of one queue page by page, or the first ones of each queue, by their time."""
    page = await visit.reading(_scheduled)
    return visit.page(
        "scheduled.html",
        found=page.found,
        queue=visit.query.get("queue", ""),
        following=page.following and visit.here(after=page.following),
        delayed=page.delayed,
    )


async def _scheduled(console: Console, manager_name: str, query: dict[str, str], before: object) -> Scheduled:
    state = await console.overview(manager_name).state(fresh=before is None)
    manager = await console.managers.get(manager_name)
    name, following = query.get("queue", ""), None
    found: list[StoredMessage] = []
    if name:
        selector, after = query.get("selector") or None, query.get("after") or None
        page = await manager.scheduled(
            name, match=match_of(query), selector=selector, after=after, limit=ROWS
        )
        found += page.items
        following = page.next
    else:
        waiting = [row.depth.name for row in state.queues.values() if row.depth.delayed]
        for each in waiting[:QUEUES]:
            with suppress(QueueNotFound):  # deleted meanwhile
                found += await manager.scheduled(each, limit=max(1, ROWS // len(waiting)))
        found.sort(key=lambda stored: stored.due_at or _LATE)
    return Scheduled(found, following, sum(row.depth.delayed for row in state.queues.values()))
