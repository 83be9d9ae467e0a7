"""What happened to a message that is not in its queue any more.

``console.pages`` has the route, and ``pages.messages`` shows ``left`` for a message that has gone, and leads here for a
message id that names a place. An id without a trail is redirected to /messages, which must not redirect it back: it
does so only for ids that the broker made (``lookup_id_of``), and these never come there from here.
"""

from __future__ import annotations

from contextlib import suppress

from starlette.responses import Response

from mqredis.asyncio import QueueManager
from mqredis.console.actions.base import needed
from mqredis.console.pages.find import lookup_id_in
from mqredis.console.visit import Visit
from mqredis.errors import MessageNotFound, QueueNotFound
from mqredis.models.inspection import TrailEntry
from mqredis.models.lookup_ids import hex_id
from mqredis.models.text import identifier_of
from mqredis.operations import inspection, queue


async def trail(visit: Visit) -> Response:
    """The message with an id, or what happened to it if it has left its queue.

    ``id`` is a lookup id or a message id. A message id that no trail has leads to a search: of the queue, or of all
    queues if this one does not exist.
    """
    name, id_text = needed(visit.query, "queue"), needed(visit.query, "id").strip()
    lookup_id = lookup_id_in(id_text)
    if lookup_id is None:
        manager = await visit.manager()
        try:
            found = await manager.run(inspection.trail(manager.context, name, identifier_of(id_text)))
        except QueueNotFound:  # it may have been deleted
            return visit.redirect(visit.link("/find", id=id_text))
        if not found.entries:
            return visit.redirect(visit.link("/messages", queue=name, message_id=id_text))
        lookup_id = int(found.lookup_id, 16)
    with suppress(MessageNotFound, QueueNotFound):
        await (await visit.manager()).message(name, lookup_id)
        return visit.redirect(visit.link("/message", queue=name, id=hex_id(lookup_id)))
    return await left(visit, name, lookup_id)


async def left(visit: Visit, name: str, lookup_id: int) -> Response:
    """The page of a message that is not in this queue: its trail, and where it is now; 404 without a trail."""
    manager = await visit.manager()
    try:
        share, exists = (await manager.queue_info(name)).trail, True
    except QueueNotFound:
        share, exists = 0.0, False
    # The trail of a message that has left is found through any queue.
    names = [name] if exists else await manager.run(queue.names(manager.context, None))
    found = await manager.trail(names[0], lookup_id) if names else []
    return visit.page(
        "trail.html",
        200 if found else 404,
        queue=name,
        exists=exists,
        id=hex_id(lookup_id),
        trail=found,
        place=await _place(manager, found, name, lookup_id),
        share=share,
    )


async def _place(
    manager: QueueManager, entries: list[TrailEntry], name: str, lookup_id: int
) -> tuple[str, str] | None:
    """The queue that the message is in now, and its lookup id there."""
    for entry in entries:
        if entry.target is not None:
            name, lookup_id = entry.target, entry.lookup_id or lookup_id
    with suppress(MessageNotFound, QueueNotFound):
        await manager.message(name, lookup_id)
        return name, hex_id(lookup_id)
    return None
