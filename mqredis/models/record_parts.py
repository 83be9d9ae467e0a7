"""Where the parts of a record stand, and what its flag says.

``codec.encode`` makes records, ``codec.decode`` checks them with a pattern of its own, and ``message`` reads them.
Commands, operations (``schedules`` and the doctor) and the data source for Spark look at their parts without decoding
them, and ``selector.names`` needs the letters of fields. The form is that of ``lua/core/record.lua``; a test in
tests/contract/test_stored_texts.py compares both.
"""

from __future__ import annotations

from collections.abc import Callable

from mqredis.models.fields import FIELDS, READERS

# A record begins with the time of arrival in ms since 1970, in so many digits.
ARRIVAL_DIGITS = 13
# Then come one digit for its flag, and the head, which ends with a NUL. Behind that stands the body.
FLAG_AT, HEAD_AT = 13, 14

# The flag is one digit to the base of 32, the sum of these bits: see record.lua.
SPECIAL, FIRST, LAST, LARGE, NAMED = 1, 2, 4, 8, 16
FLAG_DIGITS = b"0123456789abcdefghijklmnopqrstuv"


def _flags(has: Callable[[int], bool]) -> frozenset[int]:
    return frozenset(digit for bits, digit in enumerate(FLAG_DIGITS) if has(bits))


# The flags of records, as the bytes of their digits.
# No script acts on a field of the message, and its body is not large:
PLAIN_FLAGS = _flags(lambda bits: bits & ~(FIRST | LAST) == 0)
# Scripts act only on a correlation id, a text that stands last in the head, and the body is not large:
NAMED_FLAGS = _flags(lambda bits: bits & ~(FIRST | LAST) == SPECIAL | NAMED)
# Scripts act, or may act, on other fields:
SPECIAL_FLAGS = _flags(lambda bits: bits & SPECIAL != 0) - NAMED_FLAGS
# The body is not in the record, but in the field "^"id:
LARGE_FLAGS = _flags(lambda bits: bits & LARGE != 0)

# The letter of each system field in a head, by the name of the field: of those that a message shows, of those that only
# senders give, and of two that only scripts use.
LETTERS = (
    {name: letter for letter, (name, _) in READERS.items()}
    | {name: field.mark[1] for name, field in FIELDS.items() if field.mark}
    | {"trail": "L", "trash": "Z"}
)


def arrival_ms(record: bytes | str) -> int:
    """When the message arrived in its queue, in ms since 1970. Raises ValueError if the record is damaged."""
    return int(record[:ARRIVAL_DIGITS])


def has_bit(record: bytes | str, bit: int) -> bool:
    """Does the flag of the record have this bit? Raises ValueError if the record is damaged."""
    return int(record[FLAG_AT:HEAD_AT], 32) & bit != 0
