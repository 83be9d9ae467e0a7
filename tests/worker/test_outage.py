"""What a worker logs while its broker cannot be reached."""

from __future__ import annotations

import queue as queues
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import mqredis
from mqredis import Message
from mqredis.errors import BrokerUnavailable
from mqredis.steps import Operation
from mqredis.worker import Worker
from mqredis.worker.outage import Outage
from mqredis.worker.schedule import Scheduler

WAIT = 30.0


class Broken:
    """Lets the operations of a manager fail while ``down`` is set."""

    def __init__(self, qm: mqredis.QueueManager) -> None:
        self.down = threading.Event()
        self.failures = threading.Semaphore(0)
        self._run = qm.run

    def run(self, operation: Operation[Any]) -> Any:
        if self.down.is_set():
            self.failures.release()
            raise BrokerUnavailable("connection refused")
        return self._run(operation)


@pytest.fixture
def broken(qm: mqredis.QueueManager) -> Iterator[Broken]:
    found = Broken(qm)
    qm.run = found.run  # type: ignore[method-assign]
    yield found
    found.down.clear()
    qm.run = found._run  # type: ignore[method-assign]


def test_worker_logs_when_it_reads_again(
    qm: mqredis.QueueManager,
    worker: Worker,
    broken: Broken,
    started: Callable[[Worker], threading.Thread],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "mqredis.worker")
    qm.create_queue("q")
    handled: queues.Queue[bytes] = queues.Queue()

    @worker.consumer("q", name="h")
    def handle(message: Message) -> None:
        if message.body == b"1":
            broken.down.set()
        handled.put(message.body)

    thread = started(worker)
    with qm.open("q") as queue:
        queue.send(b"1")
        assert handled.get(timeout=WAIT) == b"1"
        for _ in range(3):
            assert broken.failures.acquire(timeout=WAIT)
        broken.down.clear()
        queue.send(b"2")
    while handled.get(timeout=WAIT) != b"2":
        pass  # the first one may come again, since its commit failed
    worker.stop()
    thread.join(WAIT)
    assert (
        "h cannot read or commit: connection refused; it tries again in 0.1 s, for up to 10 s at a time"
        in caplog.text
    )
    assert caplog.text.count("the worker reads again") == 1


def test_end_of_an_outage_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "mqredis.worker")
    outage = Outage()
    outage.over()
    assert caplog.text == ""
    for _ in range(2):
        outage.failed()
    for _ in range(2):
        outage.over()
    assert caplog.text.count("the worker reads again") == 1


def test_worker_without_schedules_does_not_log_that_they_cannot_be_served(
    qm: mqredis.QueueManager, broken: Broken, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler = Scheduler(qm, [])
    broken.down.set()
    scheduler.begin()
    assert broken.failures.acquire(timeout=WAIT)
    scheduler.end()
    assert "schedules" not in caplog.text
