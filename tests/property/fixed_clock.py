"""A database with a fixed clock."""

from __future__ import annotations

from typing import Any

from mqredis import scripts
from mqredis.keys import ManagerKeys
from mqredis.steps import Call
from tests.support.counts import MOST, ROOM, Header

KEYS = ManagerKeys("fixed")
_META = KEYS.admin().keys[0].encode()
START = 1_763_676_000_000
# What a script reads in place of the time: fields that `fields` sets.
CLOCK = 'redis.call("HMGET", KEYS[1], "stands", "zero")'


def text_of(name: str) -> str:
    """A bundle that reads the time from a field that a test sets."""
    return scripts.get(name).text.replace('redis.call("TIME")', CLOCK)


def fields(ms: int) -> dict[Any, int]:
    """The time of the clock as fields of the first key of a script."""
    return {"stands": ms // 1000, "zero": ms % 1000 * 1000}


class Store:
    """A database."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self._texts: dict[str, str] = {}
        self.together = 0  # messages in packed locks, whenever it was looked at

    def call(self, call: Call[Any], slot: str, sequence: object) -> Any:
        """Make a call."""
        if call.script not in self._texts:
            self._texts[call.script] = text_of(call.script)
        keys = call.keys.keys
        return self.client.eval(self._texts[call.script], len(keys), *keys, slot, sequence, *call.args)

    def stand(self, ms: int) -> None:
        """Set the clock."""
        self.client.hset(KEYS.admin().keys[0], mapping=fields(ms))

    def bytes(self) -> dict[bytes, Any]:
        """All it holds, with locks that are packed as if they were not (lua/core/locks.lua)."""
        found: dict[bytes, Any] = {}
        for key in sorted(self.client.keys()):
            kind = self.client.type(key)
            if kind == b"hash":
                found[key] = self.client.hgetall(key)
            elif kind == b"zset":
                found[key] = self.client.zrange(key, 0, -1, withscores=True)
            else:
                found[key] = kind, self.client.dump(key)
        for key in [key for key in found if key.endswith(b":q")]:
            self.together += unpack(found, key)
        texts = [name for name in found.get(_META, {}) if name.startswith(b"lock:")]
        assert not texts, "texts of locks that no header names"
        return found


def unpack(found: dict[bytes, Any], key: bytes) -> int:
    """Give the packed locks of a queue, by its first key, their states and elements; how many there were."""
    meta, stem = found[_META], key[:-1]
    header = Header.parse(meta[key])
    packed, marks = header.packed(meta), int(header.counts[-1])
    beside = [lock for lock in packed if lock.beside]
    assert marks // 4 == len(beside) <= MOST
    if not packed:
        return 0
    for at, lock in enumerate(packed):
        assert lock.beside or len(b" ".join([b"", *header.locks[:at]])) < ROOM, (
            "the header had no room for another"
        )
    for lock in beside:
        del meta[lock.field]
    header.counts[-1], header.locks = b"%d" % (marks % 4), []
    meta[key] = header.text()
    states, locks = found.setdefault(stem + b"s", {}), found.setdefault(stem + b"l", [])
    count = 0
    for lock in packed:
        sizes = [len(found[stem + b"m"][lid]) for lid in lock.ids]
        assert sum(sizes) == lock.total
        assert lock.size == (sizes[0] if len({*sizes}) == 1 else 0)
        for lid, size in zip(lock.ids, sizes, strict=True):
            assert lid not in states
            states[lid] = b"1 0 0 0 %d LN %s %s" % (size, lock.slot, lock.fence)
            locks.append((lid, float(lock.deadline)))
        count += len(sizes)
    locks.sort(key=lambda item: (item[1], item[0]))
    return count
