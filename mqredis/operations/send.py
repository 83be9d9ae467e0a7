"""Enqueue (MS-MQDMPR 3.1.7.1.9): one message, or many in batches."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from mqredis import codec
from mqredis.commands import send as commands
from mqredis.errors import InvalidArgument, MessageTooLarge, complaint
from mqredis.models import Journal, Outgoing, Sent
from mqredis.operations.context import Handle, UnitOfWork, owner_of
from mqredis.operations.reach import reach
from mqredis.operations.safety import refuse_volatile
from mqredis.steps import Operation

_PLAIN = Outgoing()
#: One call carries at most this many bytes of messages, or one message.
CALL_BYTES = 4_194_304


def outgoing(body: object, fields: Mapping[str, Any]) -> Outgoing:
    """What to send, from what the caller gave. Raises InvalidArgument saying which field is wrong."""
    if type(body) is not bytes and isinstance(body, Outgoing):  # which asks a metaclass written in Python
        if fields:
            raise InvalidArgument("give either an Outgoing message or fields, not both")
        return _grouped(body)
    values = {**fields}
    if isinstance(body, str):
        values.setdefault("content_type", "text/plain; charset=utf-8")
        try:
            body = body.encode("utf-8")
        except UnicodeEncodeError:
            raise InvalidArgument("body holds a lone surrogate") from None
    elif isinstance(body, bytearray | memoryview):
        body = bytes(body)
    elif not isinstance(body, bytes):
        raise InvalidArgument(f"body must be bytes or str, not {type(body).__name__}")
    if (simple := _simple(body, values)) is not None:
        return simple
    for name, value in values.items():
        if isinstance(value, bool) and name in _NUMBERS:
            raise InvalidArgument(f"{name}: {value!r} is not a number")
    try:
        return _grouped(Outgoing(body=body, **values))
    except ValidationError as error:
        raise InvalidArgument(complaint(error)) from None


def _simple(body: Any, values: dict[str, Any]) -> Outgoing | None:
    """The message, if a look at the types shows that its few fields are valid: pydantic takes ten times as long.

    What else may be wrong with these fields (their length, their range) the codec finds for both.
    """
    for name, value in values.items():
        if name == "properties":
            if type(value) is not dict or not (
                _TEXT.issuperset(map(type, value)) and _VALUES.issuperset(map(type, value.values()))
            ):
                return None
            values[name] = value.copy()
        elif type(value) is not str or name not in _IDENTIFIERS:
            return None
    if "properties" not in values:
        values["properties"] = {}
    values["body"] = body
    return codec.construct(Outgoing, _OUTGOING, values)


_TEXT = frozenset((str,))
_VALUES = frozenset((str, int, float, bool, bytes, type(None)))
_IDENTIFIERS = frozenset(("correlation_id", "message_id"))
_OUTGOING = codec.defaults_of(Outgoing)


def _grouped(message: Outgoing) -> Outgoing:
    """A message that is flagged as part of a group whose id was left out begins a group.

    Raises InvalidArgument (2253) for an empty segment that is not the last: the next one would have its place.
    """
    if message.segment and not message.body and not message.last_segment:
        raise InvalidArgument("only the last segment of a message may be empty", mqrc=2253)
    if message.group_id is None and (message.last_in_group or message.segment or message.last_segment):
        return message.model_copy(update={"group_id": new_group_id()})
    return message


def new_group_id() -> str:
    """A group id nobody else has."""
    return "mqg-" + uuid.uuid4().hex


_NUMBERS = frozenset(
    name
    for name, info in Outgoing.model_fields.items()
    if info.annotation in (int, float, int | None, float | None)
)


def _encode(handle: Handle, message: Outgoing, unit: UnitOfWork | None) -> tuple[bytes, bytes | None]:
    if handle.context.volatile and (message.recoverable or handle.transactional):
        raise refuse_volatile(f"the message to queue {handle.path!r} is not sent")
    if handle.context.sealer is not None:
        message = handle.context.sealed(message)
    encoded = codec.encode(message, unit.id if unit else "")
    limit = min(handle.max_message_bytes, handle.context.settings.max_message_bytes)
    size = len(encoded[0]) + len(encoded[1] or b"") + 12
    if size > limit:
        raise MessageTooLarge(f"the message takes {size} bytes; queue {handle.path!r} allows {limit}")
    return encoded


def send(handle: Handle, body: object, fields: Mapping[str, Any], unit: UnitOfWork | None) -> Operation[Sent]:
    """Send one message, to every element of a multiple-element name in turn (3.1.7.1.27)."""
    handle.need("send")
    message = outgoing(body, fields)
    if handle.elements:
        return (yield from _send_to_all(handle, message, unit))
    encoded = _encode(handle, message, unit)
    owner, grant = owner_of(handle, unit)
    call = commands.send(handle.address, (encoded,), owner, grant, handle.topic)
    accepted = yield from reach(handle.address, call)
    if unit:
        unit.touched(accepted.fence, handle)
    return _sent(handle, message, accepted.lookup_ids[0])


def _send_to_all(handle: Handle, message: Outgoing, unit: UnitOfWork | None) -> Operation[Sent]:
    """The first refusal ends it; what was sent before stays, unless a transaction is aborted."""
    if unit and Journal.DEAD_LETTER in message.journal:
        raise InvalidArgument("a transactional message to several queues cannot ask for dead letters")
    copies: list[Sent] = []
    for element in handle.elements:
        copies.append((yield from send(element, message, {}, unit)))  # noqa: PERF401
    return copies[0].model_copy(update={"copies": tuple(copies)})


def send_many(handle: Handle, items: Iterable[object], unit: UnitOfWork | None) -> Operation[list[Sent]]:
    """Send many messages, in order. Each call to the broker takes a batch, all or none of it."""
    handle.need("send")
    if handle.elements:
        several = []
        for item in items:
            several.append((yield from send(handle, outgoing(item, {}), {}, unit)))  # noqa: PERF401
        return several
    messages = [outgoing(item, {}) for item in items]
    encoded = [_encode(handle, message, unit) for message in messages]
    sent: list[Sent] = []
    at = 0
    while at < len(encoded):
        stop, size = at, 0
        while stop < len(encoded) and stop - at < commands.BATCH:
            size += len(encoded[stop][0]) + len(encoded[stop][1] or b"")
            if size > CALL_BYTES and stop > at:
                break
            stop += 1
        owner, grant = owner_of(handle, unit)
        call = commands.send(handle.address, encoded[at:stop], owner, grant, handle.topic)
        accepted = yield from reach(handle.address, call)
        if unit:
            unit.touched(accepted.fence, handle)
        pairs = zip(messages[at:stop], accepted.lookup_ids, strict=True)
        sent.extend(_sent(handle, message, lookup_id) for message, lookup_id in pairs)
        at = stop
    return sent


def _sent(handle: Handle, message: Outgoing, lookup_id: str) -> Sent:
    values = {
        "lookup_id": int(lookup_id, 16),
        "message_id": codec.generated_id(lookup_id) if message.message_id is None else message.message_id,
        "token": codec.token(handle.context.incarnation, lookup_id),
        "group_id": message.group_id,
    }
    return codec.construct(Sent, _SENT, values)


_SENT = codec.defaults_of(Sent)
