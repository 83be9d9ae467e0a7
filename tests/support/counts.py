"""Read and write the counters and the queue headers in ``meta`` (core/queue, core/packed_locks).

For tests that check these texts or damage them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mqredis.keys import META_COUNTS, QUEUE_COUNTS

_HEADER = re.compile(rb"(\S+) (\d+ \d+ \d+ \d+ [01] \d+)((?: \S+)*)", re.DOTALL)
_LOCK = b"lock:"
# How many texts of locks stand beside a line at most, and with how many bytes of locks it takes one more itself
# (lua/core/locks.lua).
MOST, ROOM = 32, 512


@dataclass(frozen=True)
class PackedLock:
    """The packed lock of one call: an entry in the queue header, or a field of its own (``beside``).

    ``total``: bytes of all messages; ``size``: bytes of each message, 0 if they differ.
    """

    fence: bytes
    deadline: bytes
    total: int
    size: int
    slot: bytes
    ids: tuple[bytes, ...]
    beside: bool

    @property
    def field(self) -> bytes:
        """The field in ``meta`` of a lock that is stored outside the header."""
        return _LOCK + self.fence

    @property
    def text(self) -> bytes:
        """The text of the lock when it is stored outside the header."""
        numbers = self.deadline, b"%d" % self.total, b"%d" % self.size
        return b" ".join((*numbers, self.slot, b"".join(self.ids)))

    @property
    def entry(self) -> bytes:
        """The text of the lock in the header."""
        if self.beside:
            return self.fence
        return b",".join((self.fence, b"%d" % self.size, self.deadline, self.slot, *self.ids))


@dataclass
class Header:
    """The parsed header of a queue."""

    config: bytes
    counts: list[bytes]
    locks: list[bytes]

    @classmethod
    def parse(cls, text: bytes) -> Header:
        match = _HEADER.fullmatch(text)
        assert match, text
        return cls(match[1], match[2].split(b" "), match[3].split(b" ")[1:])

    def text(self) -> bytes:
        return b" ".join((self.config, *self.counts, *self.locks))

    def room(self) -> bool:
        """Return whether the header has room for one more lock."""
        return sum(len(lock) + 1 for lock in self.locks) < ROOM

    def packed(self, texts: Mapping[bytes, bytes]) -> list[PackedLock]:
        """Return its locks; the texts of locks outside the header are looked up in the given fields of ``meta``."""
        found = []
        for lock in self.locks:
            if b"," in lock:
                fence, size, deadline, slot, lid = lock.split(b",")
                found.append(PackedLock(fence, deadline, int(size), int(size), slot, (lid,), False))
            else:
                deadline, total, size, slot, ids = texts[_LOCK + lock].split(b" ")
                lids = tuple(ids[at : at + 16] for at in range(0, len(ids), 16))
                found.append(PackedLock(lock, deadline, int(total), int(size), slot, lids, True))
        return found


def names(key: str) -> tuple[str, ...]:
    """Return the names of the counters of this hash, in order; empty if it has none."""
    return {"meta": META_COUNTS, "q": QUEUE_COUNTS}.get(key.rpartition(":")[2], ())


def meta_of(key: str) -> str:
    """Return the key of the manager's ``meta``, derived from any key of the manager."""
    tag, brace, _ = key.partition("}")
    assert brace, key
    return f"{tag}}}:meta"


def header(raw: Any, key: str) -> Header:
    """Return the header of a queue, found by its first key."""
    text = raw.hget(meta_of(key), key)
    assert text is not None, key
    return Header.parse(text)


def set_header(raw: Any, key: str, changed: Header) -> None:
    """Write the header of a queue."""
    raw.hset(meta_of(key), key, changed.text())


def set_config(raw: Any, key: str, config: bytes) -> None:
    """Replace the configuration text in the header of a queue."""
    changed = header(raw, key)
    changed.config = config
    set_header(raw, key, changed)


def set_reach(raw: Any, key: str, upto: bytes) -> None:
    """Write into the header of a queue how far its index reaches."""
    stem = header(raw, key).config.split(b"|")[:5]
    set_config(raw, key, b"|".join([*stem, upto]))


def counts(raw: Any, key: str) -> list[bytes]:
    """Return all counters of a hash."""
    if key.endswith(":meta"):
        return list(raw.hget(key, "counters").split(b" "))
    return header(raw, key).counts


def count(raw: Any, key: str, name: str) -> int:
    """Return one counter of a hash."""
    return int(counts(raw, key)[names(key).index(name)])


def set_count(raw: Any, key: str, name: str, value: object) -> None:
    """Write one counter of a hash."""
    numbers = counts(raw, key)
    numbers[names(key).index(name)] = str(value).encode()
    if key.endswith(":meta"):
        raw.hset(key, "counters", b" ".join(numbers))
    else:
        changed = header(raw, key)
        changed.counts = numbers
        set_header(raw, key, changed)


def lock_texts(raw: Any, key: str) -> dict[bytes, bytes]:
    """Return the texts of locks outside the headers, for all queues, by their fields in ``meta``."""
    return {name: text for name, text in raw.hgetall(meta_of(key)).items() if name.startswith(_LOCK)}


def packed_locks(raw: Any, key: str) -> list[PackedLock]:
    """Return the packed locks of a queue, found by its first key, in the order of locking."""
    found = header(raw, key).packed(lock_texts(raw, key))
    return sorted(found, key=lambda lock: int(lock.fence))


def messages_of(call: Any) -> int:
    """Return the number of messages in a call of ``send``; a call with three arguments sends one message."""
    return 1 if len(call.args) == 3 else len(call.args[3])
