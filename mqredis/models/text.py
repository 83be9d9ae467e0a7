"""Texts in records: escaped values, identifiers, durations and times.

Models, the codec, commands, operations, the selectors and Spark use it; the command line and the console read with it
what a person has typed and show (as ``otel`` does) what can be typed again, and both interfaces
(``asyncio.inspection``) take an ``Identifier``. Scripts compare escaped texts and identifiers as they are
(``lua/matching/index.lua``), and selectors read them (``lua/selector/selector_value.lua``), so another form needs
another schema number (``keys.SCHEMA``). Tests: tests/matching/test_identifiers.py.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta

from mqredis.errors import InvalidArgument

Identifier = str | bytes

MAX_IDENTIFIER_BYTES = 255
# The reason code with which IBM MQ refuses a place in a group that is out of range, by field.
PLACE_REASONS = {"sequence": 2250, "offset": 2251}

_ESCAPE = re.compile(r"[\x00-\x04]")
_UNESCAPE = re.compile(r"\x04([@-D])")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# The first and the last millisecond that a datetime knows.
_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999


def escape(text: str) -> str:
    """Replace the characters that separate the parts of a record."""
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
        if len(value) * 4 <= MAX_IDENTIFIER_BYTES:  # no character takes more; a printable one needs no escape
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


def identifier_of(text: str) -> Identifier:
    """An identifier that a person has typed: text, or bytes as 0x and hex digits. Raises InvalidArgument."""
    if not text.startswith("0x"):
        return text
    try:
        return bytes.fromhex(text[2:])
    except ValueError:
        raise InvalidArgument(f"{text!r:.60} is not 0x and an even number of hex digits") from None


def typed(value: Identifier) -> str:
    """An identifier as :func:`identifier_of` reads it, but for a text that itself begins with 0x."""
    return "0x" + value.hex() if isinstance(value, bytes) else value


def names(value: Identifier | None) -> bool:
    """Whether this identifier names anything. None, an empty identifier and one of zero bytes only do not: they are
    IBM MQ's none value, which counts as not given."""
    if isinstance(value, bytes | bytearray | memoryview):
        return any(value)
    return value is not None and value != ""


def read_identifier(text: str) -> Identifier:
    """The inverse of :func:`identifier`."""
    if text[:1] == "x":
        return bytes.fromhex(text[1:])
    return text[1:] if "\x04" not in text else unescape(text[1:])


def milliseconds(seconds: float) -> int:
    """Seconds as whole milliseconds, rounded up so that a short positive time is never none."""
    return math.ceil(seconds * 1000)


def time_at(ms: int) -> datetime:
    """An aware datetime from milliseconds since the epoch; the first or last there is, if that is too far away."""
    try:
        return _EPOCH + timedelta(0, ms // 1000, ms % 1000 * 1000)
    except OverflowError:
        return time_at(_FIRST_MS if ms < 0 else _LAST_MS)
