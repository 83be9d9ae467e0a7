"""The numbers in the field ``counts`` of ``meta`` and of a queue's hash, one at a time, for tests that spoil them."""

from __future__ import annotations

from typing import Any

from mqredis.keys import META_COUNTS, QUEUE_COUNTS


def names(key: str) -> tuple[str, ...]:
    """What this hash counts, in order; nothing if it is no hash that counts."""
    return {"meta": META_COUNTS, "q": QUEUE_COUNTS}.get(key.rpartition(":")[2], ())


def set_count(raw: Any, key: str, name: str, value: object) -> None:
    """Write one of the numbers."""
    numbers = raw.hget(key, "counts").split(b" ")
    numbers[names(key).index(name)] = str(value).encode()
    raw.hset(key, "counts", b" ".join(numbers))
