"""A message before it is sent, and the result of its send.

``operations.send`` makes one of the arguments of ``Queue.send``, and takes those that callers made; ``spark.rows``
makes one of a row. ``codec.encode`` makes its record of ``_text``, ``_correlation``, ``_about`` and ``_body``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Unpack

from mqredis.errors import InvalidArgument
from mqredis.models.base import Fields, checked, expose
from mqredis.models.fields import NAMED, write_fields
from mqredis.models.header import Header, MessageFields
from mqredis.models.lookup_ids import format_id, generated_id, token_of
from mqredis.models.properties import PropertyValue
from mqredis.models.text import Identifier, names

_new = object.__new__


class Outgoing(Header):
    """A message before it is sent. ``Queue.send`` takes the same fields as keyword arguments.

    A body that is text is sent as UTF-8 with the content type text/plain, unless one is given. A field that is None
    counts as not given. Raises InvalidArgument, which names the field that is wrong.
    """

    __slots__ = ("_about", "_body", "_correlation", "_given", "_text")

    body: bytes = b""
    """The content of the message."""
    message_id: Identifier | None = None
    """Identifier of the message; None: the broker gives it one."""
    sequence: int | None = None
    """Number of the message in its group, from 1."""
    offset: int | None = None
    """Offset of the segment in the larger message, in bytes."""
    time_to_be_received: float | None = None
    """Seconds from the send after which the message is removed if it was not received. None: never."""
    time_to_reach_queue: float | None = None
    """Seconds from the send within which the message must reach the queue. None: no limit."""
    sent_seconds_ago: float = 0.0
    """How long ago the originator has sent the message, in seconds (bridges, store and forward)."""
    delay: float = 0.0
    """Seconds during which the broker holds the message back. 0: none."""
    dedup_window: float = 0.0
    """Seconds during which the same ``dedup_key`` is refused, and longer while this message is in the queue. 0: only as
    long as it is there."""

    _about: int
    """The bits of mqredis.models.fields that the fields set."""
    _body: bytes
    _correlation: str
    """The text of the correlation id in a record."""
    _given: dict[str, Any]
    """The given fields, without the body."""
    _text: str | None
    """The text of the other fields in a record; None once the caller may have changed the properties."""

    def __init__(self, body: bytes | str = b"", **fields: Unpack[MessageFields]) -> None:
        given: dict[str, Any] = fields  # type: ignore[assignment]
        if type(given.get("properties")) is dict:
            given["properties"] = given["properties"].copy()
        message: Any = self  # for the type checker, which sees fields without setters
        message._body = body if type(body) is bytes else _bytes_of(body, given)
        message._text, message._correlation, message._about = write_fields(given)
        message._given = given

    def _given_fields(self) -> dict[str, Any]:
        return {"body": self._body, **self._given}


def outgoing(body: object, fields: Mapping[str, Any]) -> Outgoing:
    """Make a message without copying its properties. Raises as Outgoing."""
    given = {**fields}
    message: Any = _new(Outgoing)
    message._body = body if type(body) is bytes else _bytes_of(body, given)
    message._text, message._correlation, message._about = write_fields(given)
    message._given = given
    return message  # type: ignore[no-any-return]


def _bytes_of(body: object, given: dict[str, Any]) -> bytes:
    """Convert a body that is not bytes. A text gets a content type, unless one is given."""
    if isinstance(body, str):
        if given.get("content_type") is None:
            given["content_type"] = "text/plain; charset=utf-8"
        try:
            return body.encode("utf-8")
        except UnicodeEncodeError:
            raise InvalidArgument("body holds a lone surrogate") from None
    if isinstance(body, bytes | bytearray | memoryview):
        return bytes(body)
    remedy = "json.dumps(...) of it, or model.model_dump_json() of a pydantic model"
    if isinstance(body, Fields):
        remedy = "its body, as in send(message.body, content_type=message.content_type)"
    raise InvalidArgument(f"body must be bytes or str, not {type(body).__name__}: send {remedy}")


def _given_properties(message: Any) -> dict[str, PropertyValue]:
    message._text = None  # the caller may change the properties, so the text is made when the message is sent
    properties: dict[str, PropertyValue] = message._given.setdefault("properties", {})
    return properties


def _getter(name: str, default: Any) -> property:
    if name == "body":
        return property(attrgetter("_body"))
    if name == "properties":
        return property(_given_properties)
    return property(lambda message: message._given.get(name, default))


expose(Outgoing, _getter)


class Sent(Fields):
    """The result of a send."""

    __slots__ = ("_copies", "_group_id", "_id", "_incarnation", "_message_id", "_token")

    lookup_id: int
    """Number of the message on this queue manager."""
    message_id: Identifier
    """Identifier of the message, given or generated."""
    token: str
    """Names this instance of the message on its queue (MQ message token)."""
    group_id: Identifier | None = None
    """Group of the message, given or generated."""
    copies: tuple[Sent, ...] = ()
    """For a send to several queues: the results of all of them, this one included."""

    if not TYPE_CHECKING:

        def __init__(self, **values: Any) -> None:
            found = checked(Sent, values)
            self._id = format_id(found["lookup_id"])
            self._token = found["token"]
            self._message_id = found["message_id"]
            self._group_id = found["group_id"]
            self._copies = tuple(found["copies"])

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(self.token)


def sent(lookup_id: str, incarnation: str, message: Outgoing) -> Sent:
    """Make the result of a send. ``lookup_id``: 16 hex digits."""
    result: Any = _new(Sent)
    result._id = lookup_id
    result._incarnation = incarnation
    result._token = None  # made at the first access, as are the ids
    result._copies = ()
    if message._about & NAMED:
        result._message_id = message.message_id if names(message.message_id) else None
        result._group_id = message.group_id if names(message.group_id) else None
    else:
        result._message_id = result._group_id = None
    return result  # type: ignore[no-any-return]


_SENT: dict[str, Callable[[Any], Any]] = {
    "lookup_id": lambda sent: int(sent._id, 16),
    "message_id": lambda sent: generated_id(sent._id) if sent._message_id is None else sent._message_id,
    "token": lambda sent: token_of(sent._incarnation, sent._id) if sent._token is None else sent._token,
    "group_id": attrgetter("_group_id"),
    "copies": attrgetter("_copies"),
}
expose(Sent, lambda name, _: property(_SENT[name]))
