"""Handlers that go on in a call that cannot be interrupted after they were cancelled."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from functools import partial

import pytest

import mqredis
from mqredis import Message
from mqredis.testing import drain
from mqredis.worker import Retry, Worker, held_messages
from tests.support.until import until

WAIT = 30.0
Start = Callable[[Worker], threading.Thread]


def send(qm: mqredis.QueueManager, transactional: bool, *bodies: bytes) -> None:
    with qm.open("q") as queue, qm.transaction() as tx:
        queue.send_many(bodies, transaction=tx if transactional else None)


@pytest.mark.parametrize("transactional", [False, True], ids=["locks", "transactions"])
def test_message_of_a_handler_that_hangs_past_its_time_limit_fails_while_it_hangs(
    qm: mqredis.QueueManager,
    worker: Worker,
    started: Start,
    transactional: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    qm.create_queue("q", transactional=transactional)
    end, barrier = threading.Event(), threading.Lock()
    barrier.acquire()

    def wait_in_c() -> None:
        barrier.acquire()  # a call that no exception interrupts

    @worker.consumer("q", time_limit=0.1, lease=2, retry=Retry(attempts=1), name="hanging")
    def handle(message: Message) -> None:
        try:
            wait_in_c()
        finally:
            end.set()

    thread = started(worker)
    send(qm, transactional, b"slow")
    try:
        with qm.open("q;poison") as poison:
            dead = poison.peek(WAIT)
        assert not end.is_set()
        assert worker.consumers[0].failed == 1
    finally:
        barrier.release()
    assert dead.reason == "poison: TimeLimitExceeded: the handler took longer than its time limit"
    assert dead.properties["failure_handler"] == "hanging"
    assert "in wait_in_c" in str(dead.properties["failure_traceback"])
    assert "hanging still runs with message 0x" in caplog.text
    assert "cannot be interrupted" in caplog.text
    assert end.wait(WAIT)
    worker.stop()
    thread.join(WAIT)
    assert "hanging has ended at last" in caplog.text
    assert caplog.text.count("failed with message") == 1
    assert "may be handled again" not in caplog.text
    assert worker.consumers[0].handled == 0
    with qm.open("q;poison") as poison:
        assert [message.body for message in drain(poison)] == [b"slow"]


def test_message_of_a_handler_that_hangs_after_an_operator_cancelled_it_fails_before_the_next_renewal(
    qm: mqredis.QueueManager, started: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_messages, "_GRACE", 0.1)
    qm.create_queue("q")
    barrier = threading.Lock()
    barrier.acquire()
    worker = Worker(heartbeat_seconds=0.1, shutdown_seconds=5)

    @worker.consumer("q", lease=600, retry=Retry(attempts=1))
    def handle(message: Message) -> None:
        barrier.acquire()

    started(worker)
    send(qm, False, b"slow")
    try:
        until(lambda: any(each.running for each in qm.workers()))
        (running,) = qm.workers()
        qm.operator("ann").cancel_handler(running.id, running.running[0].lookup_ids[0])
        with qm.open("q;poison") as poison:
            assert "an operator has cancelled the handler" in (poison.peek(WAIT).reason or "")
    finally:
        barrier.release()


def test_message_of_a_coroutine_that_ignores_its_cancellation_fails_while_it_runs(
    qm: mqredis.QueueManager, worker: Worker, started: Start
) -> None:
    qm.create_queue("q")
    end = threading.Event()

    @worker.consumer("q", time_limit=0.1, lease=2, retry=Retry(attempts=1))
    async def handle(message: Message) -> None:
        while not end.is_set():
            try:
                await asyncio.to_thread(end.wait, 0.05)
            except asyncio.CancelledError:
                continue

    started(worker)
    send(qm, False, b"slow")
    try:
        with qm.open("q;poison") as poison:
            assert "time limit" in (poison.peek(WAIT).reason or "")
        assert not end.is_set()
    finally:
        end.set()


def test_report_says_where_a_coroutine_that_ignores_its_cancellation_waits(
    qm: mqredis.QueueManager, worker: Worker, started: Start
) -> None:
    qm.create_queue("q")
    ends: list[Callable[[], object]] = []

    async def wait_inside() -> None:
        end = asyncio.Event()
        ends.append(partial(asyncio.get_running_loop().call_soon_threadsafe, end.set))
        while not end.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await end.wait()

    @worker.consumer("q", time_limit=0.1, lease=2, retry=Retry(attempts=1))
    async def handle(message: Message) -> None:
        await wait_inside()

    started(worker)
    send(qm, False, b"slow")
    with qm.open("q;poison") as poison:
        traceback = str(poison.peek(WAIT).properties["failure_traceback"])
    ends[0]()
    assert "in wait_inside" in traceback
    assert "await end.wait()" in traceback


def test_report_says_which_call_blocks_the_event_loop(
    qm: mqredis.QueueManager, worker: Worker, started: Start
) -> None:
    """Also that of a handler that could not go on because another one blocks."""
    qm.create_queue("q")
    barrier = threading.Lock()
    barrier.acquire()
    waits = threading.Event()

    def wait_in_c() -> None:
        barrier.acquire()

    @worker.consumer("q", concurrency=2, time_limit=0.1, lease=2, retry=Retry(attempts=1))
    async def handle(message: Message) -> None:
        if message.text == "blocks":
            await asyncio.to_thread(waits.wait, WAIT)
            wait_in_c()
        waits.set()
        await asyncio.Event().wait()

    started(worker)
    send(qm, False, b"blocks", b"waits")
    try:
        with qm.open("q;poison") as poison:
            until(lambda: qm.queue_info("q;poison").ready == 2)
            failed = list(poison.browse())
    finally:
        barrier.release()
    for message in failed:
        assert "in wait_in_c" in str(message.properties["failure_traceback"])


@pytest.mark.parametrize("transactional", [False, True], ids=["locks", "transactions"])
@pytest.mark.parametrize("time_limit", [None, 0.1], ids=["no limit", "limit"])
def test_lapsed_messages_are_handled_while_a_handler_hangs(
    qm: mqredis.QueueManager,
    worker: Worker,
    started: Start,
    transactional: bool,
    time_limit: float | None,
) -> None:
    """Two handlers run. The one in the thread that reads ;lapsed hangs, and the other one ends."""
    qm.create_queue("q", transactional=transactional)
    begun = {name: threading.Event() for name in ("1", "2", "lapsed")}
    ends = {name: threading.Event() for name in ("1", "2", "lapsed")}
    ends["lapsed"].set()
    reader: dict[str, str] = {}

    @worker.consumer("q", concurrency=2, lease=1, time_limit=time_limit, retry=Retry(attempts=1))
    def handle(message: Message) -> None:
        name = message.text
        reader[name] = threading.current_thread().name
        begun[name].set()
        assert ends[name].wait(WAIT)

    send(qm, transactional, b"lapsed")
    with qm.open("q") as queue, qm.open("q;lapsed") as lapsed, qm.transaction() as tx:
        lookup_id = queue.peek(WAIT).lookup_id
        queue.move(lookup_id, lapsed, transaction=tx if transactional else None)
    send(qm, transactional, b"1", b"2")
    started(worker)
    try:
        assert begun["1"].wait(WAIT)
        assert begun["2"].wait(WAIT)
        hanging = next(name for name in ("1", "2") if reader[name].endswith("-0"))
        ends["2" if hanging == "1" else "1"].set()
        assert begun["lapsed"].wait(WAIT)
        assert not ends[hanging].is_set()
    finally:
        for end in ends.values():
            end.set()
