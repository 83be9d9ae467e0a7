"""The log of actions."""

from __future__ import annotations

from starlette.responses import Response

from mqredis.console import log
from mqredis.console.visit import Visit

#: Actions on the page.
ROWS = 100


async def actions(visit: Visit) -> Response:
    """The latest actions, newest first."""
    return visit.page("actions.html", entries=await log.latest(await visit.manager(), ROWS), queue=log.QUEUE)
