"""Enqueue (MS-MQDMPR 3.1.7.1.9): one message, or many in batches.

``Queue``, ``groups`` and ``request`` make them; the asyncio driver joins those of several tasks (``Send.joined``).
``schedules``, ``worker.unit``, ``cli.messages`` and ``otel.patches`` only make messages with ``outgoing``.

A plain send is the path that docs/architecture.md describes; ``tests/contract/test_cost.py`` counts its commands.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mqredis import codec
from mqredis.commands import queues
from mqredis.commands import send as commands
from mqredis.commands.replies import OK
from mqredis.errors import InvalidArgument, InvariantBroken, MessageTooLarge
from mqredis.models import Journal, Outgoing, Sent
from mqredis.models import outgoing as models
from mqredis.models.fields import GROUPED, TRACED, WINDOW
from mqredis.models.lookup_ids import SIZE, split_ids
from mqredis.models.text import names
from mqredis.operations import checks
from mqredis.operations.open_queue import Handle
from mqredis.operations.queue_call import QueueCall, complete
from mqredis.operations.refusals import LARGER
from mqredis.operations.server_checks import refuse_volatile
from mqredis.operations.unit_of_work import UnitOfWork, owner_of
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

# One call carries at most this many bytes of messages, or one message.
CALL_BYTES = 4_194_304
# What a message takes besides its text.
_FIXED = 12
# A message as the scripts take it (:func:`mqredis.codec.encode`).
Encoded = tuple[bytes, bytes | None]
# A message and what is sent of it.
Prepared = tuple[Outgoing, Encoded]
# Each octet as bytes: a slice of one octet costs three times as much.
_OCTETS = [bytes((octet,)) for octet in range(256)]


def outgoing(body: object, fields: Mapping[str, Any]) -> Outgoing:
    """The message that a caller gave, with a group id if it is part of a group and has none.

    Raises InvalidArgument: with the name of the field that is wrong, for a dedup window without a dedup key, or with
    IBM's reason 2253 for an empty segment that is not the last one, since the segment behind it would have its place.
    """
    if isinstance(body, Outgoing):
        if fields:
            raise InvalidArgument("give either an Outgoing message or fields, not both")
        message = body
    else:
        message = models.outgoing(body, fields)
    about = message._about
    if about & WINDOW and message.dedup_key is None:
        raise InvalidArgument("dedup_window needs a dedup_key: give both, or neither")
    if not about & GROUPED:
        return message
    if message.segment and not message.body and not message.last_segment:
        raise InvalidArgument("only the last segment of a message may be empty", mqrc=2253)
    return message if names(message.group_id) else message.replace(group_id=new_group_id())


def new_group_id() -> str:
    """A group id nobody else has."""
    return "mqg-" + uuid.uuid4().hex


def _encoded(handle: Handle, messages: Iterable[Outgoing], unit: UnitOfWork | None) -> codec.Batch:
    """The messages as the scripts take them. Raises MessageTooLarge if the last one of them is."""
    context = handle.context
    if context.server_state.volatile or context.sealer is not None:
        messages = (_admitted(handle, message) for message in messages)
    batch = codec.encode_each(messages, unit.id if unit else "", handle.max_message_bytes - _FIXED)
    if batch.texts:  # all before the last were small enough
        _check_size(handle, batch.size(len(batch.texts) - 1))
    return batch


def _admitted(handle: Handle, message: Outgoing) -> Outgoing:
    """The message as it is sent: sealed, if the client seals. Raises UnsafeServer if the server might lose it."""
    context = handle.context
    if context.server_state.volatile and (message.recoverable or handle.transactional):
        raise refuse_volatile(f"the message to queue {handle.path!r} is not sent")
    return context.sealed(message)


def _check_size(handle: Handle, size: int) -> None:
    """Raise MessageTooLarge if the queue does not take a message of ``size`` bytes."""
    if size + _FIXED > handle.max_message_bytes:
        raise MessageTooLarge(
            f"the message takes {size + _FIXED} bytes; queue {handle.path!r} allows "
            f"{handle.max_message_bytes}: {LARGER}"
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
    message = outgoing(body, fields)
    context = handle.context
    if context.server_state.volatile or context.sealer is not None:
        message = _admitted(handle, message)
    encoded = codec.encode(message, unit.id if unit else "")
    _check_size(handle, _size(encoded))
    return message, encoded


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
        return None if prepared[0]._about & TRACED else self

    @property
    def batchers(self) -> dict[type, Any]:
        """Those of the handle."""
        return self.handle.batchers

    @classmethod
    def fitting(cls, operations: Sequence[Send]) -> int:
        """As many as one call takes."""
        return _fitting([_size(operation.prepared[1]) for operation in operations if operation.prepared])

    @classmethod
    def joined(cls, operations: Sequence[Send]) -> Operation[list[Sent]]:
        """One call for all of these messages: all or none of them are sent."""
        handle = operations[0].handle
        return send_each(handle, [operation.prepared for operation in operations if operation.prepared])

    def request(self) -> Call[commands.Accepted] | None:
        """The message, unless it may be too large or goes to several queues."""
        handle, unit = self.handle, self.unit
        if self.prepared is None:
            return None
        line, large = self.prepared[1]
        texts = (line[1:],) if large is None else (line[1:], large)
        owner, grant = owner_of(handle, unit)
        priority = _OCTETS[line[0]]
        self._call = commands.send_texts(handle.address, priority, texts, owner, grant, handle.topic)
        return self._call

    def accept(self, reply: Reply) -> Sent | More:
        """The identifiers of the message, unless the script needs more queues or has refused it."""
        if reply[0] != OK:
            return MORE
        lookup_id, fence = understand(self._call, reply)
        return self._result(lookup_id, fence)

    def resume(self, reply: Reply | None) -> Steps[Sent]:
        """Name the queues that the script needs; learn first whether the queue takes larger messages by now."""
        handle = self.handle
        if reply is None:
            if handle.elements:
                return (yield from self._to_all())
            if self.too_large is not None:
                yield from learn(handle, self.too_large)
            self.prepared = prepare(handle, self.body, self.fields, self.unit)
            return (yield from self)
        key = self.prepared[0].dedup_key if self.prepared else None
        return self._result(*(yield from complete(self, handle.address, self._call, reply, key)))

    def _result(self, lookup_id: str, fence: str) -> Sent:
        handle, message = self.handle, self.prepared[0]  # type: ignore[index]  # it was sent
        if self.unit:
            self.unit.touched(fence, handle)
        return models.sent(lookup_id, handle.context.incarnation, message)

    def _to_all(self) -> Steps[Sent]:
        """The first refusal ends it; what was sent before stays, unless a transaction is aborted."""
        self.handle.need("send")
        message = outgoing(self.body, self.fields)
        if self.unit and Journal.DEAD_LETTER in message.journal:
            raise InvalidArgument("a transactional message to several queues cannot ask for dead letters")
        copies: list[Sent] = []
        for element in self.handle.elements:
            copies.append((yield from Send(element, message, {}, self.unit)))  # noqa: PERF401
        return copies[0].replace(copies=tuple(copies))


@procedure
def send_each(handle: Handle, prepared: Sequence[Prepared]) -> Steps[list[Sent]]:
    """Send what several callers have prepared, as much as one call takes: all or none of it."""
    messages, encoded = zip(*prepared, strict=True)
    call = commands.send(handle.address, encoded, topic=handle.topic)
    return (yield from _send_batch(handle, call, messages))


def _send_batch(
    handle: Handle,
    call: Call[commands.Accepted],
    messages: Sequence[Outgoing],
    unit: UnitOfWork | None = None,
) -> Steps[list[Sent]]:
    """Make the call that sends these messages."""
    ids, fence = yield from QueueCall(handle.address, call)
    if unit:
        unit.touched(fence, handle)
    if len(ids) != len(messages) * SIZE:
        raise InvariantBroken(f"send answered {len(ids) // SIZE} ids for {len(messages)} messages")
    incarnation = handle.context.incarnation
    return [
        models.sent(lookup_id, incarnation, message)
        for lookup_id, message in zip(split_ids(ids), messages, strict=True)
    ]


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
    messages = [outgoing(item, {}) for item in items]
    try:
        batch = _encoded(handle, messages, unit)
    except MessageTooLarge as error:
        yield from learn(handle, error)
        batch = _encoded(handle, messages, unit)
    sizes, at = batch.sizes(), 0
    sent: list[Sent] = []
    while at < len(sizes):
        stop = _fitting(sizes, at)
        owner, grant = owner_of(handle, unit)
        call = commands.send_texts(handle.address, *batch.part(at, stop), owner, grant, handle.topic)
        sent += yield from _send_batch(handle, call, messages[at:stop], unit)
        at = stop
    return sent
