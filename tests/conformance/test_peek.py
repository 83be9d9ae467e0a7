"""Peek Message (MS-MQDMPR 3.1.7.1.15) without a cursor, and browsing."""

from __future__ import annotations

import pytest

from mqredis.errors import IoTimeout, QueueNotAvailable
from tests.support.facade import bodies, drain, send, send_in

case = pytest.mark.case


@case("B2", "F13")
def test_B2_empty_queue(broker):
    q = broker.queue()
    for timeout in (0, -1):
        with pytest.raises(IoTimeout):
            q.peek(timeout)


@case("B4", "F2")
def test_B4_peek_leaves_it_there(broker):
    q = broker.queue()
    send(q, "A")
    assert q.peek(0).body == b"A"
    assert q.peek(0).body == b"A"
    assert drain(q) == [b"A"]


def test_peek_of_a_deleted_queue_is_refused(broker):
    q = broker.queue()
    broker.qm.delete_queue("q")
    with pytest.raises(QueueNotAvailable):
        q.peek(0)


def test_a_transaction_does_not_see_its_own_sends(broker):
    t = broker.transactional()
    with broker.qm.transaction() as tx:
        t.send(b"A", transaction=tx)
        with pytest.raises(IoTimeout):
            t.peek(0)
        with pytest.raises(IoTimeout):
            t.receive(0, transaction=tx)
    assert t.peek(0).body == b"A"


def test_peek_passes_over_locked_messages(broker):
    t = broker.transactional()
    send_in(broker.qm, t, "AB")
    with broker.qm.transaction() as tx:
        t.receive(0, transaction=tx)
        assert t.peek(0).body == b"B"


def test_browse_shows_all_available_messages_in_order(broker):
    q = broker.queue()
    assert bodies(q.browse()) == []
    send(q, "AB")
    send(q, "C", priority=7)
    with q.lock(0) as held:
        assert held.body == b"C"
        assert bodies(q.browse()) == [b"A", b"B"]
        held.abort()
    assert bodies(q.browse()) == [b"C", b"A", b"B"]
    assert broker.qm.queue_info("q").messages == 3
