"""Workers, what they do, and what operators have paused.

``console.pages`` has the route. The page follows the events of the workers (``of=workers``, ``pages.overview``), not
those of the queues. ``paused`` has pairs of kind and name, because a queue and a consumer may have the same name.
"""

from __future__ import annotations

from starlette.responses import Response

from mqredis.console.visit import Visit


async def workers(visit: Visit) -> Response:
    """Every worker with its consumers and the handlers that run, and every pause."""
    # What an action has just changed has to be seen.
    state = await visit.console.workers(visit.name).state(fresh="done" in visit.query)
    return visit.page(
        "workers.html",
        workers=state.workers,
        pauses=state.pauses,
        paused={(pause.kind, pause.name) for pause in state.pauses},
    )
