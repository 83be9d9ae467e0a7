"""Everything that can be broken in a store, one thing at a time: dropped, altered and added, in every kind of key.

What cannot be told from health is left out: another valid label or quota, other bytes in a body, a lease that ends at
another time, the reply that a slot keeps, a delivery that was never counted, what a lapsed transaction has noted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from mqredis.operations.doctor.checks.policies import HELD
from tests.support.counts import counts, header, names, set_config, set_count, set_header

GHOST = "0400000000000fff"
# Elements of the index that are no hints: identifiers, groups, marks for peeks.
_INDEX = (b"m", b"c", b"g", b"n", b"v")
Act = Callable[[Any], object]


@dataclass(frozen=True)
class Corruption:
    """One corruption. ``keeps``: it affects no message."""

    name: str
    plant: Act
    keeps: bool = True


_OPERATION = re.compile(rb"[SRXM] (\S+) ([0-9a-f]{16})")
_COUNTERS = {"sub_messages", "sub_bytes"}
# Fields of a queue that must be there and be read.
_FIELDS = {"generation", "flags", "quota_messages", "quota_bytes", *_COUNTERS}
# Fields of the manager that must be there and be read.
_MANAGER = {"schema", "incarnation", "throttled", "clock", "counters"}


def corruptions(raw: Any, tag: str) -> Iterator[Corruption]:
    """Return all corruptions of the present store."""
    for key in sorted(key.decode() for key in raw.keys(tag + "*")):
        part = key.rpartition(":")[2]
        kind = raw.type(key).decode()
        yield Corruption(f"{key}: another type", _other_type(key), part != "m")
        yield Corruption(f"{key}: expires", _expiring(key))
        if kind == "hash":
            yield from _hash(raw, key, part)
        else:
            yield from _zset(raw, key, part)


def _hash(raw: Any, key: str, part: str) -> Iterator[Corruption]:
    for field, value in sorted(raw.hgetall(key).items()):
        yield from _entry(key, part, field.decode("latin-1"), field, value)
        if part == "txs" and _held(raw, key, value):
            ghost = re.sub(rb"[0-9a-f]{16}", GHOST.encode(), value, count=1)
            yield Corruption(f"{key}: {field.decode('latin-1')} names nothing", _put(key, field, ghost))
    if part in ("q", "meta"):
        yield from _counts(raw, key, part)
    if part == "q":
        return
    added = {"queues": ("ghost", "1"), "txs": ("ghost:1", f"R q {GHOST}"), "meta": ("99.1", "1 2 x")}
    field, text = added.get(part, (GHOST, "1 0 0 0 15 - - 0" if part == "s" else "garbage"))
    yield Corruption(f"{key}: added {field}", lambda r: r.hset(key, field, text))
    if part == "m":
        yield Corruption(f"{key}: a body of nobody", lambda r: r.hset(key, "^" + GHOST, "x"))
    if part == "meta":
        yield Corruption(f"{key}: a session never given out", lambda r: r.hset(key, "99", "1000"))
        yield Corruption(f"{key}: no session", lambda r: r.hset(key, "9hello", "1000"))
        unknown = key.removesuffix("meta") + "q:ghost:q"
        yield Corruption(
            f"{key}: the header of no queue", lambda r: r.hset(key, unknown, "1||9|||0 0 0 0 -1 0 0")
        )
        yield Corruption(f"{key}: locks of no queue", lambda r: r.hset(key, "lock:9", f"1 15 15 1.1 {GHOST}"))
    if part == "txs":
        yield Corruption(f"{key}: garbage", lambda r: r.hset(key, "ghost", "once upon a time"))


def _held(raw: Any, key: str, value: bytes) -> bool:
    """Is this an operation of a transaction whose message it holds, with a lease that is not over?"""
    match = _OPERATION.match(value)
    if match is None:
        return False
    tag = key.removesuffix("txs")
    deadline = raw.zscore(f"{tag}q:{match[1].decode()}:l", match[2])
    seconds, micros = raw.time()
    now = seconds * 1000 + micros // 1000 + int(raw.hget(tag + "meta", "clock") or 0)
    return deadline is not None and deadline > now


def _counts(raw: Any, key: str, part: str) -> Iterator[Corruption]:
    values = dict(zip(names(key), map(int, counts(raw, key)), strict=True))
    spoilt = [(f"one more {name}", name, values[name] + 1) for name in ("messages", "bytes")]
    if part == "meta":
        spoilt += [("seq behind", "seq", 1), ("seq beyond", "seq", 1 << 53)]
    elif values["due"] >= 0:
        late = values["due"] + 10**9
        # It may be of a timer that is gone: then it is not too late for any.
        if any(raw.zcount(key[:-1] + kind, "-inf", f"({late}") for kind in "lt"):
            spoilt.append(("due too late", "due", late))
    for what, name, value in spoilt:
        yield Corruption(f"{key}: {what}", partial(set_count, key=key, name=name, value=value))
    if part == "q":
        yield Corruption(f"{key}: garbage in the config", partial(set_config, key=key, config=b"7|what||||"))
        yield Corruption(f"{key}: locks nothing", partial(_lock_nothing, key=key))


def _lock_nothing(raw: Any, key: str) -> None:
    spoilt = header(raw, key)
    spoilt.locks.append(b"9,15,1700000000000,1.1," + GHOST.encode())
    set_header(raw, key, spoilt)


def _put(key: str, field: bytes, value: bytes | str) -> Act:
    return lambda r: r.hset(key, field, value)


def _entry(key: str, part: str, name: str, field: bytes, value: bytes) -> Iterator[Corruption]:
    drop = Corruption(f"{key}: dropped {name}", lambda r: r.hdel(key, field), part != "m")
    garbage = Corruption(f"{key}: garbage in {name}", _put(key, field, "\x07 what"), part != "m")
    if part == "meta":
        slot = name[:1].isdigit() and "." in name
        of_queues = name.startswith(("mq:", "lock:"))
        if name in _MANAGER or of_queues or (name.isdigit() and not slot):
            yield from (drop, garbage)
        elif slot:
            yield garbage
    elif part == "q":
        if name in _FIELDS and value and not (name.startswith("sub_") and value == b"0"):
            yield from (drop, garbage)
        if name in _COUNTERS:
            yield Corruption(f"{key}: one more {name}", _put(key, field, str(int(value) + 1)))
    elif part == "queues":
        yield drop
        yield Corruption(f"{key}: generation of {name}", _put(key, field, "77"))
    elif part == "txs":
        yield from (drop, garbage)
        if not _OPERATION.match(value):
            more = re.sub(rb"^(\d+ \d+) (\d+)", lambda m: m[1] + b" %d" % (int(m[2]) + 1), value)
            yield Corruption(f"{key}: {name} counts one more", _put(key, field, more))
    elif part == "s":
        yield from _state(key, name, field, value)
        yield garbage
    elif part == "m":
        yield from (drop, garbage)
        yield from _record(key, name, field, value)


def _state(key: str, name: str, field: bytes, value: bytes) -> Iterator[Corruption]:
    words = value.split(b" ")
    held = words[5][:1] != b"-"
    if held:
        yield Corruption(f"{key}: dropped {name}", lambda r: r.hdel(key, field))
        free = b" ".join([*words[:5], b"-", b"-", b"0"])
        yield Corruption(f"{key}: {name} held by nobody", _put(key, field, free))
    else:
        busy = b" ".join([*words[:5], b"L", b"1.1", b"5"])
        yield Corruption(f"{key}: {name} held", _put(key, field, busy))
    size = b" ".join([*words[:4], b"7", *words[5:]])
    yield Corruption(f"{key}: size in {name}", _put(key, field, size))
    yield Corruption(f"{key}: one word less in {name}", _put(key, field, b" ".join(words[:-1])))
    kind = b" ".join([*words[:5], b"Q", *words[6:]])
    yield Corruption(f"{key}: kind of {name}", _put(key, field, kind))


def _record(key: str, name: str, field: bytes, value: bytes) -> Iterator[Corruption]:
    if field[:1] == b"^":
        return
    yield Corruption(f"{key}: {name} cut", _put(key, field, value[:5]), False)
    yield Corruption(f"{key}: {name} without end of head", _put(key, field, value.replace(b"\0", b"")), False)
    yield Corruption(f"{key}: {name} arrived never", _put(key, field, b"x" * 13 + value[13:]), False)
    flag = int(value[13:14], 16)
    large = value[:13] + b"%x" % (flag ^ 8) + value[14:]
    yield Corruption(f"{key}: {name} large or not", _put(key, field, large), False)
    head = value.partition(b"\0")
    broken = head[0] + b"\x03p9" + b"\0" + head[2]
    yield Corruption(f"{key}: {name} with priority 9", _put(key, field, broken), False)


def _gone(key: str, member: bytes) -> Act:
    return lambda r: r.zrem(key, member)


def _moved(key: str, member: bytes) -> Act:
    return lambda r: r.zadd(key, {member: 7})


def _other_type(key: str) -> Act:
    return lambda r: (r.delete(key), r.set(key, "x"))


def _expiring(key: str) -> Act:
    return lambda r: r.pexpire(key, 10**9)


def _zset(raw: Any, key: str, part: str) -> Iterator[Corruption]:
    for member, score in raw.zrange(key, 0, -1, withscores=True):
        if member == b"-":
            continue
        name = member.decode("latin-1")
        drop = Corruption(f"{key}: dropped {name!r}", _gone(key, member))
        later = Corruption(f"{key}: score of {name!r}", _moved(key, member))
        if part == "a" or (part == "i" and member[:1] in _INDEX):
            yield from (drop, later)
        elif part in ("l", "idle"):
            yield drop
        elif part == "t" and (member[:1] in (b"e", b"d") or (member[:1] == b"k" and score >= HELD)):
            yield drop
            if member[:1] == b"e":
                yield later
    ghosts = {
        "a": (GHOST, 0), "l": (GHOST, 5), "t": ("e" + GHOST, 5), "i": ("v" + GHOST, 0), "w": ("me", 1),
        "handles": ("open", 0), "idle": ("99", 5),
    }  # fmt: skip
    member, score = ghosts[part]
    yield Corruption(f"{key}: added {member}", lambda r: r.zadd(key, {member: score}))
    if part == "t":
        yield Corruption(f"{key}: a delay of nobody", lambda r: r.zadd(key, {"d" + GHOST: 5}))
        yield Corruption(f"{key}: a dedup key of nobody", lambda r: r.zadd(key, {"kghost": 9e15}))
    if part == "i":
        yield Corruption(f"{key}: an identifier of nobody", lambda r: r.zadd(key, {"csc\0" + GHOST: 0}))
    if part == "w":
        yield Corruption(f"{key}: a ticket never given out", lambda r: r.zadd(key, {"1.1 D k0 -": 99}))
