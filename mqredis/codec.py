"""Message <-> the text kept in Redis. ``lua/lib/record.lua`` documents the format and reads the same.

A record is text up to the first NUL, so a script finds a field with a plain search and never unpacks anything.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from mqredis import keys
from mqredis.errors import InvalidArgument
from mqredis.models import Acknowledge, Identifier, Journal, Message, Outgoing, PropertyValue

#: Bodies beyond this many bytes are kept apart, so that scans never fetch them.
INLINE_BODY_BYTES = 4096
MAX_PROPERTIES = 128
MAX_PROPERTY_NAME = 255
MAX_IDENTIFIER_BYTES = 255
_INT64 = 1 << 63

_ESCAPE = re.compile(r"[\x00-\x04]")
_escaped = _ESCAPE.search
_UNESCAPE = re.compile(r"\x04([@-D])")
_FIELDS = re.compile(r"([\x01\x03])([^\x01\x03]*)")
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


def encode(message: Outgoing, transaction: str = "") -> tuple[bytes, bytes | None]:
    """What ``send.lua`` takes for one message: its text, and its body again if that is large."""
    head: list[str] = []
    special = False
    add = head.append
    m = message
    if m.properties:
        if len(m.properties) > MAX_PROPERTIES:
            raise InvalidArgument(f"{len(m.properties)} properties; at most {MAX_PROPERTIES} are allowed")
        for name, value in m.properties.items():
            stem = _stems.get(name) or _stem(name)
            if type(value) is str:
                add(f"{stem}s{value if not _escaped(value) else escape(value)}")
            elif type(value) is int and -_INT64 <= value < _INT64:
                add(f"{stem}i{value}")
            else:
                add(stem + _value(name, value))
    if m.correlation_id is not None:
        add("\x03c" + identifier(m.correlation_id, "correlation_id"))
        special = True
    if m.message_id is not None:
        add("\x03m" + identifier(m.message_id, "message_id"))
        special = True
    if m.group_id is not None:
        add("\x03g" + identifier(m.group_id, "group_id"))
        special = True
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
    if transaction:
        add("\x03T" + escape(transaction))
    large = len(m.body) > INLINE_BODY_BYTES
    text = f"{m.priority}{special * 1 + large * 8:x}{''.join(head)}\0"
    try:
        data = text.encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidArgument("a property, label or identifier holds a lone surrogate") from None
    return (data, m.body) if large else (data + m.body, None)


def time_at(ms: int) -> datetime:
    """An aware datetime from milliseconds since the epoch."""
    return _EPOCH + timedelta(milliseconds=ms)


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
    flag = int(record[13:14], 16)
    arrived_ms = int(record[:13])
    properties: dict[str, PropertyValue] = {}
    values: dict[str, Any] = {
        "lookup_id": int(lid, 16),
        "queue": queue,
        "body": record[stop + 1 :],
        "token": token(incarnation, lid),
        "properties": properties,
        "arrived_at": time_at(arrived_ms),
        "first_in_transaction": flag & 2 != 0,
        "last_in_transaction": flag & 4 != 0,
    }
    head: dict[str, str] = {}
    if stop > 14:
        for kind, text in _FIELDS.findall(record[14:stop].decode("utf-8")):
            if kind == "\x01":
                name, _, value = text.partition("\x02")
                if value[:1] == "s" and "\x04" not in text:
                    properties[name] = value[1:]
                else:
                    properties[unescape(name)] = _property(value)
            elif text[0] != "~":
                head[text[0]] = text[1:]
            elif text[1] != "e":  # a copy shows what the message asked for, though nothing acts on it
                head.setdefault(text[1], text[2:])
    sent_ms = arrived_ms
    if "S" in head:
        sent_ms -= int(head["S"])
        values["sent_at"] = time_at(sent_ms)
    else:
        values["sent_at"] = values["arrived_at"]
    values["message_id"] = _identifier(head["m"]) if "m" in head else generated_id(lid)
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
    return _construct(values)


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

_DEFAULTS: dict[str, Any] = {
    name: info.default for name, info in Message.model_fields.items() if not info.is_required()
}


def _construct(values: dict[str, Any]) -> Message:
    """A Message without validating again what was validated when it was sent."""
    message = Message.__new__(Message)
    set_attribute = object.__setattr__
    set_attribute(message, "__dict__", {**_DEFAULTS, **values})
    set_attribute(message, "__pydantic_fields_set__", set(values))
    set_attribute(message, "__pydantic_extra__", None)
    set_attribute(message, "__pydantic_private__", None)
    return message
