"""Faults in the store that the doctor finds."""

from __future__ import annotations

import re
from collections.abc import Callable

from tests.doctor.conftest import GHOST, Store
from tests.support.counts import Header, header, set_config, set_count, set_header

Fault = Callable[[Store], object]
# An entry of a trail.
_ENTRY = "1764000000000 sent orders 1 - - - "


def put(name: str, field: str | bytes, value: object) -> Fault:
    return lambda p: p.raw.hset(p.key(name), field, value)


def count(name: str, field: str, value: object) -> Fault:
    return lambda p: set_count(p.raw, p.key(name), field, value)


def state(body: bytes, pattern: str, replacement: str, queue: str = "orders") -> Fault:
    def fault(p: Store) -> None:
        lid = p.id(queue, body)
        text = p.raw.hget(p.key(f"{queue}.s"), lid)
        assert text is not None
        changed = re.sub(pattern, replacement, text.decode())
        assert changed != text.decode()
        p.raw.hset(p.key(f"{queue}.s"), lid, changed)

    return fault


def head(body: bytes, change: Callable[[bytes], bytes]) -> Fault:
    def fault(p: Store) -> None:
        lid = p.id("orders", body)
        record = p.raw.hget(p.key("orders.m"), lid)
        assert record is not None
        p.raw.hset(p.key("orders.m"), lid, change(record))

    return fault


def _large(p: Store) -> str:
    fields: list[bytes] = p.raw.hkeys(p.key("orders.m"))
    return next(field.decode()[1:] for field in fields if field[:1] == b"^")


def _named(p: Store) -> str:
    return p.id("orders", b"named")


def tx_id(p: Store) -> str:
    return p.units[0].id


def _quota_in_config(store: Store) -> None:
    key = store.key("meta")
    config = store.raw.hget(key, "config")
    assert config is not None
    store.raw.hset(key, "config", config + b"9")


def _header_change(name: str, change: Callable[[Header], None]) -> Fault:
    def fault(p: Store) -> None:
        changed = header(p.raw, p.key(name))
        change(changed)
        set_header(p.raw, p.key(name), changed)

    return fault


def _replace_header(queue: str, text: str) -> Fault:
    return lambda p: p.raw.hset(p.key("meta"), p.key(f"{queue}.q"), text)


def _unreadable_packed_lock(store: Store) -> None:
    """The header of a queue names a packed lock that is unreadable."""
    _header_change("orders.q", lambda changed: changed.locks.append(b"77"))(store)
    store.raw.hset(store.key("meta"), "lock:77", "hello")


TIMES = '0 {"queue": "orders", "when": 60.0, "timezone": "UTC", "declared": false, "last_ms": 0}'


def schedule(text: str | bytes = TIMES, message: bytes | None = b"30\0go", name: str = "nightly") -> Fault:
    """Store the schedule, and a valid one."""

    def fault(p: Store) -> None:
        for field, stored, body in (("well", TIMES, b"30\0go"), (name, text, message)):
            p.raw.hset(p.key("schedules"), field, stored)
            if body is not None:
                p.raw.hset(p.key("schedules:messages"), field, body)

    return fault


def _expiring(name: str) -> Fault:
    def fault(p: Store) -> None:
        schedule()(p)
        p.raw.expire(p.key(name), 1000)

    return fault


def forget(queue: str, *where: str) -> Fault:
    """Remove what names a queue: from the list, from the headers, and its properties."""

    def fault(p: Store) -> None:
        p.raw.hdel(p.key("queues"), queue)
        if "meta" in where:
            p.raw.hdel(p.key("meta"), p.key(f"{queue}.q"))
        if f"{queue}.q" in where:
            p.raw.delete(p.key(f"{queue}.q"))

    return fault


# name, fault, expected code, whether a repair fixes it
FAULTS: list[tuple[str, Fault, str, bool]] = [
    ("messages of a queue", count("orders.q", "messages", 3), "counter.queue", True),
    ("bytes of a queue", count("orders.q", "bytes", 1), "counter.queue", True),
    ("messages of subqueues", put("orders.q", "sub_messages", 9), "counter.queue", True),
    ("bytes of subqueues", put("orders.q", "sub_bytes", 0), "counter.queue", True),
    ("messages of the manager", count("meta", "messages", 99), "counter.manager", True),
    ("bytes of the manager", count("meta", "bytes", 1), "counter.manager", True),
    ("no throttle field", lambda p: p.raw.hdel(p.key("meta"), "throttled"), "meta.field", False),
    ("text as sequence", count("meta", "seq", "x"), "meta.field", False),
    ("sequence behind", count("meta", "seq", 2), "record.id", False),
    ("available ghost", lambda p: p.raw.zadd(p.key("orders.a"), {GHOST: 0}), "stray.a", True),
    ("locked ghost", lambda p: p.raw.zadd(p.key("orders.l"), {GHOST: 5}), "stray.l", True),
    ("state of a ghost", put("orders.s", GHOST, "1 0 0 0 15 - - 0"), "stray.s", True),
    ("timer of a ghost", lambda p: p.raw.zadd(p.key("orders.t"), {"e" + GHOST: 5}), "stray.t", True),
    ("mark of a ghost", lambda p: p.raw.zadd(p.key("orders.i"), {"v" + GHOST: 0}), "stray.i", True),
    ("no index entry", lambda p: p.raw.zrem(p.key("orders.i"), "csc\0" + _named(p)), "index.missing", True),
    ("index entry of a ghost", lambda p: p.raw.zadd(p.key("orders.i"), {"csc\0" + GHOST: 0}), "stray.i", True),
    ("index entry of another", lambda p: p.raw.zadd(p.key("orders.i"), {"csx\0" + _named(p): 0}), "stray.i", True),
    ("a message out of its order", lambda p: p.raw.zadd(p.key("orders.a"), {p.id("orders", b"a"): 7}), "order.a", True),
    ("an identifier out of order", lambda p: p.raw.zadd(p.key("orders.i"), {"csc\0" + _named(p): 7}), "order.i", True),
    ("body without message", put("orders.m", "^" + GHOST, "x"), "body.orphan", False),
    ("lost place", lambda p: p.raw.zrem(p.key("orders.a"), p.id("orders", b"a")), "position.lost", True),
    ("lost lock", lambda p: p.raw.zrem(p.key("orders.l"), p.id("orders", b"locked")), "position.lost", True),
    (
        "lost uncommitted",
        lambda p: p.raw.zrem(p.key("tx.l"), p.id("tx", b"new")),
        "position.lost",
        True,
    ),
    (
        "lost delay",
        lambda p: p.raw.zrem(p.key("orders.t"), "d" + p.id("orders", b"late")),
        "position.lost",
        True,
    ),
    (
        "locked and available",
        lambda p: p.raw.zadd(p.key("orders.a"), {p.id("orders", b"locked"): 0}),
        "position.double",
        True,
    ),
    (
        "available and locked",
        lambda p: p.raw.zadd(p.key("orders.l"), {p.id("orders", b"a"): 5}),
        "position.double",
        True,
    ),
    (
        "locked without state",
        lambda p: p.raw.hdel(p.key("orders.s"), p.id("orders", b"locked")),
        "position.state",
        True,
    ),
    (
        "available with a lock's state",
        lambda p: p.raw.hset(p.key("orders.s"), p.id("orders", b"a"), "1 0 0 0 16 L 1.1 5"),
        "position.state",
        True,
    ),
    (
        "available with a lock's state and a delivery that is no attempt",
        lambda p: p.raw.hset(p.key("orders.s"), p.id("orders", b"a"), "2 0 0 0 16 L 1.1 5 1"),
        "position.state",
        True,
    ),
    ("empty state of a locked message", state(b"locked", ".*", ""), "state.malformed", True),
    ("empty state", lambda p: p.raw.hset(p.key("orders.s"), p.id("orders", b"a"), ""), "state.malformed", True),
    ("state of words", state(b"locked", ".*", "what is this"), "state.malformed", False),
    ("state of unknown kind", state(b"locked", " LN ", " Q "), "state.malformed", False),
    ("state with another size", state(b"locked", r"^(\d+ \d+ \d+ \d+) \d+", r"\1 7"), "state.size", True),
    (
        "operation lost",
        lambda p: p.raw.hdel(p.key("txs"), f"{tx_id(p)}:1"),
        "tx.operation",
        False,
    ),
    ("operation of no transaction", put("txs", "ghost:1", f"R tx {GHOST}"), "tx.orphan", True),
    ("operation on a queue of a damaged name", lambda p: p.raw.hset(p.key("txs"), f"{tx_id(p)}:1", f"R %zz {GHOST}"),
     "lock.owner", True),
    ("transaction of words", put("txs", "ghost", "once upon a time"), "tx.malformed", False),
    (
        "operation on a free message",
        lambda p: p.raw.hset(p.key("txs"), f"{tx_id(p)}:1", f"R orders {p.id('orders', b'a')}"),
        "tx.message",
        False,
    ),
    ("record too short", head(b"a", lambda r: r[:5]), "record.malformed", False),
    ("record without end", head(b"a", lambda r: r.replace(b"\0", b"")), "record.malformed", False),
    ("record without time", head(b"a", lambda r: b"x" * 13 + r[13:]), "record.malformed", False),
    ("head not UTF-8", head(b"named", lambda r: r[:16] + b"\xff" + r[17:]), "record.malformed", False),
    ("priority changed", head(b"locked", lambda r: r.replace(b"\x03p7", b"\x03p1")), "record.priority", False),
    ("no large body", lambda p: p.raw.hdel(p.key("orders.m"), "^" + _large(p)), "body.missing", False),
    ("large body unflagged", lambda p: put("orders.m", "^" + p.id("orders", b"a"), "x")(p), "body.extra", False),
    ("id of words", put("orders.m", "hello", "1700000000000" + "0\0x"), "record.id", False),
    (
        "no expiry timer",
        lambda p: p.raw.zrem(p.key("orders.t"), "e" + p.id("orders", b"brief")),
        "timer.expiry",
        True,
    ),
    (
        "expiry timer moved",
        lambda p: p.raw.zadd(p.key("orders.t"), {"e" + p.id("orders", b"brief"): 5}),
        "timer.expiry",
        True,
    ),
    (
        "expiry timer for ever",
        lambda p: p.raw.zadd(p.key("orders.t"), {"e" + p.id("orders", b"a"): 5}),
        "timer.expiry",
        True,
    ),
    (
        "delay timer of an available one",
        lambda p: p.raw.zadd(p.key("orders.t"), {"d" + p.id("orders", b"a"): 5}),
        "timer.delay",
        True,
    ),
    (
        "mark of an available message",
        lambda p: p.raw.zadd(p.key("orders.i"), {"v" + p.id("orders", b"a"): 0}),
        "index.visible",
        True,
    ),
    (
        "no mark of a visible one",
        lambda p: p.raw.zrem(p.key("tx.i"), "v" + p.id("tx", b"2")),
        "index.visible",
        True,
    ),
    ("waiter of words", lambda p: p.raw.zadd(p.key("orders.w"), {"me": 1}), "waiter.malformed", True),
    ("waiter from the future", lambda p: p.raw.zadd(p.key("orders.w"), {"1.1 D k0 -": 99}), "waiter.ticket", True),
    ("handle of words", lambda p: p.raw.zadd(p.key("handles"), {"open": 0}), "handle.malformed", True),
    ("trail of words", put("meta", "trail:00000000000001", "hello"), "trail.malformed", True),
    ("trail of no message", put("meta", "trail:00000000000fff", f"0 0\n{_ENTRY}"), "trail.orphan", True),
    ("trail that nothing removes", put("meta", "trail:00000000000fff", f"7 0\n{_ENTRY}"), "trail.left", True),
    ("id of no trail", put("meta", "trail:=orders sx", "0400000000000fff"), "trail.id", True),
    ("place of words", put("meta", "trail:#7", "hello"), "trail.malformed", True),
    ("share of words", put("orders.q", "trail", "many"), "queue.trail", True),
    ("slot of no session", put("meta", "99.1", "1 2 - 1:0"), "slot.orphan", True),
    ("slot of words", put("meta", "1.77", "hello"), "slot.malformed", False),
    ("session from the future", put("meta", "99", "1000"), "session.number", False),
    ("session never looked at", lambda p: p.raw.zrem(p.key("idle"), "1"), "session.idle", True),
    ("idle ghost", lambda p: p.raw.zadd(p.key("idle"), {"99": 5}), "session.idle", True),
    ("no properties", lambda p: p.raw.delete(p.key("tx.q")), "queue.missing", False),
    ("generation of the list", put("queues", "tx", "77"), "queue.generation", True),
    ("queue in the list alone", put("queues", "ghost", "1"), "queue.missing", True),
    ("config of a queue", lambda p: set_config(p.raw, p.key("orders.q"), b"1|t|1||"), "config", True),
    ("config of the manager", _quota_in_config, "config", True),
    ("timers looked at too late", count("orders.q", "due", 1 << 50), "queue.due", True),
    ("timers never looked at", count("tx.q", "due", -1), "queue.due", True),
    ("reader that no header counts", lambda p: p.raw.zadd(p.key("orders.w"), {"1.1 D k0 -": 1}), "queue.waiting", True),
    ("header of words", _replace_header("orders", "hello"), "counter.queue", True),
    ("header with a damaged lock", _replace_header("orders", "1||4194304|||0 1 16 0 -1 0 0x"), "counter.queue", True),
    ("header without counts", _replace_header("tx", "2|t|4194304|||0"), "counter.queue", True),
    ("no header", lambda p: p.raw.hdel(p.key("meta"), p.key("orders.q")), "counter.queue", True),
    ("header of no queue", _replace_header("ghost", "9||9|||0 0 0 0 -1 0 0"), "queue.header", True),
    ("header of no queue, of words", _replace_header("ghost", "hello"), "queue.header", True),
    (
        "lock of a ghost",
        _header_change("orders.q", lambda changed: changed.locks.append(b"7,15,9999999999999,1.1," + GHOST.encode())),
        "stray.s",
        True,
    ),
    ("locks of words", _unreadable_packed_lock, "queue.locks", True),
    ("locks of no queue, of words", put("meta", "lock:77", "hello"), "queue.locks", True),
    ("locks of no queue", put("meta", "lock:77", f"9999999999999 15 15 1.1 {GHOST}"), "queue.locks", True),
    ("old locks of words", put("orders.q", "lock:77", "hello"), "queue.locks", True),
    ("locks without a fence", put("meta", "lock:", f"9999999999999 15 15 1.1 {GHOST}"), "queue.locks", True),
    ("statistics looked at too late", count("orders;retry.q", "due", 1 << 50), "queue.due", True),
    ("statistics of words", put("orders.q", "statistics", "once upon a time"), "queue.statistics", True),
    ("index of words", put("orders.q", "index", "some"), "queue.index", True),
    ("index up to nowhere", put("orders.q", "index_at", "hello"), "queue.index", True),
    (
        "index that no reader asked for",
        lambda p: p.raw.zadd(p.key("tx.i"), {"csc\0" + p.id("tx", b"3"): 0}),
        "stray.i",
        True,
    ),
    ("no flags", lambda p: p.raw.hdel(p.key("orders.q"), "flags"), "queue.field", False),
    ("quota of words", put("orders.q", "quota_messages", "many"), "queue.field", False),
    ("poison quota of words", put("orders.q", "poison_quota_messages", "many"), "queue.field", False),
    ("base priority of words", put("orders.q", "base_priority", "high"), "queue.field", False),
    ("time of words", put("orders.q", "created", "today"), "queue.time", True),
    ("no time", lambda p: p.raw.hdel(p.key("orders.q"), "modified"), "queue.time", True),
    ("orphan subqueue", forget("orders", "queues", "meta", "orders.q"), "queue.parent", False),
    ("parent not in the list", forget("orders", "queues"), "queue.unlisted", True),
    ("queue not in the list", forget("tx", "queues"), "queue.unlisted", True),
    ("queue that nothing names", forget("tx", "queues", "meta"), "key.orphan", False),
    ("orphan of a name that is not encoded", lambda p: p.raw.zadd(p.key("gh ost.a"), {GHOST: 0}), "key.unknown", False),
    ("orphan of a damaged name", lambda p: p.raw.zadd(p.key("%zz.a"), {GHOST: 0}), "key.unknown", False),
    ("orphan of a name of bytes", lambda p: p.raw.zadd(p.key("%FF.a"), {GHOST: 0}), "key.unknown", False),
    ("clock of words", put("meta", "clock", "abc"), "meta.field", False),
    ("lead of words", put("meta", "lead", "abc"), "meta.field", False),
    ("flag that no queue has", put("orders.q", "flags", "z"), "queue.field", False),
    ("session of words", lambda p: (put("meta", "1", "hello")(p), p.raw.zrem(p.key("idle"), "1")),
     "session.malformed", False),
    ("list without a queue", lambda p: p.raw.zadd(p.key("ghost.a"), {GHOST: 0}), "key.orphan", True),
    ("a key of another program", lambda p: p.raw.set(p.tag + "hello", "x"), "key.unknown", False),
    ("time to live", lambda p: p.raw.expire(p.key("orders.m"), 1000), "key.ttl", True),
    ("time to live of the manager", lambda p: p.raw.expire(p.key("txs"), 1000), "key.ttl", True),
    (
        "wrong type",
        lambda p: p.raw.set(p.key("orders.w"), "x"),
        "key.type",
        False,
    ),
    ("schedule of words", schedule("once upon a time"), "schedule.malformed", True),
    ("schedule of bytes", schedule(b"0 \xff"), "schedule.malformed", True),
    ("schedule without a time", schedule("x" + TIMES), "schedule.malformed", True),
    ("schedule of other fields", schedule('0 {"queue": 7}'), "schedule.malformed", True),
    ("schedule of wrong types", schedule(TIMES.replace("60.0", "true")), "schedule.malformed", True),
    ("schedule with another field", schedule(TIMES.replace("zone", "zones")), "schedule.malformed", True),
    ("schedule of a list", schedule("0 [1]"), "schedule.malformed", True),
    ("schedule without times", schedule(TIMES.replace("60.0", '"61 * * * *"')), "schedule.times", False),
    ("schedule without a message", schedule(message=None), "schedule.message", False),
    ("schedule with half a message", schedule(message=b"30"), "schedule.message", False),
    ("schedule with another message", schedule(message=b"x0\0go"), "schedule.message", False),
    ("message of no schedule", put("schedules:messages", "ghost", b"30\0go"), "schedule.orphan", True),
    ("time to live of schedules", _expiring("schedules"), "key.ttl", True),
    ("time to live of their messages", _expiring("schedules:messages"), "key.ttl", True),
    ("schedules of words", lambda p: p.raw.set(p.key("schedules"), "x"), "key.type", False),
    ("worker of words", put("workers", "w:1f", "hello"), "worker.malformed", True),
    ("worker of half a text", put("workers", "w:1f", '9999999999999 {"name": "a"'), "worker.malformed", True),
    ("worker of a list", put("workers", "w:1f", "9999999999999 [1]"), "worker.malformed", True),
    ("worker of bytes", put("workers", "w:1f", b"9999999999999 \xff"), "worker.malformed", True),
    ("worker without fields", put("workers", "w:1f", '9999999999999 {"lease_ms": 1}'), "worker.malformed", True),
    ("field of no worker", put("workers", b"\xff", "hello"), "worker.malformed", True),
    ("pause of words", put("workers", "q:orders", "hello"), "pause.malformed", False),
    ("time to live of workers", lambda p: (put("workers", "o:1f", "stop")(p), p.raw.expire(p.key("workers"), 1000)),
     "key.ttl", True),
    ("no manager", lambda p: p.raw.delete(p.key("meta")), "meta.missing", False),
]  # fmt: skip
