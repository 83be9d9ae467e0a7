"""Dequeue Message Begin and End (MS-MQDMPR 3.1.7.1.11-12): ``lock``, ``commit``, ``abort``, with a lease."""

from __future__ import annotations

import pytest

from mqredis.errors import IoTimeout, LockLost, MessageNotFound, QueueNotAvailable, TransactionUsage
from mqredis.status import Status
from tests.support.facade import bodies, drain, send

case = pytest.mark.case


@pytest.fixture
def ab(broker):
    q = broker.queue()
    send(q, "AB")
    return q


@case("A13", "L")
def test_A13_given_back_keeps_its_place_and_id(ab):
    locked = ab.lock(0)
    locked.abort()
    again = ab.receive(0)
    assert (again.body, again.lookup_id) == (b"A", locked.lookup_id)


@case("G1", "L")
def test_G1_begin_and_end(broker, ab):
    locked = ab.lock(0)
    assert locked.body == b"A"
    assert broker.client().open("q").receive(0).body == b"B"
    locked.commit()
    info = broker.qm.queue_info("q")
    assert (info.messages, info.locked, info.bytes) == (0, 0, 0)


@case("G3", "L")
def test_G3_end_of_a_lapsed_lock(broker, ab):
    """After the clean-up the message is available; the error is LockLost with the status of the specification."""
    locked = ab.lock(0, lease=5)
    broker.qm.advance_clock(6)
    assert ab.peek(0).body == b"A"
    for end in (locked.commit, locked.abort):
        with pytest.raises(LockLost) as caught:
            end()
        assert caught.value.status == Status.TRANSACTION_SEQUENCE
    assert drain(ab) == [b"A", b"B"]


@case("G4", "P")
def test_G4_silent_client(broker, ab):
    ab.lock(0, lease=300)
    broker.qm.advance_clock(290)
    assert bodies(ab.browse()) == [b"B"]
    broker.qm.advance_clock(11)
    assert drain(ab) == [b"A", b"B"]


@case("G6", "L")
def test_G6_purged_while_locked(broker, ab):
    locked = ab.lock(0)
    ab.purge()
    locked.commit()
    assert broker.qm.queue_info("q").messages == 0


@pytest.mark.parametrize("end", ["abort", "reject"])
def test_message_purged_while_locked_is_removed_when_the_lock_ends(broker, ab, end):
    locked = ab.lock(0)
    ab.purge()
    getattr(locked, end)()
    info = broker.qm.queue_info("q")
    assert (info.messages, info.locked, info.bytes) == (0, 0, 0)
    with pytest.raises(IoTimeout):
        ab.peek(0)


@case("G9", "L")
def test_G9_empty_queue(broker):
    q = broker.queue()
    with pytest.raises(IoTimeout):
        q.lock(0)


@case("G10", "P")
def test_G10_lost_client(broker, ab):
    """Closing the handle releases its open locks (D23); case G4 is a crash."""
    other = broker.client().open("q")
    other.lock(0)
    assert bodies(ab.browse()) == [b"B"]
    other.close()
    assert drain(ab) == [b"A", b"B"]


@case("G13", "L")
def test_G13_given_back_behind_the_cursor(ab):
    c = ab.cursor()
    locked = c.lock(0)
    assert locked.body == b"A"
    locked.abort()
    assert c.peek(0).body == b"B"
    assert ab.cursor().peek(0).body == b"A"


@case("H22", "P")
def test_H22_giving_back_is_no_abort_count(ab):
    ab.lock(0).abort()
    message = ab.receive(0)
    assert (message.abort_count, message.delivery_count) == (0, 2)


def test_lock_context_manager_commits_or_releases_on_error(ab):
    with ab.lock(0) as locked:
        assert locked.body == b"A"
    assert bodies(ab.browse()) == [b"B"]
    with pytest.raises(RuntimeError), ab.lock(0):
        raise RuntimeError
    assert drain(ab) == [b"B"]


def test_extended_lock_lease_keeps_the_lock(broker, ab):
    locked = ab.lock(0, lease=10)
    broker.qm.advance_clock(8)
    locked.extend(10)
    broker.qm.advance_clock(8)
    assert bodies(ab.browse()) == [b"B"]
    locked.commit()
    assert drain(ab) == [b"B"]


def test_lock_is_extended_for_the_lease_that_it_was_locked_with(broker, ab):
    locked = ab.lock(0, lease=100)
    broker.qm.advance_clock(80)
    locked.extend()
    broker.qm.advance_clock(80)
    assert bodies(ab.browse()) == [b"B"]
    locked.commit()
    assert drain(ab) == [b"B"]


def test_lapsed_lock_lease_cannot_be_extended(broker, ab):
    locked = ab.lock(0, lease=10)
    broker.qm.advance_clock(11)
    with pytest.raises(LockLost):
        locked.extend(10)
    assert drain(ab) == [b"A", b"B"]


def test_lapsed_lock_cannot_end_the_next_lock(broker, ab):
    stale = ab.lock(0, lease=5)
    broker.qm.advance_clock(6)
    fresh = ab.lock(0, lease=60)
    assert fresh.lookup_id == stale.lookup_id
    for end in (stale.commit, stale.abort, stale.reject):
        with pytest.raises(LockLost):
            end()
    assert bodies(ab.browse()) == [b"B"]
    fresh.commit()
    assert drain(ab) == [b"B"]


def test_lock_of_a_deleted_queue_cannot_be_ended(broker, ab):
    locked = ab.lock(0)
    broker.qm.delete_queue("q")
    for end in (locked.commit, locked.abort):
        with pytest.raises(QueueNotAvailable):
            end()


def test_messages_of_lapsed_locks_return_in_order(broker):
    q = broker.queue()
    send(q, "ABCD")
    first, second = q.lock(0, lease=20), q.lock(0, lease=10)
    assert bodies([first, second]) == [b"A", b"B"]
    broker.qm.advance_clock(15)
    assert bodies(q.browse()) == [b"B", b"C", b"D"]
    broker.qm.advance_clock(6)
    assert drain(q) == [b"A", b"B", b"C", b"D"]


def test_lock_many_returns_locks_that_end_separately(broker):
    q = broker.queue()
    send(q, "ABCD")
    held = q.lock_many(3, 0)
    assert bodies(held) == [b"A", b"B", b"C"]
    held[1].abort()
    held[0].commit()
    held[2].commit()
    assert drain(q) == [b"B", b"D"]


def test_lock_by_lookup_id_hides_the_message_from_other_reads(broker, ab):
    first = ab.peek(0)
    with ab.lock_by_lookup_id(first.lookup_id) as locked:
        assert locked.body == b"A"
        with pytest.raises(TransactionUsage):
            ab.peek_by_lookup_id(first.lookup_id)
        with pytest.raises(MessageNotFound):
            ab.receive_by_lookup_id(first.lookup_id)
    assert drain(ab) == [b"B"]
