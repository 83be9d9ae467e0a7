"""The fields of a message: how each is checked, written into a record, and read from it.

``outgoing`` writes records with it and ``message`` reads them; ``record_parts`` lists the letters. ``operations.send``
asks for the bits that the fields of a message set, and ``spark.rows`` writes correlation ids of many rows with its row.

A record (``lua/core/record.lua``) holds a field as the mark ``\\x03``, the letter of the field and its value. A field
at its default is not written. :data:`FIELDS` is the only table of them. A new optional field is a row here, and an
attribute and an argument in ``header`` (CONTRIBUTING.md has an example).

Change together with: ``codec/decode.py``, which knows for each letter the bytes that a value may have;
``lua/core/record.lua`` if scripts act on the field; ``spark/columns.py`` and ``spark/rows.py`` if pipelines see it.
``tests/unit/test_messages.py`` and ``tests/contract/test_fields.py`` fail if they disagree.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from mqredis.errors import InvalidArgument, did_you_mean
from mqredis.keys import check_name
from mqredis.models.enums import Acknowledge, Journal, MessageClass
from mqredis.models.header import DEFAULT_CONTENT_TYPE
from mqredis.models.properties import PropertyValue, read_properties, write_properties
from mqredis.models.text import (
    PLACE_REASONS,
    Identifier,
    escape,
    identifier,
    milliseconds,
    names,
    read_identifier,
    unescape,
)

# Bits that a field sets for its message.
# The scripts act on the field when the message arrives or leaves: bit 1 of the record's flag.
SPECIAL = 1
# A refused message leaves a report, a dead letter or a journal copy.
TRACED = 2
# The field is repeated in what the send returns.
NAMED = 4
# The message is part of a group.
GROUPED = 8
# The priority of the message is not 3.
PRIORITY = 16
# The message may be lost, unless it is sent in a transaction.
EXPRESS = 32
# The message has a dedup window, which has no meaning without a dedup key.
WINDOW = 64


class Field(NamedTuple):
    """A field that a sender can set."""

    mark: str
    """The bytes before the value in a record: the mark and the letter of the field."""
    kind: type
    """The type whose values are written as they are."""
    convert: Callable[[Any], Any]
    """Converts a value of another type to ``kind``. Raises ValueError."""
    write: Callable[[Any], str | None]
    """The text of a value; None if the value is the default. Raises ValueError."""
    read: Callable[[str], Any] | None
    """Parses the text; None if no attribute of Message shows the field."""
    about: int = 0
    """The bits that the field sets for its message."""


def _refused(value: object, wanted: str) -> ValueError:
    return ValueError(f"must be {wanted}, not {type(value).__name__}")


def _as_text(value: object) -> str:
    if isinstance(value, str):
        return str.__str__(value)
    raise _refused(value, "a str")


def _as_int(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    raise _refused(value, "an int")


def _as_seconds(value: object) -> float:
    if isinstance(value, bool | str | bytes) or not hasattr(value, "__float__"):
        raise _refused(value, "a number of seconds")
    return float(value)


def _as_bool(value: object) -> bool:
    raise _refused(value, "a bool")


def _as_bytes(value: object) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise _refused(value, "bytes")


def as_identifier(value: object) -> Identifier:
    """An identifier as a sender or a reader may give it. Raises ValueError for another type."""
    if isinstance(value, str):
        return _as_text(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise _refused(value, "bytes or str")


def _as_properties(value: object) -> dict[str, PropertyValue]:
    if isinstance(value, Mapping):
        return dict(value)
    raise _refused(value, "a mapping")


def _text(default: str | None = "", most: float = math.inf) -> Callable[[str], str | None]:
    def write(value: str) -> str | None:
        if value == default:
            return None
        if len(value) > most:
            raise ValueError(f"at most {most} characters are allowed, not {len(value)}")
        return value if value.isprintable() else escape(value)

    return write


def _whole(low: int, high: int, default: int | None = 0) -> Callable[[int], str | None]:
    def write(value: int) -> str | None:
        if not low <= value <= high:
            raise ValueError(f"must be from {low} to {high}")
        return None if value == default else str(value)

    return write


# Of a longer time a record says this, about 140,000 years: the scripts count ms exactly up to 2 ** 53.
_LONGEST = (1 << 52) / 1000


def _seconds(default: float | None = 0.0) -> Callable[[float], str | None]:
    def write(value: float) -> str | None:
        if not 0 <= value < math.inf:
            raise ValueError("must be a finite number of seconds, and not negative")
        return None if value == default else str(milliseconds(min(value, _LONGEST)))

    return write


def _identifier(what: str) -> Callable[[Identifier], str | None]:
    def write(value: Identifier) -> str | None:
        if type(value) is str and 0 < len(value) < 64 and value.isprintable():
            return "s" + value  # same result as below, with fewer calls
        return identifier(value, what) if names(value) else None

    return write


def _queue(what: str) -> Callable[[str], str | None]:
    return lambda value: check_name(value, what) if value else None


def _as_acknowledge(value: object) -> Acknowledge:
    if isinstance(value, int) and not isinstance(value, bool):
        return Acknowledge(value)
    raise _refused(value, "an Acknowledge, such as mqredis.Acknowledge.POSITIVE_RECEIVE")


def _as_journal(value: object) -> Journal:
    if isinstance(value, int) and not isinstance(value, bool):
        return Journal(value)
    raise _refused(value, "a Journal, such as mqredis.Journal.DEAD_LETTER")


def _read_class(text: str) -> MessageClass | int:
    number = int(text)
    return MessageClass(number) if number in _CLASSES else number


# A later release may write others.
_CLASSES = frozenset(MessageClass)


def _number(value: int) -> str | None:
    return f"{value:d}" if value else None


# The group flags, which a record holds as the sum of these (`index.flags` in lua/matching/index.lua).
LAST_IN_GROUP, SEGMENT, LAST_SEGMENT = GROUP_FLAGS = (1, 2, 4)


def _group_flag(bit: int) -> Field:
    """One of the three group flags. ``_join_flags`` makes one number of all that are set."""
    return Field("\x03z", bool, _as_bool, lambda value: str(bit) if value else None, None, GROUPED)


def _join_flags(text: str) -> str:
    """The text of the fields, with the group flags as one number."""
    total = 0
    for bit in GROUP_FLAGS:
        if f"\x03z{bit}" in text:
            total += bit
            text = text.replace(f"\x03z{bit}", "")
    return f"{text}\x03z{total}"


# Every field that a sender can set, except the body, by name.
FIELDS: dict[str, Field] = {
    "content_type": Field("\x03y", str, _as_text, _text(DEFAULT_CONTENT_TYPE, most=255), unescape),
    "label": Field("\x03l", str, _as_text, _text(most=249), unescape),
    "priority": Field("\x03p", int, _as_int, _whole(0, 7, default=3), int, PRIORITY),
    "message_id": Field(
        "\x03m", str, as_identifier, _identifier("message_id"), read_identifier, SPECIAL | NAMED
    ),
    "correlation_id": Field("\x03c", str, as_identifier, _identifier("correlation_id"), read_identifier),
    "group_id": Field("\x03g", str, as_identifier, _identifier("group_id"), read_identifier, SPECIAL | NAMED),
    "sequence": Field("\x03n", int, _as_int, _whole(1, 999_999_999, default=None), int),
    "offset": Field("\x03o", int, _as_int, _whole(0, 999_999_999, default=None), int),
    "last_in_group": _group_flag(LAST_IN_GROUP),
    "segment": _group_flag(SEGMENT),
    "last_segment": _group_flag(LAST_SEGMENT),
    "properties": Field("", dict, _as_properties, write_properties, None),
    "time_to_be_received": Field("\x03e", float, _as_seconds, _seconds(default=None), None, SPECIAL),
    "time_to_reach_queue": Field("\x03u", float, _as_seconds, _seconds(default=None), None, SPECIAL),
    "sent_seconds_ago": Field("\x03S", float, _as_seconds, _seconds(), None),
    "delay": Field("\x03D", float, _as_seconds, _seconds(), None, SPECIAL),
    "dedup_key": Field("\x03k", str, _as_text, _text(default=None), unescape, SPECIAL),
    "dedup_window": Field("\x03K", float, _as_seconds, _seconds(), None, WINDOW),
    "recoverable": Field(
        "\x03d", bool, _as_bool, lambda value: None if value else "0", lambda text: text != "0", EXPRESS
    ),
    "acknowledge": Field(
        "\x03a", Acknowledge, _as_acknowledge, _number, lambda text: Acknowledge(int(text)), SPECIAL | TRACED
    ),
    "administration_queue": Field(
        "\x03A", str, _as_text, _queue("administration queue"), unescape, SPECIAL | TRACED
    ),
    "response_queue": Field("\x03r", str, _as_text, _text(), unescape),
    "dead_letter_queue": Field(
        "\x03Q", str, _as_text, _queue("dead-letter queue"), unescape, SPECIAL | TRACED
    ),
    "journal": Field(
        "\x03j", Journal, _as_journal, _number, lambda text: Journal(int(text)), SPECIAL | TRACED
    ),
    "app_tag": Field("\x03t", int, _as_int, _whole(0, 0xFFFFFFFF), int),
    "body_type": Field("\x03b", int, _as_int, _whole(0, 0xFFFFFFFF), int),
    "extension": Field("\x03X", bytes, _as_bytes, lambda value: value.hex() or None, bytes.fromhex),
}

# Fields of a record by their letters: the attribute's name, and the function that parses the text.
READERS: dict[str, tuple[str, Callable[[str], Any]]] = {
    field.mark[1]: (name, field.read) for name, field in FIELDS.items() if field.read is not None
} | {
    # Written by the scripts.
    "C": ("message_class", _read_class),
    "T": ("transaction_id", unescape),
    "O": ("original_queue", unescape),
    "I": ("original_lookup_id", lambda text: int(text, 16)),
    "R": ("reason", unescape),
    # Message computes attributes from these.
    "z": ("_group_flags", int),
    "S": ("_sent_ms_before", int),
    "e": ("_life_ms", int),
    "B": ("_original_arrived_ms", int),
}


# The fields as write_fields needs them: a tuple is unpacked several times faster than a NamedTuple.
_WRITERS = {
    name: (field.mark, field.kind, field.convert, field.write, field.about) for name, field in FIELDS.items()
}


def write_fields(given: dict[str, Any]) -> tuple[str, str, int]:
    """The text of these fields, the text of the correlation id, and the bits that all of them set for the message.

    A value that was given as another type is replaced in ``given`` by what is kept, and one that is None is removed.
    Raises InvalidArgument, which names the field that is wrong.
    """
    text = correlation = name = ""
    about = 0
    absent: list[str] = []
    try:
        for name, value in given.items():
            mark, kind, convert, write, says = _WRITERS[name]
            if type(value) is not kind:
                if value is None:
                    absent.append(name)
                    continue
                value = given[name] = convert(value)
            found = write(value)
            if found is None:
                continue
            if name == "correlation_id":
                correlation = mark + found
            else:
                text = f"{text}{mark}{found}" if mark else found + text  # properties come first
                about |= says
    except InvalidArgument:
        raise
    except KeyError:
        meant = did_you_mean(name, FIELDS)
        raise InvalidArgument(f"a message has no field {name!r:.60}{meant}") from None
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidArgument(f"{name}: {error}", mqrc=PLACE_REASONS.get(name)) from None
    for name in absent:
        del given[name]
    if about & GROUPED:
        text = _join_flags(text)
    if about & WINDOW and given.get("dedup_key") is None:
        text = re.sub(r"\x03K\d+", "", text)
    return text, correlation, about


def read_fields(text: str) -> dict[str, Any]:
    """The fields in the text of a record between its flag and its body, by the name of the attribute."""
    properties: dict[str, PropertyValue] = {}
    values: dict[str, Any] = {"properties": properties}
    first, *parts = text.split("\x03")
    if first:
        read_properties(properties, first[1:])
    for part in parts:
        part, mark, more = part.partition("\x01")  # properties may follow each field
        if mark:
            read_properties(properties, more)
        letter = part[0]
        if letter == "~":
            # A copy of a message shows its options, although they have no effect; but not its expiry.
            found = READERS.get(part[1])
            if found is not None and part[1] != "e":
                values.setdefault(found[0], found[1](part[2:]))
            continue
        found = READERS.get(letter)
        if found is not None:
            values[found[0]] = found[1](part[1:])
    return values
