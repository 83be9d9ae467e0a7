"""A message by its id, whatever its queue is.

``console.pages`` has the route.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from starlette.responses import Response

from mqredis.asyncio import QueueManager
from mqredis.console.actions.base import needed, whole
from mqredis.console.formats import hex_id
from mqredis.console.visit import Visit
from mqredis.errors import MessageNotFound, QueueNotFound
from mqredis.models import Match, StoredMessage
from mqredis.models.text import identifier_of
from mqredis.operations import queue

# Calls that one page may take: each asks a queue for one lookup id, or looks at a bounded number of messages.
CALLS = 80
# Messages that one page shows.
ROWS = 50

# A message id that the broker has made from a lookup id, or a lookup id as the console shows it.
LOOKUP_ID = re.compile(r"(?:0x|mq-)([0-9a-fA-F]{16})")

# What is searched, one after the other in all queues: the place that a lookup id names; the available messages; those
# that wait for their time; and those that readers and transactions hold.
PARTS = ("lookup", "ready", "scheduled", "locked")


class Place(NamedTuple):
    """Where a search goes on."""

    part: str
    queue: str
    after: str | None = None


async def find(visit: Visit) -> Response:
    """The message with an id: its page if it is a lookup id, else all messages of all queues that have this message id.

    ``part``, ``in`` and ``after`` say where the search goes on. With JavaScript it does so by itself; ``had`` is then
    the number of messages that the page already shows.
    """
    given = needed(visit.query, "id").strip()
    match = LOOKUP_ID.fullmatch(given)
    lookup_id = int(match[1], 16) if match else None
    manager = await visit.manager()
    names = await manager.run(queue.names(manager.context, None))
    # A message id that the broker made stays when a message is moved; its lookup id does not.
    parts = PARTS if given.startswith("mq-") and match else PARTS[:1] if match else PARTS[1:]
    begin = Place(visit.query.get("part", ""), visit.query.get("in", ""), visit.query.get("after") or None)
    had = max(whole(visit.query, "had") or 0, 0)
    found: list[StoredMessage] = []
    rest: Place | None = None
    calls = 0
    for place in _places(parts, names, begin):
        following: Place | None = place
        while following is not None:
            if calls == CALLS or len(found) >= ROWS:
                rest = following
                break
            calls += 1
            if place.part == "lookup":
                if await _is_there(manager, place.queue, lookup_id or 0):
                    return _go(visit, visit.link("/message", queue=place.queue, id=hex_id(lookup_id or 0)))
                break
            page, after = await _page(manager, following, given)
            found += page
            following = following._replace(after=after) if after else None
        if rest is not None:
            break
    if rest is None and lookup_id is not None and not found and not had:
        # It may have left, and its trail is found through any queue.
        entries = await manager.trail(names[0], lookup_id) if names else []
        if entries:
            return _go(visit, visit.link("/trail", queue=entries[0].queue, id=hex_id(lookup_id)))
    return visit.page(
        "find.html",
        given=given,
        found=found,
        had=had,
        rest=rest
        and visit.here(part=rest.part, **{"in": rest.queue}, after=rest.after, had=had + len(found)),
        queues=len(names),
    )


def _places(parts: Sequence[str], names: Sequence[str], begin: Place) -> Iterator[Place]:
    """The parts of all queues, from ``begin`` on. A queue that was created or deleted since moves no other."""
    first = parts.index(begin.part) if begin.part in parts else 0
    for part in parts[first:]:
        for name in names:
            if part != begin.part or name > begin.queue:
                yield Place(part, name)
            elif name == begin.queue:
                yield begin


async def _is_there(manager: QueueManager, name: str, lookup_id: int) -> bool:
    with suppress(MessageNotFound, QueueNotFound):
        await manager.message(name, lookup_id)
        return True
    return False


def _go(visit: Visit, address: str) -> Response:
    """Send the browser to another page, also from the rest of a page."""
    if visit.updates:
        return Response(headers={"hx-redirect": address})
    return visit.redirect(address)


async def _page(manager: QueueManager, place: Place, given: str) -> tuple[list[StoredMessage], str | None]:
    """Messages of a queue with a message id, and where the search goes on."""
    wanted = Match(message_id=identifier_of(given))
    if place.part == "locked":
        return await _locked(manager, place, wanted)
    listed = manager.messages if place.part == "ready" else manager.scheduled
    try:
        page = await listed(place.queue, match=wanted, after=place.after, limit=ROWS)
    except QueueNotFound:  # deleted meanwhile
        return [], None
    # A message that waits for its retry is an available one of ;retry, which is searched, too.
    found = [stored for stored in page.items if place.part == "ready" or stored.state != "retry"]
    return found, page.next


async def _locked(
    manager: QueueManager, place: Place, wanted: Match
) -> tuple[list[StoredMessage], str | None]:
    """The locked messages of a queue that match, and where the search goes on."""
    found: list[StoredMessage] = []
    with suppress(QueueNotFound):
        page = await manager.locks(place.queue, match=wanted, after=place.after, limit=ROWS)
        for lock in page:
            with suppress(MessageNotFound):  # it has left meanwhile
                found.append(await manager.message(lock.queue, lock.lookup_id))
        return found, page.next
    return found, None
