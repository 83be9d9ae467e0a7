"""The properties of a message as its record has them (``lua/lib/record.lua``): of each name, kind and value."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from mqredis.errors import InvalidArgument

MAX_PROPERTIES = 128
MAX_PROPERTY_NAME = 255

_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1
_ESCAPE = re.compile(r"[\x00-\x04]")


class _Stems(dict[Any, str | None]):
    """How a field begins with the name of a property, of names that came before; None: no property can have it."""

    def __missing__(self, name: object) -> str | None:
        if type(name) is not str or not 0 < len(name) <= MAX_PROPERTY_NAME:
            return None
        stem = f"\x01{escape(name)}\x02"
        if len(self) < 1024:
            self[name] = stem
        return stem


_stems = _Stems()


def escape(text: str) -> str:
    """Keep the separators of a head out of a value."""
    if not _ESCAPE.search(text):
        return text
    return _ESCAPE.sub(lambda m: "\x04" + chr(0x40 + ord(m[0])), text)


def text_of(properties: dict[Any, Any]) -> str | None:
    """Their text, if name and value of each are of the types that they have once they were validated, and may be sent;
    None: somebody else has to say what is wrong with them, or make it right."""
    if len(properties) > MAX_PROPERTIES:
        return None
    text, known = "", _stems
    for name, value in properties.items():
        stem = known[name]
        if stem is None or type(name) is not str:
            return None
        kind = type(value)
        if kind is str:
            text = f"{text}{stem}s{value if value.isprintable() else escape(value)}"
        elif kind is int:
            if value.bit_length() > 63:  # or is the lowest there is, and the slow way takes it
                return None
            text = f"{text}{stem}i{value}"
        elif kind is float:
            if value - value != 0.0:  # infinite, or no number
                return None
            text = f"{text}{stem}d{value!r}"
        elif kind is bool:
            text = f"{text}{stem}t" if value else f"{text}{stem}f"
        elif value is None:
            text = f"{text}{stem}n"
        elif kind is bytes:
            text = f"{text}{stem}x{value.hex()}"
        else:
            return None
    return text


def written(properties: Mapping[Any, Any]) -> str:
    """The text of any properties. Raises InvalidArgument for what cannot be sent."""
    if type(properties) is dict and (text := text_of(properties)) is not None:
        return text
    if len(properties) > MAX_PROPERTIES:
        raise InvalidArgument(f"{len(properties)} properties; at most {MAX_PROPERTIES} are allowed")
    return "".join([_stem(name) + _value(name, value) for name, value in properties.items()])


def _stem(name: object) -> str:
    if not isinstance(name, str) or not name:
        raise InvalidArgument(f"a property name must be a non-empty str, not {name!r:.60}")
    if len(name) > MAX_PROPERTY_NAME:
        raise InvalidArgument(f"property name {name[:20]!r}... has more than {MAX_PROPERTY_NAME} characters")
    return f"\x01{escape(name)}\x02"


def _value(name: str, value: object) -> str:
    """A property's value, of whatever type."""
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
