"""Messages as the scripts take them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from mqredis import keys
from mqredis.codec.text import escape, identifier, milliseconds
from mqredis.errors import InvalidArgument
from mqredis.models import Outgoing
from mqredis.unvalidated import PENDING, present

#: Bodies beyond this many bytes are kept apart, so that scans never fetch them.
INLINE_BODY_BYTES = 4096
MAX_PROPERTIES = 128
MAX_PROPERTY_NAME = 255
DEFAULT_CONTENT_TYPE = "application/octet-stream"

_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1
#: The flag of a record as one digit.
_FLAGS = "0123456789abcdefghijklmnopqrstuv"


#: Names of properties that were checked before, as they begin a field.
_stems: dict[str, str] = {}


def _stem(name: object) -> str:
    if not isinstance(name, str) or not name:
        raise InvalidArgument(f"a property name must be a non-empty str, not {name!r:.60}")
    if len(name) > MAX_PROPERTY_NAME:
        raise InvalidArgument(f"property name {name[:20]!r}... has more than {MAX_PROPERTY_NAME} characters")
    stem = f"\x01{escape(name)}\x02"
    if len(_stems) < 1024 and type(name) is str:
        _stems[name] = stem
    return stem


def _value(name: str, value: object) -> str:
    """A property's value, which is not of the most usual types."""
    if value is True:
        return "t"
    if value is False:
        return "f"
    if value is None:
        return "n"
    if isinstance(value, str):
        return "s" + escape(value)
    if isinstance(value, int):
        if not _LOWEST <= value <= _HIGHEST:
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


#: The fields of most messages, and those that :func:`_other` need not look at.
_FEW = frozenset(("body", "properties", "correlation_id", PENDING))
_GIVEN = frozenset(("properties", "correlation_id"))
_NONE: dict[str, Any] = {}
#: Types of properties that are taken as they are.
_TYPES = frozenset((int, float, bytes, type(None)))
_COMMON = _FEW | {"message_id", "group_id", "content_type", "priority"}


def encode(message: Outgoing, transaction: str = "") -> tuple[bytes, bytes | None]:
    """What ``send.lua`` takes for one message: its text, and its body again if that is large."""
    fields = present(message)
    return encode_fields(fields if PENDING in fields else fields_of(message), transaction)


def fields_of(message: Outgoing) -> dict[str, Any]:
    """The fields that a message was given."""
    fields = present(message)
    return fields if PENDING in fields else {name: fields[name] for name in message.__pydantic_fields_set__}


class Unusual(Exception):
    """What a caller gave needs a closer look."""


def encode_fields(
    fields: Mapping[str, Any], transaction: str = "", body: bytes | None = None
) -> tuple[bytes, bytes | None]:
    """The same of those fields of an Outgoing that were given, valid as they are.

    With a ``body`` they are as a caller gave them. Raises Unusual if anything but a correlation id and properties is
    among them, or if these are of other types than most.
    """
    head, special, priority = "", False, 3
    properties, correlation = fields.get("properties", _NONE), fields.get("correlation_id")
    if body is not None and not (
        _GIVEN.issuperset(fields)
        and type(properties) is dict
        and (correlation is None or type(correlation) is str)
    ):
        raise Unusual
    if properties:
        if len(properties) > MAX_PROPERTIES:
            raise InvalidArgument(f"{len(properties)} properties; at most {MAX_PROPERTIES} are allowed")
        known = _stems
        for name, value in properties.items():
            stem = known.get(name) or _stem(name)
            kind = type(value)
            if kind is str:
                head = f"{head}{stem}s{value if value.isprintable() else escape(value)}"
            elif kind is int and _LOWEST <= value <= _HIGHEST:
                head = f"{head}{stem}i{value}"
            elif kind is float and value - value == 0.0:  # neither infinite nor no number
                head = f"{head}{stem}d{value!r}"
            elif kind is bool:
                head = f"{head}{stem}t" if value else f"{head}{stem}f"
            elif body is not None and kind not in _TYPES:
                raise Unusual
            else:
                head += stem + _value(name, value)
    if body is None and not _FEW.issuperset(fields):
        more, special = _more(fields)
        head += more
        priority = fields.get("priority", 3)
    if transaction:
        head += "\x03T" + (transaction if transaction.isprintable() else escape(transaction))
    flag = 1 if special else 0
    if correlation is not None:
        text = identifier(correlation, "correlation_id")
        # Last, so that a script finds its end without a search where nothing else sets the message apart: bit 16.
        head += "\x03c" + text
        flag = 1 if special or text[0] == "x" or text == "s" else 17
    if body is None:
        body = fields.get("body", b"")
    try:
        if len(body) <= INLINE_BODY_BYTES:
            return f"{priority}{_FLAGS[flag]}{head}\0".encode() + body, None
        return f"{priority}{_FLAGS[flag + 8]}{head}\0".encode(), body
    except UnicodeEncodeError:
        raise InvalidArgument("a property, label or identifier holds a lone surrogate") from None


def _more(fields: Mapping[str, Any]) -> tuple[str, bool]:
    """The system fields but the correlation id; is there one that the scripts must look at?"""
    head, special = "", False
    get = fields.get
    if (identity := get("message_id")) is not None:
        head += "\x03m" + identifier(identity, "message_id")
        special = True
    if (group := get("group_id")) is not None:
        head += "\x03g" + identifier(group, "group_id")
        special = True
    if (content_type := get("content_type", DEFAULT_CONTENT_TYPE)) != DEFAULT_CONTENT_TYPE:
        head += "\x03y" + escape(content_type)
    if (priority := get("priority", 3)) != 3:
        head += f"\x03p{priority}"
    if not _COMMON.issuperset(fields):
        others, asks = _other(fields)
        head += others
        special = special or asks
    return head, special


def _other(fields: Mapping[str, Any]) -> tuple[str, bool]:
    """The fields that most messages leave at their defaults; is there one that the scripts must look at?"""
    head: list[str] = []
    add, get = head.append, fields.get
    special = False
    if (sequence := get("sequence")) is not None:
        add(f"\x03n{sequence}")
    if (offset := get("offset")) is not None:
        add(f"\x03o{offset}")
    flags = get("last_in_group", False) * 1 + get("segment", False) * 2 + get("last_segment", False) * 4
    if flags:
        add(f"\x03z{flags}")
    if label := get("label"):
        add("\x03l" + escape(label))
    if (key := get("dedup_key")) is not None:
        add(f"\x03k{escape(key)}\x03K{milliseconds(get('dedup_window', 0.0))}")
        special = True
    if (life := get("time_to_be_received")) is not None:
        add(f"\x03e{milliseconds(life)}")
        special = True
    if (travel := get("time_to_reach_queue")) is not None:
        add(f"\x03u{milliseconds(travel)}")
        special = True
    if ago := get("sent_seconds_ago"):
        add(f"\x03S{milliseconds(ago)}")
    if delay := get("delay"):
        add(f"\x03D{milliseconds(delay)}")
        special = True
    if wanted := get("acknowledge"):
        add(f"\x03a{int(wanted)}")
        special = True
    if home := get("administration_queue"):
        add("\x03A" + keys.check_name(home, "administration queue"))
        special = True
    if response := get("response_queue"):
        add("\x03r" + escape(response))
    if dead := get("dead_letter_queue"):
        add("\x03Q" + keys.check_name(dead, "dead-letter queue"))
        special = True
    if journal := get("journal"):
        add(f"\x03j{int(journal)}")
        special = True
    if tag := get("app_tag"):
        add(f"\x03t{tag}")
    if body_type := get("body_type"):
        add(f"\x03b{body_type}")
    if extension := get("extension"):
        add("\x03X" + extension.hex())
    if not get("recoverable", True):
        add("\x03d0")
    return "".join(head), special
