"""The numbers in ``counts`` of ``meta`` and the lines of queues there (core/queue, core/packed_locks), for tests
that look at them or spoil them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mqredis.keys import META_COUNTS, QUEUE_COUNTS

_HEADER = re.compile(rb"(\S+) (\d+ \d+ \d+ \d+ [01] \d+)((?: \S+)*)", re.DOTALL)
_LOCK = b"lock:"
# How many texts of locks stand beside a line at most, and with how many bytes of locks it takes one more itself
# (lua/core/straight.lua).
MOST, ROOM = 32, 512


@dataclass(frozen=True)
class Packed:
    """What one call has locked, in short: an entry of the line, or a text ``beside`` it. ``total``: the bytes of
    all; ``size``: of each, 0 if they differ."""

    fence: bytes
    deadline: bytes
    total: int
    size: int
    slot: bytes
    ids: tuple[bytes, ...]
    beside: bool

    @property
    def field(self) -> bytes:
        """In ``meta``, of a text beside the line."""
        return _LOCK + self.fence

    @property
    def text(self) -> bytes:
        """How it stands beside the line, or would."""
        numbers = self.deadline, b"%d" % self.total, b"%d" % self.size
        return b" ".join((*numbers, self.slot, b"".join(self.ids)))

    @property
    def entry(self) -> bytes:
        """How it stands in the line."""
        if self.beside:
            return self.fence
        return b",".join((self.fence, b"%d" % self.size, self.deadline, self.slot, *self.ids))


@dataclass
class Line:
    """The line of a queue, taken apart."""

    config: bytes
    counts: list[bytes]
    locks: list[bytes]

    @classmethod
    def parse(cls, text: bytes) -> Line:
        match = _HEADER.fullmatch(text)
        assert match, text
        return cls(match[1], match[2].split(b" "), match[3].split(b" ")[1:])

    def text(self) -> bytes:
        return b" ".join((self.config, *self.counts, *self.locks))

    def room(self) -> bool:
        """Does it take one more lock?"""
        return sum(len(lock) + 1 for lock in self.locks) < ROOM

    def packed(self, texts: Mapping[bytes, bytes]) -> list[Packed]:
        """Its locks, with the fields of ``meta`` of which some stand beside it."""
        found = []
        for lock in self.locks:
            if b"," in lock:
                fence, size, deadline, slot, lid = lock.split(b",")
                found.append(Packed(fence, deadline, int(size), int(size), slot, (lid,), False))
            else:
                deadline, total, size, slot, ids = texts[_LOCK + lock].split(b" ")
                lids = tuple(ids[at : at + 16] for at in range(0, len(ids), 16))
                found.append(Packed(lock, deadline, int(total), int(size), slot, lids, True))
        return found


def names(key: str) -> tuple[str, ...]:
    """What is counted of this hash, in order; nothing if it is none of which that is so."""
    return {"meta": META_COUNTS, "q": QUEUE_COUNTS}.get(key.rpartition(":")[2], ())


def meta_of(key: str) -> str:
    """The key of the manager's ``meta``, from any of its keys."""
    tag, brace, _ = key.partition("}")
    assert brace, key
    return f"{tag}}}:meta"


def line(raw: Any, key: str) -> Line:
    """The line of a queue, by its first key."""
    text = raw.hget(meta_of(key), key)
    assert text is not None, key
    return Line.parse(text)


def set_line(raw: Any, key: str, changed: Line) -> None:
    """Write it."""
    raw.hset(meta_of(key), key, changed.text())


def set_config(raw: Any, key: str, config: bytes) -> None:
    """Write what the line of a queue says of its properties."""
    changed = line(raw, key)
    changed.config = config
    set_line(raw, key, changed)


def set_reach(raw: Any, key: str, upto: bytes) -> None:
    """Write into the header of a queue how far its index reaches."""
    stem = line(raw, key).config.split(b"|")[:5]
    set_config(raw, key, b"|".join([*stem, upto]))


def counts(raw: Any, key: str) -> list[bytes]:
    """All the numbers."""
    if key.endswith(":meta"):
        return list(raw.hget(key, "counters").split(b" "))
    return line(raw, key).counts


def count(raw: Any, key: str, name: str) -> int:
    """One of them."""
    return int(counts(raw, key)[names(key).index(name)])


def set_count(raw: Any, key: str, name: str, value: object) -> None:
    """Write one of the numbers."""
    numbers = counts(raw, key)
    numbers[names(key).index(name)] = str(value).encode()
    if key.endswith(":meta"):
        raw.hset(key, "counters", b" ".join(numbers))
    else:
        changed = line(raw, key)
        changed.counts = numbers
        set_line(raw, key, changed)


def lock_texts(raw: Any, key: str) -> dict[bytes, bytes]:
    """The texts of locks beside the lines, of whichever queue, by their fields in ``meta``."""
    return {name: text for name, text in raw.hgetall(meta_of(key)).items() if name.startswith(_LOCK)}


def packed_locks(raw: Any, key: str) -> list[Packed]:
    """The packed locks of a queue, by its first key; the first locked comes first."""
    found = line(raw, key).packed(lock_texts(raw, key))
    return sorted(found, key=lambda lock: int(lock.fence))


def messages_of(call: Any) -> int:
    """How many messages a call of ``send`` takes; one says no more of them than its priority and its text."""
    return 1 if len(call.args) == 3 else len(call.args[3])
