"""The messages of a queue, one message, and its body.

``console.pages`` has the routes. ``holders`` and ``scheduled`` use ``match_of``, and so have the same arguments of
addresses.

The arguments are kept in bookmarks (docs/console.md). ``after`` and ``trail`` have places that the broker gave; "0" in
``trail`` is the first page. The right "bodies" is asked for here in ``message`` and ``body``, in message.html, and in
``Visit.may`` for forms that show a body. Lists never show hidden bodies. The page of a message shows a new field of
``models.Message`` by itself (``_fields``). A change of ``had``, ``start`` or ``rest`` also concerns the macro ``more``
and ``find``.
"""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from mqredis.asyncio import QueueManager
from mqredis.console import bodies, columns
from mqredis.console.actions.base import lookup_id, needed, whole
from mqredis.console.actions.holders import lock_of
from mqredis.console.pages.trails import left
from mqredis.console.security import Forbidden
from mqredis.console.visit import Visit
from mqredis.errors import InvalidArgument, MessageNotFound
from mqredis.models import Match, Message, StoredMessage
from mqredis.models.lookup_ids import lookup_id_of
from mqredis.models.text import identifier_of
from mqredis.operations.giveback import REPORT

# Messages on one page, and places of earlier pages in an address.
ROWS, TRAIL = 50, 40
# Calls that one page may take. Each looks at a bounded number of messages, so a page that finds little ends, too.
CALLS = 80
_IDS = ("message_id", "correlation_id", "group_id")


async def messages(visit: Visit) -> Response:
    """A page of messages behind ``after``, those that the selector and the identifiers choose.

    ``columns`` and ``order`` say what is shown of them, and in which order. ``trail`` has the positions of the earlier
    pages, for the links back. A page begins where the page before ended, whatever has arrived and left meanwhile. With
    JavaScript, a page whose search has not ended requests the rest: ``start`` is then where the page began, and ``had``
    the number of messages that it already shows.
    """
    name = needed(visit.query, "queue")
    message_id = visit.query.get("message_id", "").strip()
    if lookup_id_of(message_id) and not visit.query.get("selector"):
        return visit.redirect(visit.link("/trail", queue=name, id=message_id))  # it names one place
    trail = [part for part in visit.query.get("trail", "").split(",") if part]
    start = visit.query.get("start") or visit.query.get("after") or "0"
    had = min(max(whole(visit.query, "had") or 0, 0), ROWS - 1)
    found: list[StoredMessage] = []
    place, wrong, shown = None, None, columns.chosen("", name)
    try:
        shown = columns.chosen(visit.query.get("columns", ""), name)
        found, place = await _page(await visit.manager(), name, visit.query, ROWS - had)
    except InvalidArgument as error:  # a wrong selector, identifier or column
        wrong = error
    unfinished = place is not None and had + len(found) < ROWS
    following = rest = None
    if place is not None:
        more = ",".join([*trail, start][-TRAIL:])
        following = visit.here(after=place, trail=more, start="", had="")
        if unfinished:
            rest = visit.here(after=place, start=start, had=had + len(found))
    before = None
    if trail:
        before = visit.here(
            after="" if trail[-1] == "0" else trail[-1], trail=",".join(trail[:-1]), start="", had=""
        )
    return visit.page(
        "messages.html",
        400 if wrong else 200,
        queue=name,
        found=found,
        had=had,
        unfinished=unfinished,
        rest=rest,
        wrong=wrong,
        following=following,
        before=before,
        searched=any(visit.query.get(name) for name in ("selector", *_IDS)),
        columns=shown,
        names=columns.NAMES,
        usual=", ".join(columns.default(name)),
        bodies=bodies,
        hidden=visit.console.hide_bodies,
    )


async def _page(
    manager: QueueManager, name: str, query: dict[str, str], most: int
) -> tuple[list[StoredMessage], str | None]:
    """The messages of a page, and the place where the next one begins. Raises InvalidArgument, QueueNotFound."""
    match, selector = match_of(query), query.get("selector") or None
    reverse = query.get("order") == "newest"
    found: list[StoredMessage] = []
    place = query.get("after") or None
    for _ in range(CALLS):
        page = await manager.messages(
            name, match=match, selector=selector, after=place, limit=most - len(found), reverse=reverse
        )
        found += page.items
        place = page.next
        if place is None or len(found) >= most:
            break
    return found, place


def match_of(query: dict[str, str]) -> Match | None:
    """The identifiers in the arguments of an address; None without any.

    The macros ``chosen_ids`` and ``selector_form``, and messages.html, name them, too.
    """
    ids: dict[str, Any] = {name: identifier_of(query[name]) for name in _IDS if query.get(name)}
    return Match(**ids) if ids else None


async def _stored(visit: Visit) -> StoredMessage:
    manager = await visit.manager()
    return await manager.message(needed(visit.query, "queue"), lookup_id(visit.query))


async def message(visit: Visit) -> Response:
    """One message in whatever state, with its body, fields and properties."""
    try:
        stored = await _stored(visit)
    except MessageNotFound:
        return await left(visit, needed(visit.query, "queue"), lookup_id(visit.query))
    found = stored.message
    show = not visit.console.hide_bodies or (visit.query.get("body") == "show" and visit.may("bodies"))
    failure = {
        name.removeprefix(REPORT): value
        for name, value in found.properties.items()
        if name.startswith(REPORT)
    }
    return visit.page(
        "message.html",
        stored=stored,
        message=found,
        body=bodies.view(found.body, visit.query.get("view", "")) if show else None,
        failure=failure,
        fields=_fields(found),
        lock=await lock_of(await visit.manager(), found) if stored.state == "locked" else None,
        trail=await (await visit.manager()).trail(found.queue, found.lookup_id),
    )


def _fields(found: Message) -> dict[str, Any]:
    """The fields that are not at their default, without those that message.html shows elsewhere."""
    elsewhere = {
        "lookup_id",
        "queue",
        "body",
        "properties",
        "message_id",
        "correlation_id",
        "group_id",
        "reason",
    }
    return {
        name: getattr(found, name)
        for name, default in Message.FIELDS.items()
        if name not in elsewhere and getattr(found, name) != default
    }


async def body(visit: Visit) -> Response:
    """The bytes of a body, as a file."""
    if visit.console.hide_bodies and not visit.may("bodies"):
        raise Forbidden("This console hides bodies, and you may not show them.")
    found = (await _stored(visit)).message
    name = f'attachment; filename="{found.lookup_id:016x}.bin"'
    headers = {"content-disposition": name, "cache-control": "no-store"}
    return Response(found.body, media_type="application/octet-stream", headers=headers)
