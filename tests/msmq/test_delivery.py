"""Expiry, delays, dedup keys, several destinations, inhibited queues."""

from __future__ import annotations

from functools import partial

import pytest

from mqredis import (
    Access,
    Acknowledge,
    DuplicateMessage,
    GetInhibited,
    InvalidArgument,
    InvalidName,
    IoTimeout,
    Journal,
    Outgoing,
    PutInhibited,
    QueueNotFound,
    QueueQuotaExceeded,
    Share,
    UnsupportedAccess,
)
from tests.msmq.kit import drain, make
from tests.support.facade import Pending
from tests.support.until import until


def test_expired_message_frees_its_quota(qm):
    q = make(qm, quota_messages=1)
    q.send(b"a", time_to_be_received=1)
    qm.advance_clock(2)
    q.send(b"b")
    assert q.receive(0).body == b"b"


def test_shorter_of_two_time_limits_applies(qm):
    q = make(qm)
    q.send(b"a", time_to_be_received=2, time_to_reach_queue=10)
    qm.advance_clock(1)
    assert q.peek(0).body == b"a"
    qm.advance_clock(1.1)
    with pytest.raises(IoTimeout):
        q.peek(0)


def test_message_behind_many_expired_ones_is_found_at_once(qm):
    q = make(qm)
    q.send_many([Outgoing(body=b"old", time_to_be_received=1)] * 250)
    q.send_many([Outgoing(body=b"old", time_to_be_received=1)] * 250)
    q.send(b"new")
    qm.advance_clock(2)
    assert q.receive(0).body == b"new"
    with pytest.raises(IoTimeout):
        q.receive(0)
    assert qm.info().messages == 0


def test_maintain_removes_expired_messages_of_an_unused_queue(qm):
    q = make(qm)
    q.send_many([Outgoing(body=b"old", time_to_be_received=1)] * 100)
    qm.advance_clock(2)
    qm.maintain()
    assert qm.info().messages == qm.queue_info("q").bytes == 0


def test_delayed_message_is_received_after_its_delay(qm):
    q = make(qm)
    q.send(b"later", delay=10, priority=7)
    q.send(b"now")
    assert (qm.queue_info("q").delayed, qm.queue_info("q").ready) == (1, 1)
    assert q.receive(0).body == b"now"
    with pytest.raises(IoTimeout):
        q.receive(0)
    waiting = Pending(lambda: q.receive(30))
    until(lambda: qm.queue_info("q").waiters == 1)
    qm.advance_clock(10)
    assert waiting.result(30).body == b"later"
    assert qm.queue_info("q").delayed == 0


def test_delayed_message_can_expire_and_be_purged(qm):
    q = make(qm)
    q.send(b"a", delay=10, time_to_be_received=5)
    qm.advance_clock(11)
    with pytest.raises(IoTimeout):
        q.receive(0)
    q.send(b"b", delay=10)
    assert q.purge() == 1
    assert qm.info().messages == 0


def test_dedup_key_is_held_until_the_message_is_removed(qm):
    q = make(qm)
    q.send(b"a", dedup_key="k")
    for _ in range(2):
        with pytest.raises(DuplicateMessage):
            q.send(b"b", dedup_key="k")
    q.send(b"other", dedup_key="k2")
    with q.lock(0), pytest.raises(DuplicateMessage):
        q.send(b"b", dedup_key="k")
    q.send(b"b", dedup_key="k")
    assert [m.body for m in drain(qm, "q")] == [b"other", b"b"]
    assert timer_keys(qm) == []


def test_dedup_window_outlives_the_message(qm):
    q = make(qm)
    q.send(b"a", dedup_key="k", dedup_window=10)
    q.receive(0)
    with pytest.raises(DuplicateMessage):
        q.send(b"b", dedup_key="k")
    qm.advance_clock(10.1)
    q.send(b"b", dedup_key="k", dedup_window=1)
    qm.advance_clock(5)
    with pytest.raises(DuplicateMessage):
        q.send(b"c", dedup_key="k")
    q.purge()
    assert timer_keys(qm) == []


def test_dedup_in_batches_transactions_and_moves(qm):
    q = make(qm)
    with pytest.raises(DuplicateMessage):
        q.send_many([Outgoing(dedup_key="k"), Outgoing(dedup_key="k")])
    assert qm.info().messages == 0
    q.send(b"a", dedup_key="k")
    sub = qm.open("q;s")
    with qm.open("q;s", Access.MOVE) as target:
        q.move(q.peek(0).lookup_id, target)
    with pytest.raises(DuplicateMessage):
        q.send(b"b", dedup_key="k")
    sub.receive(0)
    q.send(b"b", dedup_key="k")
    drain(qm, "q")
    t = make(qm, "t", transactional=True)
    tx = qm.transaction()
    t.send(b"a", dedup_key="k", dedup_window=100, transaction=tx)
    tx.abort()
    with qm.transaction() as tx:
        t.send(b"a", dedup_key="k", dedup_window=1, transaction=tx)
    t.receive(0)
    qm.advance_clock(2)
    qm.maintain()
    assert timer_keys(qm) == []


def timer_keys(qm):
    """Timer keys of all queues in the store."""
    backend = qm._driver
    return [key for key in backend.command("KEYS", "*:t") if key]


def test_send_to_several_destinations_reaches_each_once(qm):
    for name in ("b", "a", "C"):
        make(qm, name)
    with qm.open("b, a,C,a", Access.SEND) as several:
        sent = several.send(b"x", priority=5)
        assert len(sent.copies) == 3
        assert len(several.send_many([b"y", b"z"])) == 2
    for n, name in enumerate(("a", "b", "C")):
        found = drain(qm, name)
        assert [m.body for m in found] == [b"x", b"y", b"z"]
        assert found[0].lookup_id == sent.copies[n].lookup_id


def test_send_to_several_destinations_reaches_those_that_accept(qm):
    make(qm, "a")
    make(qm, "b", quota_messages=0)
    several = qm.open("a,b", Access.SEND)
    with pytest.raises(QueueQuotaExceeded):
        several.send(b"x")
    assert len(drain(qm, "a")) == 1


def test_send_to_several_destinations_in_a_transaction(qm):
    make(qm, "a", transactional=True)
    make(qm, "b", transactional=True)
    several = qm.open("a,b", Access.SEND)
    tx = qm.transaction()
    several.send(b"x", transaction=tx)
    tx.abort()
    with pytest.raises(InvalidArgument), qm.transaction() as tx:
        several.send(b"x", transaction=tx, journal=Journal.DEAD_LETTER)
    with qm.transaction() as tx:
        several.send(b"x", transaction=tx)
    assert [len(drain(qm, name)) for name in "ab"] == [1, 1]


def test_open_of_several_destinations_is_for_sending_only(qm):
    make(qm, "a").close()
    with pytest.raises(UnsupportedAccess):
        qm.open("a,b", Access.RECEIVE)
    with pytest.raises(UnsupportedAccess):
        qm.open("a,b", Access.SEND, Share.DENY_RECEIVE)
    with pytest.raises(QueueNotFound):
        qm.open("a,b", Access.SEND)
    assert not qm.queue_info("a").active
    with qm.open("a,a", Access.SEND) as one:
        assert one.name == "a"


def test_name_with_one_element_left_is_a_single_name(qm):
    """Expand Format Name (MS-MQDMPR 3.1.7.3.8) removes duplicates before the access is checked."""
    with make(qm, "a") as queue:
        queue.send(b"x")
    with qm.open("a, a", Access.RECEIVE, Share.DENY_RECEIVE) as one:
        assert (one.name, one.receive(0).body) == ("a", b"x")
    with pytest.raises(UnsupportedAccess):
        qm.open("a,a", Access.SEND, Share.DENY_RECEIVE)
    for name in ("a,", ",", "a,b;c;d"):
        with pytest.raises(InvalidName):
            qm.open(name, Access.SEND)


def test_inhibited_queue_refuses_sends_and_reads(qm):
    q = make(qm)
    make(qm, "admin")
    q.send(b"a")
    qm.update_queue("q", put_inhibited=True, get_inhibited=True)
    with pytest.raises(PutInhibited):
        q.send(b"b", acknowledge=Acknowledge.FULL_REACH_QUEUE, administration_queue="admin")
    for read in (q.receive, q.peek, q.lock):
        with pytest.raises(GetInhibited):
            read(0)
    qm.update_queue("q", put_inhibited=False, get_inhibited=False)
    q.send(b"b")
    assert len(drain(qm, "q")) == 2


def test_waiting_reader_fails_when_reading_is_inhibited(qm):
    q = make(qm)
    waiting = Pending(lambda: q.receive(30))
    until(lambda: qm.queue_info("q").waiters == 1)
    qm.update_queue("q", get_inhibited=True)
    assert isinstance(waiting.error(10), GetInhibited)


def test_waiting_readers_of_subqueues_fail_when_reading_is_inhibited(qm, connect):
    qm.create_queue("q")
    # Without a notification the readers would learn of it after a minute.
    client = connect(recheck_seconds=60)
    readers = [client.open(f"q;{name}") for name in ("s", "große")]
    waiting = [Pending(partial(reader.receive, 90)) for reader in readers]
    until(lambda: all(qm.queue_info(reader.name).waiters == 1 for reader in readers))
    qm.update_queue("q", get_inhibited=True)
    assert [type(each.error(20)) for each in waiting] == [GetInhibited] * 2
