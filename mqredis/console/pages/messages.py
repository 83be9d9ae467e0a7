"""The messages of a queue, one message, and its body."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from mqredis.asyncio import Queue
from mqredis.console import bodies, search
from mqredis.console.actions.base import lookup_id, needed
from mqredis.console.security import Forbidden
from mqredis.console.visit import Visit, fields_of
from mqredis.errors import InvalidArgument, MatchOptionsError, SelectorSyntaxError
from mqredis.models import Access, Match, Message
from mqredis.models.text import identifier_of

#: Messages on one page, and places of earlier pages in an address.
ROWS, TRAIL = 50, 40
_IDS = ("message_id", "correlation_id", "group_id")


async def opened(visit: Visit, name: str) -> Queue:
    """The queue for reading. Raises QueueNotFound; opening alone would create a subqueue that does not exist."""
    manager = await visit.manager()
    await manager.queue_info(name)
    return await manager.open(name, Access.PEEK)


async def messages(visit: Visit) -> Response:
    """A page of messages behind ``after``, those that the selector and the identifiers choose.

    ``trail`` has the places of the pages before, for the way back. A place is a lookup id, so a page begins where the
    page before ended, whatever has come and gone meanwhile.
    """
    name = needed(visit.query, "queue")
    trail = [part for part in visit.query.get("trail", "").split(",") if part]
    after = lookup_id(visit.query, "after") if visit.query.get("after") else None
    found, wrong = search.Page([], None, False), None
    async with await opened(visit, name) as queue:
        try:
            match = _match(visit.query)
            found = await search.page(queue, after, ROWS, match, visit.query.get("selector") or None)
        except (SelectorSyntaxError, MatchOptionsError, InvalidArgument) as error:
            wrong = error
    following = None
    if found.place is not None:
        more = [*trail, visit.query.get("after") or "0"][-TRAIL:]
        following = visit.here(after=f"{found.place:#018x}", trail=",".join(more))
    before = None
    if trail:
        before = visit.here(after="" if trail[-1] == "0" else trail[-1], trail=",".join(trail[:-1]))
    return visit.page(
        "messages.html",
        400 if wrong else 200,
        queue=name,
        found=found,
        wrong=wrong,
        following=following,
        before=before,
        searched=bool(fields_of(visit.query, "selector", *_IDS)),
        bodies=bodies,
        hidden=hidden(visit),
    )


def _match(query: dict[str, str]) -> Match | None:
    ids: dict[str, Any] = {name: identifier_of(text) for name, text in fields_of(query, *_IDS).items()}
    return Match(**ids) if ids else None


def hidden(visit: Visit) -> bool:
    """Whether bodies are hidden on pages that did not ask for one."""
    return visit.console.hide_bodies


async def _message(visit: Visit) -> Message:
    async with await opened(visit, needed(visit.query, "queue")) as queue:
        return await queue.peek_by_lookup_id(lookup_id(visit.query))


async def message(visit: Visit) -> Response:
    """One message with its body, fields and properties."""
    found = await _message(visit)
    show = not hidden(visit) or (visit.query.get("body") == "show" and visit.may("bodies"))
    failure = {
        name.removeprefix("failure_"): value
        for name, value in found.properties.items()
        if name.startswith("failure_")
    }
    return visit.page(
        "message.html",
        message=found,
        body=bodies.view(found.body, visit.query.get("view", "")) if show else None,
        failure=failure,
        fields=_fields(found),
    )


def _fields(found: Message) -> dict[str, Any]:
    """The fields that are not at their default, without those that the page shows elsewhere."""
    elsewhere = {"lookup_id", "queue", "body", "properties", "message_id", "correlation_id", "group_id"}
    return {
        name: getattr(found, name)
        for name, default in Message.FIELDS.items()
        if name not in elsewhere and getattr(found, name) != default
    }


async def body(visit: Visit) -> Response:
    """The bytes of a body, as a file."""
    if hidden(visit) and not visit.may("bodies"):
        raise Forbidden("This console hides bodies, and you may not show them.")
    found = await _message(visit)
    name = f'attachment; filename="{found.lookup_id:016x}.bin"'
    headers = {"content-disposition": name, "cache-control": "no-store"}
    return Response(found.body, media_type="application/octet-stream", headers=headers)
