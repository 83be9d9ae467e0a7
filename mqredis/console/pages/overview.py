"""The overview of all queues, the page of one queue, and the events that keep both up to date."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing

from starlette.responses import Response, StreamingResponse

from mqredis.console.overview import COLUMNS, arranged
from mqredis.console.visit import Visit
from mqredis.keys import SYSTEM

#: Rows on one page of the overview.
ROWS = 200


async def overview(visit: Visit) -> Response:
    """All queues, filtered by ``q`` and sorted by ``sort``."""
    # What an action has just changed has to be seen.
    state = await visit.console.poller(visit.name).state(fresh="done" in visit.query)
    column = visit.query.get("sort", "name")
    descending = visit.query.get("order") == "desc"
    rows = arranged(state.rows, visit.query.get("q", ""), column, descending)
    return visit.page(
        "overview.html",
        state=state,
        rows=rows[:ROWS],
        found=len(rows),
        column=column if column in COLUMNS else "name",
        descending=descending,
    )


async def queue(visit: Visit) -> Response:
    """One queue: what is in it, its subqueues, its properties."""
    name = visit.query.get("name", "")
    manager = await visit.manager()
    info = await manager.queue_info(name)
    parent = name.partition(";")[0]
    whole = [await manager.queue_info(parent)] if parent != SYSTEM else []
    return visit.page(
        "queue.html",
        info=info,
        statistics=await manager.statistics(name),
        parent=parent,
        pause=next(
            (each for each in await manager.pauses() if (each.kind, each.name) == ("queue", name)), None
        ),
        family=whole + await manager.queues(f"{parent};*"),
        subscriptions=await manager.subscriptions(name) if info.topic else [],
    )


async def events(visit: Visit) -> Response:
    """Server-sent events: "tick" after each reading of the state, "down" while the broker cannot be reached."""
    poller = visit.console.poller(visit.name)
    await visit.console.managers.get(visit.name)  # an unknown name is an error and not a stream

    async def stream() -> AsyncIterator[str]:
        yield "retry: 2000\n\n"
        async with aclosing(poller.follow()) as following:
            async for event in following:
                yield f"event: {event}\ndata:\n\n"

    return StreamingResponse(
        stream(),
        media_type="text/event-stream",
        headers={"cache-control": "no-store", "x-accel-buffering": "no"},
    )
