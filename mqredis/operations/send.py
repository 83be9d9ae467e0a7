"""Enqueue (MS-MQDMPR 3.1.7.1.9): one message, or many in batches."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from mqredis import codec
from mqredis.commands import queues
from mqredis.commands import send as commands
from mqredis.commands.common import ID
from mqredis.errors import InvalidArgument, InvariantBroken, MessageTooLarge, complaint
from mqredis.models import Identifier, Journal, Outgoing, Sent, plain
from mqredis.operations import checks
from mqredis.operations.context import Handle, UnitOfWork, owner_of
from mqredis.operations.queue_call import KEYS_CHANGED, QueueCall, complete
from mqredis.operations.safety import refuse_volatile
from mqredis.steps import (
    MORE,
    Call,
    More,
    Operation,
    Reply,
    Shareable,
    Steps,
    perform,
    procedure,
    understand,
)
from mqredis.unvalidated import PENDING, defaults_of, lazy, new, present, put

#: One call carries at most this many bytes of messages, or one message.
CALL_BYTES = 4_194_304
#: What a message takes besides its text.
_FIXED = 12
#: The fields that an Outgoing was given, valid as they are: of most messages no Outgoing is ever made.
Given = Mapping[str, Any]
#: A message as the scripts take it (``codec.encode``); and with what its sender is answered from.
Encoded = tuple[bytes, bytes | None]
Prepared = tuple[Given, Encoded]
#: The message id and the group id that a message was given.
Names = tuple[Identifier | None, Identifier | None]
_NAMELESS: Names = (None, None)
#: Each octet as bytes: a slice of one octet costs three times as much.
_OCTETS = [bytes((octet,)) for octet in range(256)]


def given(body: object, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The same as ``outgoing``, by its fields."""
    if type(body) is bytes and (found := plain({**fields, "body": body})) is not None:
        return found
    return codec.fields_of(outgoing(body, fields))


def outgoing(body: object, fields: Mapping[str, Any]) -> Outgoing:
    """What to send, from what the caller gave. Raises InvalidArgument saying which field is wrong."""
    values = {**fields}
    if type(body) is bytes:
        pass
    elif isinstance(body, Outgoing):  # which asks a metaclass written in Python
        if fields:
            raise InvalidArgument("give either an Outgoing message or fields, not both")
        return _grouped(body)
    elif isinstance(body, str):
        values.setdefault("content_type", "text/plain; charset=utf-8")
        try:
            body = body.encode("utf-8")
        except UnicodeEncodeError:
            raise InvalidArgument("body holds a lone surrogate") from None
    elif isinstance(body, bytearray | memoryview):
        body = bytes(body)
    elif not isinstance(body, bytes):
        raise InvalidArgument(f"body must be bytes or str, not {type(body).__name__}")
    values["body"] = body
    if (found := plain(values)) is not None:
        return lazy(Outgoing, found)
    if not _NUMBERS.isdisjoint(values):
        for name, value in values.items():
            if isinstance(value, bool) and name in _NUMBERS:
                raise InvalidArgument(f"{name}: {value!r} is not a number")
    try:
        return _grouped(Outgoing(**values))
    except ValidationError as error:
        raise InvalidArgument(complaint(error)) from None


def _grouped(message: Outgoing) -> Outgoing:
    """A message that is flagged as part of a group whose id was left out begins a group.

    Raises InvalidArgument (2253) for an empty segment that is not the last: the next one would have its place.
    """
    if _GROUPING.isdisjoint(codec.fields_of(message)):
        return message
    if message.segment and not message.body and not message.last_segment:
        raise InvalidArgument("only the last segment of a message may be empty", mqrc=2253)
    if not codec.names(message.group_id) and (
        message.last_in_group or message.segment or message.last_segment
    ):
        return message.model_copy(update={"group_id": new_group_id()})
    return message


_GROUPING = frozenset(("last_in_group", "segment", "last_segment"))


def new_group_id() -> str:
    """A group id nobody else has."""
    return "mqg-" + uuid.uuid4().hex


_NUMBERS = frozenset(
    name
    for name, info in Outgoing.model_fields.items()
    if info.annotation in (int, float, int | None, float | None)
)


def _encoded(handle: Handle, messages: Iterable[Given], unit: UnitOfWork | None) -> codec.Batch:
    """The messages as the scripts take them; none is sent that may not be."""
    context = handle.context
    if context.standing.volatile or context.sealer is not None:
        messages = (_admitted(handle, fields) for fields in messages)
    batch = codec.encode_each(messages, unit.id if unit else "", handle.max_message_bytes - _FIXED)
    if batch.texts:  # all before the last were small enough
        _check_size(handle, batch.size(len(batch.texts) - 1))
    return batch


def _admitted(handle: Handle, fields: Given) -> Given:
    """The message as it is sent where not all may be, or none as it is."""
    context = handle.context
    if context.standing.volatile and (fields.get("recoverable", True) or handle.transactional):
        raise refuse_volatile(f"the message to queue {handle.path!r} is not sent")
    return context.sealed(fields)


def _check_size(handle: Handle, size: int) -> None:
    """Raise MessageTooLarge if the queue does not take so much."""
    size += _FIXED
    if size > handle.max_message_bytes:
        raise MessageTooLarge(
            f"the message takes {size} bytes; queue {handle.path!r} allows {handle.max_message_bytes}"
        )


def _size(encoded: Encoded) -> int:
    line, large = encoded
    return len(line) if large is None else len(line) + len(large)


@procedure
def learn(handle: Handle, error: MessageTooLarge) -> Steps[None]:
    """Learn the bound of the queue anew, which may have been raised after it was opened. Raises ``error`` if not.

    Called only for a message that is too large; the broker says by itself that a bound was lowered.
    """
    context = handle.context
    if handle.max_message_bytes >= context.settings.max_message_bytes:
        raise error
    known = handle.max_message_bytes
    ((info, _),) = yield from perform(queues.info(context.keys, (handle.path,)))
    if info is not None:
        handle.max_message_bytes = min(info.max_message_bytes, context.settings.max_message_bytes)
    if handle.max_message_bytes <= known:
        raise error


def prepare(
    handle: Handle, body: object, fields: Mapping[str, Any], unit: UnitOfWork | None = None
) -> Prepared:
    """A message that may be sent through this handle. Raises what is wrong with it, before anything is sent."""
    handle.need("send")
    context = handle.context
    if type(body) is bytes and context.sealer is None and not context.standing.volatile:
        try:  # most are checked while they are encoded, and no dict is made of them
            encoded = codec.encode_fields(fields, unit.id if unit else "", body)
        except codec.Unusual:
            pass
        else:
            line, large = encoded
            if large is not None or len(line) + _FIXED > handle.max_message_bytes:
                _check_size(handle, _size(encoded))
            return fields, encoded
    message = given(body, fields)
    encoded = codec.encode_fields(_admitted(handle, message), unit.id if unit else "")
    _check_size(handle, _size(encoded))
    return message, encoded


#: Fields that leave something behind when a message is refused: of a batch all would, whichever is to blame.
_TRACED = frozenset(("acknowledge", "administration_queue", "journal", "dead_letter_queue"))


class Send(Shareable[Sent]):
    """Send one message, to every element of a multiple-element name in turn (3.1.7.1.27)."""

    __slots__ = ("_call", "body", "fields", "handle", "prepared", "too_large", "unit")

    def __init__(
        self, handle: Handle, body: object, fields: Mapping[str, Any], unit: UnitOfWork | None = None
    ) -> None:
        """Raises what is wrong with the message, unless it is too large for what is known of the queue."""
        self.handle = handle
        self.body = body
        self.fields = fields
        self.unit = unit
        self.prepared: Prepared | None = None
        self.too_large: MessageTooLarge | None = None
        if not handle.elements:
            try:
                self.prepared = prepare(handle, body, fields, unit)
            except MessageTooLarge as error:
                self.too_large = error

    @property
    def shareable(self) -> Send | None:
        """A batch that is refused must leave nothing behind of any message."""
        prepared = self.prepared
        if prepared is None or self.unit is not None or self.handle.topic:
            return None
        return self if _TRACED.isdisjoint(prepared[0]) else None

    @property
    def lanes(self) -> dict[type, Any]:
        """Those of the handle."""
        return self.handle.lanes

    @classmethod
    def fitting(cls, operations: Sequence[Send]) -> int:
        """As many as one call takes."""
        return _fitting([_size(operation.prepared[1]) for operation in operations if operation.prepared])

    @classmethod
    def joined(cls, operations: Sequence[Send]) -> Operation[list[Sent]]:
        """One call for all of these messages: all or none of them are sent."""
        handle = operations[0].handle
        return send_each(handle, [operation.prepared for operation in operations if operation.prepared])

    def request(self) -> Call[tuple[str, str]] | None:
        """The message, unless it may be too large or goes to several queues."""
        return None if self.prepared is None else self._request(self.prepared)

    def _request(self, prepared: Prepared) -> Call[tuple[str, str]]:
        handle, unit = self.handle, self.unit
        line, large = prepared[1]
        texts = (line[1:],) if large is None else (line[1:], large)
        owner, grant = owner_of(handle, unit) if unit else ("", "")
        priority = _OCTETS[line[0]]
        self._call = commands.send_texts(handle.address, priority, texts, owner, grant, "f" in handle.flags)
        return self._call

    def accept(self, reply: Reply) -> Sent | More:
        """The identifiers of the message, unless the script needs more queues."""
        if reply[0] == KEYS_CHANGED:
            return MORE
        return self._result(*understand(self._call, reply))

    def resume(self, reply: Reply | None) -> Steps[Sent]:
        """Name the queues that the script needs; learn first whether the queue takes larger messages by now."""
        handle = self.handle
        if reply is None:
            if handle.elements:
                return (yield from self._to_all())
            if self.too_large is not None:
                yield from learn(handle, self.too_large)
            self.prepared = prepare(handle, self.body, self.fields, self.unit)
            reply = yield from self.make(self._request(self.prepared))
        return self._result(*(yield from complete(self, handle.address, self._call, reply)))

    def _result(self, lookup_id: str, fence: str) -> Sent:
        handle, message = self.handle, self.prepared[0]  # type: ignore[index]  # it was sent
        if self.unit:
            self.unit.touched(fence, handle)
        names = _names(message) if "message_id" in message or "group_id" in message else _NAMELESS
        put(model := new(Sent), {PENDING: (_whole, _one, names, handle.context.incarnation, lookup_id, 0)})
        return model  # as ``lazy`` makes it, without its call

    def _to_all(self) -> Steps[Sent]:
        """The first refusal ends it; what was sent before stays, unless a transaction is aborted."""
        self.handle.need("send")
        message = outgoing(self.body, self.fields)
        if self.unit and Journal.DEAD_LETTER in message.journal:
            raise InvalidArgument("a transactional message to several queues cannot ask for dead letters")
        copies: list[Sent] = []
        for element in self.handle.elements:
            copies.append((yield from Send(element, message, {}, self.unit)))  # noqa: PERF401
        return copies[0].model_copy(update={"copies": tuple(copies)})


@procedure
def send_each(handle: Handle, prepared: Sequence[Prepared]) -> Steps[list[Sent]]:
    """Send what several callers have prepared, as much as one call takes: all or none of it."""
    messages, encoded = zip(*prepared, strict=True)
    call = commands.send(handle.address, encoded, topic=handle.topic)
    return (yield from _send_batch(handle, call, [*map(_names, messages)]))


def _send_batch(
    handle: Handle, call: Call[tuple[str, str]], names: Sequence[Names], unit: UnitOfWork | None = None
) -> Steps[list[Sent]]:
    """Make the call that sends messages with these names."""
    ids, fence = yield from QueueCall(handle.address, call)
    if unit:
        unit.touched(fence, handle)
    if len(ids) != len(names) * ID:
        raise InvariantBroken(f"send answered {len(ids) // ID} ids for {len(names)} messages")
    return _answers(names, handle.context.incarnation, ids)


def _fitting(sizes: Sequence[int], at: int = 0) -> int:
    """Where the call ends that begins with message ``at``: one of them at least."""
    stop = min(at + commands.BATCH, len(sizes))
    size = sum(sizes[at:stop])
    while size > CALL_BYTES and stop > at + 1:
        stop -= 1
        size -= sizes[stop]
    return stop


@procedure
def send_many(handle: Handle, items: Iterable[object], unit: UnitOfWork | None) -> Steps[list[Sent]]:
    """Send many messages, in order. Each call to the broker takes a batch, all or none of it."""
    handle.need("send")
    items = checks.several(items, "items")
    if handle.elements:
        several = []
        for item in items:
            several.append((yield from Send(handle, outgoing(item, {}), {}, unit)))  # noqa: PERF401
        return several
    messages = []
    for item in items:
        fields = present(item) if type(item) is Outgoing else None
        # With something pending it was plain: no part of a group.
        messages.append(fields if fields is not None and PENDING in fields else given(item, {}))
    try:
        batch = _encoded(handle, messages, unit)
    except MessageTooLarge as error:
        yield from learn(handle, error)
        batch = _encoded(handle, messages, unit)
    names = [*map(_names, messages)] if batch.mixed else [_NAMELESS] * len(messages)
    sizes, at = batch.sizes(), 0
    sent: list[Sent] = []
    while at < len(sizes):
        stop = _fitting(sizes, at)
        owner, grant = owner_of(handle, unit)
        call = commands.send_texts(handle.address, *batch.part(at, stop), owner, grant, handle.topic)
        sent += yield from _send_batch(handle, call, names[at:stop], unit)
        at = stop
    return sent


def _names(message: Given) -> Names:
    identity, group = message.get("message_id"), message.get("group_id")
    if identity is not None and not codec.names(identity):
        identity = None
    if group is not None and not codec.names(group):
        group = None
    return identity, group


def _answers(names: Sequence[Names], incarnation: str, ids: str) -> list[Sent]:
    sent, at = [], 0
    for asked in names:
        model = new(Sent)  # as ``lazy``, without a call for each
        put(model, {PENDING: (_whole, _one, asked, incarnation, ids, at)})
        sent.append(model)
        at += ID
    return sent


def _answer(pending: tuple[Any, ...]) -> dict[str, Any]:
    """What a send answers about a message."""
    (message_id, group_id), incarnation, ids, at = pending[2:]
    lookup_id = ids[at : at + ID]
    return {
        "lookup_id": int(lookup_id, 16),
        "message_id": codec.generated_id(lookup_id) if message_id is None else message_id,
        "token": codec.token(incarnation, lookup_id),
        "group_id": group_id,
    }


def _whole(_: object, pending: tuple[Any, ...]) -> tuple[dict[str, Any], set[str]]:
    values = _answer(pending)
    return {**_SENT, **values}, set(values)


def _one(_: object, pending: tuple[Any, ...], name: str) -> Any:
    return _answer(pending)[name]


_SENT = defaults_of(Sent)
