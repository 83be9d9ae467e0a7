"""Workers, what they do, and what operators have paused."""

from __future__ import annotations

from starlette.responses import Response

from mqredis.console.visit import Visit


async def workers(visit: Visit) -> Response:
    """Every worker with its consumers and the handlers that run, and every pause."""
    manager = await visit.manager()
    pauses = await manager.pauses()
    return visit.page(
        "workers.html",
        workers=await manager.workers(),
        pauses=pauses,
        paused={(pause.kind, pause.name) for pause in pauses},
    )
