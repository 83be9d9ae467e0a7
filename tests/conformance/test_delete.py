"""Delete Queue (MS-MQDMPR 3.1.7.1.4)."""

from __future__ import annotations

import pytest

from mqredis.errors import QueueNotAvailable, QueueNotFound
from mqredis.models import Outgoing
from tests.support.facade import drain, send

case = pytest.mark.case


@case("I16", "L")
def test_I16_locked_messages_go_too(broker):
    q = broker.queue()
    send(q, "BA")
    locked = q.lock(0)
    broker.qm.delete_queue("q")
    manager = broker.qm.info()
    assert (manager.queues, manager.messages, manager.bytes) == (0, 0, 0)
    with pytest.raises(QueueNotAvailable):
        locked.commit()


def test_handle_of_a_deleted_queue_refuses_every_call(broker):
    q = broker.queue()
    sent = send(q, "A")[0]
    c = q.cursor()
    broker.qm.delete_queue("q")
    calls = (
        lambda: q.send(b"B"),
        lambda: q.receive(0),
        lambda: q.peek(0),
        lambda: q.lock(0),
        lambda: q.receive_many(2, 0),
        lambda: q.peek_by_lookup_id(sent.lookup_id),
        lambda: list(q.browse()),
        lambda: c.peek(0),
        q.cursor,
        q.purge,
    )
    for call in calls:
        with pytest.raises(QueueNotAvailable):
            call()
    q.close()


def test_deleted_queue_is_not_listed_or_found(broker):
    broker.queue()
    broker.queue("other")
    broker.qm.delete_queue("q")
    assert [i.name for i in broker.qm.queues()] == ["other"]
    for call in (broker.qm.queue_info, broker.qm.open, broker.qm.delete_queue):
        with pytest.raises(QueueNotFound):
            call("q")


def test_recreated_queue_is_empty_with_default_properties(broker):
    q = broker.queue(quota_messages=5, label="old")
    q.send_many([Outgoing(body=b"x" * 9000) for _ in range(5)])
    q.lock(0, lease=5)
    broker.qm.delete_queue("q")
    new = broker.queue()
    info = broker.qm.queue_info("q")
    assert (info.label, info.quota_messages, info.messages, info.bytes, info.waiters) == ("", None, 0, 0, 0)
    broker.qm.advance_clock(6)
    send(new, "A")
    assert drain(new) == [b"A"]


def test_lookup_ids_continue_after_a_queue_is_recreated(broker):
    first = send(broker.queue(), "A")[0].lookup_id
    broker.qm.delete_queue("q")
    assert send(broker.queue(), "B")[0].lookup_id == first + 1


def test_lock_of_a_deleted_queue_does_not_affect_the_recreated_queue(broker):
    old = broker.queue()
    send(old, "A")
    locked = old.lock(0)
    broker.qm.delete_queue("q")
    new = broker.queue()
    send(new, "B")
    for end in (locked.commit, locked.abort):
        with pytest.raises(QueueNotAvailable):
            end()
    assert drain(new) == [b"B"]
