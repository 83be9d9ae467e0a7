"""The retry policy that a worker sets for its queues: for queues that were created again, and where it is missing."""

from __future__ import annotations

import contextlib
import threading

import pytest

import mqredis
from mqredis.errors import BrokerUnavailable
from mqredis.worker import Retry, Worker
from mqredis.worker.run import Running
from mqredis.worker.shutdown import Shutdown
from tests.worker.kit import create, ignore

WAIT = 30


def recreated(qm: mqredis.QueueManager, transactional: bool, *bodies: bytes) -> None:
    """Delete the queue and create it again, without a retry policy."""
    qm.delete_queue("q")
    create(qm, "q", transactional, *bodies)


def test_recreated_queue_gets_the_retry_policy_again(qm, transactional, started):
    create(qm, "q", transactional)
    create(qm, "other", transactional)
    worker = Worker(shutdown_seconds=5)
    tried: list[int] = []

    @worker.consumer("q", "other", retry=Retry(attempts=2, delay=0))
    def fail(message):
        tried.append(message.attempts)
        if len(tried) > 2:
            worker.stop()
        raise RuntimeError("no")

    started(worker)
    with qm.open("other") as queue, qm.transaction() as tx:
        queue.send(b"x", transaction=tx if transactional else None)
    with qm.open("other;poison") as poison:
        assert poison.receive(WAIT).body == b"x"
    tried.clear()
    qm.update_queue("other", retry=None)
    recreated(qm, transactional, b"y")
    with qm.open("q;poison") as poison:
        assert poison.receive(WAIT).body == b"y"
    assert tried == [1, 2]
    assert qm.queue_info("q").retry == Retry(attempts=2, delay=0).policy()
    assert qm.queue_info("other").retry is None, "the policy of a queue that was not recreated is kept"


def test_recreated_queue_is_not_read_before_its_policy_is_set(qm, transactional, fail_operations, caplog):
    create(qm, "q", transactional)
    worker = Worker()
    worker.consumer("q", retry=Retry(attempts=2))(ignore)
    running = Running(qm, worker.consumers, shutdown=Shutdown(), shutdown_seconds=5)
    running.prepare()
    loop = running._loops[0]
    recreated(qm, transactional, b"x")
    fail_operations(lambda operation: operation.name == "update", BrokerUnavailable("down"))
    loop.reopen()
    with pytest.raises(mqredis.QueueNotAvailable):
        loop.turn(0)
    loop.reopen()
    assert qm.queue_info("q").retry == Retry(attempts=2).policy()
    loop._lapsed_next = 0.0
    assert loop.turn(0), "its subqueue ;lapsed is read as well"
    loop.flush()
    assert (qm.queue_info("q").messages, loop.consumer.handled) == (0, 1)
    running.close()


def test_failure_without_a_retry_policy_pauses_the_loop_and_is_logged(qm, transactional, caplog):
    create(qm, "q", transactional, b"x")
    worker = Worker()
    waits: list[float] = []

    @worker.consumer("q", retry=Retry(attempts=1, delay=40))
    def fail(message):
        raise RuntimeError("no")

    running = Running(qm, worker.consumers, shutdown=Shutdown(), shutdown_seconds=5)
    running.prepare()
    qm.update_queue("q", retry=None)

    class Stopping(threading.Event):
        def wait(_, timeout: float | None = None) -> bool:  # noqa: N805 - self is not used
            waits.append(timeout or 0)
            return True

    running.shutdown.stopping = Stopping()
    running._loops[0].turn(0)
    assert waits == [40]
    assert qm.queue_info("q").messages == 1
    assert "in attempt 1: the queue has no retry policy" in caplog.text
    assert "waits 40 s" in caplog.text
    qm.update_queue("q", retry=mqredis.RetryPolicy(immediate=8))
    running._loops[0].turn(0)
    assert waits == [40]
    assert "in attempt 2 of 9: the next try is at once" in caplog.text
    running.close()


@pytest.mark.parametrize("deleted", [False, True])
def test_log_claims_no_next_attempt_if_the_policy_cannot_be_read(
    qm, transactional, fail_operations, caplog, deleted
):
    create(qm, "q", transactional, b"x")
    worker = Worker()

    @worker.consumer("q", retry=Retry(attempts=1))
    def fail(message):
        if deleted:
            qm.delete_queue("q")
        raise RuntimeError("no")

    running = Running(qm, worker.consumers, shutdown=Shutdown(), shutdown_seconds=5)
    running.prepare()
    if not deleted:
        fail_operations(lambda operation: operation.name == "info", BrokerUnavailable("down"))
    with contextlib.suppress(mqredis.QueueNotAvailable):
        running._loops[0].turn(0)
    assert "in attempt 1: its retry policy could not be read" in caplog.text
    assert ";poison" not in caplog.text
    running.close()
