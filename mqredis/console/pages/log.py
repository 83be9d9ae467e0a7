"""The log of actions.

``console.pages`` has the route. The page is not live; ``before`` in the address is a place of the broker.
"""

from __future__ import annotations

from starlette.responses import Response

from mqredis.console import log
from mqredis.console.visit import Visit
from mqredis.keys import ACTIONS

# Actions on the page.
ROWS = 50


async def actions(visit: Visit) -> Response:
    """The latest actions of operators, newest first: in this console, by the command line and in programs."""
    before = visit.query.get("before") or None
    found = await log.latest(await visit.manager(), ROWS, before)
    older = found.older and visit.here(before=found.older)
    return visit.page("actions.html", entries=found.entries, older=older, first=before is None, queue=ACTIONS)
