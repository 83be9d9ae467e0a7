"""Quotas of queue and manager (MS-MQDMPR 3.1.7.1.9 steps 1-2), byte counts, throttle (3.1.7.2.5-6)."""

from __future__ import annotations

import pytest

from mqredis.errors import ManagerQuotaExceeded, QueueQuotaExceeded
from tests.support.facade import drain, send, send_in

case = pytest.mark.case


# Identifiers the broker makes up itself may differ in length.
ID = b"0123456789abcdef"


def size_of(broker, body):
    """What the broker counts for a message with this body."""
    with broker.qm.open(broker.qm.create_queue("scales").name) as scales:
        scales.send(body, message_id=ID)
    size = broker.qm.queue_info("scales").bytes
    broker.qm.delete_queue("scales")
    return size


@case("J1", "F")
def test_J1_exact_fit_passes(broker):
    body = b"x" * 200
    size = size_of(broker, body)
    assert size >= len(body)
    q = broker.queue(quota_bytes=5 * size)
    for _ in range(5):
        q.send(body, message_id=ID)
    assert broker.qm.queue_info("q").bytes == 5 * size
    with pytest.raises(QueueQuotaExceeded) as caught:
        q.send(b"")
    assert caught.value.enqueue_status == 1
    q.receive(0)
    q.send(body, message_id=ID)


def test_message_one_byte_over_the_quota_is_refused(broker):
    size = size_of(broker, b"x" * 200)
    q = broker.queue(quota_bytes=size)
    with pytest.raises(QueueQuotaExceeded):
        q.send(b"x" * 201, message_id=ID)
    q.send(b"x" * 200, message_id=ID)


@case("J3", "L")
def test_J3_the_manager_comes_first(broker):
    q = broker.queue(quota_messages=1)
    send(q, "A")
    broker.qm.set_quota(messages=1)
    with pytest.raises(ManagerQuotaExceeded) as caught:
        q.send(b"B")
    assert caught.value.enqueue_status == 2


@case("J4", "L")
def test_J4_throttled(broker):
    q = broker.queue()
    broker.qm.throttle(True)
    assert broker.qm.info().throttled is True
    with pytest.raises(ManagerQuotaExceeded):
        q.send(b"A")
    broker.qm.throttle(False)
    send(q, "A")
    broker.qm.throttle(True)
    assert drain(q) == [b"A"]  # reading goes on


@case("J6", "F17")
def test_J6_locked_messages_count(broker):
    t = broker.transactional(quota_messages=1)
    send_in(broker.qm, t, "A")
    x1 = broker.qm.transaction()
    t.receive(0, transaction=x1)
    with broker.qm.transaction() as x2, pytest.raises(QueueQuotaExceeded):
        t.send(b"B", transaction=x2)
    x1.commit()
    send_in(broker.qm, t, "B")


def test_uncommitted_sends_count_for_the_quota(broker):
    t = broker.transactional(quota_messages=1)
    x1 = broker.qm.transaction()
    t.send(b"A", transaction=x1)
    with pytest.raises(QueueQuotaExceeded):
        t.send(b"B", transaction=x1)
    x1.abort()
    send_in(broker.qm, t, "C")
    assert drain(t) == [b"C"]


@case("J7", "F17")
def test_J7_abort_counts_nothing_twice(broker):
    t = broker.transactional()
    send_in(broker.qm, t, "A")
    before = broker.qm.queue_info("t").bytes
    for _ in range(10):
        x1 = broker.qm.transaction()
        t.receive(0, transaction=x1)
        assert broker.qm.queue_info("t").bytes == before
        x1.abort()
    info = broker.qm.queue_info("t")
    assert (info.bytes, info.messages) == (before, 1)
    assert broker.qm.info().bytes == before


@case("J9", "P")
def test_J9_lowered_below_the_present_size(broker):
    q = broker.queue()
    send(q, "ABC")
    broker.qm.update_queue("q", quota_messages=1)
    with pytest.raises(QueueQuotaExceeded):
        q.send(b"D")
    assert drain(q) == [b"A", b"B", b"C"]
    send(q, "D")


def test_manager_quota_limits_messages_and_bytes(broker):
    size = size_of(broker, b"x" * 100)
    q1, q2 = broker.queue("q1"), broker.queue("q2")
    broker.qm.set_quota(messages=2)
    send(q1, "A")
    send(q2, "B")
    with pytest.raises(ManagerQuotaExceeded):
        q1.send(b"C")
    assert broker.qm.info().quota_messages == 2
    drain(q1)
    drain(q2)
    broker.qm.set_quota(bytes=2 * size)
    assert (broker.qm.info().quota_messages, broker.qm.info().quota_bytes) == (None, 2 * size)
    q1.send(b"x" * 100, message_id=ID)
    q2.send(b"x" * 100, message_id=ID)
    with pytest.raises(ManagerQuotaExceeded):
        q1.send(b"")
    q2.receive(0)
    q1.send(b"x" * 100, message_id=ID)


def test_quota_of_zero_refuses_every_message(broker):
    q = broker.queue(quota_bytes=0)
    with pytest.raises(QueueQuotaExceeded):
        q.send(b"")
    assert broker.qm.queue_info("q").messages == 0


def test_counters_are_zero_after_every_kind_of_removal(broker):
    t = broker.transactional()
    send_in(broker.qm, t, "ABCDE")
    t.send(b"F" * 5000, transaction=(tx := broker.qm.transaction()))
    tx.abort()
    t.receive(0)
    t.lock(0).commit()
    with broker.qm.transaction() as tx:
        t.receive(0, transaction=tx)
    t.receive_by_lookup_id(t.peek(0).lookup_id)
    t.cursor().receive(0)
    info, manager = broker.qm.queue_info("t"), broker.qm.info()
    assert (info.messages, info.bytes, info.ready, info.locked) == (0, 0, 0, 0)
    assert (manager.messages, manager.bytes) == (0, 0)
