"""Actions that send a message: a new one, or a failed one that was edited.

``console.actions`` lists them; ``pages.action`` runs them.

``schedules`` uses ``MESSAGE`` and ``outgoing_of``. ``send-again`` sends first and deletes then, so that an error
between both leaves two messages and not none; the deduplication key keeps a second operator from sending within an
hour. The log has it as "send_again", and the deletion as "delete". The form leaves out the report of the failure: every
property whose name begins with ``REPORT``.
"""

from __future__ import annotations

import json
from contextlib import nullcontext
from typing import Any

from mqredis.asyncio import QueueManager
from mqredis.console import formats
from mqredis.console.actions.base import (
    Action,
    Field,
    Preview,
    Values,
    lookup_id,
    needed,
    operator_of,
    seconds,
    to_queue,
    whole,
)
from mqredis.errors import DuplicateMessage, InvalidArgument
from mqredis.keys import SYSTEM
from mqredis.models import Access, Message, Outgoing, StoredMessage
from mqredis.models.lookup_ids import hex_id
from mqredis.operations.giveback import REPORT

# Seconds in which a failed message is sent again to the same queue only once.
_SENT_AGAIN = 3600.0


def outgoing_of(values: Values, **more: Any) -> Outgoing:
    """The message in a form with the fields of ``MESSAGE``, and ``more`` fields. Raises InvalidArgument."""
    fields: dict[str, Any] = {
        **more,
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
    outgoing_of(values)
    what = "topic" if info.topic else "queue"
    holds = formats.plural(info.messages, "message")
    return Preview(f"One message goes to the {what} {info.name}, which holds {holds}.")


async def _send(manager: QueueManager, values: Values) -> str:
    return await _send_to(manager, needed(values, "queue"), outgoing_of(values))


async def _send_to(manager: QueueManager, name: str, message: Outgoing) -> str:
    info = await manager.queue_info(name.partition(";")[0])
    async with (
        await manager.open(name, Access.SEND) as queue,
        await manager.transaction() if info.transactional else nullcontext() as unit,
    ):
        sent = await queue.send(message, transaction=unit)
    return f"Message {hex_id(sent.lookup_id)} was sent to {name}."


# ---- edit and send again -------------------------------------------------------------------------


async def _failed(manager: QueueManager, values: Values) -> StoredMessage:
    """The message that is to be sent again. Raises InvalidArgument if it is not available."""
    stored = await manager.message(needed(values, "queue"), lookup_id(values))
    if stored.state != "ready":
        raise InvalidArgument(f"the message is {stored.state}: only an available message can be sent again")
    return stored


async def _preview_again(manager: QueueManager, values: Values) -> Preview:
    name, number = needed(values, "queue"), lookup_id(values)
    stored = await _failed(manager, values)
    outgoing_of(values)
    return Preview(
        f"The message below is sent, and then message {hex_id(number)} of {name} is deleted.",
        _editable(stored.message),
    )


def _editable(message: Message) -> dict[str, str]:
    """The message as fields of a form. Raises InvalidArgument for what cannot be written in a form."""
    properties = {name: value for name, value in message.properties.items() if not name.startswith(REPORT)}
    try:
        body, shown = message.text, json.dumps(properties, ensure_ascii=False) if properties else ""
    except (UnicodeDecodeError, TypeError):
        raise InvalidArgument(
            "a body or a property of bytes cannot be edited; put the message back"
        ) from None
    correlation = message.correlation_id
    if isinstance(correlation, bytes):
        raise InvalidArgument("a correlation id of bytes cannot be edited; put the message back as it is")
    parent = message.queue.partition(";")[0]
    return {
        "to": message.original_queue or ("" if parent == SYSTEM else parent),
        "body": body,
        "content_type": message.content_type,
        "label": message.label,
        "properties": shown,
        "priority": str(message.priority),
        "correlation_id": correlation or "",
    }


async def _send_again(manager: QueueManager, values: Values) -> str:
    name, number, to = needed(values, "queue"), lookup_id(values), needed(values, "to")
    stored = await _failed(manager, values)
    # Of two operators only one sends it.
    once = outgoing_of(values, dedup_key=f"send-again {stored.message.token}", dedup_window=_SENT_AGAIN)
    try:
        done = await _send_to(manager, to, once)
    except DuplicateMessage:
        raise InvalidArgument(
            f"nothing was sent: message {hex_id(number)} was sent again to {to} within the last hour. If it is "
            f"still in {name}, delete it"
        ) from None
    operator = operator_of(manager, values)
    result = await operator.delete(name, lookup_ids=[number], token=values.get("token"))
    if not result.changed:
        return f"{done} Message {hex_id(number)} was locked or gone meanwhile and was not deleted."
    return f"{done} Message {hex_id(number)} was deleted from {name}."


_QUEUE = Field("queue", "Queue", "hidden")
# The fields of a message that is sent, which ``outgoing_of`` reads.
MESSAGE = (
    Field("body", "Body", "area"),
    Field("content_type", "Content type", help="Empty: text/plain; charset=utf-8."),
    Field("label", "Label"),
    Field("properties", "Properties", "area", 'A JSON object, such as {"region": "EU", "amount": 12.5}.'),
    Field(
        "priority",
        "Priority",
        "number",
        f"0 to 7; 7 is delivered first. Empty: {Outgoing.FIELDS['priority']}.",
    ),
    Field("correlation_id", "Correlation id"),
    Field("delay", "Delay in seconds", "number"),
    Field("expires", "Expires after seconds", "number"),
)

ACTIONS = (
    Action("send", "Send a message", (_QUEUE, *MESSAGE), _preview_send, _send, to_queue),
    Action(
        "send-again",
        "Edit and send again",
        (_QUEUE, Field("id", "Message", "hidden"), Field("to", "To the queue"), *MESSAGE),
        _preview_again,
        _send_again,
        to_queue,
        shows_body=True,
    ),
)
