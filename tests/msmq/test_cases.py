"""Published cases of timers, journals, dead letters and acknowledgements (K and parts of F to J), named by id."""

from __future__ import annotations

import pytest

from mqredis import (
    TRANSACTIONAL_DEAD_LETTER,
    Access,
    Acknowledge,
    Journal,
    MessageNotFound,
    MessageTimedOut,
    QueueQuotaExceeded,
    TransactionUsage,
)
from tests.msmq.kit import FULL_RECEIVE, classes, drain, gone, make, read
from tests.support.facade import Pending, send, send_in
from tests.support.until import until

# ---- F, H, I, J --------------------------------------------------------------------------------------------


def test_f21(qm):
    q, sub = make(qm), None
    send(q, "A")
    sub = qm.open("q;s")
    waiting = Pending(lambda: sub.receive(30))
    until(lambda: qm.queue_info("q;s").waiters == 1)
    with qm.open("q;s", Access.MOVE) as target:
        q.move(q.peek(0).lookup_id, target)
    assert waiting.result(30).body == b"A"


def test_h4(qm):
    t = make(qm, "t", transactional=True, journaling=True)
    make(qm, "admin")
    tx = qm.transaction()
    t.send(
        b"A",
        transaction=tx,
        journal=Journal.DEAD_LETTER | Journal.JOURNAL,
        acknowledge=Acknowledge.FULL_RECEIVE | Acknowledge.FULL_REACH_QUEUE,
        administration_queue="admin",
    )
    tx.abort()
    assert qm.info().messages == 0


def test_h19(qm):
    t = make(qm, "t", transactional=True)
    make(qm, "admin")
    send_in(qm, t, "A", **FULL_RECEIVE)
    tx = qm.transaction()
    tx.reject(t, t.receive(0, transaction=tx))
    tx.abort()
    assert read(t) == "A"
    assert classes(qm) == []


def test_h20(qm):
    t = make(qm, "t", transactional=True)
    send_in(qm, t, "AB")
    tx = qm.transaction()
    first = t.receive(0, transaction=tx)
    with pytest.raises(TransactionUsage):
        tx.reject(t, t.peek(0))
    with pytest.raises(MessageNotFound):
        tx.reject(t, first.replace(lookup_id=99))
    tx.abort()


def test_h22(qm):
    q = make(qm)
    send(q, "A")
    q.lock(0).abort()
    assert q.peek(0).abort_count == 0


def test_h23(qm):
    q = make(qm)
    make(qm, "admin")
    tx = qm.transaction()
    with pytest.raises(TransactionUsage):
        q.send(b"A", transaction=tx, acknowledge=Acknowledge.NEGATIVE_ARRIVAL, administration_queue="admin")
    tx.abort()
    gone(q)
    assert classes(qm) == [0x8009]


def test_h28(qm):
    t = make(qm, "t", transactional=True)
    make(qm, "admin")
    send_in(qm, t, "A", **FULL_RECEIVE)
    tx = qm.transaction()
    t.receive(0, transaction=tx)
    t.purge()
    tx.commit()
    assert classes(qm) == [0x4000]


def test_h29(qm):
    t = make(qm, "t", transactional=True)
    make(qm, "admin")
    send_in(qm, t, "A", **FULL_RECEIVE)
    tx = qm.transaction()
    t.receive(0, transaction=tx)
    t.purge()
    tx.abort()
    gone(t)
    assert classes(qm) == [0xC001]


def test_i1(qm):
    q = make(qm)
    make(qm, "admin")
    send(q, "AB")
    send(q, "C", **FULL_RECEIVE)
    assert q.purge() == 3
    assert qm.queue_info("q").bytes == 0
    assert classes(qm) == [0xC001]


def test_i16(qm):
    q = make(qm)
    make(qm, "admin")
    send(q, "AB", **FULL_RECEIVE)
    q.lock(0)
    qm.delete_queue("q")
    assert classes(qm) == [0xC000, 0xC000]
    assert qm.info().messages == 0


def test_j10(qm):
    q = make(qm, journaling=True, journal_quota_bytes=0)
    send(q, "A")
    assert q.receive(0).body == b"A"
    assert drain(qm, "q;journal") == []


def test_j12(qm):
    q = make(qm, quota_messages=1)
    send(q, "A")
    with qm.open("q;s", Access.MOVE) as target:
        q.move(q.peek(0).lookup_id, target)
        with pytest.raises(QueueQuotaExceeded):
            send(q, "B")


def test_j13(qm):
    make(qm, "a"), make(qm, "b", quota_messages=0)
    with pytest.raises(QueueQuotaExceeded) as refused:
        qm.open("a,b", Access.SEND).send(b"A")
    assert refused.value.enqueue_status == 1
    assert len(drain(qm, "a")) == 1


# ---- K: timers ---------------------------------------------------------------------------------------------


def test_k2(qm):
    q = make(qm)
    send(q, "A", time_to_be_received=0)
    gone(q)


def test_k3(qm):
    q = make(qm)
    waiting = Pending(lambda: q.receive(None))
    until(lambda: qm.queue_info("q").waiters == 1)
    send(q, "A", time_to_be_received=0)
    send(q, "B")
    assert waiting.result(30).body == b"B"  # D21: A expired, and no reader got it
    assert qm.info().messages == 0


def test_k5(qm):
    t = make(qm, "t", transactional=True)
    make(qm, "admin")
    send_in(qm, t, "A", time_to_be_received=1, **FULL_RECEIVE)
    tx = qm.transaction()
    t.receive(0, transaction=tx)
    qm.advance_clock(2)
    tx.abort()
    gone(t)
    assert classes(qm) == [0xC002]


def test_k6(qm):
    q = make(qm)
    make(qm, "admin")
    send(q, "A", time_to_be_received=1, **FULL_RECEIVE)
    lock = q.lock(0)
    qm.advance_clock(2)
    lock.abort()
    gone(q)
    assert classes(qm) == [0xC002]


def test_k8(qm):
    q = make(qm)
    with pytest.raises(MessageTimedOut) as refused:
        send(q, "A", sent_seconds_ago=10, time_to_reach_queue=5)
    assert refused.value.enqueue_status == 3


def test_k9(qm):
    q = make(qm)
    send(q, "A", time_to_be_received=2, time_to_reach_queue=10)
    qm.advance_clock(1)
    assert read(q) == "A"
    qm.advance_clock(1)
    gone(q)


def test_k11(qm):
    t = make(qm, "t", transactional=True)
    send_in(qm, t, "A", time_to_be_received=1, journal=Journal.DEAD_LETTER)
    qm.advance_clock(1)
    qm.maintain()
    assert classes(qm, TRANSACTIONAL_DEAD_LETTER) == [0xC002]


def test_k12(qm):
    q = make(qm)
    send(q, "A")
    qm.advance_clock(10**8)
    assert read(q) == "A"


def test_k14(qm):
    q = make(qm, quota_bytes=30)
    send(q, "A", time_to_be_received=1)
    with pytest.raises(QueueQuotaExceeded):
        send(q, "B")
    qm.advance_clock(1)
    send(q, "B")
