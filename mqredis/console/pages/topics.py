"""Topics and the queues that subscribed to them."""

from __future__ import annotations

from starlette.responses import Response

from mqredis.console.visit import Visit


async def topics(visit: Visit) -> Response:
    """Every topic with its subscriptions."""
    state = await visit.console.poller(visit.name).state()
    manager = await visit.manager()
    found = [(row.info, await manager.subscriptions(row.info.name)) for row in state.rows if row.info.topic]
    return visit.page("topics.html", topics=found)
