"""Topics and the queues that subscribed to them.

``console.pages`` has the route. Readings are shared by all visitors (``Visit.reading``); each takes a call for every
topic.
"""

from __future__ import annotations

from starlette.responses import Response

from mqredis.console.shared import Console
from mqredis.console.visit import Visit
from mqredis.models import QueueDepth, Subscription

# A topic and its subscriptions.
Topic = tuple[QueueDepth, list[Subscription]]


async def topics(visit: Visit) -> Response:
    """Every topic with its subscriptions."""
    return visit.page("topics.html", topics=await visit.reading(_topics))


async def _topics(console: Console, name: str, _: dict[str, str], __: object) -> list[Topic]:
    state = await console.overview(name).state(fresh=True)
    manager = await console.managers.get(name)
    return [(row.depth, await manager.subscriptions(row.depth.name)) for row in state.rows if row.depth.topic]
