"""Readers that wait learn of timers that are set while they wait: delays, rests and leases end on time for them.

A poll for all waits comes after 51 seconds here, so only a notification can end a wait earlier.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

import mqredis
from mqredis.keys import QUEUE_PARTS, ManagerKeys
from tests.support.backend import Backend

SETTINGS = mqredis.Settings(allow_volatile=True, recheck_seconds=60.0)
WAITERS = ManagerKeys("default").queue("q")[QUEUE_PARTS.index("w")]
TIMEOUT = 15.0


class Environment:
    """A client with a queue ``q``, and a thread for a reader."""

    def __init__(self, backend: Backend) -> None:
        self.raw: Any = backend.client()
        self.qm = mqredis.connect(backend.client(), settings=SETTINGS)
        self.qm.create_queue("q", retry=mqredis.RetryPolicy(immediate=0, cycles=1, delay=0.2))
        self.pool = ThreadPoolExecutor(1)

    def start(self, work: Callable[[], mqredis.Message]) -> Future[mqredis.Message]:
        """Start a waiting call in a thread; return once it is registered."""
        future = self.pool.submit(work)
        while not self.raw.zcard(WAITERS):
            assert not future.done(), future.result()
        return future


@pytest.fixture
def env(backend: Backend) -> Iterator[Environment]:
    made = Environment(backend)
    yield made
    made.qm.close()
    made.pool.shutdown()
    made.raw.close()


@pytest.mark.parametrize("selector", [None, "n = 1"])
def test_a_delayed_message_reaches_a_reader_that_waited_before_it_was_sent(
    env: Environment, selector: str | None
) -> None:
    queue = env.qm.open("q")
    waiting = env.start(lambda: queue.receive(TIMEOUT, selector=selector))
    queue.send("late", delay=0.2, properties={"n": 1})
    assert waiting.result(10).text == "late"


def test_a_message_that_is_sent_together_with_a_delayed_one_reaches_a_reader(env: Environment) -> None:
    queue = env.qm.open("q")
    queue.send("sooner", delay=50)  # else the other delayed message would let the reader look
    waiting = env.start(lambda: queue.receive(TIMEOUT))
    queue.send_many([mqredis.Outgoing(b"later", delay=60), mqredis.Outgoing(b"now")])
    assert waiting.result(10).text == "now"


def test_a_message_delayed_beyond_a_lease_that_ended_early_reaches_a_reader(env: Environment) -> None:
    """The queue still has to be looked at when the lease would have ended, of which the reader knows nothing."""
    queue = env.qm.open("q")
    queue.send("before")
    queue.lock(0, lease=1).commit()
    waiting = env.start(lambda: queue.receive(TIMEOUT))
    queue.send("late", delay=1.2)
    assert waiting.result(10).text == "late"


def test_a_delayed_message_of_a_transaction_reaches_a_reader_that_waits(env: Environment) -> None:
    env.qm.delete_queue("q")
    env.qm.create_queue("q", transactional=True)
    queue = env.qm.open("q")
    waiting = env.start(lambda: queue.peek(TIMEOUT))
    with env.qm.transaction() as tx:
        queue.send("late", delay=0.2, transaction=tx)
    assert waiting.result(10).text == "late"


def test_a_message_that_rests_reaches_a_reader_that_waited_before_it_failed(env: Environment) -> None:
    queue = env.qm.open("q")
    queue.send("again")
    lock = queue.lock(0)
    waiting = env.start(lambda: queue.receive(TIMEOUT))
    lock.abort()
    assert waiting.result(10).text == "again"


def test_a_message_that_fails_in_lapsed_and_rests_reaches_a_reader_of_the_queue(env: Environment) -> None:
    env.qm.update_queue(
        "q", retry=mqredis.RetryPolicy(immediate=0, cycles=2, delay=0.2, factor=1.0, isolate=True)
    )
    queue, lapsed = env.qm.open("q"), env.qm.open("q;lapsed")
    queue.send("again")
    queue.move(queue.peek(0).lookup_id, lapsed)
    lock = lapsed.lock(0)
    waiting = env.start(lambda: queue.receive(TIMEOUT))
    lock.abort()
    assert waiting.result(10).text == "again"


def test_a_reader_that_waits_for_the_end_of_a_lease_is_told_that_it_was_shortened(env: Environment) -> None:
    queue = env.qm.open("q")
    queue.send("held")
    lock = queue.lock(0, lease=60)
    waiting = env.start(lambda: queue.receive(TIMEOUT))
    lock.extend(0.2)
    assert waiting.result(10).text == "held"


def test_the_poll_for_all_waits_comes_again_when_the_lease_of_another_reader_ends(env: Environment) -> None:
    queue = env.qm.open("q")
    waiting = env.start(lambda: queue.receive(TIMEOUT, selector="n = 1"))
    queue.send("held", properties={"n": 2})
    lock = queue.lock(0, lease=5)
    waits = env.qm._driver._waiters
    waits.recheck()
    assert 0 < waits.table.until_recheck() <= 5
    lock.commit()
    queue.send("end", properties={"n": 1})
    assert waiting.result(10).text == "end"
