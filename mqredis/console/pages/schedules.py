"""Schedules, by name.

``console.pages`` has the route. The list is not cut: each reading has all schedules, for all visitors
(``Visit.reading``).
"""

from __future__ import annotations

from starlette.responses import Response

from mqredis.console.shared import Console
from mqredis.console.visit import Visit
from mqredis.models.schedule import ScheduleInfo


async def schedules(visit: Visit) -> Response:
    """Every schedule with its times."""
    return visit.page("schedules.html", schedules=await visit.reading(_schedules))


async def _schedules(console: Console, name: str, _: dict[str, str], __: object) -> list[ScheduleInfo]:
    return await (await console.managers.get(name)).schedules()
