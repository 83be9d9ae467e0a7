"""Dequeue Message (MS-MQDMPR 3.1.7.1.10) without a cursor."""

from __future__ import annotations

import pytest

from mqredis.errors import IoTimeout, QueueNotAvailable, TransactionUsage
from mqredis.models import Outgoing
from tests.support.facade import bodies, drain, send, send_in

case = pytest.mark.case


@case("B1", "F13")
def test_B1_empty_queue(broker):
    q = broker.queue()
    with pytest.raises(IoTimeout):
        q.receive(0)


@case("B5", "L")
def test_B5_in_order_until_empty(broker):
    q = broker.queue()
    send(q, "AB")
    assert q.receive(0).body == b"A"
    assert q.receive(0).body == b"B"
    with pytest.raises(IoTimeout):
        q.receive(0)


@case("B7", "L")
def test_B7_locked_message_is_nobody_elses(broker):
    t = broker.transactional()
    send_in(broker.qm, t, "A")
    x1 = broker.qm.transaction()
    assert t.receive(0, transaction=x1).body == b"A"
    other = broker.client().open("t")
    with pytest.raises(IoTimeout):
        other.peek(0)
    with pytest.raises(IoTimeout):
        other.receive(0)
    x1.abort()


@case("B8", "L")
@pytest.mark.parametrize("timeout", [-1, -0.001, 0, 0.0])
def test_B8_negative_timeout_never_waits(broker, timeout):
    q = broker.queue()
    with pytest.raises(IoTimeout):
        q.receive(timeout)


@case("B13", "L")
def test_B13_deleted_queue(broker):
    q = broker.queue()
    send(q, "A")
    broker.qm.delete_queue("q")
    with pytest.raises(QueueNotAvailable):
        q.receive(0)


def test_handle_of_a_deleted_queue_does_not_reach_the_recreated_queue(broker):
    old = broker.queue()
    broker.qm.delete_queue("q")
    new = broker.queue()
    send(new, "A")
    for call in (lambda: old.receive(0), lambda: old.peek(0), lambda: old.send(b"B"), old.cursor):
        with pytest.raises(QueueNotAvailable):
            call()
    assert drain(new) == [b"A"]


@case("H11", "P")
def test_H11_transaction_on_a_plain_queue(broker):
    q = broker.queue()
    send(q, "A")
    with broker.qm.transaction() as tx, pytest.raises(TransactionUsage):
        q.receive(0, transaction=tx)
    assert broker.qm.queue_info("q").locked == 0
    assert q.receive(0).body == b"A"


@case("H26", "L")
def test_H26_two_transactions_side_by_side(broker):
    t = broker.transactional()
    send_in(broker.qm, t, "AB")
    x1, x2 = broker.qm.transaction(), broker.qm.transaction()
    assert t.receive(0, transaction=x1).body == b"A"
    assert t.receive(0, transaction=x2).body == b"B"
    x1.commit()
    x2.commit()
    assert broker.qm.queue_info("t").messages == 0


def test_delivery_count_includes_the_current_delivery(broker):
    q = broker.queue()
    send(q, "A")
    assert q.peek(0).delivery_count == 0
    with q.lock(0) as locked:
        assert locked.message.delivery_count == 1
        locked.abort()
    assert q.peek(0).delivery_count == 1
    assert q.receive(0).delivery_count == 2


def test_receive_many_returns_messages_in_order(broker):
    q = broker.queue()
    q.send_many([Outgoing(body=b"%d" % i) for i in range(300)])
    assert bodies(q.receive_many(3, 0)) == [b"0", b"1", b"2"]
    rest: list[bytes] = []
    while len(rest) < 297:
        rest += bodies(q.receive_many(256, 0))
    assert rest == [b"%d" % i for i in range(3, 300)]
    with pytest.raises(IoTimeout):
        q.receive_many(5, 0)


def test_receive_many_in_an_aborted_transaction_returns_the_messages_to_the_queue(broker):
    t = broker.transactional()
    send_in(broker.qm, t, "ABC")
    tx = broker.qm.transaction()
    assert bodies(t.receive_many(2, 0, transaction=tx)) == [b"A", b"B"]
    tx.abort()
    assert drain(t) == [b"A", b"B", b"C"]


def test_message_times_come_from_the_clock_of_the_broker(broker):
    q = broker.queue()
    send(q, "A")
    broker.qm.advance_clock(100)
    send(q, "B")
    a, b = q.receive(0), q.receive(0)
    assert 100 <= (b.arrived_at - a.arrived_at).total_seconds() < 160
    assert a.arrived_at.tzinfo is not None
    assert a.sent_at == a.arrived_at
