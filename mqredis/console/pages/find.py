"""A message by its id, whatever its queue is.

``console.pages`` has the route, the form above the navigation (templates/base.html) leads here, and ``trails`` uses
``lookup_id_in``.

The parts are searched one after the other, so a message that changes its state during a search may be found twice, or
not at all. docs/console.md has the number of calls.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from starlette.responses import Response

from mqredis.asyncio import QueueManager
from mqredis.console.actions.base import needed, whole
from mqredis.console.visit import Visit
from mqredis.errors import MessageNotFound, QueueNotFound
from mqredis.models import Match, StoredMessage
from mqredis.models.lookup_ids import hex_id, lookup_id_of
from mqredis.models.text import identifier_of
from mqredis.operations import queue

# Calls that one page may take: each asks a queue for one lookup id, or looks at a bounded number of messages.
CALLS = 80
# Messages that one page shows.
ROWS = 50

# A lookup id as the console shows it (``lookup_ids.hex_id``).
_SHOWN = re.compile(r"0x([0-9a-fA-F]{16})")

# What is searched, one after the other in all queues: the place that a lookup id names; the available messages; those
# that wait for their time; and those that readers and transactions hold.
PARTS = ("lookup", "ready", "scheduled", "locked")


class Place(NamedTuple):
    """Where a search goes on."""

    part: str
    queue: str
    after: str | None = None


def lookup_id_in(id_text: str) -> int | None:
    """The lookup id that a text is, or from which the broker has made it as a message id; None: it is another id."""
    shown = _SHOWN.fullmatch(id_text)
    digits = shown[1] if shown else lookup_id_of(id_text)
    return None if digits is None else int(digits, 16)


async def find(visit: Visit) -> Response:
    """The message with an id: its page if it is a lookup id, else all messages of all queues that have this message id.

    ``part``, ``in`` and ``after`` say where the search goes on. With JavaScript it does so by itself; ``had`` is then
    the number of messages that the page already shows.
    """
    id_text = needed(visit.query, "id").strip()
    manager = await visit.manager()
    names = await manager.run(queue.names(manager.context, None))
    begin = Place(visit.query.get("part", ""), visit.query.get("in", ""), visit.query.get("after") or None)
    had = max(whole(visit.query, "had") or 0, 0)
    lookup_id = lookup_id_in(id_text)
    result = await _search(manager, names, id_text, lookup_id, begin)
    if isinstance(result, Place):
        return _go(visit, visit.link("/message", queue=result.queue, id=hex_id(lookup_id or 0)))
    found, rest = result
    if rest is None and lookup_id is not None and not found and not had:
        # It may have left, and its trail is found through any queue.
        with suppress(QueueNotFound):
            entries = await manager.trail(names[0], lookup_id) if names else []
            if entries:
                return _go(visit, visit.link("/trail", queue=entries[0].queue, id=hex_id(lookup_id)))
    return visit.page(
        "find.html",
        id_text=id_text,
        found=found,
        had=had,
        rest=rest
        and visit.here(part=rest.part, **{"in": rest.queue}, after=rest.after, had=had + len(found)),
        queues=len(names),
    )


async def _search(
    manager: QueueManager, names: Sequence[str], id_text: str, lookup_id: int | None, begin: Place
) -> Place | tuple[list[StoredMessage], Place | None]:
    """Search the parts of all queues from ``begin`` on.

    Returns the place of the message with this lookup id; else messages that have this message id, and where the search
    goes on if it took ``CALLS`` calls or found ``ROWS`` messages.
    """
    if lookup_id is None:
        parts: Sequence[str] = PARTS[1:]
    elif lookup_id_of(id_text):
        # A message id that the broker made stays when a message is moved; its lookup id does not.
        parts = PARTS
    else:
        parts = PARTS[:1]
    found: list[StoredMessage] = []
    calls = 0
    for place in _places(parts, names, begin):
        following: Place | None = place
        while following is not None:
            if calls == CALLS or len(found) >= ROWS:
                return found, following
            calls += 1
            if place.part == "lookup":
                if await _is_there(manager, place.queue, lookup_id or 0):
                    return place
                break  # not in this queue
            page, after = await _page(manager, following, id_text, ROWS - len(found))
            found += page
            following = following._replace(after=after) if after else None
    return found, None


def _places(parts: Sequence[str], names: Sequence[str], begin: Place) -> Iterator[Place]:
    """The parts of all queues, from ``begin`` on.

    ``names`` are sorted, so a search goes on behind ``begin.queue`` even if that queue has been deleted.
    """
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


async def _page(
    manager: QueueManager, place: Place, id_text: str, limit: int
) -> tuple[list[StoredMessage], str | None]:
    """Messages of a queue with a message id, and where the search goes on."""
    wanted = Match(message_id=identifier_of(id_text))
    if place.part == "locked":
        return await _locked(manager, place, wanted, limit)
    listed = manager.messages if place.part == "ready" else manager.scheduled
    try:
        page = await listed(place.queue, match=wanted, after=place.after, limit=limit)
    except QueueNotFound:  # deleted meanwhile
        return [], None
    # A message that waits for its retry is an available one of ;retry, which is searched, too.
    found = [stored for stored in page.items if place.part == "ready" or stored.state != "retry"]
    return found, page.next


async def _locked(
    manager: QueueManager, place: Place, wanted: Match, limit: int
) -> tuple[list[StoredMessage], str | None]:
    """The locked messages of a queue that match, and where the search goes on."""
    found: list[StoredMessage] = []
    with suppress(QueueNotFound):
        page = await manager.locks(place.queue, match=wanted, after=place.after, limit=limit)
        for lock in page:
            with suppress(MessageNotFound):  # it has left meanwhile
                found.append(await manager.message(lock.queue, lock.lookup_id))
        return found, page.next
    return found, None
