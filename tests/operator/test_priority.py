"""Operators give messages that wait another priority."""

from __future__ import annotations

import pytest

import mqredis
import mqredis.asyncio
from mqredis import Match, Operator, QueueManager, RetryPolicy, UnsupportedAccess
from tests.operator.kit import bodies, counts, send
from tests.support.backend import Backend


@pytest.mark.parametrize("size", [1, 10_000])
def test_change_priority_reorders_messages_and_keeps_their_ids(
    qm: QueueManager, operator: Operator, size: int
) -> None:
    with qm.open("orders") as queue:
        queue.send(b"a" * size, correlation_id="c")
        queue.send(b"b" * size)
        before = list(queue.browse())
        assert operator.change_priority("orders", 7, lookup_ids=[before[1].lookup_id]).changed == 1
        after = list(queue.browse())
        assert [message.body[:1] for message in after] == [b"b", b"a"]
        assert after[0].priority == 7
        assert after[0].message_id == before[1].message_id
        assert after[0].lookup_id == before[1].lookup_id & (1 << 56) - 1
        assert queue.receive(0, match=Match(message_id=before[1].message_id)).body[:1] == b"b"
        assert operator.change_priority("orders", 3).changed == 0
        assert operator.change_priority("orders", 0).changed == 1
        assert queue.receive(0, match=Match(correlation_id="c")).priority == 0


def test_change_priority_of_an_aborted_message_keeps_its_delivery_count(
    qm: QueueManager, operator: Operator
) -> None:
    send(qm, "a", delay=0)
    send(qm, "b")
    with qm.open("orders") as queue:
        queue.lock(0).abort()
        assert operator.change_priority("orders", 5, selector="$label = 'a'").changed == 1
        assert queue.receive(0).delivery_count == 2


def test_change_priority_of_delayed_messages(qm: QueueManager, operator: Operator) -> None:
    send(qm, "a")
    send(qm, "b", delay=60)
    assert operator.change_priority("orders", 6, scheduled=True).changed == 1
    assert counts(qm) == (1, 1, 0)
    qm.advance_clock(60)
    assert bodies(qm) == [b"b", b"a"]


@pytest.mark.parametrize("isolate", [False, True])
def test_change_priority_of_a_resting_message_keeps_the_end_of_its_rest(
    qm: QueueManager, operator: Operator, backend: Backend, isolate: bool
) -> None:
    qm.create_queue("flights", retry=RetryPolicy(immediate=0, cycles=2, delay=60, isolate=isolate))
    with qm.open("flights") as queue:
        queue.send(b"a", priority=1)
        queue.lock(0).abort()
        (resting,) = qm.messages("flights;retry").items
        chosen = [resting.message.lookup_id]
        assert operator.change_priority("flights;retry", 6, lookup_ids=chosen).changed == 1
        (moved,) = qm.messages("flights;retry").items
        assert (moved.message.priority, moved.due_at) == (6, resting.due_at)
        (timer,) = backend.client().zrange(f"mq:{{{qm.name}}}:q:flights:t", 0, -1)  # none of the earlier id
        assert timer[1:] == moved.message.lookup_id.to_bytes(8).hex().encode()
        qm.advance_clock(61)
        assert queue.receive(0).priority == 6


def test_change_priority_of_a_poison_message_keeps_the_time_of_its_end(
    qm: QueueManager, operator: Operator
) -> None:
    qm.create_queue("flights", retry=RetryPolicy(immediate=0), failed_time_to_live=60)
    with qm.open("flights") as queue:
        queue.send(b"a")
        queue.lock(0).abort()
        assert operator.change_priority("flights;poison", 6).changed == 1
        qm.advance_clock(61)
        assert qm.queue_info("flights;poison").messages == 0


@pytest.mark.parametrize("scheduled", [None, False])
def test_available_messages_in_a_subqueue_of_the_broker_cannot_be_delayed(
    qm: QueueManager, operator: Operator, scheduled: bool | None
) -> None:
    qm.create_queue("flights", retry=RetryPolicy(immediate=0, cycles=2, delay=60))
    with qm.open("flights") as queue:
        queue.send(b"a")
        queue.lock(0).abort()
        with pytest.raises(UnsupportedAccess, match="only delayed ones"):
            operator.reschedule("flights;retry", delay=5, scheduled=scheduled)
        qm.advance_clock(61)
        assert queue.receive(0).body == b"a"


def test_change_priority_in_a_transactional_queue_is_refused(qm: QueueManager, operator: Operator) -> None:
    qm.create_queue("ledger", transactional=True)
    with pytest.raises(mqredis.TransactionUsage, match="transactional"):
        operator.change_priority("ledger", 7)
