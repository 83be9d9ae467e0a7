"""Details of the Lua scripts that no other test covers (found by mutation tests, ``make reliability``)."""

from __future__ import annotations

import sys

import pytest

from mqredis import (
    Access,
    DuplicateMessage,
    IoTimeout,
    Journal,
    Match,
    MessageClass,
    MessageLocked,
    MessageNotFound,
    Outgoing,
    QueueNotFound,
    RetryPolicy,
    Seek,
    Share,
    SharingViolation,
)
from mqredis.commands import queues
from mqredis.operations import peek
from mqredis.steps import perform
from tests.msmq.kit import FULL_RECEIVE, NACK_RECEIVE, drain, make
from tests.support.facade import unwrap


def move(qm, source, target, *bodies):
    with qm.open(target) as sub:
        for message in list(source.browse()):
            if message.body in bodies:
                source.move(message.lookup_id, sub)


def test_delete_queue_deletes_its_subqueues_and_messages(qm):
    q = make(qm)
    q.send_many([b"a", b"b"])
    q.send(b"c", time_to_be_received=60)
    q.send(b"d", delay=60)
    move(qm, q, "q;s", b"b", b"c")
    assert qm.delete_queue("q") == 4
    assert [info.name for info in qm.queues()] == []
    assert qm.info().messages == qm.info().bytes == 0
    for name in ("q", "q;s"):
        with pytest.raises(QueueNotFound):
            qm.queue_info(name)
    again = make(qm)
    with pytest.raises(IoTimeout):
        again.receive(0)
    with qm.open("q;s") as sub, pytest.raises(IoTimeout):
        sub.receive(0)
    qm.advance_clock(100)
    qm.maintain()
    assert qm.info().messages == 0


def test_delete_queue_deletes_a_subqueue_that_is_named_behind_one_that_is_gone(qm):
    q = make(qm)
    q.send(b"a")
    move(qm, q, "q;s", b"a")
    call = queues.delete(qm.context.keys, ["q", "q;gone", "q;s"], [])
    assert unwrap(qm.run(perform(call))) == queues.Deleted(1, True)
    assert qm.info().messages == 0


def test_delete_queue_deletes_its_timers(qm):
    make(qm).send(b"x", delay=60)
    assert qm.delete_queue("q") == 1  # the doctor reports keys of unknown queues


def test_delete_queue_finds_what_has_expired_before(qm):
    q, admin = make(qm, retry=RetryPolicy(immediate=0, final="dead_letter")), make(qm, "admin")
    life = {"time_to_be_received": 5, "journal": Journal.DEAD_LETTER, **NACK_RECEIVE}
    q.send(b"c")
    q.lock(0, lease=5)  # the last attempt of c
    q.send(b"a", **life)
    q.move(q.send(b"b", **life).lookup_id, qm.open("q;s"))
    qm.advance_clock(6)
    qm.delete_queue("q")
    dead = {m.body: m.message_class for m in drain(qm, "system$;deadletter")}
    assert dead == {b"a": 0xC002, b"b": 0xC002, b"c": 0xC004}
    assert [m.message_class for m in admin.browse()] == [0xC002, 0xC002]


def test_delete_queue_acknowledges_delayed_messages(qm):
    make(qm, "admin")
    q = make(qm)
    for body in (b"a", b"b"):
        q.send(body, delay=60, **FULL_RECEIVE)
    assert qm.delete_queue("q") == 2
    acknowledged = [message.message_class for message in drain(qm, "admin")]
    assert acknowledged == [MessageClass.NACK_QUEUE_DELETED] * 2


def test_purge_finds_a_delayed_message_after_a_page_of_other_timers(qm):
    q = make(qm)
    q.send_many([Outgoing(body=b"held", time_to_be_received=30)] * 255)
    assert len(q.lock_many(255, 0, lease=600)) == 255
    q.send(b"late", delay=60)
    assert q.purge() == 1
    assert qm.queue_info("q").messages == 255


def test_delete_queue_deletes_uncommitted_messages(qm):
    t = make(qm, "t", transactional=True)
    unit = qm.transaction(lease=60)
    t.send(b"x", time_to_be_received=60, transaction=unit)
    t.send(b"y", delay=60, transaction=unit)
    qm.delete_queue("t")
    assert qm.info().messages == qm.info().bytes == 0  # the doctor reports keys of unknown queues


def test_expiry_in_a_subqueue_is_counted_in_its_queue(qm):
    q = make(qm)
    q.send(b"a", time_to_be_received=60)
    q.send(b"b")
    move(qm, q, "q;s", b"a", b"b")
    qm.advance_clock(61)
    qm.maintain()
    assert qm.queue_info("q;s").messages == 1
    assert qm.info().messages == 1  # the doctor compares the subqueue counters of the queue


def test_lookup_finds_messages_whose_delay_is_over(qm):
    q = make(qm)
    late = q.send(b"late", delay=5)
    qm.advance_clock(6)
    assert q.peek_by_lookup_id(0, seek=Seek.FIRST).lookup_id == late.lookup_id
    second_late = q.send(b"brief", delay=5)
    qm.advance_clock(6)
    assert q.peek_by_lookup_id(late.lookup_id, seek=Seek.NEXT).lookup_id == second_late.lookup_id


def test_time_to_live_counts_from_the_send_time(qm):
    q = make(qm)
    q.send(b"old", time_to_be_received=60, sent_seconds_ago=50)
    q.send(b"new", time_to_be_received=60)
    qm.advance_clock(11)
    assert q.receive(0).body == b"new"
    assert qm.queue_info("q").messages == 0


@pytest.mark.parametrize("seconds", [1e13, 1e16, 1e20, sys.float_info.max])
def test_very_long_times_do_not_end(qm, seconds):
    q = make(qm)
    q.send(b"kept", time_to_be_received=seconds, time_to_reach_queue=seconds)
    q.send(b"delayed", delay=seconds)
    q.send(b"once", dedup_key="k", dedup_window=seconds)
    qm.advance_clock(1e6)
    qm.maintain()
    assert [message.body for message in q.browse()] == [b"kept", b"once"]
    with pytest.raises(DuplicateMessage):
        q.send(b"once", dedup_key="k", dedup_window=seconds)
    assert q.receive(0).expires_at.year == 9999


def test_begin_of_a_transaction_advances_the_history(qm):
    before = qm.info().history
    qm.transaction(id="chosen").abort()
    between = qm.info().history
    qm.transaction(id="other")
    assert before < between < qm.info().history


def test_deleted_subqueue_is_not_counted_in_its_queue(qm):
    q = make(qm)
    q.send_many([b"a", b"b"])
    move(qm, q, "q;s", b"a")
    assert qm.delete_queue("q;s") == 1
    assert [info.messages for info in qm.queues()] == [1]  # the doctor compares the subqueue counters of q


def test_purge_of_more_than_one_page(qm):
    q = make(qm)
    for _ in range(3):
        q.send_many([Outgoing(body=b"x", delay=60)] * 250)
    held = q.send(b"held")
    locked = q.lock(0, lease=60)
    assert q.purge() == 750
    assert qm.queue_info("q").messages == 1
    locked.abort()
    with pytest.raises(IoTimeout):
        q.receive(0)
    assert qm.queue_info("q").messages == 0
    assert held.lookup_id == locked.lookup_id


def received_with_allow_peek(qm):
    """Three messages; the first one is received in a transaction with allow_peek, so peeks see it."""
    t = make(qm, "t", transactional=True)
    with qm.transaction() as tx:
        sent = t.send_many([b"1", b"2", b"3"], transaction=tx)
    unit = qm.transaction(lease=60)
    t.receive_by_lookup_id(sent[0].lookup_id, transaction=unit, allow_peek=True)
    return t, unit, [one.lookup_id for one in sent]


def test_reads_that_show_a_message_received_with_allow_peek(qm):
    """Row 8 of the table in docs/semantics.md."""
    t, unit, sent = received_with_allow_peek(qm)
    anything = "Root.MQMD.Priority >= 0"
    token = t.peek(0).token
    shown = [t.peek(0), t.peek_by_lookup_id(sent[0]), t.cursor().peek(0), t.browser().first(0)]
    assert [message.lookup_id for message in shown] == [sent[0]] * 4
    others = [
        t.peek(0, selector=anything),
        t.cursor(selector=anything).peek(0),
        t.browser(selector=anything).first(0),
    ]
    assert [message.lookup_id for message in others] == [sent[1]] * 3
    assert [message.lookup_id for message in t.browse()] == sent[1:]
    (first,) = qm.run(peek.page(unwrap(t).handle, None, 1))  # as a slow redrive asks
    assert first.lookup_id == sent[1]
    with pytest.raises(IoTimeout):
        t.peek(0, match=Match(token=token))
    unit.abort()


def test_purge_keeps_a_message_received_with_allow_peek(qm):
    t, unit, _ = received_with_allow_peek(qm)
    t.purge()
    assert qm.queue_info("t").locked == 1
    assert qm.doctor().findings == ()  # the mark that makes it visible to peeks still exists
    unit.abort()
    with pytest.raises(IoTimeout):
        t.peek(0)


def test_seek_finds_available_and_peekable_messages_in_order(qm):
    t, unit, sent = received_with_allow_peek(qm)
    assert t.peek_by_lookup_id(sent[2], seek=Seek.PREVIOUS).body == b"2"
    assert t.peek_by_lookup_id(sent[1], seek=Seek.PREVIOUS).body == b"1"
    assert t.peek_by_lookup_id(0, seek=Seek.FIRST).body == b"1"
    assert t.peek_by_lookup_id(sent[0], seek=Seek.NEXT).body == b"2"
    unit.abort()


def test_handle_that_denies_receive_goes_with_the_session_of_a_client_that_died(qm, connect):
    qm.create_queue("q")
    died = connect(session_ttl_seconds=10)
    died.open("q", Access.RECEIVE, Share.DENY_RECEIVE)
    with pytest.raises(SharingViolation):
        qm.open("q")
    qm.advance_clock(11)
    qm.open("q", Access.RECEIVE, Share.DENY_RECEIVE)


def test_client_that_was_idle_keeps_its_session_when_it_opens_a_queue(qm, connect):
    qm.create_queue("q")
    idle = connect(session_ttl_seconds=10)
    idle.open("q", Access.RECEIVE, Share.DENY_RECEIVE)
    idle.advance_clock(11)
    with pytest.raises(SharingViolation):
        idle.open("q")
    assert qm.queue_info("q").active


def test_renewal_does_not_shorten_the_lease_of_a_transaction(qm):
    q = make(qm, transactional=True)
    with qm.transaction() as tx:
        q.send(b"a", transaction=tx)
    tx = qm.transaction(lease=100)
    q.receive(0, transaction=tx)
    assert tx.extend(5) > 90
    qm.advance_clock(50)
    qm.maintain()
    assert qm.queue_info("q").locked == 1
    tx.commit()


@pytest.mark.parametrize("allow_peek", [False, True])
def test_move_of_a_locked_message_that_has_expired_is_refused_as_locked(qm, allow_peek):
    """A locked message expires when its lock ends (MC-MQAC 3.1.6.1.1), so a move still finds it locked."""
    q, target = make(qm), qm.open("q;s", Access.MOVE)
    sent = q.send(b"A", time_to_be_received=5)
    held = q.lock_by_lookup_id(sent.lookup_id, lease=60, allow_peek=allow_peek)
    qm.advance_clock(6)
    with pytest.raises(MessageLocked):
        q.move(sent.lookup_id, target)
    held.abort()
    with pytest.raises(MessageNotFound):
        q.move(sent.lookup_id, target)
