"""Edge cases of the scripts that no other test covers."""

from __future__ import annotations

import pytest

from mqredis import (
    TRANSACTIONAL_DEAD_LETTER,
    Access,
    Journal,
    Outgoing,
    QueueNotAvailable,
    RetryPolicy,
    TransactionTooLarge,
)
from tests.msmq.kit import NACK_RECEIVE, classes, drain, make, read
from tests.support.facade import send

MEGABYTE = 1 << 20


def test_message_larger_than_the_reply_limit_is_returned_alone(qm):
    q = make(qm)
    q.send_many([b"a" * (MEGABYTE + 1), b"b"])
    assert [len(m.body) for m in q.receive_many(2, 0)] == [MEGABYTE + 1]
    assert [m.body for m in q.receive_many(2, 0)] == [b"b"]


def test_message_stays_if_the_subqueue_that_it_is_moved_to_is_deleted_before_the_commit(qm):
    t = make(qm, "t", transactional=True)
    with qm.transaction() as tx:
        t.send(b"a", transaction=tx)
    with qm.open("t;sub") as target, qm.transaction() as tx:
        t.move(t.peek(0).lookup_id, target, transaction=tx)
        qm.delete_queue("t;sub")
    found = t.peek(0)
    assert (found.body, found.abort_count, found.move_count, found.delivery_count) == (b"a", 0, 0, 0)


@pytest.mark.parametrize("anew", [False, True], ids=["gone", "created anew"])
def test_move_to_and_from_a_subqueue_that_was_deleted_is_refused(qm, anew):
    q, sub, target = make(qm), qm.open("q;s"), qm.open("q;s", Access.MOVE)
    (sent,) = send(q, "A")
    qm.delete_queue("q;s")
    if anew:
        qm.open("q;s")
    with pytest.raises(QueueNotAvailable):
        q.move(sent.lookup_id, target)
    with qm.open("q", Access.MOVE) as home, pytest.raises(QueueNotAvailable):
        sub.move(sent.lookup_id, home)
    assert read(q) == "A"


def test_purged_messages_are_counted_including_locked_ones(qm):
    q = make(qm)
    q.send_many([b"a", b"b", b"c"])
    held = q.lock(0)
    q.purge()
    assert qm.statistics("q").purged == 2
    held.abort()
    assert qm.statistics("q").purged == 3


@pytest.mark.parametrize("beyond", [0, 1])
def test_reply_limit_includes_exactly_one_megabyte(qm, beyond):
    q = make(qm)
    q.send_many([b"a" * 1000, b""])
    heads = qm.queue_info("q").bytes - 1000
    q.purge()
    q.send_many([b"a" * 1000, b"b" * (MEGABYTE - heads - 1000 + beyond)])
    assert qm.queue_info("q").bytes == MEGABYTE + beyond
    assert len(q.receive_many(2, 0)) == 2 - beyond


def test_transaction_is_full_after_1000_operations(qm):
    t = make(qm, "t", transactional=True)
    with qm.transaction() as tx:
        one, two = [sent.lookup_id for sent in t.send_many([b"a", b"b"], transaction=tx)]
    with qm.transaction() as tx:
        t.send_many([b"x"] * 999, transaction=tx)
        assert t.receive_by_lookup_id(one, transaction=tx).body == b"a"
        with pytest.raises(TransactionTooLarge):
            t.receive_by_lookup_id(two, transaction=tx)


def test_receive_many_takes_only_what_the_transaction_has_room_for(qm):
    t = make(qm, "t", transactional=True)
    with qm.transaction() as tx:
        t.send_many([b"x"] * 1000, transaction=tx)
    with qm.transaction() as tx:
        t.send_many([b"x"] * 999, transaction=tx)
        assert len(t.receive_many(2, 0, transaction=tx)) == 1
        with pytest.raises(TransactionTooLarge):
            t.send(b"x", transaction=tx)


def test_full_transaction_receives_and_moves_no_message(qm):
    t, sub = make(qm, "t", transactional=True), qm.open("t;s", Access.MOVE)
    with qm.transaction() as tx:
        lookup_id = t.send(b"a", transaction=tx).lookup_id
    with qm.transaction() as tx:
        t.send_many([b"x"] * 1000, transaction=tx)
        with pytest.raises(TransactionTooLarge):
            t.receive(0, transaction=tx)
        with pytest.raises(TransactionTooLarge):
            t.move(lookup_id, sub, transaction=tx)


def test_reject_reason_in_a_transaction_is_stored_in_the_dead_letter(qm):
    t = make(qm, "t", transactional=True)
    with qm.transaction() as tx:
        t.send(b"a", transaction=tx, journal=Journal.DEAD_LETTER)
    with qm.transaction() as tx:
        tx.reject(t, t.receive(0, transaction=tx), "no such order")
    assert [m.reason for m in drain(qm, TRANSACTIONAL_DEAD_LETTER)] == ["receive_rejected: no such order"]


def test_reject_in_a_transaction_rejects_one_of_the_messages_that_it_has_received(qm):
    t = make(qm, "t", transactional=True)
    with qm.transaction() as tx:
        t.send_many([Outgoing(body, journal=Journal.DEAD_LETTER) for body in (b"a", b"b")], transaction=tx)
    with qm.transaction() as tx:
        _, second = t.receive_many(2, 0, transaction=tx)
        tx.reject(t, second)
    assert [m.body for m in drain(qm, TRANSACTIONAL_DEAD_LETTER)] == [b"b"]
    assert qm.queue_info("t").messages == 0


def test_delete_queue_acknowledges_delayed_messages_that_would_expire_first(qm):
    q, _ = make(qm), make(qm, "admin")
    for _ in range(3):
        q.send_many([Outgoing(body=b"x", delay=60, time_to_be_received=30, **NACK_RECEIVE)] * 100)
    qm.delete_queue("q")
    assert classes(qm) == [0xC000] * 300


def test_delete_queue_acknowledges_a_locked_message_among_many_uncommitted_ones(qm):
    t, _ = make(qm, "t", transactional=True), make(qm, "admin")
    with qm.transaction() as tx:
        t.send(b"locked", transaction=tx, **NACK_RECEIVE)
    t.lock(0, lease=3600)
    with qm.transaction() as open_one:
        t.send_many([b"x"] * 300, transaction=open_one)
        qm.delete_queue("t")
        assert classes(qm) == [0xC000]


def test_purge_keeps_messages_that_wait_for_a_retry(qm):
    q = make(qm, retry=RetryPolicy(immediate=0, cycles=1, delay=60))
    q.send(b"r")
    q.lock(0).abort()
    send(q, "ab")
    assert read(qm.open("q;retry", Access.PEEK)) == "r"
    assert q.purge() == 2
    qm.advance_clock(61)
    assert [m.body for m in drain(qm, "q")] == [b"r"]


def test_ungrouped_message_with_an_identifier_is_available_again_after_abort(qm):
    q = make(qm, group_exclusive=True)
    q.send(b"a", correlation_id="c")
    held = q.lock(0)
    held.abort()
    assert q.receive(0).body == b"a"
