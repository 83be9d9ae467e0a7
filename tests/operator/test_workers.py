"""Workers: shown, paused and stopped by operators."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

import mqredis
from mqredis import InvalidArgument, Message, Operator, QueueManager, QueueNotFound
from mqredis.commands import workers
from mqredis.models.worker import Pause, WorkerConsumer, WorkerInfo
from mqredis.operations import inspection
from mqredis.steps import perform
from mqredis.worker import Retry, Worker
from mqredis.worker.waiting_reads import Pauses
from tests.support.backend import Backend
from tests.support.standing_clock import StandingClock
from tests.support.until import until


@pytest.fixture
def handled() -> list[bytes]:
    return []


@pytest.fixture
def worker(handled: list[bytes]) -> Worker:
    worker = Worker(heartbeat_seconds=0.25, name="shop", shutdown_seconds=5)

    @worker.consumer("orders", "mails", name="handle", retry=Retry(attempts=2, delay=0), create={})
    def handle(message: Message) -> None:
        if message.body == b"bad":
            raise ValueError("it is bad")
        handled.append(message.body)

    return worker


@pytest.fixture
def running(worker: Worker, qm: QueueManager) -> Iterator[Worker]:
    with worker.background(qm):
        until(qm.workers)
        yield worker
    assert qm.workers() == []


def one(qm: QueueManager) -> WorkerInfo:
    (found,) = qm.workers()
    return found


def put(qm: QueueManager, body: str, name: str = "orders") -> int:
    with qm.open(name) as queue:
        return queue.send(body).lookup_id


def test_worker_info_reports_consumers_and_counts(
    qm: QueueManager, running: Worker, handled: list[bytes]
) -> None:
    found = one(qm)
    assert found.last_seen > found.started_at - timedelta(milliseconds=1)
    until(lambda: one(qm).last_seen > found.last_seen)
    assert (found.name, found.version, found.schedules) == ("shop", mqredis.__version__, ())
    (consumer,) = found.consumers
    assert (consumer.name, consumer.queues, consumer.concurrency) == ("handle", ("orders", "mails"), 1)
    put(qm, "good")
    put(qm, "bad")
    until(lambda: one(qm).consumers[0].failed)
    until(lambda: one(qm).consumers[0].handled)
    assert one(qm).consumers[0].last_error == "ValueError: it is bad"
    assert handled == [b"good"]


def test_lock_names_the_worker_and_the_consumer_of_its_handler(qm: QueueManager) -> None:
    worker, ended = Worker(heartbeat_seconds=0.25, name="shop", shutdown_seconds=5), threading.Event()

    @worker.consumer("orders", name="book")
    def book(_: Message) -> None:
        assert ended.wait(30)

    with worker.background(qm):
        lookup_id = put(qm, "x")
        until(lambda: qm.workers() and one(qm).running)

        def other_calls_have_used_its_slot() -> bool:
            with ThreadPoolExecutor(4) as pool:
                list(pool.map(lambda _: put(qm, "later"), range(20)))
            (unknown,) = qm.run(inspection.locks(qm.context, "orders", None, 10, workers=()))
            assert (unknown.worker, unknown.consumer) == ("", "")
            return unknown.since is None

        until(other_calls_have_used_its_slot)
        (lock,) = qm.locks("orders").items
        assert (lock.lookup_id, lock.worker, lock.consumer) == (lookup_id, "shop", "book")
        assert lock.since is not None
        assert lock.since < lock.lease_until
        assert abs(lock.since - one(qm).started_at) < timedelta(seconds=30)
        ended.set()


def test_paused_queue_is_not_read_while_others_are(
    qm: QueueManager, operator: Operator, worker: Worker, handled: list[bytes]
) -> None:
    qm.create_queue("mails")
    operator.pause("orders", reason="the shop is closed")
    assert [(pause.kind, pause.name, pause.operator, pause.reason) for pause in qm.pauses()] == [
        ("queue", "orders", "ada", "the shop is closed")
    ]
    put(qm, "waits")
    put(qm, "mail", "mails")
    with worker.background(qm):
        until(lambda: handled)
        assert handled == [b"mail"]
        assert operator.resume("orders") is True
        assert operator.resume("orders") is False
        until(lambda: len(handled) == 2)
    assert qm.pauses() == []


def test_paused_consumer_reads_nothing(
    qm: QueueManager, operator: Operator, worker: Worker, handled: list[bytes]
) -> None:
    qm.create_queue("mails")
    operator.pause(consumer="handle")
    with worker.background(qm), qm.open("mails") as mails:
        until(qm.workers)
        mails.send("first")
        assert mails.receive(30).body == b"first"
        mails.send("second")
        operator.resume(consumer="handle")
        until(lambda: handled == [b"second"])


def test_waiting_readers_leave_a_paused_queue(
    qm: QueueManager, operator: Operator, running: Worker, handled: list[bytes]
) -> None:
    until(lambda: qm.queue_info("orders").waiters)
    operator.pause("orders")
    until(lambda: not qm.queue_info("orders").waiters)
    until(lambda: qm.queue_info("mails").waiters)
    put(qm, "mail", "mails")
    until(lambda: handled == [b"mail"])


def test_pause_of_a_queue_includes_its_lapsed_messages() -> None:
    pauses = Pauses(frozenset({"q:orders"}))
    assert pauses.queue("orders")
    assert pauses.queue("orders;lapsed")
    assert not pauses.queue("mails")


def test_stop_worker_stops_a_running_worker(qm: QueueManager, operator: Operator, worker: Worker) -> None:
    with worker.background(qm):
        until(qm.workers)
        operator.stop_worker(one(qm).id)
        until(lambda: not qm.workers())
    with pytest.raises(InvalidArgument, match="lives"):
        operator.stop_worker("abc")


def test_order_reaches_its_worker_once(qm: QueueManager, operator: Operator) -> None:
    def beat(begins: bool = False, lease_ms: int = 60_000) -> list[str]:
        orders, _ = qm.run(perform(workers.beat(qm.context.keys, "a", lease_ms, begins, "{}", ())))
        return orders

    assert beat(begins=True) == []
    operator.stop_worker("a")
    assert beat() == ["stop"]
    assert beat(lease_ms=0) == []


def test_order_is_refused_once_the_lease_of_its_worker_is_over(standing_clock: StandingClock) -> None:
    qm = standing_clock.qm

    def beat(lease_ms: int) -> None:
        qm.run(perform(workers.beat(qm.context.keys, "a", lease_ms, False, "{}", ())))

    beat(1000)
    standing_clock.move(0.999)
    qm.operator("ada").stop_worker("a")
    standing_clock.move(0.001)
    with pytest.raises(InvalidArgument, match="lives"):
        qm.operator("ada").stop_worker("a")
    beat(0)


def test_first_heartbeat_of_a_worker_removes_those_that_are_gone(qm: QueueManager, backend: Backend) -> None:
    def beat(worker: str, lease: int, begins: bool) -> set[bytes]:
        qm.run(perform(workers.beat(qm.context.keys, worker, lease, begins, "{}", ())))
        return {field for field in raw.hkeys(qm.context.keys.workers) if field.startswith(b"w:")}

    with backend.client() as raw:
        assert beat("gone", 1000, True) == {b"w:gone"}
        qm.advance_clock(2000)
        assert beat("present", 60_000, False) == {b"w:gone", b"w:present"}
        assert beat("new", 60_000, True) == {b"w:new", b"w:present"}
        assert beat("present", 0, False) == {b"w:new"}
        assert beat("new", 0, False) == set()


def test_cancel_handler_ends_one_running_handler(qm: QueueManager, operator: Operator) -> None:
    worker = Worker(heartbeat_seconds=0.25, shutdown_seconds=5)
    begun, ended = threading.Event(), threading.Event()

    @worker.consumer("orders", retry=Retry(attempts=1))
    def handle(message: Message) -> None:
        begun.set()
        try:
            while not ended.wait(0.01):
                pass
        finally:
            ended.set()

    with worker.background(qm):
        sent = put(qm, "long")
        assert begun.wait(30)
        until(lambda: one(qm).running)
        (running,) = one(qm).running
        assert (running.queue, running.lookup_ids) == ("orders", (sent,))
        operator.cancel_handler(one(qm).id, sent)
        assert ended.wait(30)
        until(lambda: qm.queue_info("orders").messages == 0)
    with qm.open("orders;poison") as poison:
        assert "an operator has cancelled the handler" in str(poison.peek(0).reason)


def test_pause_and_resume_are_logged_once_per_token(qm: QueueManager, operator: Operator) -> None:
    operator.pause("orders", token="t")
    operator.pause("orders", token="t")
    operator.resume("orders")
    with qm.open(mqredis.ACTIONS, mqredis.Access.PEEK) as log:
        assert [entry.label for entry in log.browse()] == ["pause", "resume"]


def test_pause_of_an_unknown_queue_is_refused(qm: QueueManager, operator: Operator) -> None:
    for name in ("nosuch", "nosuch;poison", "orders;posion"):
        with pytest.raises(QueueNotFound, match="there is no queue"):
            operator.pause(name)
    assert qm.pauses() == []
    operator.pause("orders;poison")
    operator.pause("system$;deadletter")
    assert sorted(pause.name for pause in qm.pauses()) == ["orders;poison", "system$;deadletter"]


def test_report_of_a_worker_of_a_later_release_can_be_read() -> None:
    told = {
        "name": "a",
        "queues": ["orders"],
        "concurrency": 1,
        "busy": 0,
        "handled": 0,
        "failed": 0,
        "rejected": 0,
    }
    assert WorkerConsumer(**told, later=1).name == "a"  # type: ignore[arg-type, call-arg]


def test_pause_that_a_later_release_has_written_is_read() -> None:
    record = b'1764000000000 {"operator": "ann", "reason": "why", "new": 1}'
    pause = workers.parse_field(b"q:orders", record, 1764000000000, 0)
    assert isinstance(pause, Pause)
    assert (pause.kind, pause.name, pause.operator) == ("queue", "orders", "ann")
