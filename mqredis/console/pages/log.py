"""The log of actions."""

from __future__ import annotations

from starlette.responses import Response

from mqredis.console import log
from mqredis.console.visit import Visit

#: Actions in each table.
ROWS = 50


async def actions(visit: Visit) -> Response:
    """The latest actions, newest first: those of the console, and those that the broker has logged for operators."""
    manager = await visit.manager()
    return visit.page(
        "actions.html",
        entries=await log.latest(manager, ROWS),
        queue=log.QUEUE,
        of_operators=await log.of_operators(manager, ROWS),
    )
