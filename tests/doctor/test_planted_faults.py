"""The doctor finds planted faults, and repairs those whose repair loses no data."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

import mqredis
from tests.doctor.conftest import GHOST, Store
from tests.support.buckets import BUCKET, begin_bucket
from tests.support.counts import Header, header, set_config, set_count, set_header

Fault = Callable[[Store], object]
# An entry of a trail.
_ENTRY = "1764000000000 sent orders 1 - - - "


def _set(name: str, field: str | bytes, value: object) -> Fault:
    return lambda p: p.raw.hset(p.key(name), field, value)


def _count(name: str, field: str, value: object) -> Fault:
    return lambda p: set_count(p.raw, p.key(name), field, value)


def _state(body: bytes, pattern: str, replacement: str, queue: str = "orders") -> Fault:
    def fault(p: Store) -> None:
        lid = p.id(queue, body)
        text = p.raw.hget(p.key(f"{queue}.s"), lid)
        assert text is not None
        changed = re.sub(pattern, replacement, text.decode())
        assert changed != text.decode()
        p.raw.hset(p.key(f"{queue}.s"), lid, changed)

    return fault


def _head(body: bytes, change: Callable[[bytes], bytes]) -> Fault:
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


def _tx(p: Store) -> str:
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


_TIMES = '0 {"queue": "orders", "when": 60.0, "timezone": "UTC", "declared": false, "last_ms": 0}'


def _schedule(text: str | bytes = _TIMES, message: bytes | None = b"30\0go", name: str = "nightly") -> Fault:
    """Store the schedule, and a valid one."""

    def fault(p: Store) -> None:
        for field, stored, body in (("well", _TIMES, b"30\0go"), (name, text, message)):
            p.raw.hset(p.key("schedules"), field, stored)
            if body is not None:
                p.raw.hset(p.key("schedules:messages"), field, body)

    return fault


def _expiring(name: str) -> Fault:
    def fault(p: Store) -> None:
        _schedule()(p)
        p.raw.expire(p.key(name), 1000)

    return fault


def _forget(queue: str, *where: str) -> Fault:
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
    ("messages of a queue", _count("orders.q", "messages", 3), "counter.queue", True),
    ("bytes of a queue", _count("orders.q", "bytes", 1), "counter.queue", True),
    ("messages of subqueues", _set("orders.q", "sub_messages", 9), "counter.queue", True),
    ("bytes of subqueues", _set("orders.q", "sub_bytes", 0), "counter.queue", True),
    ("messages of the manager", _count("meta", "messages", 99), "counter.manager", True),
    ("bytes of the manager", _count("meta", "bytes", 1), "counter.manager", True),
    ("no throttle field", lambda p: p.raw.hdel(p.key("meta"), "throttled"), "meta.field", False),
    ("text as sequence", _count("meta", "seq", "x"), "meta.field", False),
    ("sequence behind", _count("meta", "seq", 2), "record.id", False),
    ("available ghost", lambda p: p.raw.zadd(p.key("orders.a"), {GHOST: 0}), "stray.a", True),
    ("locked ghost", lambda p: p.raw.zadd(p.key("orders.l"), {GHOST: 5}), "stray.l", True),
    ("state of a ghost", _set("orders.s", GHOST, "1 0 0 0 15 - - 0"), "stray.s", True),
    ("timer of a ghost", lambda p: p.raw.zadd(p.key("orders.t"), {"e" + GHOST: 5}), "stray.t", True),
    ("mark of a ghost", lambda p: p.raw.zadd(p.key("orders.i"), {"v" + GHOST: 0}), "stray.i", True),
    ("no index entry", lambda p: p.raw.zrem(p.key("orders.i"), "csc\0" + _named(p)), "index.missing", True),
    ("index entry of a ghost", lambda p: p.raw.zadd(p.key("orders.i"), {"csc\0" + GHOST: 0}), "stray.i", True),
    ("index entry of another", lambda p: p.raw.zadd(p.key("orders.i"), {"csx\0" + _named(p): 0}), "stray.i", True),
    ("a message out of its order", lambda p: p.raw.zadd(p.key("orders.a"), {p.id("orders", b"a"): 7}), "order.a", True),
    ("an identifier out of order", lambda p: p.raw.zadd(p.key("orders.i"), {"csc\0" + _named(p): 7}), "order.i", True),
    ("body without message", _set("orders.m", "^" + GHOST, "x"), "body.orphan", False),
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
    ("empty state of a locked message", _state(b"locked", ".*", ""), "state.malformed", True),
    ("empty state", lambda p: p.raw.hset(p.key("orders.s"), p.id("orders", b"a"), ""), "state.malformed", True),
    ("state of words", _state(b"locked", ".*", "what is this"), "state.malformed", False),
    ("state of unknown kind", _state(b"locked", " LN ", " Q "), "state.malformed", False),
    ("state with another size", _state(b"locked", r"^(\d+ \d+ \d+ \d+) \d+", r"\1 7"), "state.size", True),
    (
        "operation lost",
        lambda p: p.raw.hdel(p.key("txs"), f"{_tx(p)}:1"),
        "tx.operation",
        False,
    ),
    ("operation of nobody", _set("txs", "ghost:1", f"R tx {GHOST}"), "tx.orphan", True),
    ("operation on a queue of a damaged name", lambda p: p.raw.hset(p.key("txs"), f"{_tx(p)}:1", f"R %zz {GHOST}"),
     "lock.owner", True),
    ("transaction of words", _set("txs", "ghost", "once upon a time"), "tx.malformed", False),
    (
        "operation on a free message",
        lambda p: p.raw.hset(p.key("txs"), f"{_tx(p)}:1", f"R orders {p.id('orders', b'a')}"),
        "tx.message",
        False,
    ),
    ("record too short", _head(b"a", lambda r: r[:5]), "record.malformed", False),
    ("record without end", _head(b"a", lambda r: r.replace(b"\0", b"")), "record.malformed", False),
    ("record without time", _head(b"a", lambda r: b"x" * 13 + r[13:]), "record.malformed", False),
    ("head not UTF-8", _head(b"named", lambda r: r[:16] + b"\xff" + r[17:]), "record.malformed", False),
    ("priority changed", _head(b"locked", lambda r: r.replace(b"\x03p7", b"\x03p1")), "record.priority", False),
    ("no large body", lambda p: p.raw.hdel(p.key("orders.m"), "^" + _large(p)), "body.missing", False),
    ("large body unflagged", lambda p: _set("orders.m", "^" + p.id("orders", b"a"), "x")(p), "body.extra", False),
    ("id of words", _set("orders.m", "hello", "1700000000000" + "0\0x"), "record.id", False),
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
        "mark of a message nobody holds",
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
    ("trail of words", _set("meta", "trail:00000000000001", "hello"), "trail.malformed", True),
    ("trail of nobody", _set("meta", "trail:00000000000fff", f"0 0\n{_ENTRY}"), "trail.orphan", True),
    ("trail that nothing removes", _set("meta", "trail:00000000000fff", f"7 0\n{_ENTRY}"), "trail.left", True),
    ("id of no trail", _set("meta", "trail:=orders sx", "0400000000000fff"), "trail.id", True),
    ("place of words", _set("meta", "trail:#7", "hello"), "trail.malformed", True),
    ("share of words", _set("orders.q", "trail", "many"), "queue.trail", True),
    ("slot of nobody", _set("meta", "99.1", "1 2 - 1:0"), "slot.orphan", True),
    ("slot of words", _set("meta", "1.77", "hello"), "slot.malformed", False),
    ("session from the future", _set("meta", "99", "1000"), "session.number", False),
    ("session never looked at", lambda p: p.raw.zrem(p.key("idle"), "1"), "session.idle", True),
    ("idle ghost", lambda p: p.raw.zadd(p.key("idle"), {"99": 5}), "session.idle", True),
    ("no properties", lambda p: p.raw.delete(p.key("tx.q")), "queue.missing", False),
    ("generation of the list", _set("queues", "tx", "77"), "queue.generation", True),
    ("queue in the list alone", _set("queues", "ghost", "1"), "queue.missing", True),
    ("config of a queue", lambda p: set_config(p.raw, p.key("orders.q"), b"1|t|1||"), "config", True),
    ("config of the manager", _quota_in_config, "config", True),
    ("timers looked at too late", _count("orders.q", "due", 1 << 50), "queue.due", True),
    ("timers never looked at", _count("tx.q", "due", -1), "queue.due", True),
    ("nobody rings", lambda p: p.raw.zadd(p.key("orders.w"), {"1.1 D k0 -": 1}), "queue.waiting", True),
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
    ("locks of no queue, of words", _set("meta", "lock:77", "hello"), "queue.locks", True),
    ("locks of no queue", _set("meta", "lock:77", f"9999999999999 15 15 1.1 {GHOST}"), "queue.locks", True),
    ("old locks of words", _set("orders.q", "lock:77", "hello"), "queue.locks", True),
    ("locks without a fence", _set("meta", "lock:", f"9999999999999 15 15 1.1 {GHOST}"), "queue.locks", True),
    ("statistics looked at too late", _count("orders;retry.q", "due", 1 << 50), "queue.due", True),
    ("statistics of words", _set("orders.q", "statistics", "once upon a time"), "queue.statistics", True),
    ("index of words", _set("orders.q", "index", "some"), "queue.index", True),
    ("index up to nowhere", _set("orders.q", "index_at", "hello"), "queue.index", True),
    (
        "index that nobody asked for",
        lambda p: p.raw.zadd(p.key("tx.i"), {"csc\0" + p.id("tx", b"3"): 0}),
        "stray.i",
        True,
    ),
    ("no flags", lambda p: p.raw.hdel(p.key("orders.q"), "flags"), "queue.field", False),
    ("quota of words", _set("orders.q", "quota_messages", "many"), "queue.field", False),
    ("poison quota of words", _set("orders.q", "poison_quota_messages", "many"), "queue.field", False),
    ("base priority of words", _set("orders.q", "base_priority", "high"), "queue.field", False),
    ("time of words", _set("orders.q", "created", "today"), "queue.time", True),
    ("no time", lambda p: p.raw.hdel(p.key("orders.q"), "modified"), "queue.time", True),
    ("orphan subqueue", _forget("orders", "queues", "meta", "orders.q"), "queue.parent", False),
    ("parent not in the list", _forget("orders", "queues"), "queue.unlisted", True),
    ("queue not in the list", _forget("tx", "queues"), "queue.unlisted", True),
    ("queue that nothing names", _forget("tx", "queues", "meta"), "key.orphan", False),
    ("orphan of a name that is not encoded", lambda p: p.raw.zadd(p.key("gh ost.a"), {GHOST: 0}), "key.unknown", False),
    ("orphan of a damaged name", lambda p: p.raw.zadd(p.key("%zz.a"), {GHOST: 0}), "key.unknown", False),
    ("orphan of a name of bytes", lambda p: p.raw.zadd(p.key("%FF.a"), {GHOST: 0}), "key.unknown", False),
    ("clock of words", _set("meta", "clock", "abc"), "meta.field", False),
    ("lead of words", _set("meta", "lead", "abc"), "meta.field", False),
    ("flag that no queue has", _set("orders.q", "flags", "z"), "queue.field", False),
    ("session of words", lambda p: (_set("meta", "1", "hello")(p), p.raw.zrem(p.key("idle"), "1")),
     "session.malformed", False),
    ("list without a queue", lambda p: p.raw.zadd(p.key("ghost.a"), {GHOST: 0}), "key.orphan", True),
    ("a key of somebody else", lambda p: p.raw.set(p.tag + "hello", "x"), "key.unknown", False),
    ("time to live", lambda p: p.raw.expire(p.key("orders.m"), 1000), "key.ttl", True),
    ("time to live of the manager", lambda p: p.raw.expire(p.key("txs"), 1000), "key.ttl", True),
    (
        "wrong type",
        lambda p: p.raw.set(p.key("orders.w"), "x"),
        "key.type",
        False,
    ),
    ("schedule of words", _schedule("once upon a time"), "schedule.malformed", True),
    ("schedule of bytes", _schedule(b"0 \xff"), "schedule.malformed", True),
    ("schedule without a time", _schedule("x" + _TIMES), "schedule.malformed", True),
    ("schedule of other fields", _schedule('0 {"queue": 7}'), "schedule.malformed", True),
    ("schedule of wrong types", _schedule(_TIMES.replace("60.0", "true")), "schedule.malformed", True),
    ("schedule with another field", _schedule(_TIMES.replace("zone", "zones")), "schedule.malformed", True),
    ("schedule of a list", _schedule("0 [1]"), "schedule.malformed", True),
    ("schedule without times", _schedule(_TIMES.replace("60.0", '"61 * * * *"')), "schedule.times", False),
    ("schedule without a message", _schedule(message=None), "schedule.message", False),
    ("schedule with half a message", _schedule(message=b"30"), "schedule.message", False),
    ("schedule with another message", _schedule(message=b"x0\0go"), "schedule.message", False),
    ("message of no schedule", _set("schedules:messages", "ghost", b"30\0go"), "schedule.orphan", True),
    ("time to live of schedules", _expiring("schedules"), "key.ttl", True),
    ("time to live of their messages", _expiring("schedules:messages"), "key.ttl", True),
    ("schedules of words", lambda p: p.raw.set(p.key("schedules"), "x"), "key.type", False),
    ("worker of words", _set("workers", "w:1f", "hello"), "worker.malformed", True),
    ("worker of half a text", _set("workers", "w:1f", '9999999999999 {"name": "a"'), "worker.malformed", True),
    ("worker of a list", _set("workers", "w:1f", "9999999999999 [1]"), "worker.malformed", True),
    ("worker of bytes", _set("workers", "w:1f", b"9999999999999 \xff"), "worker.malformed", True),
    ("worker without fields", _set("workers", "w:1f", '9999999999999 {"lease_ms": 1}'), "worker.malformed", True),
    ("field of no worker", _set("workers", b"\xff", "hello"), "worker.malformed", True),
    ("pause of words", _set("workers", "q:orders", "hello"), "pause.malformed", False),
    ("time to live of workers", lambda p: (_set("workers", "o:1f", "stop")(p), p.raw.expire(p.key("workers"), 1000)),
     "key.ttl", True),
    ("no manager", lambda p: p.raw.delete(p.key("meta")), "meta.missing", False),
]  # fmt: skip


@pytest.mark.parametrize("fault,code,repairable", [row[1:] for row in FAULTS], ids=[row[0] for row in FAULTS])
def test_planted_fault_is_found_and_repaired_if_possible(
    full: Store, fault: Fault, code: str, repairable: bool
) -> None:
    messages = full.qm.doctor().messages
    fault(full)
    found = full.qm.doctor()
    assert code in {finding.code for finding in found.findings}
    assert not found.healthy
    assert not any(finding.repaired for finding in found.findings)
    if code == "meta.missing":
        return
    report = full.qm.doctor(repair=True)
    assert {finding.code for finding in report.findings if finding.repaired} or not repairable
    if repairable:
        assert report.healthy
        assert full.codes() == set()
        assert full.qm.doctor().messages == messages
    else:
        assert code in {finding.code for finding in report.findings if not finding.repaired}


def test_repaired_message_can_be_received(full: Store) -> None:
    lid = full.id("orders", b"a")
    full.raw.zrem(full.key("orders.a"), lid)
    assert full.codes(repair=True) == {"position.lost"}
    assert full.qm.open("orders").receive_by_lookup_id(int(lid, 16)).body == b"a"


@pytest.mark.parametrize("queue", ["orders", "tx"])
def test_unreadable_message_is_given_up_as_its_finding_says(full: Store, queue: str) -> None:
    records = full.key(f"{queue}.m")
    messages = full.qm.doctor().messages
    lids = [field for field in full.raw.hkeys(records) if field[:1] != b"^"]
    for lid in lids:
        full.raw.hset(records, lid, "hello")
    with pytest.raises(mqredis.InvariantBroken, match="`mqredis doctor` shows"):
        full.qm.open(queue).peek(0)
    found = [finding.text for finding in full.qm.doctor().findings if finding.code == "record.malformed"]
    assert len(found) == len(lids)
    for text in found:
        command = re.search(r"To give it up: (.*), and then mqredis doctor --repair$", text)
        assert command is not None
        full.raw.execute_command(*command[1].split(" "))
    full.qm.doctor(repair=True)
    assert full.codes() <= {"tx.message"}  # an open transaction has received a message that is gone
    assert full.qm.doctor().messages == messages - len(lids)
    with pytest.raises(mqredis.IoTimeout):
        full.qm.open(queue).peek(0)


def test_timer_of_a_message_whose_time_limit_is_damaged_is_kept(full: Store) -> None:
    _head(b"brief", lambda record: record.replace(b"\x03e60000", b"\x03e6x"))(full)
    before = full.raw.zscore(full.key("orders.t"), "e" + full.id("orders", b"brief"))
    assert "timer.expiry" not in full.codes(repair=True)
    assert full.raw.zscore(full.key("orders.t"), "e" + full.id("orders", b"brief")) == before


def test_queue_with_a_lapsed_lock_that_has_no_state_can_be_used(full: Store) -> None:
    lid = full.id("tx", b"1")
    full.raw.hdel(full.key("tx.s"), lid)
    full.raw.zadd(full.key("tx.l"), {lid: 1})
    _count("tx.q", "due", 0)(full)
    assert full.qm.open("tx").peek(0).body == b"2"


def test_lock_of_an_unknown_transaction_is_released(full: Store) -> None:
    _state(b"1", r"\S+ (\d+)$", r"nobody \1", "tx")(full)
    assert full.codes() == {"lock.owner", "tx.message"}
    full.qm.doctor(repair=True)
    full.units[0].abort()
    assert full.qm.open("tx").peek(0).body == b"1"
    assert full.codes() == set()


@pytest.mark.parametrize("uncounted", [b"", b" 1"], ids=["attempt", "no attempt"])
def test_lock_that_its_open_transaction_does_not_name_is_released(full: Store, uncounted: bytes) -> None:
    full.raw.hset(full.key("txs"), f"{_tx(full)}:1", f"R tx {GHOST}")
    lid = full.id("tx", b"1")
    full.raw.hset(full.key("tx.s"), lid, full.raw.hget(full.key("tx.s"), lid) + uncounted)
    assert full.codes(repair=True) == {"lock.owner", "queue.due"}
    assert full.qm.open("tx").peek(0).body == b"1"
    full.units[0].commit()
    assert full.codes() == set()


def test_queues_are_listed_after_the_clock_field_was_lost(full: Store) -> None:
    full.raw.hdel(full.key("meta"), "clock")
    assert full.codes(repair=True) >= {"meta.field"}
    assert len(full.qm.queues()) == 3


@pytest.mark.parametrize("name", ["timers never looked at", "header with a damaged lock"])
def test_repair_sets_the_timer_for_the_end_of_the_statistics_bucket(
    store: Store, request: pytest.FixtureRequest, name: str
) -> None:
    begin_bucket(store.qm)
    store.qm.advance_clock(BUCKET - 5)  # the timers of ``full`` end in the next bucket
    full: Store = request.getfixturevalue("full")
    fault = next(row[1] for row in FAULTS if row[0] == name)
    fault(full)
    assert full.qm.doctor(repair=True).healthy
    assert full.codes() == set()
    full.qm.advance_clock(5)
    full.qm.maintain()
    assert full.codes() == set()


def test_valid_schedules_are_no_finding_and_survive_a_repair(full: Store) -> None:
    full.qm.operator("ann").create_schedule("nightly", 3600.0, "orders", "go", paused=True)
    full.qm.operator("ann").create_schedule("daily", "0 3 * * *", "orders", "go", timezone="Europe/Berlin")
    _schedule("once upon a time", name="bad")(full)
    assert full.codes() == {"schedule.malformed"}
    report = full.qm.doctor(repair=True)
    assert [(finding.code, finding.where, finding.repaired) for finding in report.findings] == [
        ("schedule.malformed", "bad", True)
    ]
    assert full.codes() == set()
    assert [schedule.name for schedule in full.qm.schedules()] == ["daily", "nightly", "well"]


def test_workers_and_pauses_are_no_finding(full: Store) -> None:
    full.qm.operator("ann").pause(queue="orders", reason="why")
    full.qm.operator("ann").pause(consumer="a:b")
    _set("workers", "o:1f", "stop\ncancel 0400000000000001")(full)
    assert full.codes() == set()


def test_schedule_of_a_missing_queue_is_reported_as_advice(full: Store) -> None:
    _schedule(_TIMES.replace("orders", "gone"))(full)
    report = full.qm.doctor(repair=True)
    assert report.healthy
    advice = [(finding.where, finding.text) for finding in report.advice if finding.code == "schedule.queue"]
    assert advice == [
        ("nightly", "sends to queue 'gone', which does not exist: create it, or remove the schedule")
    ]


@pytest.mark.parametrize(
    "fault",
    [
        _set("meta", "quota_messages", "many"),
        _set("meta", "lead", "abc"),
        _set("orders.q", "max_bytes", "many"),
        _set("orders.q", "generation", "x"),
        _set("orders.q", "flags", "z"),
        _forget("orders", "queues"),
    ],
    ids=["quota of the manager", "lead", "size of messages", "generation", "flags", "entry of the list"],
)
def test_repair_keeps_what_works_beside_a_damaged_property(full: Store, fault: Fault) -> None:
    """Scripts go by the header of a queue, whose config repeats the properties."""
    fault(full)
    full.qm.doctor(repair=True)
    with mqredis.connect(full.raw, manager=full.qm.name) as client:
        orders = client.open("orders")
        orders.send(b"x", priority=7)
        assert orders.receive(0).body == b"x"
