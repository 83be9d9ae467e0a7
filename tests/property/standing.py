"""A database under a clock that stands still, whose scripts have their short ways or have not."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from mqredis import scripts
from mqredis.keys import ManagerKeys
from mqredis.steps import Call
from tests.support.counts import MOST, ROOM, Line

KEYS = ManagerKeys("straight")
_META = KEYS.admin().keys[0].encode()
START = 1_763_676_000_000
#: The scripts that have a short way, and how many each.
SHORT = {"send": 3, "receive": 3, "settle": 2}
_CLOCK = 'redis.call("HMGET", KEYS[1], "stands", "zero")'
#: Where the entry scripts call it.
_ENTRY = re.compile(
    r"^( *(?:local )?reply(?:, [a-z]+)*) = (straight(?:_tx|_send|_sends|_locks)?\.[a-z]+)\(.*\)$",
    re.MULTILINE,
)
#: What stands behind that: which of them a call took.
_TOOK = "\nif reply then redis.call('SADD', KEYS[1] .. ':short', '{0}') end"


def text_of(name: str, short: bool) -> str:
    """A bundle whose clock stands still, with or without its short way."""
    text = scripts.get(name).text.replace('redis.call("TIME")', _CLOCK)
    way = (lambda found: found[0] + _TOOK.format(found[2])) if short else r"\1 = nil"
    text, count = _ENTRY.subn(way, text)
    assert count == SHORT.get(name, 0), name
    return text


class Store:
    """One of the two databases."""

    def __init__(self, client: Any, short: bool) -> None:
        self.client, self.short = client, short
        self._texts: dict[str, str] = {}
        self.took: Counter[str] = Counter()
        self.together = 0  # messages in packed locks, whenever it was looked at

    def call(self, call: Call[Any], slot: str, sequence: object) -> Any:
        """Make a call."""
        if call.script not in self._texts:
            self._texts[call.script] = text_of(call.script, self.short)
        keys = call.keys.keys
        reply = self.client.eval(self._texts[call.script], len(keys), *keys, slot, sequence, *call.args)
        mark = f"{KEYS.admin().keys[0]}:short"
        self.took.update(name.decode() for name in self.client.smembers(mark))
        self.client.delete(mark)
        return reply

    def stand(self, ms: int) -> None:
        """Set the clock."""
        self.client.hset(KEYS.admin().keys[0], mapping={"stands": ms // 1000, "zero": ms % 1000 * 1000})

    def bytes(self) -> dict[bytes, Any]:
        """All it holds, with locks that are packed as if they were not (lua/core/packed_locks.lua)."""
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
        assert not texts, "texts of locks that no line names"
        return found


def unpack(found: dict[bytes, Any], key: bytes) -> int:
    """Give the packed locks of a queue, by its first key, their states and elements; how many there were."""
    meta, stem = found[_META], key[:-1]
    line = Line.parse(meta[key])
    packed, marks = line.packed(meta), int(line.counts[-1])
    beside = [lock for lock in packed if lock.beside]
    assert marks // 2 == len(beside) <= MOST
    if not packed:
        return 0
    for at, lock in enumerate(packed):
        assert lock.beside or len(b" ".join([b"", *line.locks[:at]])) < ROOM, (
            "the line had no room for another"
        )
    for lock in beside:
        del meta[lock.field]
    line.counts[-1], line.locks = b"%d" % (marks % 2), []
    meta[key] = line.text()
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
