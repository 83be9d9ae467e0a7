"""All keys of a manager as plain data, to compare two servers."""

from __future__ import annotations

import re
from typing import Any

from mqredis.status import Status

# Milliseconds since 1970 of our days: what a clock put into the store.
_TIME = re.compile(rb"1[6-9]\d{11}(?:\.0)?")
# When a message failed, in seconds since 1970 (lua/features/failure.lua).
_FAILED = re.compile(rb"(\x01failure_time\x02d)\d+\.\d+")
# How long ago a message was sent, in a copy of it.
_AGO = re.compile(rb"\x03S\d{13}")
# A reply that says how long until the next timer.
_WAITING = b" %d " % Status.WAITING
# Fields that are made up anew for every store.
_RANDOM = {b"incarnation", b"run_id", b"clock"}


def dump(client: Any, manager: str) -> dict[bytes, Any]:
    """Every key of the manager with its type and content; times and random names are masked."""
    out: dict[bytes, Any] = {}
    for key in sorted(client.scan_iter(match=f"mq:{{{manager}}}:*", count=1000)):
        kind = client.type(key)
        out[key] = (kind, _content(client, key, kind), client.ttl(key))
    return out


def raw(client: Any) -> dict[bytes, Any]:
    """Return every key of the database as the server serialises it, to compare two states byte by byte."""
    return {key: client.dump(key) for key in sorted(client.scan_iter(count=1000))}


def _content(client: Any, key: bytes, kind: bytes) -> Any:
    if kind == b"hash":
        # The manager's config repeats two of them; those of queues, in their headers, do not. Statistics tell times.
        return {
            f: b"?" if f in _RANDOM or f in (b"config", b"statistics") else masked(v)
            for f, v in sorted(client.hgetall(key).items())
        }
    if kind == b"zset":
        scored = client.zrange(key, 0, -1, withscores=True)
        return sorted((masked(member), masked(b"%d" % score)) for member, score in scored)
    if kind == b"set":
        return sorted(map(masked, client.smembers(key)))
    if kind == b"list":
        return list(map(masked, client.lrange(key, 0, -1)))
    return masked(client.get(key))


def masked(value: bytes) -> bytes:
    """The value with every time of our days as ``T``, and without the milliseconds a kept reply tells."""
    head, waiting, _ = value.partition(_WAITING)
    return _AGO.sub(b"\x03SA", _FAILED.sub(rb"\1T", _TIME.sub(b"T", head + waiting)))
