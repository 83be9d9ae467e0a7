"""Topics and the queues that subscribed to them."""

from __future__ import annotations

from starlette.responses import Response

from mqredis.console.visit import Visit


async def topics(visit: Visit) -> Response:
    """Every topic with its subscriptions."""
    state = await visit.console.overview(visit.name).state(fresh=True)
    manager = await visit.manager()
    found = [
        (row.depth, await manager.subscriptions(row.depth.name)) for row in state.rows if row.depth.topic
    ]
    return visit.page("topics.html", topics=found)
