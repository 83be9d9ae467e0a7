"""What the scripts answer as messages: damage shows at once, the fields are taken apart when they are asked for."""

from __future__ import annotations

import re
import struct
from binascii import unhexlify
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, overload

from mqredis.codec.text import generated_id, read_identifier, time_at, token, unescape
from mqredis.errors import InvariantBroken
from mqredis.models import Acknowledge, Journal, Message, PropertyValue
from mqredis.unvalidated import PENDING, defaults_of, new, put

#: Here and below what may be missing is not given back either: looking for that takes a seventh of the whole.
_N = rb"-?+\d{1,400}+"
_ANY = rb"[\2\4-\xff]*+"
_HEX = rb"(?:[\da-f]{2})*+"
#: Bits 1 to 8, 64 and 128; longer ones first, since what was matched is not given back.
_ACKNOWLEDGE = rb"12[89]|13\d|14[0-3]|19[2-9]|20[0-7]|6[4-9]|7\d|1[0-5]|\d"
_SYSTEM = (
    rb"[mcg]s" + _ANY + rb"|[mcg]x" + _HEX + rb"|[lyrAkQTORd]" + _ANY,
    rb"[nopetbCDKSuB]" + _N,
    rb"z[0-7]|a(?:" + _ACKNOWLEDGE + rb")|j[0-3]|I[\da-f]{1,16}+|X" + _HEX,
    rb"[^\0-\4lyrAkQTORdmcgnopetbCDKSuBzajIX~]" + _ANY,  # of a release to come
)
_PROPERTIES = (
    rb"(?:\x01[\4-\xff]*+\x02(?:s[\4-\xff]*+|[tfn]|i-?+\d{1,20}+|d-?+\d++(?:\.\d++)?+(?:e[-+]?+\d++)?+|x"
    + _HEX
    + rb"))*+"
)
#: A whole record up to its body. What passes is read without an error, whichever field is asked for. Texts are sets of
#: what they may hold: what they may not takes a tenth longer.
_RECORD = (
    rb"\d{13}[0-9a-v]"
    + _PROPERTIES
    + rb"(?:\x03~?+(?:"
    + rb"|".join(_SYSTEM)
    + rb")"
    + _PROPERTIES
    + rb")*+\0"
)
_SOUND = re.compile(_RECORD).match
#: The same behind fence, end of the lease, lookup id and state.
_READ = re.compile(rb"\d{0,19}+ \d{0,19}+ [\da-f]{16} (?:\d++ \d++ \d++ \d{1,15}+)?+ " + _RECORD).match
_MARK = b"\0"
#: The same of many, one after the other without their bodies.
_ALL_SOUND = re.compile(rb"(?:" + _RECORD + rb")*+").fullmatch
_STATE = re.compile(rb"(\d+) (\d+) (\d+) (\d{1,15})").fullmatch

#: Flags of records of messages that are neither the first nor the last of a transaction.
_OUTSIDE = frozenset("0189hp")

Counts = tuple[int, ...]
_NO_COUNTS: Counts = (0, 0, 0, 0)
#: States that were read before: a batch has mostly the same.
_counts: dict[bytes, Counts] = {b"": _NO_COUNTS}
_COUNTED = {"delivery_count": 0, "abort_count": 1, "move_count": 2, "last_moved_at": 3}


#: What a script answers of a message: its lookup id, state and record.
Raw = tuple[bytes, bytes, bytes]


class Rows(Sequence[Raw]):
    """Several of them by column, as they came: the ids one behind the other, each of 16 digits."""

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
        return zip([ids[n : n + 16] for n in range(0, len(ids), 16)], self.states, self.records, strict=True)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and [*self] == [*other]

    __hash__ = None  # type: ignore[assignment]


#: What came of a message, and is sound: its lookup id, its state, and the head and the body of its record.
Sound = tuple[int, bytes, bytes | str, bytes]


def decode(
    queue: str, incarnation: str, lookup_id: bytes, state: bytes, record: bytes, taken: bool = False
) -> Message:
    """A message from the three elements a script answers. Raises InvariantBroken if they are damaged in any way.

    ``taken``: this reading removed the message, so it counts as a delivery on top of those in ``state``.
    """
    return made(queue, incarnation, alone(queue, lookup_id, state, record), taken)


def decode_each(queue: str, incarnation: str, raw: Sequence[Raw], taken: bool = False) -> list[Message]:
    """As :func:`decode` makes each of them."""
    if len(raw) == 1:  # as mostly
        return [made(queue, incarnation, alone(queue, *raw[0]), taken)]
    return made_each(queue, incarnation, sound(queue, raw), taken)


def sound(queue: str, raw: Sequence[Raw]) -> Sequence[Sound]:
    """What a script answers of messages, looked at together: no message that is made of it can fail.

    Raises InvariantBroken if any of it is damaged in any way.
    """
    if len(raw) == 1:
        return (alone(queue, *raw[0]),)
    with suppress(*_REFUSED):  # which of them is damaged shows where each is looked at by itself
        return _together(rows(raw))
    return [alone(queue, *one) for one in raw]


_REFUSED = (AttributeError, TypeError, ValueError, struct.error)


def alone(queue: str, lookup_id: bytes, state: bytes, record: bytes) -> Sound:
    """The same of one message."""
    try:
        found = _SOUND(record)
        if found is None or (state not in _counts and _read(state) is None):
            raise ValueError("its state" if found else "its record")
        end = found.end()
        return int(lookup_id, 16), state, record[: end - 1].decode(), record[end:]
    except (TypeError, ValueError) as error:
        where = lookup_id[:16].decode("ascii", "backslashreplace")
        raise InvariantBroken(f"message {where} of queue {queue!r} is damaged: {error}") from None


def sound_alone(fence: bytes, deadline: bytes, lookup_id: bytes, state: bytes, record: bytes) -> Sound | None:
    """The same with the fence and the end of the lease under which it was read; None: any of it is damaged. Raises
    TypeError if it is no text."""
    if _READ(b" ".join((fence, deadline, lookup_id, state, record))) is None:
        return None
    head, _, body = record.partition(_MARK)
    try:
        return int(lookup_id, 16), state, head.decode(), body
    except UnicodeDecodeError:
        return None


def rows(raw: Sequence[Raw]) -> Rows:
    """The same by column. Raises ValueError if they do not fit."""
    if type(raw) is Rows:
        return raw
    ids, states, records = zip(*raw, strict=True)
    return Rows(b"".join(ids), states, records)


def _together(raw: Rows) -> Sequence[Sound]:
    """Raises one of :data:`_REFUSED` where :func:`alone` would refuse any of them."""
    heads, marks, bodies = zip(*[record.partition(_MARK) for record in raw.records], strict=True)
    # No head has a NUL in it, so each is matched as it would be alone.
    joint = _MARK.join(heads) + _MARK
    if _ALL_SOUND(joint) is None or marks.count(_MARK) != len(marks):
        raise ValueError("a record")
    joint.decode()  # as sound as each of them, since no character goes on behind a NUL
    if None in map(_read, {*raw.states}.difference(_counts)):
        raise ValueError("a state")
    ids = struct.unpack(f">{len(heads)}Q", unhexlify(raw.ids))
    return list(zip(ids, raw.states, heads, bodies, strict=True))


def made(queue: str, incarnation: str, found: Sound, taken: bool = False) -> Message:
    """The message that came as this."""
    lookup_id, state, head, body = found
    fields: dict[str, Any] = {"lookup_id": lookup_id, "body": body, _HEAD: head}
    counts = _counts.get(state) or _read(state)
    fields[PENDING] = _whole, _one, counts, bool(state), taken, incarnation, queue
    put(message := new(Message), fields)  # as ``lazy``, without its call
    return message


def made_each(queue: str, incarnation: str, found: Sequence[Sound], taken: bool = False) -> list[Message]:
    """As :func:`made` makes each of them: what they have in common is made once."""
    if len(found) == 1:  # as mostly
        return [made(queue, incarnation, found[0], taken)]
    messages: list[Message] = []
    shared: dict[str, Any] = {}
    last: bytes | None = None
    for lookup_id, state, head, body in found:
        if state != last:
            shared = {"lookup_id": 0, "body": b"", _HEAD: ""}
            counts = _counts.get(state) or _read(state)
            shared[PENDING] = _whole, _one, counts, bool(state), taken, incarnation, queue
            last = state
        fields = shared.copy()  # takes less than a dict of four does
        fields["lookup_id"] = lookup_id
        fields["body"] = body
        fields[_HEAD] = head
        put(message := new(Message), fields)
        messages.append(message)
    return messages


def _read(state: bytes) -> Counts | None:
    found = _STATE(state)
    if found is None:
        return None
    counts = tuple(map(int, found.groups()))
    if len(_counts) < 1024:
        _counts[state] = counts
    return counts


#: Among the fields that a message has before it is asked for others: its record up to the body, as text or in UTF-8.
#: They are four, since a dict of more than five is made anew.
_HEAD = "\0"
#: :data:`_whole` and :data:`_one`; the counts, was there a state, taken, the incarnation, the queue.
Pending = tuple[Any, Any, Counts, bool, bool, str, str]


def _one(fields: dict[str, Any], pending: Pending, name: str) -> Any:
    """The fields that consumers read most, each by itself. Raises KeyError for others."""
    head = fields[_HEAD]
    if type(head) is bytes:
        head = fields[_HEAD] = head.decode()
    found: Any
    if (key := _SINGLE.get(name)) is not None:
        at = head.find(key[0], 14)
        if at >= 0:
            text = head[at + 2 :]
            if "\x03" in text or "\x01" in text:
                text = _TEXT(text)[0]  # type: ignore[index]
            found = key[1](text)
        else:
            found = generated_id(f"{fields['lookup_id']:016x}") if name == "message_id" else _DEFAULTS[name]
    elif name == "properties":
        properties: dict[str, PropertyValue] = {}
        for part in head[14:].split("\x03"):
            if "\x01" in part:
                _properties(properties, part)
        return fields.setdefault("properties", properties)
    elif name == "arrived_at":
        found = time_at(int(head[:13]))
    elif name == "queue":
        found = pending[6]
    else:
        at = _COUNTED[name]
        found = pending[2][at]
        if at == 0:
            found += pending[4]
        elif at == 3:
            found = time_at(found) if found else None
    fields[name] = found
    return found


def _whole(fields: dict[str, Any], pending: Pending) -> tuple[dict[str, Any], set[str]]:
    """All fields of a message."""
    _, _, counts, has_state, taken, incarnation, queue = pending
    head = fields[_HEAD]
    if type(head) is bytes:
        head = head.decode()
    lid = f"{fields['lookup_id']:016x}"
    arrived_ms = int(head[:13])
    arrived = time_at(arrived_ms)
    # One dict for all who ask, at whatever time: it is the one field that can be changed.
    properties = fields.get("properties")
    if properties is None:
        properties = _one(fields, pending, "properties")
    values: dict[str, Any] = {
        "lookup_id": fields["lookup_id"],
        "queue": queue,
        "body": fields["body"],
        "token": token(incarnation, lid),
        "properties": properties,
        "arrived_at": arrived,
        "sent_at": arrived,
        "message_id": generated_id(lid),
    }
    flag = head[13]
    if flag not in _OUTSIDE:
        values["first_in_transaction"] = int(flag, 32) & 2 != 0
        values["last_in_transaction"] = int(flag, 32) & 4 != 0
    if "\x03" in head:
        _system(values, head[14:].split("\x03")[1:], arrived_ms)
    if has_state:
        values["delivery_count"] = counts[0] + taken
        values["abort_count"] = counts[1]
        values["move_count"] = counts[2]
        if counts[3]:
            values["last_moved_at"] = time_at(counts[3])
    elif taken:
        values["delivery_count"] = 1
    return {**_DEFAULTS, **values}, set(values)


def _properties(found: dict[str, PropertyValue], text: str) -> None:
    """The user properties in a part of a head, behind what comes before their mark."""
    escaped = "\x04" in text
    # What comes before their mark may have the other in it; names and values have neither.
    parts = iter(text.partition("\x01")[2].replace("\x02", "\x01").split("\x01"))
    for name in parts:
        value = next(parts)
        if escaped:
            name, value = unescape(name), unescape(value)
        kind = value[0]
        if kind == "s":
            found[name] = value[1:]
        elif kind == "i":
            found[name] = int(value[1:])
        elif kind == "d":
            found[name] = float(value[1:])
        elif kind == "x":
            found[name] = bytes.fromhex(value[1:])
        else:
            found[name] = _WORDS[kind]


_WORDS = {"t": True, "f": False, "n": None}


def _system(values: dict[str, Any], parts: list[str], arrived_ms: int) -> None:
    """The system fields of a head, behind each of which properties may stand."""
    head: dict[str, str] = {}
    for part in parts:
        text, _, _ = part.partition("\x01")
        if text[0] != "~":
            head[text[0]] = text[1:]
        elif text[1] != "e":  # a copy shows what the message asked for, though nothing acts on it
            head.setdefault(text[1], text[2:])
    others = False
    for key, text in head.items():
        found = _PLAIN.get(key)
        if found:
            values[found[0]] = found[1](text)
        else:
            others = True
    if not others:
        return
    sent_ms = arrived_ms
    if "S" in head:
        sent_ms -= int(head["S"])
        values["sent_at"] = time_at(sent_ms)
    if "z" in head:
        flags = int(head["z"])
        values["last_in_group"] = flags & 1 != 0
        values["segment"] = flags & 6 != 0
        values["last_segment"] = flags & 4 != 0
    if "e" in head:
        values["expires_at"] = time_at(sent_ms + int(head["e"]))
    if "a" in head:
        values["acknowledge"] = Acknowledge(int(head["a"]))
    if "j" in head:
        values["journal"] = Journal(int(head["j"]))
    if "X" in head:
        values["extension"] = bytes.fromhex(head["X"])
    if "d" in head:
        values["recoverable"] = head["d"] != "0"
    if "I" in head:
        values["original_lookup_id"] = int(head["I"], 16)
    if "B" in head:
        values["original_arrived_at"] = time_at(int(head["B"]))


_PLAIN: dict[str, tuple[str, Callable[[str], Any]]] = {
    "m": ("message_id", read_identifier),
    "c": ("correlation_id", read_identifier),
    "g": ("group_id", read_identifier),
}
_NUMBERS = (
    ("n", "sequence"),
    ("o", "offset"),
    ("p", "priority"),
    ("t", "app_tag"),
    ("b", "body_type"),
    ("C", "message_class"),
)
_TEXTS = (
    ("l", "label"),
    ("y", "content_type"),
    ("k", "dedup_key"),
    ("A", "administration_queue"),
    ("r", "response_queue"),
    ("Q", "dead_letter_queue"),
    ("T", "transaction_id"),
    ("O", "original_queue"),
    ("R", "reason"),
)
_PLAIN |= {key: (name, int) for key, name in _NUMBERS}
_PLAIN |= {key: (name, unescape) for key, name in _TEXTS}
_DEFAULTS = defaults_of(Message)
#: Those that have but one spelling, by name, as they begin.
_SINGLE = {name: ("\x03" + key, read) for key, (name, read) in _PLAIN.items() if key not in "kAQ"}
_TEXT = re.compile(r"[^\x01\x03]*+").match
