"""The properties of a message as its record has them (``lua/core/record.lua``): of each name, kind and value."""

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


class _Stems(dict[Any, str]):
    """How properties of one kind begin, by names that came before. Raises KeyError: no property can have this one."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def __missing__(self, name: object) -> str:
        if type(name) is not str or not 0 < len(name) <= MAX_PROPERTY_NAME:
            raise KeyError(name)
        stem = f"\x01{escape(name)}\x02{self._kind}"
        if len(self) < 1024:
            self[name] = stem
        return stem


_text, _int, _float, _true, _false, _none, _bytes = map(_Stems, "sidtfnx")


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
    text = ""
    try:
        for name, value in properties.items():
            if type(name) is not str:
                return None
            kind = type(value)
            if kind is str:
                text = f"{text}{_text[name]}{value if value.isprintable() else escape(value)}"
            elif kind is int:
                if value.bit_length() > 63:  # or is the lowest there is, and the slow way takes it
                    return None
                text = f"{text}{_int[name]}{value}"
            elif kind is float:
                if value - value != 0.0:  # infinite, or no number
                    return None
                text = f"{text}{_float[name]}{value!r}"
            elif kind is bool:
                text = f"{text}{_true[name] if value else _false[name]}"
            elif value is None:
                text = f"{text}{_none[name]}"
            elif kind is bytes:
                text = f"{text}{_bytes[name]}{value.hex()}"
            else:
                return None
    except KeyError:
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
