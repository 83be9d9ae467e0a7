"""Messages in the trash keep their fields; restore returns them to where they were."""

from __future__ import annotations

import pytest

import mqredis
from mqredis import Operator, QueueManager
from mqredis.commands.bulk import Action
from mqredis.keys import encode
from mqredis.operations.bulk import Chosen, Job
from tests.operator.kit import bodies, counts, send
from tests.support.buckets import begin_bucket


def failed(qm: QueueManager, *texts: str) -> None:
    """Send messages and fail them, so that they go to ;poison with a failure report."""
    qm.update_queue("orders", retry=mqredis.RetryPolicy(immediate=0))
    send(qm, *texts)
    with qm.open("orders") as queue:
        for _ in texts:
            queue.lock(0).abort()


def only(qm: QueueManager, name: str) -> mqredis.Message:
    with qm.open(name) as queue:
        (message,) = queue.browse()
    return message


def test_restore_returns_a_poison_message_to_poison_with_its_report(
    qm: QueueManager, operator: Operator
) -> None:
    failed(qm, "a")
    before = only(qm, "orders;poison")
    assert (before.properties["failure_attempts"], before.attempts) == (1, 1)
    assert operator.delete("orders;poison", selector="$label = 'a'", trash=600).changed == 1
    trashed = only(qm, "orders;trash")
    fields = ("lookup_id", "properties", "reason", "attempts", "delivery_count", "arrived_at")
    assert [getattr(trashed, name) for name in fields] == [getattr(before, name) for name in fields]
    assert operator.restore("orders").changed == 1
    after = only(qm, "orders;poison")
    assert [getattr(after, name) for name in fields] == [getattr(before, name) for name in fields]
    assert (counts(qm), counts(qm, "orders;trash")) == ((0, 0, 0), (0, 0, 0))
    qm.advance_clock(601)
    qm.maintain()
    assert counts(qm, "orders;poison") == (1, 0, 0)


def test_restore_returns_each_message_to_its_queue(qm: QueueManager, operator: Operator) -> None:
    failed(qm, "a", "b")
    send(qm, "c", "d")
    send(qm, "later", delay=60)
    assert operator.move("orders", "orders;a side", selector="$label = 'd'").changed == 1
    for name in ("orders", "orders;poison", "orders;a side"):
        operator.delete(name, trash=600)
    assert counts(qm, "orders;trash") == (4, 1, 0)
    assert operator.restore("orders", selector="$label <> 'b'", scheduled=False).changed == 3
    assert operator.restore("orders", scheduled=True).changed == 1
    assert bodies(qm, "orders;poison") == [b"a"]
    assert bodies(qm, "orders;a side") == [b"d"]
    assert bodies(qm, "orders;trash") == [b"b"]
    assert (bodies(qm), counts(qm)) == ([b"c"], (1, 1, 0))


def test_poison_message_moved_from_the_trash_has_no_attempts(qm: QueueManager, operator: Operator) -> None:
    failed(qm, "a")
    operator.delete("orders;poison", trash=600)
    assert operator.move("orders;trash", "orders").changed == 1
    message = only(qm, "orders")
    assert (message.properties, message.reason, message.attempts) == ({}, None, 0)


def test_message_leaves_the_trash_as_soon_as_its_time_is_over(qm: QueueManager, operator: Operator) -> None:
    """The queue looks at its timers when this one is due, which is long before its statistics make it look."""
    begin_bucket(qm)
    send(qm, "a")
    assert operator.delete("orders", trash=30).changed == 1
    with qm.open("orders;trash") as trash:
        qm.advance_clock(29)
        assert trash.peek(0).body == b"a"
        qm.advance_clock(1)
        with pytest.raises(mqredis.IoTimeout):
            trash.peek(0)


def test_restored_poison_message_is_deleted_after_failed_time_to_live(
    qm: QueueManager, operator: Operator
) -> None:
    qm.update_queue("orders", failed_time_to_live=100)
    failed(qm, "a", "b")
    operator.delete("orders;poison", selector="$label = 'a'", trash=600)
    operator.restore("orders")
    qm.advance_clock(50)
    operator.delete("orders;poison", selector="$label = 'b'", trash=600)
    qm.advance_clock(50)
    qm.maintain()
    assert (counts(qm, "orders;poison"), counts(qm, "orders;trash")) == ((0, 0, 0), (1, 0, 0))
    operator.restore("orders")
    qm.advance_clock(99)
    qm.maintain()
    assert bodies(qm, "orders;poison") == [b"b"]
    qm.advance_clock(1)
    qm.maintain()
    assert counts(qm, "orders;poison") == (0, 0, 0)


@pytest.mark.parametrize("away", [5, 50])
def test_restored_message_that_waited_for_a_retry_is_retried(
    qm: QueueManager, operator: Operator, away: int
) -> None:
    qm.update_queue("orders", retry=mqredis.RetryPolicy(immediate=0, cycles=3, delay=10, isolate=True))
    send(qm, "a")
    with qm.open("orders") as queue:
        queue.lock(0).abort()
    assert operator.delete("orders;retry", trash=600).changed == 1
    qm.advance_clock(away)
    qm.maintain()
    assert operator.restore("orders").changed == 1
    qm.maintain()
    assert bodies(qm) == ([] if away < 10 else [b"a"])
    qm.advance_clock(5)
    qm.maintain()
    message = only(qm, "orders")
    assert (message.attempts, counts(qm, "orders;retry")) == (1, (0, 0, 0))


def test_restored_lapsed_message_returns_to_its_queue(qm: QueueManager, operator: Operator) -> None:
    qm.update_queue("orders", retry=mqredis.RetryPolicy(immediate=3, delay=10, isolate=True))
    send(qm, "a")
    with qm.open("orders") as queue:
        queue.lock(0, lease=1)
        for seconds in (2, 10):  # the lease, then the retry delay
            qm.advance_clock(seconds)
            qm.maintain()
    assert operator.delete("orders;lapsed", trash=6000).changed == 1
    qm.advance_clock(1000)
    qm.maintain()
    assert operator.restore("orders").changed == 1
    assert bodies(qm, "orders;lapsed") == [b"a"]
    qm.advance_clock(600)
    qm.maintain()
    assert bodies(qm) == [b"a"]


def test_redriven_copy_does_not_expire_with_the_trash(qm: QueueManager, operator: Operator) -> None:
    qm.create_queue("other")
    with qm.open("orders") as queue:
        first = queue.send(b"a").lookup_id
        queue.send(b"b", journal=mqredis.Journal.DEAD_LETTER, time_to_be_received=30)
    operator.delete("orders", trash=60)
    assert operator.redrive("orders;trash", to="other", lookup_ids=[first]).changed == 1
    for _ in range(3):
        qm.advance_clock(31)
        qm.maintain()
        assert (bodies(qm, "other"), bodies(qm, "system$;deadletter")) == ([b"a"], [b"b"])


@pytest.mark.parametrize("name", ["orders;journal", "system$;deadletter", "orders;trash"])
def test_journals_system_queues_and_the_trash_have_no_trash(
    qm: QueueManager, operator: Operator, name: str
) -> None:
    with pytest.raises(mqredis.UnsupportedAccess, match="without"):
        operator.delete(name, trash=60)


def test_message_whose_trash_time_and_life_are_over_is_deleted_once(
    qm: QueueManager, operator: Operator
) -> None:
    send(qm, "a", time_to_be_received=30, delay=20)
    send(qm, "b", time_to_be_received=30)
    send(qm, "c", time_to_be_received=300)
    operator.delete("orders", trash=40)
    qm.advance_clock(50)
    qm.maintain()
    assert counts(qm, "orders;trash") == (0, 0, 0)
    assert (qm.statistics("orders;trash").expired, qm.statistics("orders;trash").purged) == (2, 1)


def test_restore_creates_the_subqueue_again(qm: QueueManager, operator: Operator) -> None:
    send(qm, "a", "b")
    operator.move("orders", "orders;aside", selector="$label = 'b'")
    operator.delete("orders", trash=600)
    operator.delete("orders;aside", trash=600)
    qm.maintain()
    assert "orders;aside" not in [queue.name for queue in qm.queues()]
    assert operator.restore("orders").changed == 2
    assert (bodies(qm), bodies(qm, "orders;aside")) == ([b"a"], [b"b"])


def test_restore_creates_a_subqueue_that_was_deleted_while_the_call_was_on_its_way(
    qm: QueueManager, operator: Operator
) -> None:
    send(qm, "a")
    operator.move("orders", "orders;aside")
    operator.delete("orders;aside", trash=600)
    qm.maintain()
    # As if the client had found the subqueue: the call names it.
    job = Job("orders;trash", Action("restore", encode("orders;aside")), Chosen(), [], b"")
    assert qm.run(job.call(qm.context, "")).changed == 1
    assert bodies(qm, "orders;aside") == [b"a"]
