"""Actions on messages: send, delete, move, redrive, purge."""

from __future__ import annotations

import json
from contextlib import nullcontext
from typing import Any

from mqredis.asyncio import Queue, QueueManager
from mqredis.console import formats, search
from mqredis.console.actions.base import (
    Action,
    Field,
    Preview,
    Values,
    lookup_id,
    needed,
    seconds,
    to_queue,
    whole,
)
from mqredis.errors import InvalidArgument
from mqredis.models import Access, Outgoing

#: A preview counts at most so many messages.
COUNTED = 20_000
#: A redrive from the console moves at most so many messages, so that its page answers in time.
REDRIVEN = 10_000

_QUEUE = Field("queue", "Queue", "hidden")
_ID = Field("id", "Message", "hidden")
_SELECTOR = Field(
    "selector", "Only messages for which this is true", help="A selector, such as region = 'EU'. Empty: all."
)


async def counted(queue: Queue, selector: str | None) -> str:
    """The number of messages that an action would touch, in words. Raises SelectorSyntaxError."""
    found, more = await search.count(queue, COUNTED, selector=selector)
    return ("at least " if more else "") + formats.plural(found, "message")


# ---- send ----------------------------------------------------------------------------------------


def _outgoing(values: Values) -> Outgoing:
    fields: dict[str, Any] = {
        "content_type": values.get("content_type"),
        "label": values.get("label"),
        "priority": whole(values, "priority"),
        "correlation_id": values.get("correlation_id"),
        "delay": seconds(values, "delay"),
        "time_to_be_received": seconds(values, "expires"),
    }
    if values.get("properties", "").strip():
        fields["properties"] = _properties(values["properties"])
    # Browsers send line ends as CR LF.
    body = values.get("body", "").replace("\r\n", "\n")
    return Outgoing(body, **{name: value for name, value in fields.items() if value not in (None, "")})


def _properties(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"properties: this is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise InvalidArgument('properties: a JSON object is expected, such as {"region": "EU"}')
    return found


async def _preview_send(manager: QueueManager, values: Values) -> Preview:
    info = await manager.queue_info(needed(values, "queue"))
    _outgoing(values)
    what = "topic" if info.topic else "queue"
    return Preview(
        f"One message goes to the {what} {info.name}, which holds {formats.plural(info.messages, 'message')}."
    )


async def _send(manager: QueueManager, values: Values) -> str:
    name = needed(values, "queue")
    info = await manager.queue_info(name.partition(";")[0])
    async with (
        await manager.open(name, Access.SEND) as queue,
        await manager.transaction() if info.transactional else nullcontext() as unit,
    ):
        sent = await queue.send(_outgoing(values), transaction=unit)
    return f"Message {formats.hex_id(sent.lookup_id)} was sent to {name}."


# ---- one message ---------------------------------------------------------------------------------


async def _preview_one(manager: QueueManager, values: Values) -> Preview:
    name = needed(values, "queue")
    await manager.queue_info(name)  # opening a subqueue would create it
    async with await manager.open(name, Access.PEEK) as queue:
        message = await queue.peek_by_lookup_id(lookup_id(values))
    label = f" ({message.label})" if message.label else ""
    return Preview(f"This touches 1 message of {name}: {formats.hex_id(message.lookup_id)}{label}.")


async def _delete(manager: QueueManager, values: Values) -> str:
    async with await manager.open(needed(values, "queue"), Access.RECEIVE) as queue:
        message = await queue.receive_by_lookup_id(lookup_id(values))
    return f"Message {formats.hex_id(message.lookup_id)} was deleted from {queue.name}."


async def _move(manager: QueueManager, values: Values) -> str:
    name, target = needed(values, "queue"), needed(values, "target")
    async with (
        await manager.open(name, Access.RECEIVE) as source,
        await manager.open(target, Access.MOVE) as destination,
    ):
        await source.move(lookup_id(values), destination)
    return f"Message {formats.hex_id(lookup_id(values))} was moved from {name} to {target}."


# ---- many messages -------------------------------------------------------------------------------


async def _preview_many(manager: QueueManager, values: Values) -> Preview:
    info = await manager.queue_info(needed(values, "queue"))
    selector = values.get("selector") or None
    if selector is None:
        locked = f"; {formats.number(info.locked)} more are locked" if info.locked else ""
        return Preview(f"This touches {formats.plural(info.ready, 'message')} of {info.name}{locked}.")
    async with await manager.open(info.name, Access.PEEK) as queue:
        return Preview(f"This touches {await counted(queue, selector)} of {info.name}.")


async def _purge(manager: QueueManager, values: Values) -> str:
    async with await manager.open(needed(values, "queue"), Access.RECEIVE) as queue:
        removed = await queue.purge(selector=values.get("selector") or None)
    return f"{formats.plural(removed, 'message')} of {queue.name} removed."


async def _redrive(manager: QueueManager, values: Values) -> str:
    limit = whole(values, "limit")
    went = await manager.redrive(
        needed(values, "queue"),
        to=values.get("to") or None,
        limit=min(limit or REDRIVEN, REDRIVEN),
        selector=values.get("selector") or None,
    )
    return f"{formats.plural(went, 'message')} put back from {values['queue']}."


ACTIONS = (
    Action(
        "send",
        "Send a message",
        (
            _QUEUE,
            Field("body", "Body", "area"),
            Field("content_type", "Content type", help="Empty: text/plain; charset=utf-8."),
            Field("label", "Label"),
            Field(
                "properties", "Properties", "area", 'A JSON object, such as {"region": "EU", "amount": 12.5}.'
            ),
            Field("priority", "Priority", "number", "0 to 7; 7 is delivered first. Empty: 3."),
            Field("correlation_id", "Correlation id"),
            Field("delay", "Delay in seconds", "number"),
            Field("expires", "Expires after seconds", "number"),
        ),
        _preview_send,
        _send,
        to_queue,
    ),
    Action(
        "delete",
        "Delete the message",
        (_QUEUE, _ID),
        _preview_one,
        _delete,
        to_queue,
        destroys=True,
        relieves=True,
    ),
    Action(
        "move",
        "Move the message",
        (_QUEUE, _ID, Field("target", "To", help="A subqueue of the same queue, or the queue itself.")),
        _preview_one,
        _move,
        to_queue,
    ),
    Action(
        "redrive",
        "Put messages back",
        (
            _QUEUE,
            _SELECTOR,
            Field("to", "Into this queue", help="Empty: the queue that each message came from."),
            Field("limit", "At most", "number", f"Empty: {REDRIVEN:,}, which is also the largest number."),
        ),
        _preview_many,
        _redrive,
        to_queue,
    ),
    Action(
        "purge", "Purge", (_QUEUE, _SELECTOR), _preview_many, _purge, to_queue, destroys=True, relieves=True
    ),
)
