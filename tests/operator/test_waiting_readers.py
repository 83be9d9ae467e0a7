"""Waiting readers are notified of messages that operators' actions send, and of log entries."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import mqredis
from mqredis import Access, Operator, QueueManager, Settings
from mqredis.keys import ACTIONS
from tests.support.backend import Backend
from tests.support.facade import Pending
from tests.support.until import until

# Without a notification a reader would find the message after half a minute.
LATE = Settings(test_clock=True, allow_volatile=True, recheck_seconds=60)
SOON = 20.0

ACTS: dict[str, Callable[[Operator], object]] = {
    "trigger": lambda operator: operator.trigger_schedule("nightly"),
    "pause": lambda operator: operator.pause("orders"),
    "begin": lambda operator: operator.begin("reorganise", token="1"),
}


@pytest.mark.parametrize("act, queue", [("trigger", "orders"), *((act, ACTIONS) for act in ACTS)])
def test_waiting_reader_is_notified_of_an_operator_action(
    backend: Backend, qm: QueueManager, operator: Operator, act: str, queue: str
) -> None:
    operator.create_schedule("nightly", "0 3 * * *", "orders", "go")
    qm.open(ACTIONS).purge()
    with mqredis.connect(backend.client(), settings=LATE) as other:
        reader = other.open(queue, Access.PEEK)
        waiting = Pending(lambda: reader.peek(timeout=600))
        until(lambda: qm.queue_info(queue).waiters == 1)
        ACTS[act](operator)
        assert waiting.future.result(SOON).text


def _aside(qm: QueueManager, subqueue: str) -> None:
    qm.open("orders").move(qm.open("orders").send(b"x").lookup_id, qm.open(f"orders;{subqueue}"))


def _move(qm: QueueManager, operator: Operator) -> Callable[[], object]:
    _aside(qm, "aside")
    return lambda: operator.move("orders;aside", "orders")


def _redrive(qm: QueueManager, operator: Operator) -> Callable[[], object]:
    _aside(qm, "poison")
    return lambda: operator.redrive("orders;poison")


def _restore(qm: QueueManager, operator: Operator) -> Callable[[], object]:
    qm.open("orders").send(b"x")
    operator.delete("orders", trash=600)
    return lambda: operator.restore("orders")


def _run_now(qm: QueueManager, operator: Operator) -> Callable[[], object]:
    qm.open("orders").send(b"x", delay=600)
    return lambda: operator.run_now("orders")


def _release(qm: QueueManager, operator: Operator) -> Callable[[], object]:
    qm.open("orders").send(b"x")
    lock = qm.open("orders").lock(0)
    return lambda: operator.release("orders", [lock.lookup_id])


def _abort(qm: QueueManager, operator: Operator) -> Callable[[], object]:
    qm.create_queue("ledger", transactional=True)
    queue, unit = qm.open("ledger"), qm.transaction()
    with qm.transaction() as sending:
        queue.send(b"x", transaction=sending)
    queue.receive(0, transaction=unit)
    return lambda: operator.abort(unit.id)


RETURNS = {
    "move": (_move, "orders"),
    "redrive": (_redrive, "orders"),
    "restore": (_restore, "orders"),
    "run_now": (_run_now, "orders"),
    "release": (_release, "orders"),
    "abort": (_abort, "ledger"),
}


@pytest.mark.parametrize("name", RETURNS)
def test_it_gets_what_becomes_available(
    backend: Backend, qm: QueueManager, operator: Operator, name: str
) -> None:
    prepare, queue = RETURNS[name]
    act = prepare(qm, operator)
    with mqredis.connect(backend.client(), settings=LATE) as other:
        reader = other.open(queue)
        waiting = Pending(lambda: reader.receive(timeout=600))
        until(lambda: qm.queue_info(queue).waiters == 1)
        act()
        assert waiting.future.result(SOON).body == b"x"
