"""Reads stored texts without trusting them: what is damaged becomes None or 0, and never an exception.

The checks of the doctor use it; other code reads the same texts with ``mqredis.codec``. The forms are those of
``lua/core/message_state.lua`` (``tests/contract/test_stored_texts.py``) and ``lua/core/record.lua``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from mqredis.codec.states import BY_READER, CLAIMED, IN_TRANSACTION, NOT_LOCKED
from mqredis.models.record_parts import HEAD_AT, LETTERS
from mqredis.operations.doctor.snapshot import Record

# A state record: counts of deliveries, aborts and moves, time of the last move, size, kind, owner, fence, and the
# deliveries that are no attempts, if there are any. Letters of flags stand behind the kind: V visible to peeks, N
# plain, P purged. All are explained in lua/core/message_state.lua.
_KIND = f"[{NOT_LOCKED}{BY_READER}{''.join(IN_TRANSACTION)}{CLAIMED}]"
_STATE = re.compile(rf"(\d+) (\d+) (\d+) (\d+) (\d+) ({_KIND})P?(V?)N?P? (\S+) (\d+)(?: \d+)?")
# Its end: kind and flags, owner and fence, and the deliveries that are no attempts.
_HELD = re.compile(rf" {_KIND}([PVN]*) \S+ \d+( \d+)?$")
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
    return _HELD.sub(rf" {NOT_LOCKED} - 0\2", text)


def without_holder(text: str) -> str:
    """The state record ``text``, changed to a lock of a reader that does not exist (slot 0.0).

    When its lease is over, the message becomes available again as after any lock of a reader; no transaction is
    looked for.
    """
    return _HELD.sub(rf" {BY_READER}\1 0.0 0\2", text)


def field_of(record: Record, name: str) -> str | None:
    """A system field of the head as text. ``name``: one of mqredis.models.record_parts.LETTERS."""
    found = re.search(f"\x03{LETTERS[name]}([^\x00\x01\x03]*)".encode(), record.head[HEAD_AT:])
    return found[1].decode("utf-8", "replace") if found else None


def size_of(record: Record) -> int:
    """The bytes that a message counts with."""
    return record.size + (record.large or 0)


def int_of(text: str | None) -> int:
    """A counter; 0 if it is missing or damaged, which ``checks.manager`` reports."""
    return int(text) if text and _NUMBER.fullmatch(text) else 0
