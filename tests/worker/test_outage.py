"""What a worker logs while its broker cannot be reached."""

from __future__ import annotations

import logging
import queue as queues
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import mqredis
from mqredis import Message
from mqredis.errors import BrokerUnavailable, QueueNotAvailable
from mqredis.steps import Operation
from mqredis.worker import Worker
from mqredis.worker.heartbeat import Heartbeat
from mqredis.worker.outage import Outage
from mqredis.worker.schedule import Scheduler
from tests.support.server import RedisServer

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
    assert caplog.text.count("the broker can be reached again") == 1


def test_end_of_an_outage_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "mqredis.worker")
    outage = Outage()
    outage.over()
    outage.failed(QueueNotAvailable("the queue was deleted"))
    outage.over()
    assert caplog.text == ""
    for _ in range(2):
        outage.failed(BrokerUnavailable("down"))
    for _ in range(2):
        outage.over()
    assert caplog.text.count("the broker can be reached again") == 1


def test_worker_without_schedules_does_not_log_that_they_cannot_be_served(
    qm: mqredis.QueueManager, broken: Broken, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler = Scheduler(qm, [])
    broken.down.set()
    scheduler.begin()
    assert broken.failures.acquire(timeout=WAIT)
    scheduler.end()
    assert "schedules" not in caplog.text


def test_outage_is_logged_by_the_first_heartbeat_that_fails_and_when_it_is_over(
    start_server: Callable[..., RedisServer], caplog: pytest.LogCaptureFixture
) -> None:
    """The reads of an idle worker would log it after ``retry_seconds``, here never."""
    caplog.set_level("INFO", "mqredis.worker")
    settings = mqredis.Settings(allow_volatile=True, retry_seconds=600)
    server = start_server(aof=True)
    with mqredis.connect(server.url, manager="m", settings=settings) as qm:
        qm.create_queue("q")
        worker = Worker(heartbeat_seconds=0.1)
        worker.consumer("q")(lambda message: message)
        logged = Logged("the heartbeat of the worker failed", "the broker can be reached again")
        logging.getLogger("mqredis.worker").addHandler(logged)
        try:
            with worker.background(qm):
                server.stop()
                assert logged.events["the heartbeat of the worker failed"].wait(WAIT)
                server.start()
                assert logged.events["the broker can be reached again"].wait(WAIT)
        finally:
            logging.getLogger("mqredis.worker").removeHandler(logged)


def test_end_of_a_worker_does_not_wait_for_a_heartbeat_that_is_not_answered(
    qm: mqredis.QueueManager, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker counts the worker as gone after a while. A heartbeat that comes late must not follow its end."""
    qm.create_queue("q")
    worker = Worker(heartbeat_seconds=0.05, shutdown_seconds=5)
    worker.consumer("q")(lambda message: message)
    asked, answered = threading.Event(), threading.Event()
    told: list[int] = []
    tell = Heartbeat._tell

    def silent(heartbeat: Heartbeat, lease_ms: int, *given: Any) -> Any:
        if lease_ms == 0:
            told.append(lease_ms)
        elif threading.current_thread().name == "mqredis-heartbeat":
            asked.set()
            assert answered.wait(WAIT)
        return tell(heartbeat, lease_ms, *given)

    monkeypatch.setattr(Heartbeat, "_tell", silent)
    with worker.background(qm):
        assert asked.wait(WAIT)
    answered.set()
    assert told == []


class Logged(logging.Handler):
    """Sets an event for each of these texts when it is logged."""

    def __init__(self, *texts: str) -> None:
        super().__init__()
        self.events = {text: threading.Event() for text in texts}

    def emit(self, record: logging.LogRecord) -> None:
        for text, event in self.events.items():
            if text in record.getMessage():
                event.set()
