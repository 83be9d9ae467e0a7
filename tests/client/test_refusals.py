"""Errors of transactions and locks name the queue, the cause, and what to do instead."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator

import pytest

import mqredis
from mqredis import (
    LockLost,
    Queue,
    QueueManager,
    Settings,
    Transaction,
    TransactionSequence,
    TransactionUsage,
)
from mqredis.operations.transaction import End
from tests.support.backend import Backend


@pytest.fixture
def qm(backend: Backend) -> Iterator[QueueManager]:
    with mqredis.connect(backend.client(), settings=Settings(allow_volatile=True, test_clock=True)) as qm:
        qm.create_queue("plain")
        qm.create_queue("orders", transactional=True)
        yield qm
        assert qm.doctor().healthy


def pass_time(qm: QueueManager, seconds: float) -> None:
    """Advance the broker's clock and the client's."""
    qm.advance_clock(seconds)
    qm.context.clock = lambda: time.monotonic() + seconds


# Calls without a transaction on a transactional queue.
WITHOUT: dict[str, Callable[[Queue], object]] = {
    "send": lambda orders: orders.send(b"x"),
    "large body": lambda orders: orders.send(b"x" * 20_000),
    "send_many": lambda orders: orders.send_many([b"x", b"y"]),
    "group": lambda orders: orders.group().send(b"x"),
}
# Calls in a transaction on a queue that is not transactional.
WITHIN: dict[str, Callable[[Queue, Transaction], object]] = {
    "send": lambda plain, tx: plain.send(b"x", transaction=tx),
    "send_many": lambda plain, tx: plain.send_many([b"x"], transaction=tx),
    "receive": lambda plain, tx: plain.receive(0, transaction=tx),
    "receive and wait": lambda plain, tx: plain.receive(1, tag="t", transaction=tx),
    "receive_group": lambda plain, tx: plain.receive_group(0, transaction=tx),
    "cursor": lambda plain, tx: plain.cursor().receive(0, transaction=tx),
    "lookup": lambda plain, tx: plain.receive_by_lookup_id(1, transaction=tx),
    "move": lambda plain, tx: plain.move(1, plain.manager.open("plain;late"), transaction=tx),
}


@pytest.mark.parametrize("name", WITHOUT)
def test_send_without_transaction_to_a_transactional_queue_is_refused(qm: QueueManager, name: str) -> None:
    expected = (
        "queue 'orders' is transactional, and the message was sent without a transaction: pass transaction="
    )
    with qm.open("orders") as orders, pytest.raises(TransactionUsage, match=expected):
        WITHOUT[name](orders)


@pytest.mark.parametrize("name", WITHIN)
def test_call_in_a_transaction_on_a_plain_queue_is_refused(qm: QueueManager, name: str) -> None:
    expected = "queue 'plain' is not transactional, but the call names a transaction: leave transaction= out"
    with qm.open("plain") as plain, pytest.raises(TransactionUsage, match=expected):
        WITHIN[name](plain, qm.transaction())


def test_peek_in_a_transaction_is_refused(qm: QueueManager) -> None:
    with (
        qm.open("orders") as orders,
        pytest.raises(TransactionUsage, match="a peek of queue 'orders' takes nothing"),
    ):
        orders.peek(0, transaction=qm.transaction())


def test_publish_without_transaction_to_a_transactional_topic_is_refused(qm: QueueManager) -> None:
    qm.create_queue("news", topic=True, transactional=True)
    with qm.open("news") as news, pytest.raises(TransactionUsage, match="queue 'news' is transactional, and"):
        news.send(b"x")


def test_peek_of_a_locked_message_is_refused(qm: QueueManager) -> None:
    with qm.open("plain") as queue:
        lookup_id = queue.send(b"x").lookup_id
        with queue.lock(0):
            expected = f"message {lookup_id:#018x} of queue 'plain' is locked, so a peek does not show it: peek again"
            with pytest.raises(TransactionUsage, match=expected):
                queue.peek_by_lookup_id(lookup_id)


@pytest.mark.parametrize("end", ["commit", "abort", "reject", "extend"])
def test_lock_in_a_transaction_whose_lease_is_over_is_refused(qm: QueueManager, end: str) -> None:
    with qm.open("orders") as orders:
        with qm.transaction() as tx:
            orders.send(b"x", transaction=tx)
        tx = qm.transaction(lease=10)
        lock = orders.lock(0, transaction=tx)
        pass_time(qm, 11)
        with pytest.raises(TransactionSequence, match="its lease ended 1"):
            getattr(lock, end)()
        assert orders.receive(0).body == b"x"


def test_reject_of_a_message_not_received_in_the_transaction_is_refused(qm: QueueManager) -> None:
    with qm.open("orders") as orders:
        with qm.transaction() as tx:
            orders.send(b"x", transaction=tx)
            orders.send(b"y", transaction=tx)
        message = orders.peek(0)
        expected = f"message {message.lookup_id:#018x} of queue 'orders' was not received in transaction"
        unused = qm.transaction()
        with pytest.raises(TransactionUsage, match=expected):
            unused.reject(orders, message)
        with qm.transaction() as tx:
            orders.receive_by_lookup_id(orders.peek(0).lookup_id + 1, transaction=tx)
            with pytest.raises(TransactionUsage, match=f"{expected} {tx.id!r}: reject what"):
                tx.reject(orders, message)


@pytest.mark.parametrize("end", ["commit", "abort", "reject", "extend"])
def test_settling_a_lock_after_its_lease_names_the_lease_and_the_state(qm: QueueManager, end: str) -> None:
    with qm.open("plain") as queue:
        queue.send(b"x")
        lock = queue.lock(0, lease=10)
        pass_time(qm, 14)
        expected = (
            r"of queue 'plain' is lost: its lease ended 4\.\d s ago, and the message is available again"
        )
        with pytest.raises(LockLost, match=expected):
            getattr(lock, end)()
        again = queue.lock(0)
        with pytest.raises(
            LockLost, match=r"its lease ended 4\.\d s ago, and another reader holds the message"
        ):
            lock.commit()
        again.commit()
        with pytest.raises(LockLost, match=r"its lease ended 4\.\d s ago, and the message is gone"):
            lock.commit()


def test_lost_lock_on_a_poison_message_names_the_subqueues(qm: QueueManager) -> None:
    qm.update_queue("plain", retry=mqredis.RetryPolicy(immediate=0))
    with qm.open("plain") as queue:
        queue.send(b"x")
        lock = queue.lock(0, lease=10)
        pass_time(qm, 14)
        with pytest.raises(LockLost, match="the message is gone, or in a subqueue such as ;retry or ;poison"):
            lock.commit()
        assert qm.failed_messages()


@pytest.mark.parametrize("first", ["commit", "abort", "reject"])
def test_settling_a_lock_twice_names_the_first_settlement(qm: QueueManager, first: str) -> None:
    with qm.open("plain") as queue:
        queue.send(b"x")
        lock = queue.lock(0)
        getattr(lock, first)()
        with pytest.raises(LockLost, match="is lost: commit, abort or reject has settled it before, and the"):
            lock.commit()


def test_commit_many_names_the_lost_lock(qm: QueueManager) -> None:
    with qm.open("plain") as queue:
        queue.send_many([b"x", b"y"])
        first = queue.lock(0, lease=10)
        second = queue.lock(0, lease=60)
        pass_time(qm, 14)
        expected = (
            rf"{first.lookup_id:#018x} of queue 'plain' is lost: its lease ended 4\.\d s ago, and the message"
        )
        with pytest.raises(LockLost, match=expected):
            queue.commit_many([first, second])
        with pytest.raises(
            LockLost, match=f"{second.lookup_id:#018x} .* has settled it before, and the message is"
        ):
            queue.commit_many([second])


@pytest.mark.parametrize("end", ["commit", "abort", "prepare", "extend"])
def test_ending_a_transaction_after_its_lease_names_the_lease(qm: QueueManager, end: str) -> None:
    with qm.open("orders") as orders:
        tx = qm.transaction(lease=10)
        orders.send(b"x", transaction=tx)
        tx.extend(20)
        pass_time(qm, 23)
        expected = rf"{tx.id!r} was rolled back, .* its lease ended 3\.\d s ago; call extend\(\) in time"
        with pytest.raises(TransactionSequence, match=expected):
            getattr(tx, end)()


@pytest.mark.parametrize("call", ["commit", "abort", "prepare", "extend", "send"])
def test_transaction_that_another_process_may_have_committed_is_not_called_undone(
    qm: QueueManager, call: str
) -> None:
    with qm.open("orders") as orders:
        tx = qm.transaction()
        orders.send(b"x", transaction=tx)
        qm.run(
            End(copy.copy(tx.unit), "commit")
        )  # as a forked process does, or another thread at this moment
        assert qm.queue_info("orders").ready == 1
        expected = (
            f"transaction {tx.id!r} is not open any more, .* or another thread, task or client has ended it"
        )
        with pytest.raises(TransactionSequence, match=expected):
            orders.send(b"y", transaction=tx) if call == "send" else getattr(tx, call)()
        if call not in ("extend", "send"):
            with pytest.raises(TransactionSequence, match="is over already"):
                tx.commit()


def test_send_in_a_transaction_after_its_lease_is_refused(qm: QueueManager) -> None:
    with qm.open("orders") as orders:
        tx = qm.transaction(lease=10)
        orders.send(b"x", transaction=tx)
        pass_time(qm, 12)
        with pytest.raises(
            TransactionSequence, match=f"transaction {tx.id!r} is not open any more, .* lease is over"
        ):
            orders.send(b"y", transaction=tx)
