"""Message <-> the text kept in Redis. ``lua/lib/record.lua`` documents the format and reads the same.

A record is text up to the first NUL, so a script finds a field with a plain search and never unpacks anything.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from pydantic import BaseModel

from mqredis import keys
from mqredis.errors import InvalidArgument
from mqredis.models import Acknowledge, Identifier, Journal, Message, Outgoing, PropertyValue

M = TypeVar("M", bound=BaseModel)
#: Bodies beyond this many bytes are kept apart, so that scans never fetch them.
INLINE_BODY_BYTES = 4096
MAX_PROPERTIES = 128
MAX_PROPERTY_NAME = 255
MAX_IDENTIFIER_BYTES = 255
_INT64 = 1 << 63

#: The flag of a record as one digit.
_FLAGS = "0123456789abcdefghijklmnopqrstuv"

_ESCAPE = re.compile(r"[\x00-\x04]")
_UNESCAPE = re.compile(r"\x04([@-D])")
#: Flags of records of messages that are neither the first nor the last of a transaction.
_OUTSIDE = frozenset((b"0", b"1", b"8", b"9", b"h", b"p"))
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

DEFAULT_CONTENT_TYPE = "application/octet-stream"


def escape(text: str) -> str:
    """Keep the separators of a head out of a value."""
    if not _ESCAPE.search(text):
        return text
    return _ESCAPE.sub(lambda m: "\x04" + chr(0x40 + ord(m[0])), text)


def unescape(text: str) -> str:
    """The inverse of :func:`escape`."""
    if "\x04" not in text:
        return text
    return _UNESCAPE.sub(lambda m: chr(ord(m[1]) - 0x40), text)


def identifier(value: Identifier, what: str) -> str:
    """An identifier as it is kept: ``s`` and text, or ``x`` and hex digits."""
    if isinstance(value, str):
        if len(value) * 4 <= MAX_IDENTIFIER_BYTES:
            return "s" + (value if value.isprintable() else escape(value))
        if len(value.encode("utf-8", "surrogatepass")) > MAX_IDENTIFIER_BYTES:
            raise InvalidArgument(f"{what} is longer than {MAX_IDENTIFIER_BYTES} bytes")
        return "s" + escape(value)
    if isinstance(value, bytes | bytearray | memoryview):
        data = bytes(value)
        if len(data) > MAX_IDENTIFIER_BYTES:
            raise InvalidArgument(f"{what} is longer than {MAX_IDENTIFIER_BYTES} bytes")
        return "x" + data.hex()
    raise InvalidArgument(f"{what} must be str or bytes, not {type(value).__name__}")


def _identifier(text: str) -> Identifier:
    return bytes.fromhex(text[1:]) if text[:1] == "x" else unescape(text[1:])


def encode_property(name: object, value: object) -> str:
    """One user property of a head."""
    stem = _stem(name)
    return stem + _value(str(name), value)


#: Names of properties that were checked before, as they begin a field.
_stems: dict[str, str] = {}


def _stem(name: object) -> str:
    if not isinstance(name, str) or not name:
        raise InvalidArgument(f"a property name must be a non-empty str, not {name!r:.60}")
    if len(name) > MAX_PROPERTY_NAME:
        raise InvalidArgument(f"property name {name[:20]!r}... has more than {MAX_PROPERTY_NAME} characters")
    stem = f"\x01{escape(name)}\x02"
    if len(_stems) < 1024:
        _stems[name] = stem
    return stem


def _value(name: str, value: object) -> str:
    if value is True:
        return "t"
    if value is False:
        return "f"
    if value is None:
        return "n"
    if isinstance(value, str):
        return "s" + escape(value)
    if isinstance(value, int):
        if not -_INT64 <= value < _INT64:
            raise InvalidArgument(f"property {name!r} is outside the range of a 64-bit integer")
        return f"i{int(value)}"
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidArgument(f"property {name!r} is {value!r}; a float property must be finite")
        return "d" + repr(float(value))
    if isinstance(value, bytes | bytearray | memoryview):
        return "x" + bytes(value).hex()
    raise InvalidArgument(
        f"property {name!r} is a {type(value).__name__}; str, int, float, bool, bytes and None are allowed"
    )


def _properties(found: dict[str, PropertyValue], text: str) -> None:
    """The user properties in a part of a head that begins with their mark."""
    for field in text.split("\x01")[1:]:
        name, _, value = field.partition("\x02")
        plain = "\x04" not in field
        if plain and value[:1] == "s":
            found[name] = value[1:]
        else:
            found[name if plain else unescape(name)] = _property(value)


def _property(text: str) -> PropertyValue:
    kind, rest = text[:1], text[1:]
    if kind == "s":
        return unescape(rest)
    if kind == "i":
        return int(rest)
    if kind == "d":
        return float(rest)
    if kind == "x":
        return bytes.fromhex(rest)
    return {"t": True, "f": False}.get(kind)


def milliseconds(seconds: float) -> int:
    """Seconds as whole milliseconds, rounded up so that a short positive time is never none."""
    return math.ceil(seconds * 1000)


#: Fields that :func:`_other` need not look at.
_COMMON = frozenset(("body", "properties", "correlation_id", "message_id", "group_id"))


def encode(message: Outgoing, transaction: str = "") -> tuple[bytes, bytes | None]:
    """What ``send.lua`` takes for one message: its text, and its body again if that is large."""
    head: list[str] = []
    special = False
    add = head.append
    m = message
    properties = m.properties
    if properties:
        if len(properties) > MAX_PROPERTIES:
            raise InvalidArgument(f"{len(properties)} properties; at most {MAX_PROPERTIES} are allowed")
        for name, value in properties.items():
            stem = _stems.get(name) or _stem(name)
            if type(value) is str:
                add(f"{stem}s{value if value.isprintable() else escape(value)}")
            elif type(value) is int and -_INT64 <= value < _INT64:
                add(f"{stem}i{value}")
            else:
                add(stem + _value(name, value))
    if m.message_id is not None:
        add("\x03m" + identifier(m.message_id, "message_id"))
        special = True
    if m.group_id is not None:
        add("\x03g" + identifier(m.group_id, "group_id"))
        special = True
    if not _COMMON.issuperset(m.__pydantic_fields_set__) and _other(m, add):
        special = True
    if transaction:
        add("\x03T" + escape(transaction))
    flag = 1 if special else 0
    if m.correlation_id is not None:
        correlation = identifier(m.correlation_id, "correlation_id")
        # Last, so that a script finds its end without a search where nothing else sets the message apart: bit 16.
        add("\x03c" + correlation)
        flag = 1 if special or transaction or correlation[0] == "x" or correlation == "s" else 17
    body = m.body
    large = len(body) > INLINE_BODY_BYTES
    text = f"{m.priority}{_FLAGS[flag + large * 8]}{''.join(head)}\0"
    try:
        data = text.encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidArgument("a property, label or identifier holds a lone surrogate") from None
    return (data, body) if large else (data + body, None)


def _other(m: Outgoing, add: Callable[[str], None]) -> bool:
    """The fields that most messages leave at their defaults; is there one that the scripts must look at?"""
    special = False
    if m.sequence is not None:
        add(f"\x03n{m.sequence}")
    if m.offset is not None:
        add(f"\x03o{m.offset}")
    flags = m.last_in_group * 1 + m.segment * 2 + m.last_segment * 4
    if flags:
        add(f"\x03z{flags}")
    if m.priority != 3:
        add(f"\x03p{m.priority}")
    if m.label:
        add("\x03l" + escape(m.label))
    if m.content_type != DEFAULT_CONTENT_TYPE:
        add("\x03y" + escape(m.content_type))
    if m.dedup_key is not None:
        add("\x03k" + escape(m.dedup_key))
        add(f"\x03K{milliseconds(m.dedup_window)}")
        special = True
    if m.time_to_be_received is not None:
        add(f"\x03e{milliseconds(m.time_to_be_received)}")
        special = True
    if m.time_to_reach_queue is not None:
        add(f"\x03u{milliseconds(m.time_to_reach_queue)}")
        special = True
    if m.sent_seconds_ago:
        add(f"\x03S{milliseconds(m.sent_seconds_ago)}")
    if m.delay:
        add(f"\x03D{milliseconds(m.delay)}")
        special = True
    if m.acknowledge:
        add(f"\x03a{int(m.acknowledge)}")
        special = True
    if m.administration_queue:
        add("\x03A" + keys.check_name(m.administration_queue, "administration queue"))
        special = True
    if m.response_queue:
        add("\x03r" + escape(m.response_queue))
    if m.dead_letter_queue:
        add("\x03Q" + keys.check_name(m.dead_letter_queue, "dead-letter queue"))
        special = True
    if m.journal:
        add(f"\x03j{int(m.journal)}")
        special = True
    if m.app_tag:
        add(f"\x03t{m.app_tag}")
    if m.body_type:
        add(f"\x03b{m.body_type}")
    if m.extension:
        add("\x03X" + m.extension.hex())
    if not m.recoverable:
        add("\x03d0")
    return special


def time_at(ms: int) -> datetime:
    """An aware datetime from milliseconds since the epoch."""
    return _EPOCH + timedelta(0, ms // 1000, ms % 1000 * 1000)


def generated_id(lookup_id: str) -> str:
    """The message id of a message whose sender gave none: made from the lookup id, so it needs no index."""
    return "mq-" + lookup_id


def token(incarnation: str, lookup_id: str) -> str:
    """The message token: names one instance of a message in one life of a queue manager."""
    return f"{incarnation}-{lookup_id}"


def decode(
    queue: str, incarnation: str, lookup_id: bytes, state: bytes, record: bytes, *, taken: bool = False
) -> Message:
    """A message from the three elements a script answers.

    ``taken``: this reading removed the message, so it counts as a delivery on top of those in ``state``.
    """
    lid = lookup_id.decode()
    stop = record.index(b"\0", 14)
    arrived_ms = int(record[:13])
    properties: dict[str, PropertyValue] = {}
    values: dict[str, Any] = {
        "lookup_id": int(lid, 16),
        "queue": queue,
        "body": record[stop + 1 :],
        "token": f"{incarnation}-{lid}",
        "properties": properties,
        "arrived_at": time_at(arrived_ms),
    }
    flag = record[13:14]
    if flag not in _OUTSIDE:
        values["first_in_transaction"] = int(flag, 32) & 2 != 0
        values["last_in_transaction"] = int(flag, 32) & 4 != 0
    head: dict[str, str] = {}
    if stop > 14:
        own, *system = record[14:stop].decode().split("\x03")
        if own:
            _properties(properties, own)
        for text in system:
            if "\x01" in text:
                text, _, more = text.partition("\x01")
                _properties(properties, "\x01" + more)
            if text[0] != "~":
                head[text[0]] = text[1:]
            elif text[1] != "e":  # a copy shows what the message asked for, though nothing acts on it
                head.setdefault(text[1], text[2:])
    sent_ms = arrived_ms
    if "S" in head:
        sent_ms -= int(head["S"])
        values["sent_at"] = time_at(sent_ms)
    else:
        values["sent_at"] = values["arrived_at"]
    values["message_id"] = _identifier(head["m"]) if "m" in head else "mq-" + lid
    if head:
        _fill(values, head, sent_ms)
    if state:
        counts = state.split(b" ")
        values["delivery_count"] = int(counts[0]) + taken
        values["abort_count"] = int(counts[1])
        values["move_count"] = int(counts[2])
        if counts[3] != b"0":
            values["last_moved_at"] = time_at(int(counts[3]))
    elif taken:
        values["delivery_count"] = 1
    return construct(Message, _DEFAULTS, values)


def _fill(values: dict[str, Any], head: Mapping[str, str], sent_ms: int) -> None:
    others = False
    for key, text in head.items():
        found = _PLAIN.get(key)
        if found:
            values[found[0]] = found[1](text)
        else:
            others = True
    if not others:
        return
    if "z" in head:
        flags = int(head["z"])
        values["last_in_group"] = flags & 1 != 0
        values["segment"] = flags & 6 != 0
        values["last_segment"] = flags & 4 != 0
    if "e" in head:
        values["expires_at"] = time_at(sent_ms + int(head["e"]))
    if "a" in head:
        values["acknowledge"] = Acknowledge(int(head["a"]))
    if "j" in head:
        values["journal"] = Journal(int(head["j"]))
    if "X" in head:
        values["extension"] = bytes.fromhex(head["X"])
    if "d" in head:
        values["recoverable"] = head["d"] != "0"
    if "I" in head:
        values["original_lookup_id"] = int(head["I"], 16)
    if "B" in head:
        values["original_arrived_at"] = time_at(int(head["B"]))


_PLAIN: dict[str, tuple[str, Callable[[str], Any]]] = {
    "m": ("message_id", _identifier),
    "c": ("correlation_id", _identifier),
    "g": ("group_id", _identifier),
}
_NUMBERS = (
    ("n", "sequence"),
    ("o", "offset"),
    ("p", "priority"),
    ("t", "app_tag"),
    ("b", "body_type"),
    ("C", "message_class"),
)
_TEXTS = (
    ("l", "label"),
    ("y", "content_type"),
    ("k", "dedup_key"),
    ("A", "administration_queue"),
    ("r", "response_queue"),
    ("Q", "dead_letter_queue"),
    ("T", "transaction_id"),
    ("O", "original_queue"),
    ("R", "reason"),
)
_PLAIN |= {key: (name, int) for key, name in _NUMBERS}
_PLAIN |= {key: (name, unescape) for key, name in _TEXTS}


def defaults_of(cls: type[BaseModel]) -> dict[str, Any]:
    """The fields of a model that need not be given; those that are made by a factory are left to the caller."""
    return {
        name: info.default
        for name, info in cls.model_fields.items()
        if not info.is_required() and info.default_factory is None
    }


_DEFAULTS = defaults_of(Message)
_set = object.__setattr__


def construct(cls: type[M], defaults: dict[str, Any], values: dict[str, Any]) -> M:
    """A model without validating what was validated already; ``defaults``: :func:`defaults_of` the class."""
    model = cls.__new__(cls)
    _set(model, "__dict__", {**defaults, **values})
    _set(model, "__pydantic_fields_set__", set(values))
    _set(model, "__pydantic_extra__", None)
    _set(model, "__pydantic_private__", None)
    return model
