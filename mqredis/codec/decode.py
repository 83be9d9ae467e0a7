"""Decodes messages in replies of scripts. Records are checked at once; their fields are parsed at first access.

Operations that read messages use it through ``mqredis.codec`` (``operations.context``, ``receive``, ``locked``), with
the ``Raw`` and ``Rows`` that ``commands.read`` makes of replies. A batch is checked with one regular expression over
all heads, and if that fails each record by itself, which finds the damaged one (``check_each``).

Change together with: ``models/fields.py`` and ``models/properties.py``. ``_SYSTEM`` has the letter of each field with
the form of its values, so that what matches can be parsed without an error; a letter that is not there is taken for one
of a later release, with any text.
"""

from __future__ import annotations

import re
import struct
from binascii import unhexlify
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from typing import overload

from mqredis.errors import InvariantBroken
from mqredis.models.lookup_ids import split_ids
from mqredis.models.message import Counts, Message, Origin, read_message

# Possessive quantifiers (``*+``, ``?+``) save a seventh of the time, since they do not backtrack.
_N = rb"-?+\d{1,400}+"
_ANY = rb"[\2\4-\xff]*+"
_HEX = rb"(?:[\da-f]{2})*+"
# The values of Acknowledge: sums of the bits 1 to 8, 64 and 128. Longer alternatives come first, since the engine does
# not backtrack.
_ACKNOWLEDGE = rb"12[89]|13\d|14[0-3]|19[2-9]|20[0-7]|6[4-9]|7\d|1[0-5]|\d"
# Letters of fields, and what their values are: identifiers and texts; numbers; other forms; those of a later release.
_SYSTEM = (
    rb"[mcg]s" + _ANY + rb"|[mcg]x" + _HEX + rb"|[lyrAkQTORd]" + _ANY,
    rb"[nopetbCDKSuB]" + _N,
    rb"z[0-7]|a(?:" + _ACKNOWLEDGE + rb")|j[0-3]|I[\da-f]{1,16}+|X" + _HEX,
    rb"[^\0-\4lyrAkQTORdmcgnopetbCDKSuBzajIX~]" + _ANY,  # of a later release
)
_PROPERTIES = (
    rb"(?:\x01[\4-\xff]*+\x02(?:s[\4-\xff]*+|[tfn]|i-?+\d{1,20}+|d-?+\d++(?:\.\d++)?+(?:e[-+]?+\d++)?+|x"
    + _HEX
    + rb"))*+"
)
# A whole record up to its body. Every field of a record that matches can be parsed without an error. Texts are matched
# by the bytes that they may hold; excluding the others takes a tenth longer.
_RECORD = (
    rb"\d{13}[0-9a-v]"
    + _PROPERTIES
    + rb"(?:\x03~?+(?:"
    + rb"|".join(_SYSTEM)
    + rb")"
    + _PROPERTIES
    + rb")*+\0"
)
_match_record = re.compile(_RECORD).match
_MARK = b"\0"
_STATE = re.compile(rb"(\d+) (\d+) (\d+) (\d{1,15})(?: (\d+))?").fullmatch

_NO_COUNTS = Counts()
# States that were parsed before; most messages of a batch have the same.
_counts: dict[bytes, Counts] = {b"": _NO_COUNTS}


# A message in a script's reply: lookup id, state and record. The state is what replies show of it, the numbers of
# ``models.message.Counts``; empty for a message that nobody has read yet.
Raw = tuple[bytes, bytes, bytes]


class Rows(Sequence[Raw]):
    """Messages of a reply by column: all lookup ids joined, each of 16 hex digits, the states, and the records."""

    __slots__ = ("ids", "records", "states")

    def __init__(self, ids: bytes, states: Sequence[bytes], records: Sequence[bytes]) -> None:
        if len(ids) != 16 * len(states) or len(states) != len(records):
            raise ValueError(f"{len(ids)} digits of ids, {len(states)} states and {len(records)} records")
        self.ids = ids
        self.states = states
        self.records = records

    def __len__(self) -> int:
        return len(self.records)

    @overload
    def __getitem__(self, at: int) -> Raw: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Raw]: ...
    def __getitem__(self, at: int | slice) -> Raw | Sequence[Raw]:
        return [*self][at]

    def __iter__(self) -> Iterator[Raw]:
        ids = self.ids
        return zip(split_ids(ids), self.states, self.records, strict=True)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and [*self] == [*other]

    __hash__ = None  # type: ignore[assignment]


# A message whose record and state are valid: lookup id, state, and head and body of the record.
Checked = tuple[int, bytes, bytes | str, bytes]


def decode(queue: str, incarnation: str, lookup_id: bytes, state: bytes, record: bytes) -> Message:
    """A message from the three elements of a script's reply. Raises InvariantBroken if they are damaged in any way."""
    return build(queue, incarnation, check(queue, (lookup_id, state, record)))


def decode_each(queue: str, incarnation: str, raw: Sequence[Raw], taken: bool = False) -> list[Message]:
    """Decode several messages; errors as for :func:`decode`.

    ``taken``: the call removed the messages, so each counts one more delivery than its state says.
    """
    if len(raw) == 1:  # the most frequent case
        return [build(queue, incarnation, check(queue, raw[0]), taken)]
    return build_each(queue, incarnation, check_each(queue, raw), taken)


def check_each(queue: str, raw: Sequence[Raw]) -> Sequence[Checked]:
    """Check messages of a reply together, so that parsing their fields cannot fail later.

    Raises InvariantBroken if one is damaged in any way.
    """
    if len(raw) == 1:
        return (check(queue, raw[0]),)
    with suppress(*_REFUSED):  # then each message is checked separately, which finds the damaged one
        return _check_joined(rows(raw))
    return [check(queue, one) for one in raw]


_REFUSED = (AttributeError, TypeError, ValueError, struct.error)


def check(queue: str, raw: Raw) -> Checked:
    """Check one message. Raises InvariantBroken if it is damaged."""
    lookup_id, state, record = raw
    try:
        found = _match_record(record)
        if found is None or (state not in _counts and _parse_state(state) is None):
            raise ValueError("its state" if found else "its record")
        end = found.end()
        return int(lookup_id, 16), state, record[: end - 1].decode(), record[end:]
    except (TypeError, ValueError) as error:
        where = lookup_id[:16].decode("ascii", "backslashreplace")
        raise InvariantBroken(f"message {where} of queue {queue!r} is damaged: {error}") from None


@cache
def _joint_matcher() -> Callable[[bytes], re.Match[bytes] | None]:
    """A function that matches the joined heads of many records. It is compiled for the first batch."""
    return re.compile(rb"(?:" + _RECORD + rb")*+").fullmatch


def rows(raw: Sequence[Raw]) -> Rows:
    """Messages of a reply by column. Raises ValueError if their ids have other lengths than 16 digits."""
    if type(raw) is Rows:
        return raw
    ids, states, records = zip(*raw, strict=True)
    return Rows(b"".join(ids), states, records)


def _check_joined(raw: Rows) -> Sequence[Checked]:
    """Check messages together. Raises one of :data:`_REFUSED` if :func:`check` would refuse one of them."""
    heads, marks, bodies = zip(*[record.partition(_MARK) for record in raw.records], strict=True)
    # No head contains a NUL, so each is matched separately.
    joint = _MARK.join(heads) + _MARK
    if _joint_matcher()(joint) is None or marks.count(_MARK) != len(marks):
        raise ValueError("a record")
    joint.decode()  # valid UTF-8 if each head is, since no character spans a NUL
    if None in map(_parse_state, {*raw.states}.difference(_counts)):
        raise ValueError("a state")
    ids = struct.unpack(f">{len(heads)}Q", unhexlify(raw.ids))
    return list(zip(ids, raw.states, heads, bodies, strict=True))


def build(queue: str, incarnation: str, found: Checked, taken: bool = False) -> Message:
    """Build a message from a checked one."""
    lookup_id, state, head, body = found
    counts = _counts.get(state) or _parse_state(state) or _NO_COUNTS
    return read_message(lookup_id, head, body, Origin(queue, incarnation, counts, taken))


def build_each(queue: str, incarnation: str, found: Sequence[Checked], taken: bool = False) -> list[Message]:
    """Build messages from checked ones. Neighbours with the same state share one ``Origin``."""
    messages: list[Message] = []
    last: bytes | None = None
    for lookup_id, state, head, body in found:
        if state != last:
            origin = Origin(
                queue, incarnation, _counts.get(state) or _parse_state(state) or _NO_COUNTS, taken
            )
            last = state
        messages.append(read_message(lookup_id, head, body, origin))
    return messages


def _parse_state(state: bytes) -> Counts | None:
    """The counts of a state, or None if it is not valid."""
    found = _STATE(state)
    if found is None:
        return None
    counts = Counts(*map(int, found.groups("0")))
    if len(_counts) < 1024:
        _counts[state] = counts
    return counts
