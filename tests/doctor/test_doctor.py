"""The doctor has no findings in a healthy store, large or busy, and only notices about what clients left behind."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

import pytest

import mqredis
from mqredis import Acknowledge, Outgoing
from mqredis.commands import claims, read
from mqredis.commands import doctor as commands
from mqredis.commands.doctor import Edit
from mqredis.commands.waiting import Waiter
from mqredis.keys import ManagerKeys
from mqredis.operations.open_queue import handle_of
from mqredis.steps import perform
from tests.doctor.conftest import GHOST, Store
from tests.support.backend import Backend
from tests.support.buckets import BUCKET, begin_bucket
from tests.support.counts import count, header, lock_texts, packed_locks, set_count, set_header


def test_a_healthy_store_has_no_findings(full: Store) -> None:
    report = full.qm.doctor()
    assert report.findings == ()
    assert report.consistent
    assert (report.queues, report.messages, report.transactions, report.sessions) == (3, 14, 1, 1)
    assert report.healthy


def test_an_empty_manager_is_healthy(store: Store) -> None:
    assert store.codes() == set()


def test_paged_audit_gives_the_same_report(full: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    full.qm.open("orders").send_many([b"%d" % n for n in range(3000)])
    whole = full.qm.doctor()
    monkeypatch.setattr(commands, "BUDGET", 7)
    paged = full.qm.doctor()
    assert paged.messages == whole.messages == 3014
    assert paged.findings == ()
    assert paged.consistent


def test_a_page_of_the_audit_ends_when_its_budget_is_used_up(full: Store) -> None:
    full.qm.open("orders").send_many([b"x"] * 12_000)
    page = full.qm.run(perform(commands.audit(full.qm.context.keys, ["orders"], "+1 0")))
    elements = sum(len(row) for _, row in page.rows)
    assert 0 < elements < 2 * commands.BUDGET


def test_expired_store_is_healthy_before_and_after_maintenance(full: Store) -> None:
    full.qm.advance_clock(3600)
    assert full.codes() == set()
    full.qm.open("tx").peek(0)  # this queue notices the end of the transaction; it may be the only one
    assert full.codes() == set()
    full.qm.maintain()
    assert full.codes() == set()


@pytest.mark.parametrize(
    "handed", ["h 0400000000000001", "n 0400000000000001", "c 3222143211", "m 0400000000000001 \nx"]
)
def test_what_a_waiting_reader_was_handed_is_healthy(full: Store, handed: str) -> None:
    full.raw.hset(full.key("meta"), "1.1!", handed)
    assert full.codes() == set()
    full.raw.hset(full.key("meta"), "1.1!", "x")
    assert full.codes() == {"slot.malformed"}


@pytest.mark.parametrize("counters", ["", "5 4096", "many 1 1 43 1795693428584"])
def test_unreadable_counters_of_the_manager_are_told_with_a_remedy(store: Store, counters: str) -> None:
    store.qm.create_queue("a")
    queue = store.qm.open("a")
    store.raw.hset(store.key("meta"), "counters", counters)
    remedy = f"delete the keys that begin with {store.tag}"
    with pytest.raises(mqredis.InvariantBroken, match=re.escape(remedy)):
        queue.send(b"x")
    with pytest.raises(mqredis.InvariantBroken, match=re.escape(remedy)):
        mqredis.connect(store.raw, manager=store.qm.name)
    assert store.raw.hget(store.key("meta"), "counters") == counters.encode()
    assert store.raw.hlen(store.key("a.m")) == 0
    report = store.qm.doctor()
    assert [finding.code for finding in report.findings] == ["meta.unreadable"]


def test_dedup_window_alone_is_no_finding(store: Store) -> None:
    store.qm.create_queue("a")
    store.qm.open("a").send(b"x", dedup_key="k", dedup_window=60)
    assert store.codes() == set()
    store.qm.maintain()
    assert store.codes() == set()


def test_findings_are_reported_among_many_queues(store: Store) -> None:
    for n in range(60):
        store.qm.create_queue(f"q{n}")
        store.qm.open(f"q{n}").send(b"x")
    report = store.qm.doctor()
    assert report.findings == ()
    assert (report.queues, report.messages) == (60, 60)
    store.raw.zadd(store.key("q59.a"), {"0400000000000fff": 0})
    store.raw.expire(store.key("q58.m"), 1000)
    assert store.codes() == {"stray.a", "key.ttl"}
    assert store.codes(repair=True)
    assert store.codes() == set()


def test_leftovers_of_clients_are_notices_and_a_repair_removes_them(full: Store) -> None:
    full.raw.zadd(full.key("handles"), {"orders|98|1|all|none": 0})
    full.raw.zadd(full.key("orders.w"), {"98.1 D k0 -": 1})
    full.raw.hset(full.key("orders.q"), "tickets", 5)
    set_count(full.raw, full.key("orders.q"), "waiting", 1)
    full.raw.hset(full.key("meta"), "98.1!", "h 0400000000000001")
    full.raw.hset(full.key("meta"), "client:98", "{}")
    report = full.qm.doctor()
    left = {"handle.left", "waiter.left", "slot.left", "session.client"}
    assert report.findings == ()
    assert {item.code for item in report.advice if item.severity == "notice"} >= left
    full.qm.doctor(repair=True)
    assert not {item.code for item in full.qm.doctor().advice} & left


def test_handles_are_removed_with_their_session_and_their_queue(store: Store, backend: Backend) -> None:
    store.qm.create_queue("a")
    store.qm.create_queue("b")
    with mqredis.connect(backend.client(), manager=store.qm.name) as other:
        other.open("a")
        other.open("a")
        assert store.raw.zcard(store.key("handles")) == 2
    assert store.raw.zcard(store.key("handles")) == 0
    store.qm.open("a"), store.qm.open("b")
    store.qm.delete_queue("a")
    assert store.raw.zcard(store.key("handles")) == 1
    assert not {item.code for item in store.qm.doctor().advice if item.severity == "notice"} & {"handle.left"}


def test_slot_resolved_by_another_client_is_removed_with_its_session(store: Store, backend: Backend) -> None:
    other = mqredis.connect(backend.client(), manager=store.qm.name)
    token = f"{other._driver.session}.7:1"  # of a call that never arrived
    assert store.qm.resolve(token).outcome == "never"
    other.close()
    assert store.codes() == set()


def test_counters_of_a_store_that_changes_during_the_audit_are_not_compared(
    full: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, orders = commands.audit, full.qm.open("orders")

    def busy(manager: ManagerKeys, paths: Sequence[str], place: str) -> object:
        orders.send(Outgoing(body=b"more"))
        return plain(manager, paths, place)

    monkeypatch.setattr(commands, "BUDGET", 5)
    monkeypatch.setattr(commands, "audit", busy)
    set_count(full.raw, full.key("orders.q"), "bytes", 1)
    full.raw.zadd(full.key("orders.a"), {GHOST: 0})
    report = full.qm.doctor()
    assert not report.consistent
    assert {finding.code for finding in report.findings} == {
        "stray.a"
    }  # a finding of its own; counters are not compared


def test_dedup_keys_of_a_store_that_changes_during_the_audit_are_not_compared(
    full: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The keys are read before the records: a message that is sent and one that is received are in one of them only."""
    plain, orders = commands.audit, full.qm.open("orders")
    numbers = itertools.count()

    def busy(manager: ManagerKeys, paths: Sequence[str], place: str) -> object:
        for _ in range(2):
            orders.send(b"more", dedup_key=f"key-{next(numbers)}")
        orders.receive(0)
        return plain(manager, paths, place)

    monkeypatch.setattr(commands, "BUDGET", 5)
    monkeypatch.setattr(commands, "audit", busy)
    report = full.qm.doctor()
    assert not report.consistent
    assert not report.findings


def locked(store: Store) -> list[mqredis.LockedMessage]:
    """Lock five of seven messages in a new queue, three by one call and two by one call each; all locks are packed."""
    store.qm.create_queue("plain")
    plain = store.qm.open("plain")
    plain.send(b"x")
    plain.receive(0)  # the first call of a session takes another path
    plain.send_many([b"%d" % n for n in range(7)])
    locks = [*plain.lock_many(3), plain.lock(0), plain.lock(0)]
    packed = packed_locks(store.raw, store.key("plain.q"))
    assert [(len(lock.ids), lock.beside) for lock in packed] == [(3, True), (1, False), (1, False)]
    return locks


def test_audit_unpacks_locks_and_they_stay_valid(store: Store) -> None:
    locks = locked(store)
    assert store.codes() == set()
    assert packed_locks(store.raw, store.key("plain.q")) == []
    assert lock_texts(store.raw, store.key("meta")) == {}
    for lock in locks:
        lock.commit()
    assert store.codes() == set()
    assert store.qm.queue_info("plain").messages == 2


@pytest.mark.parametrize("text", ["hello", "1||4194304|||0 2 30", None])
def test_repair_of_an_unreadable_header_recounts_and_releases_the_locks(
    store: Store, text: str | None
) -> None:
    locks = locked(store)
    meta, key = store.key("meta"), store.key("plain.q")
    store.raw.hset(meta, key, text) if text else store.raw.hdel(meta, key)
    codes = {"queue.field", "counter.queue", "position.lost", "queue.locks"}
    assert store.codes() == codes
    assert store.codes(repair=True) == codes - {"queue.field"}, "unreadable counters are replaced"
    assert store.codes() == set()
    assert (count(store.raw, key, "messages"), count(store.raw, key, "bytes")) == (7, 7 * 16)
    assert lock_texts(store.raw, meta) == {}
    for lock in locks:
        with pytest.raises(mqredis.LockLost):
            lock.commit()
    plain = store.qm.open("plain")
    assert [message.body for message in plain.receive_many(9, 0)] == [b"%d" % n for n in range(7)]
    assert store.codes() == set()


def test_queue_whose_header_was_lost_keeps_deliveries_and_acknowledgements(store: Store) -> None:
    store.qm.create_queue("acks")
    store.qm.create_queue("orders")
    orders = store.qm.open("orders")
    orders.send(b"a")
    orders.lock(0).abort()
    orders.send(b"b", acknowledge=Acknowledge.NACK_RECEIVE, administration_queue="acks")
    store.raw.hdel(store.key("meta"), store.key("orders.q"))
    store.qm.doctor(repair=True)
    assert orders.receive(0).delivery_count == 2
    assert store.qm.delete_queue("orders") == 1
    assert store.qm.queue_info("acks").messages == 1


def test_statistics_of_a_queue_whose_header_was_lost_begin_anew(store: Store) -> None:
    begin_bucket(store.qm)
    store.qm.create_queue("orders")
    orders = store.qm.open("orders")
    orders.send_many([b"x"] * 3)
    orders.receive_many(2, 0)
    store.qm.advance_clock(BUCKET)
    orders.send(b"y")
    store.raw.hdel(store.key("meta"), store.key("orders.q"))
    store.qm.doctor(repair=True)
    orders.receive(0)
    found = [(period.messages_in, period.messages_out) for period in store.qm.history("orders")]
    assert min(min(each) for each in found) >= 0, found


def test_reader_that_begins_to_wait_during_a_repair_of_the_header_is_notified_later(store: Store) -> None:
    store.qm.create_queue("orders")
    orders, key = store.qm.open("orders"), store.key("orders.q")
    store.raw.hdel(store.key("meta"), key)
    waits = read.receive(handle_of(orders).address, "take", waiter=Waiter("D p0 -"))
    assert not store.qm.run(perform(waits)).messages
    edit, history = Edit("count", key, "messages", 0), count(store.raw, store.key("meta"), "history")
    store.qm.run(perform(commands.repair(store.qm.context.keys, ["orders"], history, [edit])))
    orders.send(b"a")
    assert store.qm.queue_info("orders").waiters == 0


def test_repair_of_one_unreadable_lock_keeps_the_others(store: Store) -> None:
    locks = locked(store)
    key = store.key("plain.q")
    damaged = header(store.raw, key)
    damaged.locks[1] = damaged.locks[1][:-1]  # of an id that is too short
    set_header(store.raw, key, damaged)
    assert "position.lost" in store.codes()
    store.qm.doctor(repair=True)
    assert store.codes() == set()
    with pytest.raises(mqredis.LockLost):
        locks.pop(3).commit()
    for lock in locks:
        lock.commit()
    assert [message.body for message in store.qm.open("plain").receive_many(9, 0)] == [b"3", b"5", b"6"]


def test_repair_of_an_unreadable_packed_lock_keeps_the_others(store: Store) -> None:
    locks = locked(store)
    (field,) = lock_texts(store.raw, store.key("meta"))
    store.raw.hset(store.key("meta"), field, "hello")
    assert store.codes() == {"queue.locks", "position.lost"}
    assert store.codes(repair=True) == {"queue.locks", "position.lost"}
    assert store.codes() == set()
    for lock in locks[3:]:
        lock.commit()
    with pytest.raises(mqredis.LockLost):
        locks[0].commit()
    bodies = [message.body for message in store.qm.open("plain").receive_many(9, 0)]
    assert bodies == [b"0", b"1", b"2", b"5", b"6"]


def test_packed_lock_longer_than_the_doctor_reads_is_healthy(store: Store) -> None:
    """The doctor reads only the beginning of a long packed lock."""
    store.qm.create_queue("plain")
    plain = store.qm.open("plain")
    plain.send_many([b"x"] * 50)
    for n in range(60):  # more queues than one call audits, so that the lock is read before it is unpacked
        store.qm.create_queue(f"before {n}")
    plain.receive(0)
    locks = plain.lock_many(40)
    assert [len(lock.ids) for lock in packed_locks(store.raw, store.key("plain.q"))] == [40]
    assert store.codes() == set()
    plain.lock_many(1, settle=locks)
    assert store.qm.queue_info("plain").messages == 9


def headers(store: Store) -> set[str]:
    """First keys of the queues that have a header."""
    return {name.decode() for name in store.raw.hkeys(store.key("meta")) if name.startswith(b"mq:")}


def test_deleted_queue_leaves_no_header(store: Store) -> None:
    store.qm.create_queue("other")
    locked(store)
    plain, sub = store.qm.open("plain"), store.qm.open("plain;sub")
    plain.move(plain.peek(0).lookup_id, sub)
    plain.lock_many(1)
    assert packed_locks(store.raw, store.key("plain.q"))
    assert headers(store) == {store.key(name) for name in ("plain.q", "plain;sub.q", "other.q")}
    store.qm.delete_queue("plain")
    assert headers(store) == {store.key("other.q")}
    assert lock_texts(store.raw, store.key("meta")) == {}
    assert store.codes() == set()
    store.qm.create_queue("plain")
    assert list(store.qm.open("plain").browse()) == []
    assert packed_locks(store.raw, store.key("plain.q")) == []


def test_subqueue_deleted_with_its_last_handle_leaves_no_header(store: Store) -> None:
    store.qm.create_queue("plain")
    plain = store.qm.open("plain")
    plain.send(b"x")
    one, two = store.qm.open("plain;sub"), store.qm.open("plain;sub")
    plain.move(plain.peek(0).lookup_id, one)
    one.close()
    assert store.key("plain;sub.q") in headers(store)
    assert two.receive(0).body == b"x"
    two.close()
    assert headers(store) == {store.key("plain.q")}
    assert store.codes() == set()


@pytest.mark.parametrize("lost", [2, 200])
def test_readers_skip_index_entries_without_a_message(store: Store, lost: int) -> None:
    store.qm.create_queue("a")
    queue = store.qm.open("a")
    queue.send_many([b"%d" % n for n in range(lost + 3)])
    store.raw.hdel(store.key("a.m"), *[store.id("a", b"%d" % n) for n in range(lost)])
    assert queue.peek(0).body == b"%d" % lost
    assert [lock.message.body for lock in queue.lock_many(2, 0)] == [b"%d" % lost, b"%d" % (lost + 1)]
    assert queue.receive(0).body == b"%d" % (lost + 2)
    assert "stray.a" in store.codes()


def test_purge_ends_at_an_id_without_a_message(store: Store) -> None:
    store.qm.create_queue("q")
    with store.qm.open("q") as queue:
        queue.send(b"x", time_to_be_received=60)
        store.raw.zadd(store.key("q.a"), {"0400000000000000": 0})
        queue.purge()
        assert store.qm.queue_info("q").messages == 0
    assert store.codes() == {"stray.a"}


def test_repaired_state_of_an_available_message_counts(store: Store) -> None:
    """The queue had no states before, so its header says that there are none."""
    store.qm.create_queue("orders")
    queue = store.qm.open("orders")
    queue.send(b"a")
    store.raw.hset(store.key("orders.s"), store.id("orders", b"a"), "1 0 0 0 16 L 1.1 5")
    assert store.codes(repair=True) == {"position.state"}
    assert queue.receive(0).delivery_count == 2


def test_expiry_while_a_pipeline_waits_in_a_subqueue_is_counted_in_its_queue(store: Store) -> None:
    store.qm.create_queue("q")
    queue, sub = store.qm.open("q"), store.qm.open("q;s")
    queue.move(queue.send(b"a", time_to_be_received=5).lookup_id, sub)
    assert store.codes() == set()
    store.qm.advance_clock(6)
    found = store.qm.run(perform(claims.wait(handle_of(sub).address, "", Waiter(""))))
    assert found is not None, "a message that has expired was found"
    assert store.qm.queue_info("q;s").messages == 0
    assert store.codes() == set()


def test_error_that_shows_no_damage_is_raised(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def take(_: object) -> Iterator[object]:
        yield from ()
        raise mqredis.HistoryRolledBack

    monkeypatch.setattr("mqredis.operations.doctor.snapshot.take", take)
    with pytest.raises(mqredis.HistoryRolledBack):
        store.qm.doctor()
