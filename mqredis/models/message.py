"""A message that was read. It keeps its record, and parses it at the first access to a field.

Reads return it; ``codec.decode`` makes it. A new attribute is a field of ``Message``, and of ``_COMPUTED`` if its
record does not have it under this name; ``spark.columns`` names those that pipelines see.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from mqredis.models.base import checked, expose
from mqredis.models.enums import MessageClass
from mqredis.models.fields import LAST_IN_GROUP, LAST_SEGMENT, SEGMENT, read_fields
from mqredis.models.header import Header
from mqredis.models.lookup_ids import format_id, generated_id, token_of
from mqredis.models.record_parts import FIRST, HEAD_AT, LAST, arrival_ms, has_bit
from mqredis.models.text import Identifier, time_at

_new = object.__new__


class Counts(NamedTuple):
    """What replies show of a message's state (``message_state.shown`` in ``lua/core/message_state.lua``), in order."""

    deliveries: int = 0
    aborts: int = 0
    moves: int = 0
    last_moved_ms: int = 0
    """When it was moved last, in ms since 1970; 0: never."""
    not_attempts: int = 0
    """How many of the deliveries are not attempts."""


class Origin(NamedTuple):
    """Facts that messages of one reply share."""

    queue: str
    incarnation: str
    counts: Counts
    taken: bool
    """Did the read remove the message? Then it counts as one more delivery."""


class Message(Header):
    """A message that was read."""

    __slots__ = ("_body", "_head", "_lookup_id", "_origin", "_values")

    lookup_id: int
    """Number of the message on its queue manager. Of two messages of one priority, the later one has the greater one;
    in a queue they are in the order of delivery."""
    queue: str
    """Name of the queue that the message was read from."""
    body: bytes
    """The content of the message."""
    message_id: Identifier
    """Identifier of the message, given by its sender or generated."""
    sequence: int = 1
    """Number of the message in its group, from 1."""
    offset: int = 0
    """Offset of the segment in the larger message, in bytes."""
    token: str
    """Names this instance of the message on its queue (MQ message token)."""
    sent_at: datetime
    """When the message was sent."""
    arrived_at: datetime
    """When the message entered the queue."""
    expires_at: datetime | None = None
    """When the message is removed if it was not received; None: never."""
    delivery_count: int = 0
    """How often the message was delivered to a reader, this delivery included (0 for a peek of a new message)."""
    attempts: int = 0
    """Which attempt to handle the message this is, from 1: ``delivery_count`` less the deliveries that readers gave
    back in order. The retry policy compares its limit with it. A peek shows the attempts so far."""
    abort_count: int = 0
    """How often a transaction that had received the message was aborted. A move to or from a subqueue sets it to 0."""
    move_count: int = 0
    """How often the message was moved."""
    last_moved_at: datetime | None = None
    """When the message was moved last."""
    message_class: MessageClass | int = MessageClass.NORMAL
    """Class of the message: normal, or the kind of acknowledgement. One that this release does not know is an int."""
    first_in_transaction: bool = False
    """The message is the first one that its transaction sent, to any queue."""
    last_in_transaction: bool = False
    """The message is the last one that its transaction sent, to any queue."""
    transaction_id: str | None = None
    """Id of the transaction in which the message was sent."""
    original_queue: str | None = None
    """On copies in a journal and on dead letters: the queue of the original message."""
    original_lookup_id: int | None = None
    """On copies in a journal and on dead letters: the lookup id of the original message."""
    original_arrived_at: datetime | None = None
    """On copies in a journal and on dead letters: when the original message entered its queue."""
    reason: str | None = None
    """On dead letters, messages in ``;poison`` and negative acknowledgements of rejected messages: why the message
    has failed."""

    if not TYPE_CHECKING:  # a type checker knows the arguments from the fields

        def __init__(self, **values: Any) -> None:
            found = checked(Message, values)
            found["properties"] = {**found["properties"]}
            self._lookup_id = found["lookup_id"]
            self._body = found["body"]
            self._head = b""
            self._origin = None
            self._values = found

    @property
    def text(self) -> str:
        """The body decoded as UTF-8. Raises UnicodeDecodeError."""
        return self.body.decode("utf-8")


def read_message(lookup_id: int, head: bytes | str, body: bytes, origin: Origin) -> Message:
    """Make a message from its checked record, of which ``head`` is the text before the body."""
    message: Any = _new(Message)
    message._lookup_id = lookup_id
    message._head = head
    message._body = body
    message._origin = origin
    message._values = {}
    return message  # type: ignore[no-any-return]


def _recorded(message: Any) -> dict[str, Any]:
    """The fields in the message's record, which is parsed at the first call.

    The properties are set last and tell that this was done. They are the only value that a caller can change, so they
    are set by ``setdefault``: threads that ask at the same time get the same dict.
    """
    values: dict[str, Any] = message._values
    if "properties" not in values:
        head = message._head
        found = read_fields((head.decode() if type(head) is bytes else head)[HEAD_AT:])
        properties = found.pop("properties")
        values.update(found)
        values.setdefault("properties", properties)
    return values


def _arrived_ms(message: Any) -> int:
    return arrival_ms(message._head)


def _sent_ms(message: Any) -> int:
    before: int = _recorded(message).get("_sent_ms_before", 0)
    return _arrived_ms(message) - before


def _expires_at(message: Any) -> datetime | None:
    life = _recorded(message).get("_life_ms")
    return None if life is None else time_at(_sent_ms(message) + life)


def _message_id(message: Any) -> Identifier:
    given: Any = _recorded(message).get("message_id")
    return generated_id(format_id(message._lookup_id)) if given is None else given


def _time_of(ms: int | None) -> datetime | None:
    return time_at(ms) if ms else None


def _has_flag(bit: int) -> Callable[[Any], bool]:
    return lambda message: has_bit(message._head, bit)


def _in_group(bits: int) -> Callable[[Any], bool]:
    return lambda message: _recorded(message).get("_group_flags", 0) & bits != 0


_COMPUTED: dict[str, Callable[[Any], Any]] = {
    "queue": lambda message: message._origin.queue,
    "token": lambda message: token_of(message._origin.incarnation, format_id(message._lookup_id)),
    "message_id": _message_id,
    "arrived_at": lambda message: time_at(_arrived_ms(message)),
    "sent_at": lambda message: time_at(_sent_ms(message)),
    "expires_at": _expires_at,
    "delivery_count": lambda message: message._origin.counts.deliveries + message._origin.taken,
    "attempts": lambda message: (
        message._origin.counts.deliveries + message._origin.taken - message._origin.counts.not_attempts
    ),
    "abort_count": lambda message: message._origin.counts.aborts,
    "move_count": lambda message: message._origin.counts.moves,
    "last_moved_at": lambda message: _time_of(message._origin.counts.last_moved_ms),
    "first_in_transaction": _has_flag(FIRST),
    "last_in_transaction": _has_flag(LAST),
    "last_in_group": _in_group(LAST_IN_GROUP),
    "segment": _in_group(SEGMENT | LAST_SEGMENT),
    "last_segment": _in_group(LAST_SEGMENT),
    "original_arrived_at": lambda message: _time_of(_recorded(message).get("_original_arrived_ms")),
}


def _getter(name: str, default: Any) -> property:
    """The getter of a field: a slot, a value of the constructor, a computed value, a field of the record, or the
    default."""
    if name in ("lookup_id", "body"):
        return property(attrgetter("_" + name))
    if name in _COMPUTED:
        compute = _COMPUTED[name]

        def computed(message: Any) -> Any:
            values = message._values
            return values[name] if name in values else compute(message)

        return property(computed)

    return property(lambda message: _recorded(message).get(name, default))


expose(Message, _getter)
