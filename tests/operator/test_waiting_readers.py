"""Readers that wait are notified of what operators do: of messages that they send, and of the log of actions."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import mqredis
from mqredis import Access, Operator, QueueManager, Settings
from mqredis.keys import ACTIONS
from tests.matching.kit import Pending
from tests.operator.test_workers import until
from tests.support.backend import Backend

# Without a notification a reader would find the message after this time, in which the test fails.
LATE = Settings(test_clock=True, allow_volatile=True, recheck_seconds=60)

ACTS: dict[str, Callable[[Operator], object]] = {
    "trigger": lambda operator: operator.trigger_schedule("nightly"),
    "pause": lambda operator: operator.pause("orders"),
    "begin": lambda operator: operator.begin("reorganise", token="1"),
}


@pytest.mark.parametrize("act, queue", [("trigger", "orders"), *((act, ACTIONS) for act in ACTS)])
def test_it_is_notified(backend: Backend, qm: QueueManager, operator: Operator, act: str, queue: str) -> None:
    operator.create_schedule("nightly", "0 3 * * *", "orders", "go")
    qm.open(ACTIONS).purge()
    with mqredis.connect(backend.client(), settings=LATE) as other:
        reader = other.open(queue, Access.PEEK)
        waiting = Pending(lambda: reader.peek(timeout=600))
        until(lambda: qm.queue_info(queue).waiters == 1)
        ACTS[act](operator)
        assert waiting.result().text
