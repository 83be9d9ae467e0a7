"""Reads stored texts without trusting them: what is damaged becomes None or 0, and never an exception.

The checks of the doctor use it; other code reads the same texts with ``mqredis.codec``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from mqredis.operations.doctor.snapshot import Record

_STATE = re.compile(r"(\d+) (\d+) (\d+) (\d+) (\d+) ([-LRSMC])P?(V?)N?P? (\S+) (\d+)(?: \d+)?")
# The end of a state record: kind, owner and fence, and the deliveries that are no attempts, if there are any.
_HELD = re.compile(r" [-LRSMC]([PVN]*) \S+ \d+( \d+)?$")
_NUMBER = re.compile(r"\d{1,16}")


@dataclass(frozen=True, slots=True)
class State:
    """A state record (lua/core/message_state.lua)."""

    size: int
    kind: str
    visible: bool
    owner: str


def state_of(record: Record) -> State | None:
    """The state record in parts; None if there is none, or it is not well formed."""
    match = _STATE.fullmatch(record.state)
    if match is None:
        return None
    return State(int(match[5]), match[6], bool(match[7]), match[8])


def unlocked(text: str) -> str:
    """The state record ``text``, changed to that of a message that is not locked."""
    return _HELD.sub(r" - - 0\2", text)


def without_holder(text: str) -> str:
    """The state record ``text``, changed to a lock of a reader that does not exist (slot 0.0).

    When its lease is over, the message becomes available again as after any lock of a reader; no transaction is
    looked for.
    """
    return _HELD.sub(r" L\1 0.0 0\2", text)


def field_of(record: Record, key: str) -> str | None:
    """A system field of the head as text."""
    found = re.search(f"\x03{key}([^\x00\x01\x03]*)".encode(), record.head[14:])
    return found[1].decode("utf-8", "replace") if found else None


def expiry_of(record: Record) -> float | None:
    """When the message expires, in ms; None: never. If the record cannot be read, the time of its timer."""
    try:
        if not int(record.head[13:14], 32) & 1:
            return None
        life = field_of(record, "e")
        return None if life is None else int(record.head[:13]) - int(field_of(record, "S") or 0) + int(life)
    except ValueError:
        return record.expiry


def size_of(record: Record) -> int:
    """The bytes that a message counts with."""
    return record.size + (record.large or 0)


def int_of(text: str | None) -> int:
    """A counter; 0 if it is missing or damaged, which ``checks.manager`` reports."""
    return int(text) if text and _NUMBER.fullmatch(text) else 0
