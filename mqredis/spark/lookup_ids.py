"""Lookup ids as the commands of Redis take them. Their form: mqredis/models/lookup_ids.py.

The readers and ``starting`` find messages by their SequentialIDs with it, and ``options`` checks these. The ids of a
queue are sorted by their first two digits, here called the band: 7 minus the priority, 0 in a transactional queue. In a
band they are sorted by SequentialID.
"""

from __future__ import annotations

BANDS = range(8)
_SEQUENTIAL_DIGITS = 14
# The bits of a lookup id that are its SequentialID.
SEQUENTIAL_MASK = (1 << 4 * _SEQUENTIAL_DIGITS) - 1


def stored_id(lookup_id: int) -> bytes:
    """A lookup id as the store spells it."""
    return b"%016x" % lookup_id


def sequential(position: int) -> str:
    """A SequentialID as the store spells it; the inverse is ``int(text, 16)``."""
    return f"{position:014x}"


def band_of(band: int) -> str:
    """With what the ids of a band begin."""
    return f"{band:02x}"


def in_band(band: int, position: int) -> str:
    """The lookup id with this SequentialID in a band."""
    return band_of(band) + sequential(position)


def sequential_of(lookup_id: bytes) -> int:
    """The SequentialID of a lookup id."""
    return int(lookup_id[-_SEQUENTIAL_DIGITS:], 16)
