"""The columns ``headers`` and ``system_headers``: values with their types, so that a frame can be written back.

``columns`` and ``rows`` use it. Tables and archives of users hold the names and types, so their form stays.
tests/spark/test_documentation.py compares ``SYSTEM`` and ``rows.COLUMNS`` with the fields of a message.

Both are maps from a name to a struct of ``type`` and ``value``, two texts. ``headers`` holds the properties of a
message; the column ``properties`` has the same values as texts alone. ``system_headers`` holds the fields of a message
that have no column of their own, and the identifiers that are bytes. The types are ``string``, ``bigint``, ``double``,
``boolean``, ``binary`` (hex digits) and ``void`` (no value).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from mqredis.errors import InvalidArgument
from mqredis.models.record_parts import LETTERS
from mqredis.models.text import unescape

# System fields of a message by their letters (LETTERS), as texts.
Head = dict[str, str]
# Name, type and value.
Typed = tuple[str, str, str | None]

# Types by the letter that stands before the value of a property in a record (mqredis/models/properties.py).
_TYPES = {
    "s": "string",
    "i": "bigint",
    "d": "double",
    "x": "binary",
    "t": "boolean",
    "f": "boolean",
    "n": "void",
}
_WORDS = {"t": "true", "f": "false", "n": None}
# In a record "s" and a text, or "x" and hex digits.
_IDENTIFIERS = ("message_id", "correlation_id", "group_id")
# Fields without a column of their own, and their types.
_OTHERS = {"offset": "bigint", "body_type": "bigint", "extension": "binary"}
# A record has these as one number (models/fields: _group_flag).
_GROUP_FLAGS = {1: "last_in_group", 2: "segment", 4: "last_segment"}
# "0" in a record, or missing.
_RECOVERABLE = "recoverable"

# Fields that a writer takes from ``system_headers``.
SYSTEM = frozenset({*_IDENTIFIERS, *_OTHERS, *_GROUP_FLAGS.values(), _RECOVERABLE})

_STRUCT = pa.struct([pa.field("type", pa.string()), pa.field("value", pa.string())])


def property_text(value: str) -> str | None:
    """A property's value in a record as a text: what ``str`` makes of it; bytes as hex digits; None for none."""
    letter, rest = value[:1], value[1:]
    return unescape(rest) if letter == "s" else _WORDS.get(letter, rest)


def of_properties(texts: Iterable[str]) -> list[Typed]:
    """The properties of a message, from the texts in its record."""
    parts = (text.partition("\x02") for text in texts)
    return [
        (unescape(name), _TYPES.get(value[:1], "string"), property_text(value)) for name, _, value in parts
    ]


def of_fields(head: Head) -> list[Typed]:
    """The system fields of a message without a column of their own, from its record."""
    found: list[Typed] = []
    for name in _IDENTIFIERS:
        text = head.get(LETTERS[name], "s")
        if text[0] == "x":
            found.append((name, "binary", text[1:]))
    for name, kind in _OTHERS.items():
        if LETTERS[name] in head:
            found.append((name, kind, head[LETTERS[name]]))
    flags = int(head.get(LETTERS["segment"], 0))
    found += [(name, "boolean", "true") for bit, name in _GROUP_FLAGS.items() if flags & bit]
    if head.get(LETTERS[_RECOVERABLE]) == "0":
        found.append((_RECOVERABLE, "boolean", "false"))
    return found


def array(rows: Sequence[Sequence[Typed]]) -> Any:
    """An Arrow array of such maps, one for each row."""
    offsets, names, types, values = [0], [], [], []
    for row in rows:
        for name, kind, value in row:
            names.append(name)
            types.append(kind)
            values.append(value)
        offsets.append(len(names))
    items = pa.StructArray.from_arrays(
        [pa.array(types, pa.string()), pa.array(values, pa.string())], fields=[*_STRUCT]
    )
    return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(names, pa.string()), items)


_READ: dict[str, Callable[[str], Any]] = {
    "string": str,
    "bigint": int,
    "double": float,
    "boolean": {"true": True, "false": False}.__getitem__,
    "binary": bytes.fromhex,
}


def values(pairs: Iterable[tuple[str, Mapping[str, str | None] | None]], column: str) -> dict[str, Any]:
    """Names and Python values of such a map, as a DataFrame has it. Raises InvalidArgument."""
    found: dict[str, Any] = {}
    for name, typed in pairs:
        kind, value = (typed["type"], typed["value"]) if typed else ("void", None)
        if value is None or kind == "void":
            found[name] = None
            continue
        try:
            found[name] = _READ[kind or "string"](value)
        except (KeyError, ValueError):
            raise InvalidArgument(
                f"column {column!r}: {name!r} of type {kind!r} cannot be {value[:60]!r}; the types are "
                f"{', '.join(_READ)} and void"
            ) from None
    return found
