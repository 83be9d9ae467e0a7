"""The properties of a message as text in its record (``lua/core/record.lua``): for each its name, a letter for the type
of its value, and the value.

``fields`` uses it, and ``operations.giveback`` for the properties of a failed message. Spark and ``otel.patches`` ask
how many properties a message may have.

Change together with: ``codec/decode.py`` (``_PROPERTIES``); ``selector_value.typed`` in lua/selector/selector_value.lua
and ``_TYPES`` in ``spark/headers.py``, which have the letters, too (tests/contract/test_constants.py and
tests/spark/test_rows.py compare); docs/key-layout.md. Lua files that write properties (features/failure,
admin/operator, admin/schedules) have their letters as literals.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from mqredis.errors import InvalidArgument
from mqredis.models.text import escape, unescape

PropertyValue = str | int | float | bool | bytes | None

MAX_PROPERTIES = 128
MAX_PROPERTY_NAME = 255

_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1
_WORDS = {"t": True, "f": False, "n": None}


class _Names(dict[Any, str]):
    """The text in front of a value of one type, by the name of the property. Remembers 1024 names."""

    def __init__(self, letter: str) -> None:
        self._letter = letter

    def __missing__(self, name: object) -> str:
        text = _name(name) + self._letter
        if type(name) is str and len(self) < 1024:
            self[name] = text
        return text


_TEXT, _INT, _FLOAT, _TRUE, _FALSE, _NONE, _BYTES = map(_Names, "sidtfnx")


def write_properties(properties: Mapping[Any, Any]) -> str:
    """The text of these properties. Raises InvalidArgument for names and values that a message cannot have."""
    if len(properties) > MAX_PROPERTIES:
        raise InvalidArgument(f"{len(properties)} properties; at most {MAX_PROPERTIES} are allowed")
    text = ""
    for name, value in properties.items():
        kind = type(value)
        if kind is str:
            text = f"{text}{_TEXT[name]}{value if value.isprintable() else escape(value)}"
        elif kind is int and _LOWEST <= value <= _HIGHEST:
            text = f"{text}{_INT[name]}{value}"
        elif kind is float and math.isfinite(value):
            text = f"{text}{_FLOAT[name]}{value!r}"
        elif kind is bool:
            text = f"{text}{_TRUE[name] if value else _FALSE[name]}"
        elif value is None:
            text = f"{text}{_NONE[name]}"
        elif kind is bytes:
            text = f"{text}{_BYTES[name]}{value.hex()}"
        else:
            text += write_properties({name: _plain(name, value)})
    return text


def _name(name: object) -> str:
    if not isinstance(name, str) or not name:
        raise InvalidArgument(f"a property name must be a non-empty str, not {name!r:.60}")
    if len(name) > MAX_PROPERTY_NAME:
        raise InvalidArgument(f"property name {name[:20]!r}... has more than {MAX_PROPERTY_NAME} characters")
    return f"\x01{escape(name)}\x02"


def _plain(name: object, value: object) -> PropertyValue:
    """A value of a subclass as one of its base type. Raises InvalidArgument for what no property can be."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        if not _LOWEST <= value <= _HIGHEST:
            raise InvalidArgument(f"property {name!r} is outside the range of a 64-bit integer")
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidArgument(f"property {name!r} is {value!r}; a float property must be finite")
        return float(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise InvalidArgument(
        f"property {name!r} is a {type(value).__name__}; str, int, float, bool, bytes and None are allowed"
    )


def read_properties(properties: dict[str, PropertyValue], text: str) -> None:
    """Parse a text of properties, which begins after the mark of the first one, into ``properties``."""
    escaped = "\x04" in text
    parts = iter(text.replace("\x02", "\x01").split("\x01"))
    for name in parts:
        value = next(parts)
        if escaped:
            name, value = unescape(name), unescape(value)
        letter = value[0]
        if letter == "s":
            properties[name] = value[1:]
        elif letter == "i":
            properties[name] = int(value[1:])
        elif letter == "d":
            properties[name] = float(value[1:])
        elif letter == "x":
            properties[name] = bytes.fromhex(value[1:])
        else:
            properties[name] = _WORDS[letter]
