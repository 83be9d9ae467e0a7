"""Locks and transactions that operators end by force."""

from __future__ import annotations

import threading
from contextlib import nullcontext

import pytest

import mqredis
from mqredis import BulkResult, LockLost, Operator, QueueManager, TransactionSequence
from mqredis.worker import Retry, Worker
from tests.support.backend import Backend


def entries(qm: QueueManager) -> list[tuple[str, object, object]]:
    """What each entry of the log says: the action, how much it has changed, and whether it has finished."""
    with qm.open(mqredis.ACTIONS, mqredis.Access.PEEK) as log:
        return [
            (entry.label, entry.properties["changed"], entry.properties["finished"]) for entry in log.browse()
        ]


@pytest.mark.parametrize("count", [1, 3])
def test_released_message_is_available_and_its_reader_loses_the_lock(
    qm: QueueManager, operator: Operator, count: int
) -> None:
    with qm.open("orders") as queue:
        queue.send_many([b"x"] * count)
        locks = queue.lock_many(count, 0)
        assert operator.release("orders", [locks[0].message.lookup_id]).changed == 1
        with pytest.raises(LockLost):
            locks[0].extend()
        with pytest.raises(LockLost):
            locks[0].commit()
        for lock in locks[1:]:
            lock.commit()
        assert queue.receive(0).delivery_count == 2
    assert entries(qm) == [("release", 1, True)]


def test_release_with_reject_dead_letters_the_message(qm: QueueManager, operator: Operator) -> None:
    with qm.open("orders") as queue:
        queue.send(b"x", journal=mqredis.Journal.DEAD_LETTER)
        lock = queue.lock(0)
        operator.release("orders", [lock.message.lookup_id], reject="it never ends")
        with pytest.raises(LockLost):
            lock.commit()
    with qm.open(mqredis.DEAD_LETTER) as letters:
        assert "it never ends" in str(letters.peek(0).reason)


def test_message_that_is_rejected_in_a_subqueue_makes_room_in_its_queue(
    qm: QueueManager, operator: Operator
) -> None:
    qm.update_queue("orders", quota_messages=1)
    with qm.open("orders") as queue, qm.open("orders;aside") as aside:
        queue.move(queue.send(b"x").lookup_id, aside)
        operator.release("orders;aside", [aside.lock(0).message.lookup_id], reject="it never ends")
        queue.send(b"y")
        assert queue.receive(0).body == b"y"


def test_release_counts_messages_that_cannot_be_released(qm: QueueManager, operator: Operator) -> None:
    qm.create_queue("ledger", transactional=True)
    with qm.open("ledger") as queue, qm.transaction() as outer:
        sent = queue.send(b"x", transaction=outer).lookup_id
        assert operator.release("ledger", [sent, 999]) == BulkResult(changed=0, locked=1, missing=1)
    with qm.open("orders") as queue:
        free = queue.send(b"x").lookup_id
    assert operator.release("orders", [free]) == BulkResult(changed=0, missing=1)


def test_lock_whose_lease_is_over_is_not_ended_by_force(qm: QueueManager, operator: Operator) -> None:
    """The message is available already, so the release changes nothing."""
    with qm.open("orders") as queue:
        queue.send(b"x")
        lock = queue.lock(0, lease=5)
        qm.advance_clock(6)
        released = operator.release("orders", [lock.message.lookup_id])
        assert released == BulkResult(changed=0, locked=0, missing=1)


@pytest.mark.parametrize("reject", [None, "it never ends"])
def test_message_named_twice_is_released_once(
    qm: QueueManager, operator: Operator, reject: str | None
) -> None:
    with qm.open("orders") as queue:
        queue.send(b"x")
        held = queue.lock(0).message.lookup_id
        free = queue.send(b"y").lookup_id
        released = operator.release("orders", [held, held, free, free], reject=reject)
        assert released == BulkResult(changed=1, locked=0, missing=1)
    assert qm.queue_info("orders").messages == (2 if reject is None else 1)
    assert qm.doctor().findings == ()


def test_release_with_a_token_acts_once(qm: QueueManager, operator: Operator) -> None:
    with qm.open("orders") as queue:
        queue.send(b"x")
        lookup_id = queue.lock(0).message.lookup_id
        assert operator.release("orders", [lookup_id], token="t").changed == 1
        lock = queue.lock(0)
        assert operator.release("orders", [lookup_id], token="t").changed == 1
        lock.commit()


def test_aborted_transaction_is_undone_and_its_client_is_refused(
    qm: QueueManager, operator: Operator
) -> None:
    qm.create_queue("ledger", transactional=True)
    with qm.open("ledger") as queue:
        with qm.transaction() as unit:
            queue.send(b"old", transaction=unit)
        unit = qm.transaction(id="stuck")
        assert queue.receive(0, transaction=unit).body == b"old"
        queue.send(b"new", transaction=unit)
        operator.abort("stuck", token="t")
        operator.abort("stuck", token="t")
        assert [message.body for message in queue.browse()] == [b"old"]
        with pytest.raises(TransactionSequence):
            unit.commit()
    with pytest.raises(TransactionSequence, match="stuck"):
        operator.abort("stuck")
    assert entries(qm) == [("abort", 2, True)]


@pytest.mark.parametrize("transactional", [False, True], ids=["lock", "transaction"])
def test_worker_cancels_the_handler_of_a_released_message(
    qm: QueueManager, operator: Operator, backend: Backend, transactional: bool
) -> None:
    """The handler is cancelled at the next renewal of its lease; then the message is handled again."""
    qm.create_queue("jobs", transactional=transactional)
    begun, cancelled, again = threading.Event(), threading.Event(), threading.Event()
    worker = Worker(shutdown_seconds=5)

    @worker.consumer("jobs", lease=0.6, retry=Retry(delay=0))
    def handle(message: mqredis.Message) -> None:
        if begun.is_set():
            again.set()
            return
        begun.set()
        try:
            while not cancelled.wait(0.01):
                pass
        finally:
            cancelled.set()

    with worker.background(qm), qm.open("jobs") as queue:
        with qm.transaction() if transactional else nullcontext() as unit:
            sent = queue.send(b"x", transaction=unit)
        assert begun.wait(30)
        if transactional:
            with backend.client() as raw:
                (transaction,) = [
                    key.decode() for key in raw.hkeys(f"mq:{{{qm.name}}}:txs") if b":" not in key
                ]
            operator.abort(transaction)
        else:
            assert operator.release("jobs", [sent.lookup_id]).changed == 1
        assert cancelled.wait(30)
        assert again.wait(30)
