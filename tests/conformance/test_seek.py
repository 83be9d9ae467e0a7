"""Seek Available Message Position (MS-MQDMPR 3.1.7.3.2)."""

from __future__ import annotations

import pytest

from mqredis.errors import IoTimeout, MessageNotFound
from mqredis.models import Outgoing, Seek
from tests.support.facade import bodies, drain, send, send_in

case = pytest.mark.case


def test_seek_from_the_front_starts_at_the_first_message(broker):
    """D2: taken literally the first message would be skipped and an empty list would break."""
    q = broker.queue()
    with pytest.raises(IoTimeout):
        q.peek(0)
    send(q, "A")
    assert q.peek(0).body == b"A"
    assert q.receive(0).body == b"A"


def test_next_and_previous_visit_the_whole_list(broker):
    q = broker.queue()
    ids = [s.lookup_id for s in send(q, "ABCDE")]
    forward, here = [ids[0]], ids[0]
    while True:
        try:
            here = q.peek_by_lookup_id(here, seek=Seek.NEXT).lookup_id
        except MessageNotFound:
            break
        forward.append(here)
    backward, here = [ids[-1]], ids[-1]
    while True:
        try:
            here = q.peek_by_lookup_id(here, seek=Seek.PREVIOUS).lookup_id
        except MessageNotFound:
            break
        backward.append(here)
    assert forward == ids
    assert backward == ids[::-1]


def test_seeks_skip_locked_messages(broker):
    q = broker.queue()
    q.send_many([Outgoing(body=b"%d" % i) for i in range(50)])
    held = q.lock_many(49, 0)
    assert bodies(m.message for m in held) == [b"%d" % i for i in range(49)]
    assert q.peek(0).body == b"49"
    assert q.peek_by_lookup_id(held[0].lookup_id, seek=Seek.NEXT).body == b"49"
    assert q.peek_by_lookup_id(0, seek=Seek.FIRST).body == b"49"
    with pytest.raises(MessageNotFound):
        q.peek_by_lookup_id(held[48].lookup_id, seek=Seek.PREVIOUS)
    for one in held:
        one.abort()
    assert drain(q) == [b"%d" % i for i in range(50)]


def test_browse_order_is_priority_then_arrival(broker):
    q = broker.queue()
    expected = []
    for i in range(40):
        priority = i * 5 % 8
        q.send(b"%d" % i, priority=priority)
        expected.append((7 - priority, i))
    assert bodies(q.browse()) == [b"%d" % i for _, i in sorted(expected)]


def test_seeks_do_not_find_an_uncommitted_send(broker):
    t = broker.transactional()
    send_in(broker.qm, t, "A")
    tx = broker.qm.transaction()
    t.send(b"B", transaction=tx)
    with pytest.raises(MessageNotFound):
        t.peek_by_lookup_id(t.peek(0).lookup_id, seek=Seek.NEXT)
    assert t.peek_by_lookup_id(0, seek=Seek.LAST).body == b"A"
    tx.commit()
    assert t.peek_by_lookup_id(0, seek=Seek.LAST).body == b"B"
