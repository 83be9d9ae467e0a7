"""The doctor is silent about a healthy store, however large or busy, and about what clients leave behind."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import mqredis
from mqredis import Outgoing
from mqredis.commands import doctor as commands
from mqredis.keys import ManagerKeys
from tests.doctor.conftest import GHOST, Patient
from tests.support.backend import Backend
from tests.support.counts import count, line, lock_texts, packed_locks, set_count, set_line


def test_a_healthy_store_has_no_findings(full: Patient) -> None:
    report = full.qm.doctor()
    assert report.findings == ()
    assert report.consistent
    assert (report.queues, report.messages, report.transactions, report.sessions) == (3, 14, 1, 1)
    assert report.healthy


def test_an_empty_manager_is_healthy(patient: Patient) -> None:
    assert patient.codes() == set()


def test_pages_give_the_same_picture(full: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    full.qm.open("orders").send_many([b"%d" % n for n in range(3000)])
    whole = full.qm.doctor()
    plain = commands.audit

    def small(manager: ManagerKeys, paths: Sequence[str], place: str, budget: int = 7) -> object:
        return plain(manager, paths, place, budget)

    monkeypatch.setattr(commands, "audit", small)
    paged = full.qm.doctor()
    assert paged.messages == whole.messages == 3014
    assert paged.findings == ()
    assert paged.consistent


def test_everything_lapsed_is_healthy_before_and_after_maintenance(full: Patient) -> None:
    full.qm.advance_clock(3600)
    assert full.codes() == set()
    full.qm.open("tx").peek(0)  # this queue notices the end of the transaction; it may be the only one
    assert full.codes() == set()
    full.qm.maintain()
    assert full.codes() == set()


def test_timers_that_never_ring_are_no_timers(patient: Patient) -> None:
    patient.qm.create_queue("a")
    patient.qm.open("a").send(b"x", dedup_key="k", dedup_window=60)
    assert patient.codes() == set()
    patient.qm.maintain()
    assert patient.codes() == set()


def test_many_queues(patient: Patient) -> None:
    for n in range(60):
        patient.qm.create_queue(f"q{n}")
        patient.qm.open(f"q{n}").send(b"x")
    report = patient.qm.doctor()
    assert report.findings == ()
    assert (report.queues, report.messages) == (60, 60)
    patient.raw.zadd(patient.key("q59.a"), {"0400000000000fff": 0})
    patient.raw.expire(patient.key("q58.m"), 1000)
    assert patient.codes() == {"stray.a", "key.ttl"}
    assert patient.codes(repair=True)
    assert patient.codes() == set()


def test_what_clients_left_behind_is_a_notice_and_goes(full: Patient) -> None:
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


def test_handles_go_with_their_session_and_their_queue(patient: Patient, backend: Backend) -> None:
    patient.qm.create_queue("a")
    patient.qm.create_queue("b")
    with mqredis.connect(backend.client(), manager=patient.qm.name) as other:
        other.open("a")
        other.open("a")
        assert patient.raw.zcard(patient.key("handles")) == 2
    assert patient.raw.zcard(patient.key("handles")) == 0
    patient.qm.open("a"), patient.qm.open("b")
    patient.qm.delete_queue("a")
    assert patient.raw.zcard(patient.key("handles")) == 1
    assert not {item.code for item in patient.qm.doctor().advice if item.severity == "notice"} & {
        "handle.left"
    }


def test_a_slot_whose_fate_others_decided_goes_with_its_session(patient: Patient, backend: Backend) -> None:
    other = mqredis.connect(backend.client(), manager=patient.qm.name)
    token = f"{other._driver.session}.7:1"  # of a call that never arrived
    assert patient.qm.resolve(token).outcome == "never"
    other.close()
    assert patient.codes() == set()


def test_a_store_that_never_rests_is_not_compared(full: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, orders = commands.audit, full.qm.open("orders")

    def busy(manager: ManagerKeys, paths: Sequence[str], place: str, budget: int = 5) -> object:
        orders.send(Outgoing(body=b"more"))
        return plain(manager, paths, place, budget)

    monkeypatch.setattr(commands, "audit", busy)
    set_count(full.raw, full.key("orders.q"), "bytes", 1)
    full.raw.zadd(full.key("orders.a"), {GHOST: 0})
    report = full.qm.doctor()
    assert not report.consistent
    assert {finding.code for finding in report.findings} == {"stray.a"}  # true by itself; sums are left out


def locked(patient: Patient) -> list[mqredis.LockedMessage]:
    """Seven messages in a queue of their own: three locked together, two one by one, which all is packed."""
    patient.qm.create_queue("plain")
    plain = patient.qm.open("plain")
    plain.send(b"x")
    plain.receive(0)  # a session's first call goes the long way
    plain.send_many([b"%d" % n for n in range(7)])
    locks = [*plain.lock_many(3), plain.lock(0), plain.lock(0)]
    packed = packed_locks(patient.raw, patient.key("plain.q"))
    assert [(len(lock.ids), lock.beside) for lock in packed] == [(3, True), (1, False), (1, False)]
    return locks


def test_who_looks_unpacks_the_locks_and_keeps_them(patient: Patient) -> None:
    locks = locked(patient)
    assert patient.codes() == set()
    assert packed_locks(patient.raw, patient.key("plain.q")) == []
    assert lock_texts(patient.raw, patient.key("meta")) == {}
    for lock in locks:
        lock.commit()
    assert patient.codes() == set()
    assert patient.qm.queue_info("plain").messages == 2


@pytest.mark.parametrize("text", ["hello", "1||4194304|||0 2 30", None])
def test_of_a_line_that_cannot_be_read_all_is_counted_anew_and_its_locks_are_lost(
    patient: Patient, text: str | None
) -> None:
    locks = locked(patient)
    meta, key = patient.key("meta"), patient.key("plain.q")
    patient.raw.hset(meta, key, text) if text else patient.raw.hdel(meta, key)
    codes = {"queue.field", "counter.queue", "position.lost", "queue.locks"}
    assert patient.codes() == codes
    assert patient.codes(repair=True) == codes - {"queue.field"}, "those that cannot be read are counted"
    assert patient.codes() == set()
    assert (count(patient.raw, key, "messages"), count(patient.raw, key, "bytes")) == (7, 7 * 16)
    assert lock_texts(patient.raw, meta) == {}
    for lock in locks:
        with pytest.raises(mqredis.LockLost):
            lock.commit()
    plain = patient.qm.open("plain")
    assert [message.body for message in plain.receive_many(9, 0)] == [b"%d" % n for n in range(7)]
    assert patient.codes() == set()


def test_one_lock_in_a_line_that_cannot_be_read_is_lost_alone(patient: Patient) -> None:
    locks = locked(patient)
    key = patient.key("plain.q")
    spoilt = line(patient.raw, key)
    spoilt.locks[1] = spoilt.locks[1][:-1]  # of an id that is too short
    set_line(patient.raw, key, spoilt)
    assert "position.lost" in patient.codes()
    patient.qm.doctor(repair=True)
    assert patient.codes() == set()
    with pytest.raises(mqredis.LockLost):
        locks.pop(3).commit()
    for lock in locks:
        lock.commit()
    assert [message.body for message in patient.qm.open("plain").receive_many(9, 0)] == [b"3", b"5", b"6"]


def test_a_text_of_locks_that_is_damaged_loses_these_alone(patient: Patient) -> None:
    locks = locked(patient)
    (field,) = lock_texts(patient.raw, patient.key("meta"))
    patient.raw.hset(patient.key("meta"), field, "hello")
    assert patient.codes() == {"queue.locks", "position.lost"}
    assert patient.codes(repair=True) == {"queue.locks", "position.lost"}
    assert patient.codes() == set()
    for lock in locks[3:]:
        lock.commit()
    with pytest.raises(mqredis.LockLost):
        locks[0].commit()
    bodies = [message.body for message in patient.qm.open("plain").receive_many(9, 0)]
    assert bodies == [b"0", b"1", b"2", b"5", b"6"]


def test_more_locks_than_the_doctor_reads_are_none_the_worse(patient: Patient) -> None:
    """Of a long text it sees the beginning."""
    patient.qm.create_queue("plain")
    plain = patient.qm.open("plain")
    plain.send_many([b"x"] * 50)
    for n in range(60):  # more queues than it looks at in a call: it sees the text before it unpacks it
        patient.qm.create_queue(f"before {n}")
    plain.receive(0)
    locks = plain.lock_many(40)
    assert [len(lock.ids) for lock in packed_locks(patient.raw, patient.key("plain.q"))] == [40]
    assert patient.codes() == set()
    plain.lock_many(1, settle=locks)
    assert patient.qm.queue_info("plain").messages == 9


def lines(patient: Patient) -> set[str]:
    """The queues that have a line, by their first key."""
    return {name.decode() for name in patient.raw.hkeys(patient.key("meta")) if name.startswith(b"mq:")}


def test_a_queue_that_is_deleted_leaves_no_line(patient: Patient) -> None:
    patient.qm.create_queue("other")
    locked(patient)
    plain, sub = patient.qm.open("plain"), patient.qm.open("plain;sub")
    plain.move(plain.peek(0).lookup_id, sub)
    plain.lock_many(1)
    assert packed_locks(patient.raw, patient.key("plain.q"))
    assert lines(patient) == {patient.key(name) for name in ("plain.q", "plain;sub.q", "other.q")}
    patient.qm.delete_queue("plain")
    assert lines(patient) == {patient.key("other.q")}
    assert lock_texts(patient.raw, patient.key("meta")) == {}
    assert patient.codes() == set()
    patient.qm.create_queue("plain")
    assert list(patient.qm.open("plain").browse()) == []
    assert packed_locks(patient.raw, patient.key("plain.q")) == []


def test_a_subqueue_that_goes_with_its_last_handle_leaves_no_line(patient: Patient) -> None:
    patient.qm.create_queue("plain")
    plain = patient.qm.open("plain")
    plain.send(b"x")
    one, two = patient.qm.open("plain;sub"), patient.qm.open("plain;sub")
    plain.move(plain.peek(0).lookup_id, one)
    one.close()
    assert patient.key("plain;sub.q") in lines(patient)
    assert two.receive(0).body == b"x"
    two.close()
    assert lines(patient) == {patient.key("plain.q")}
    assert patient.codes() == set()


@pytest.mark.parametrize("lost", [2, 200])
def test_readers_pass_over_places_whose_messages_are_lost(patient: Patient, lost: int) -> None:
    patient.qm.create_queue("a")
    queue = patient.qm.open("a")
    queue.send_many([b"%d" % n for n in range(lost + 3)])
    patient.raw.hdel(patient.key("a.m"), *[patient.id("a", b"%d" % n) for n in range(lost)])
    assert queue.peek(0).body == b"%d" % lost
    assert [lock.message.body for lock in queue.lock_many(2, 0)] == [b"%d" % lost, b"%d" % (lost + 1)]
    assert queue.receive(0).body == b"%d" % (lost + 2)
    assert "stray.a" in patient.codes()
