"""Schedules, by name."""

from __future__ import annotations

from starlette.responses import Response

from mqredis.console.visit import Visit


async def schedules(visit: Visit) -> Response:
    """Every schedule with its times."""
    manager = await visit.manager()
    return visit.page("schedules.html", schedules=await manager.schedules())
