"""Small things in the Lua that no other test noticed when they were changed (``make reliability``, bar mutants)."""

from __future__ import annotations

import pytest

from mqredis import IoTimeout, Match, MessageClass, Outgoing, QueueNotFound, Seek
from tests.msmq.kit import FULL_RECEIVE, drain, make


def move(qm, source, target, *bodies):
    with qm.open(target) as sub:
        for message in list(source.browse()):
            if message.body in bodies:
                source.move(message.lookup_id, sub)


def test_a_queue_goes_with_its_subqueues_and_leaves_nothing(qm):
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


def test_timers_go_with_their_queue(qm):
    make(qm).send(b"x", delay=60)
    assert qm.delete_queue("q") == 1  # the doctor would find keys of an unknown queue


def test_what_is_not_due_yet_leaves_its_traces_when_its_queue_goes(qm):
    make(qm, "admin")
    q = make(qm)
    for body in (b"a", b"b"):
        q.send(body, delay=60, **FULL_RECEIVE)
    assert qm.delete_queue("q") == 2
    told = [message.message_class for message in drain(qm, "admin")]
    assert told == [MessageClass.NACK_QUEUE_DELETED] * 2


def test_what_is_not_due_yet_is_purged_behind_a_page_of_other_timers(qm):
    q = make(qm)
    q.send_many([Outgoing(body=b"held", time_to_be_received=30)] * 255)
    assert len(q.lock_many(255, 0, lease=600)) == 255
    q.send(b"late", delay=60)
    assert q.purge() == 1
    assert qm.queue_info("q").messages == 255


def test_nothing_uncommitted_is_left_of_a_queue_that_goes(qm):
    t = make(qm, "t", transactional=True)
    unit = qm.transaction(lease=60)
    t.send(b"x", time_to_be_received=60, transaction=unit)
    t.send(b"y", delay=60, transaction=unit)
    qm.delete_queue("t")
    assert qm.info().messages == qm.info().bytes == 0  # the doctor would find keys of an unknown queue


def test_maintenance_of_a_subqueue_counts_for_its_queue(qm):
    q = make(qm)
    q.send(b"a", time_to_be_received=60)
    q.send(b"b")
    move(qm, q, "q;s", b"a", b"b")
    qm.advance_clock(61)
    qm.maintain()
    assert qm.queue_info("q;s").messages == 1
    assert qm.info().messages == 1  # and the doctor compares what the queue counts for its subqueues


def test_lookups_see_what_is_due(qm):
    q = make(qm)
    late = q.send(b"late", delay=5)
    qm.advance_clock(6)
    assert q.peek_by_lookup_id(0, seek=Seek.FIRST).lookup_id == late.lookup_id
    brief = q.send(b"brief", delay=5)
    qm.advance_clock(6)
    assert q.peek_by_lookup_id(late.lookup_id, seek=Seek.NEXT).lookup_id == brief.lookup_id


def test_the_age_of_a_message_counts_from_when_it_was_sent(qm):
    q = make(qm)
    q.send(b"old", time_to_be_received=60, sent_seconds_ago=50)
    q.send(b"new", time_to_be_received=60)
    qm.advance_clock(11)
    assert q.receive(0).body == b"new"
    assert qm.queue_info("q").messages == 0


def test_beginning_a_transaction_is_a_change(qm):
    before = qm.info().history
    qm.transaction(id="chosen").abort()
    between = qm.info().history
    qm.transaction(id="other")
    assert before < between < qm.info().history


def test_a_subqueue_that_is_deleted_counts_no_more(qm):
    q = make(qm)
    q.send_many([b"a", b"b"])
    move(qm, q, "q;s", b"a")
    assert qm.delete_queue("q;s") == 1
    assert [info.messages for info in qm.queues()] == [
        1
    ]  # the doctor compares what q counts for its subqueues


def test_purge_of_more_than_a_page(qm):
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


def seen_and_held(qm):
    """Three messages; the first one is held in a transaction and seen by peeks."""
    t = make(qm, "t", transactional=True)
    with qm.transaction() as tx:
        sent = t.send_many([b"1", b"2", b"3"], transaction=tx)
    unit = qm.transaction(lease=60)
    t.receive_by_lookup_id(sent[0].lookup_id, transaction=unit, allow_peek=True)
    return t, unit, [one.lookup_id for one in sent]


def test_which_reads_show_it(qm):
    """Row 8 of the table in docs/semantics.md."""
    t, unit, sent = seen_and_held(qm)
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
    with pytest.raises(IoTimeout):
        t.peek(0, match=Match(token=token))
    unit.abort()


def test_purge_leaves_what_peeks_see(qm):
    t, unit, _ = seen_and_held(qm)
    t.purge()
    assert qm.queue_info("t").locked == 1
    assert qm.doctor().findings == ()  # the mark by which peeks see it is still there
    unit.abort()
    with pytest.raises(IoTimeout):
        t.peek(0)


def test_the_nearest_of_the_available_and_the_held(qm):
    t, unit, sent = seen_and_held(qm)
    assert t.peek_by_lookup_id(sent[2], seek=Seek.PREVIOUS).body == b"2"
    assert t.peek_by_lookup_id(sent[1], seek=Seek.PREVIOUS).body == b"1"
    assert t.peek_by_lookup_id(0, seek=Seek.FIRST).body == b"1"
    assert t.peek_by_lookup_id(sent[0], seek=Seek.NEXT).body == b"2"
    unit.abort()
