"""Purge Queue (MS-MQDMPR 3.1.7.1.7)."""

from __future__ import annotations

import pytest

from mqredis.errors import IoTimeout, QueueNotAvailable
from mqredis.models import Outgoing
from tests.support.facade import bodies, drain, send, send_in

case = pytest.mark.case


@case("I1", "L")
def test_I1_nothing_is_left(broker):
    q = broker.queue()
    send(q, "ABC")
    assert q.purge() == 3
    info = broker.qm.queue_info("q")
    assert (info.messages, info.ready, info.bytes) == (0, 0, 0)
    manager = broker.qm.info()
    assert (manager.messages, manager.bytes) == (0, 0)
    with pytest.raises(IoTimeout):
        q.receive(0)


def test_purge_of_an_empty_queue_returns_zero(broker):
    assert broker.queue().purge() == 0


def test_purge_removes_large_bodies(broker):
    q = broker.queue()
    q.send(b"x" * 10_000)
    q.purge()
    q.send(b"y" * 10_000)
    assert drain(q) == [b"y" * 10_000]


def test_purged_message_of_a_transaction_is_removed_at_abort(broker):
    t = broker.transactional()
    send_in(broker.qm, t, "ABC")
    tx = broker.qm.transaction()
    t.receive(0, transaction=tx)
    t.purge()
    assert bodies(t.browse()) == []
    assert broker.qm.queue_info("t").messages == 1
    send_in(broker.qm, t, "D")
    tx.abort()
    assert drain(t) == [b"D"]


def test_purged_message_is_removed_when_its_lock_lapses(broker):
    q = broker.queue()
    send(q, "AB")
    q.lock(0, lease=10)
    q.purge()
    broker.qm.advance_clock(11)
    with pytest.raises(IoTimeout):
        q.receive(0)
    assert broker.qm.queue_info("q").messages == 0


def test_purge_does_not_affect_other_queues(broker):
    q, other = broker.queue(), broker.queue("other")
    send(q, "A")
    send(other, "B")
    q.purge()
    assert drain(other) == [b"B"]


def test_purge_removes_thousands_of_messages_but_keeps_locked_ones(broker):
    q = broker.queue()
    for start in range(0, 3000, 250):
        q.send_many([Outgoing(body=b"%d" % i) for i in range(start, start + 250)])
    held = q.lock_many(5, 0)
    q.purge()
    assert broker.qm.queue_info("q").messages == 5
    for one in held:
        one.abort()
    assert broker.qm.queue_info("q").messages == 0
    assert broker.qm.info().messages == 0


def test_purge_of_a_deleted_queue_is_refused(broker):
    q = broker.queue()
    broker.qm.delete_queue("q")
    with pytest.raises(QueueNotAvailable):
        q.purge()
