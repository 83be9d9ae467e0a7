"""The overview of all queues, the page of one queue, and the events that keep pages up to date: all those with a
``live`` part (templates/macros.html), which most of them have.

``console.pages`` has the routes. The events of the overview (``/events``) keep all live pages up to date but Workers,
which asks for ``of=workers``. console.js knows the names of the events. The arguments ``q``, ``sort``, ``order`` and
``span`` stand in addresses that users keep. ``done`` in the address means that an action led here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing

from starlette.responses import Response, StreamingResponse

from mqredis.console.charts import SPANS, charts_of, sparkline
from mqredis.console.overview import COLUMNS, Overview, arranged
from mqredis.console.poller import Poller
from mqredis.console.shared import Workers
from mqredis.console.visit import Visit
from mqredis.keys import SYSTEM

# Rows on one page of the overview.
ROWS = 200


async def overview(visit: Visit) -> Response:
    """All queues, filtered by ``q`` and sorted by ``sort``."""
    # What an action has just changed has to be seen.
    state = await visit.console.overview(visit.name).state(fresh="done" in visit.query)
    column = visit.query.get("sort", "name")
    descending = visit.query.get("order") == "desc"
    rows = arranged(state.rows, visit.query.get("q", ""), column, descending)
    histories = await visit.console.last_hour(visit.name)
    shown = rows[:ROWS]
    return visit.page(
        "overview.html",
        state=state,
        rows=shown,
        sparklines={
            row.depth.name: sparkline(histories[row.depth.name])
            for row in shown
            if row.depth.name in histories
        },
        found=len(rows),
        column=column if column in COLUMNS else "name",
        descending=descending,
    )


async def queue(visit: Visit) -> Response:
    """One queue: what is in it, its subqueues, its properties, and its charts of the ``span``."""
    name = visit.query.get("name", "")
    manager = await visit.manager()
    info = await manager.queue_info(name)
    chosen = visit.query.get("span", "")
    span = SPANS.get(chosen, SPANS["hour"])
    # An update of the live part has no charts: a period takes minutes.
    history = None if visit.updates else await manager.history(name, since=span.since, step=span.step)
    parent = name.partition(";")[0]
    working = await visit.console.workers(visit.name).state(fresh="done" in visit.query)
    whole = [await manager.queue_info(parent)] if parent != SYSTEM else []
    return visit.page(
        "queue.html",
        info=info,
        statistics=await manager.statistics(name),
        parent=parent,
        pause=next((each for each in working.pauses if (each.kind, each.name) == ("queue", name)), None),
        consumers=[
            (worker, each) for worker in working.workers for each in worker.consumers if name in each.queues
        ],
        family=whole + await manager.queues(f"{parent};*"),
        spans=SPANS,
        span=span,
        history=history,
        charts=charts_of(history, span) if history is not None else (),
        subscriptions=await manager.subscriptions(name) if info.topic else [],
    )


async def events(visit: Visit) -> Response:
    """Server-sent events: "tick" after each reading of the queues or the workers, "down" while the broker is away."""
    of_workers = visit.query.get("of") == "workers"
    poller: Poller[Workers] | Poller[Overview] = (
        visit.console.workers(visit.name) if of_workers else visit.console.overview(visit.name)
    )

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
