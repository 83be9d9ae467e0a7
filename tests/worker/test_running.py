"""Running workers: leases, cancellation, shutdown. Every wait is for a named event."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

import pytest

import mqredis
from mqredis.worker import Cancelled, Retry, Unit, Worker
from mqredis.worker.held_messages import HeldMessages
from mqredis.worker.lease_renewer import Handling, LeaseRenewer
from mqredis.worker.liveness import Liveness
from mqredis.worker.outage import Outage
from mqredis.worker.outcomes import TimeLimitExceeded
from mqredis.worker.rate import Rate
from mqredis.worker.shutdown import Shutdown
from mqredis.worker.threads import Threads
from mqredis.worker.waiting_reads import WaitingReads
from tests.support.until import until

WAIT = 60.0


@pytest.fixture(params=[False, True], ids=["locks", "transactions"])
def queue(qm, request):
    qm.create_queue("q", transactional=request.param)
    with qm.open("q") as queue:
        yield queue


def send(qm, queue, *bodies: bytes) -> None:
    if queue._handle.transactional:
        with qm.transaction() as tx:
            queue.send_many(bodies, transaction=tx)
    else:
        queue.send_many(bodies)


def test_running_worker_handles_messages_sent_later(qm, queue, worker, started):
    seen: list[bytes] = []
    three = threading.Event()

    @worker.consumer("q", concurrency=3)
    def handle(message):
        seen.append(message.body)
        if len(seen) == 3:
            three.set()

    started(worker)
    for body in (b"1", b"2", b"3"):
        send(qm, queue, body)
    assert three.wait(WAIT)
    assert sorted(seen) == [b"1", b"2", b"3"]
    assert worker.health()[worker.consumers[0].name]["seconds_since_read"] < WAIT


def test_consumer_of_two_queues_is_woken_by_either(qm, worker, started):
    qm.create_queue("a")
    qm.create_queue("b")
    seen: list[bytes] = []
    came = threading.Semaphore(0)

    @worker.consumer("a", "b")
    def handle(message):
        seen.append(message.body)
        came.release()

    started(worker)
    for name in ("b", "a", "b"):
        with qm.open(name) as queue:
            queue.send(name.encode())
        assert came.acquire(timeout=WAIT)
    assert seen == [b"b", b"a", b"b"]


def test_lease_is_renewed_while_the_handler_runs(qm, queue, worker, started):
    renewals, ended = threading.Semaphore(0), threading.Event()

    @worker.consumer("q", lease=2)
    def handle(message, tx: Unit):
        for _ in range(4):
            assert renewals.acquire(timeout=WAIT)
        ended.set()

    original = HeldMessages.renewed

    def renewed(self, now):
        original(self, now)
        renewals.release()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HeldMessages, "renewed", renewed)
        started(worker)
        send(qm, queue, b"x")
        assert ended.wait(WAIT)
        worker.stop()
    # Four renewals, each after a third of the lease, take longer than the lease: the message stayed locked.


def test_lapsed_lease_cancels_the_handler(qm, queue, worker, started):
    running, cancelled = threading.Event(), threading.Event()
    never = threading.Event()

    @worker.consumer("q", lease=1, retry=Retry(attempts=None))
    def handle(message, tx: Unit):
        if cancelled.is_set():
            return
        running.set()
        try:
            while True:
                never.wait(0.01)
        except Cancelled:
            assert tx.cancelled
            cancelled.set()
            raise

    started(worker)
    send(qm, queue, b"x")
    assert running.wait(WAIT)
    qm.advance_clock(5)
    qm.maintain()
    assert cancelled.wait(WAIT)


def test_lapsed_lease_cancels_the_coroutine(qm, queue, worker, started):
    running, cancelled = threading.Event(), threading.Event()

    @worker.consumer("q", lease=1, retry=Retry(attempts=None))
    async def handle(message):
        if cancelled.is_set():
            return
        running.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    started(worker)
    send(qm, queue, b"x")
    assert running.wait(WAIT)
    qm.advance_clock(5)
    qm.maintain()
    assert cancelled.wait(WAIT)


@pytest.mark.parametrize(
    "lease, max_hold", [(0.2, 0.5), (1000, 0.1)], ids=["after renewals", "before the first renewal"]
)
def test_max_hold_cancels_the_handler(qm, queue, worker, started, lease, max_hold):
    cancelled, never = threading.Event(), threading.Event()

    @worker.consumer("q", lease=lease, max_hold=max_hold)
    def handle(message):
        try:
            while not cancelled.is_set():
                never.wait(0.01)
        except Cancelled:
            cancelled.set()
            raise

    started(worker)
    send(qm, queue, b"x")
    assert cancelled.wait(WAIT)


def test_exceeded_time_limit_is_a_failure(qm, queue, worker):
    never = threading.Event()

    @worker.consumer("q", time_limit=0.1, retry=Retry(attempts=1))
    def handle(message):
        while True:
            never.wait(0.01)

    send(qm, queue, b"x")
    worker.run(burst=True, manager=qm, signals=False)
    assert worker.consumers[0].failed == 1
    assert qm.queue_info("q").messages == 0


def test_stop_lets_handlers_finish(qm, queue, worker, started):
    running, proceed = threading.Event(), threading.Event()

    @worker.consumer("q")
    def handle(message):
        running.set()
        assert proceed.wait(WAIT)

    thread = started(worker)
    send(qm, queue, b"x")
    assert running.wait(WAIT)
    worker.stop()
    proceed.set()
    thread.join(WAIT)
    assert not thread.is_alive()
    info = qm.queue_info("q")
    assert (info.messages, info.locked) == (0, 0)


@pytest.mark.parametrize("kind", ["thread", "coroutine"])
def test_shutdown_deadline_releases_messages(qm, queue, kind, started):
    worker = Worker(shutdown_seconds=0.1)
    running, never = threading.Event(), threading.Event()

    if kind == "thread":

        @worker.consumer("q")
        def handle(message):
            running.set()
            while True:
                never.wait(0.01)

    else:

        @worker.consumer("q")
        async def handle_async(message):
            running.set()
            await asyncio.Event().wait()

    thread = started(worker)
    send(qm, queue, b"x")
    assert running.wait(WAIT)
    worker.stop()
    thread.join(WAIT)
    assert not thread.is_alive()
    assert qm.queue_info("q").ready == 1


@pytest.mark.parametrize("server_kind", ["real"])  # fakeredis has no connections
def test_worker_reconnects_after_killed_connections(qm, queue, worker, started, backend):
    seen = threading.Semaphore(0)

    @worker.consumer("q")
    def handle(message):
        seen.release()

    started(worker)
    send(qm, queue, b"x")
    assert seen.acquire(timeout=WAIT)
    with backend.client() as client:
        client.client_kill_filter(_type="normal", skipme=True)
        client.client_kill_filter(_type="pubsub")
    send(qm, queue, b"y")
    assert seen.acquire(timeout=WAIT)


def test_rate_spaces_the_messages(qm, queue, worker, monkeypatch):
    pauses: list[Any] = []

    @worker.consumer("q", rate="400/s")
    def handle(message):
        pass

    original = Rate.pause
    still = SimpleNamespace(monotonic=lambda: 0.0)  # the pauses do not depend on the duration of handling
    monkeypatch.setattr("mqredis.worker.rate.time", still)

    def pause(self, count):
        pauses.append(original(self, count))
        return pauses[-1]

    monkeypatch.setattr(Rate, "pause", pause)
    send(qm, queue, *[b"x"] * 20)
    assert worker.run(burst=True, manager=qm, signals=False) == 20
    assert pauses[:20] == [pytest.approx(n / 400) for n in range(20)]


def test_one_call_commits_a_message_and_locks_the_next(qm, worker, monkeypatch):
    monkeypatch.setattr("mqredis.worker.loop.LAPSED_SECONDS", WAIT)  # on slow machines too
    qm.create_queue("q")
    with qm.open("q") as queue:
        queue.send_many([b"x"] * 20)

    @worker.consumer("q")
    def handle(message):
        pass

    calls: list[Any] = []

    def counted(operation):
        calls.append(operation.name)
        return operation

    qm.wrap(counted)
    assert worker.run(burst=True, manager=qm, signals=False) == 20
    qm.wrap(None)
    # 20 messages, one call that commits the last and finds none, and one in the last round of the burst.
    assert calls.count("lock") == 22
    assert "settle" not in calls


def test_health_file_is_written(qm, queue, tmp_path, started):
    path = tmp_path / "alive"
    worker = Worker(shutdown_seconds=5, health_file=str(path))
    seen = threading.Semaphore(0)

    @worker.consumer("q")
    def handle(message):
        seen.release()

    started(worker)
    for _ in range(2):
        send(qm, queue, b"x")
        assert seen.acquire(timeout=WAIT)
    assert path.exists()


def test_health_file_is_touched_while_all_handlers_are_busy(qm, queue, tmp_path, started):
    path = tmp_path / "alive"
    worker = Worker(shutdown_seconds=5, health_file=str(path))
    running, end = threading.Event(), threading.Event()

    @worker.consumer("q")
    def handle(message):
        path.unlink(missing_ok=True)
        running.set()
        assert end.wait(WAIT)

    started(worker)
    send(qm, queue, b"x")
    try:
        assert running.wait(WAIT)
        until(path.exists)
        assert qm.queue_info("q").locked == 1
    finally:
        end.set()


def test_health_file_is_not_touched_while_a_consumer_has_only_handlers_that_were_given_up(qm, tmp_path):
    path = tmp_path / "alive"
    worker = Worker()

    @worker.consumer("q", concurrency=2)
    def handle(message):
        pass

    renewer = LeaseRenewer()
    liveness = Liveness(qm, str(path), worker.consumers, renewer)
    first, second = (HeldMessages(lambda: None, 30, max_hold=60, time_limit=None) for _ in range(2))
    for held in (first, second):
        renewer.add(held, Handling(worker.consumers[0], [], 0.0))
        held.cancel(TimeLimitExceeded("too long"))
        held.give_up()
    liveness.touch()
    assert not path.exists()
    renewer.remove(first)
    liveness.touch()
    assert path.exists()
    renewer.close()


@pytest.mark.parametrize("answer", [0, 4], ids=["answers", "does not answer"])
def test_cancelled_handlers_have_one_deadline_for_all_of_them(qm, monkeypatch, answer):
    """``answer``: seconds in which the server answers, or a call is given up."""
    now = 1000.0
    waited: list[float] = []

    class Hanging:
        def is_alive(self) -> bool:
            return True

        def join(self, timeout: float) -> None:
            waited.append(timeout)
            wait(timeout)

    def wait(seconds: float) -> None:
        nonlocal now
        now += seconds

    given_back: list[object] = []
    loops: list[Any] = []
    for _ in range(50):
        loop = SimpleNamespace(prefetch=SimpleNamespace(give_back=lambda: wait(answer)), reading=True)
        loop.give_back = lambda loop=loop: given_back.append(loop)
        loops.append(loop)
    renewer = LeaseRenewer()
    threads = Threads(
        loops,
        shutdown_seconds=10,
        reads=WaitingReads(qm),
        shutdown=Shutdown(),
        renewer=renewer,
        liveness=Liveness(qm, None, [], renewer),
        outage=Outage(),
    )
    clock = SimpleNamespace(monotonic=lambda: now, sleep=None)
    monkeypatch.setattr("mqredis.worker.threads.time", clock)
    hanging: list[Any] = [Hanging() for _ in loops]
    threads._end(hanging)
    assert now - 1000 == pytest.approx((12 if answer else 10) + 2, abs=0.1)  # 12: of three calls
    assert given_back == loops


def test_background_worker_can_run_twice(qm, queue, worker):
    seen = threading.Semaphore(0)

    @worker.consumer("q")
    def handle(message):
        seen.release()

    for _ in range(2):
        with worker.background(qm) as running:
            assert running is worker
            send(qm, queue, b"x")
            assert seen.acquire(timeout=WAIT)
    assert qm.queue_info("q").messages == 0


def test_end_of_a_background_run_that_stops_already_does_not_cancel_its_handlers(
    qm, queue, worker, monkeypatch
):
    begun, waited_for, cancelled = threading.Event(), threading.Event(), []
    join = threading.Thread.join

    def joining(self: threading.Thread, timeout: float | None = None) -> None:
        if self.name == "mqredis-worker":
            waited_for.set()
        join(self, timeout)

    monkeypatch.setattr(threading.Thread, "join", joining)

    @worker.consumer("q")
    def handle(message):
        begun.set()
        assert waited_for.wait(WAIT)
        cancelled.append(worker._shutdown.killed.is_set())

    with worker.background(qm):
        send(qm, queue, b"x")
        assert begun.wait(WAIT)
        worker.stop()
    assert cancelled == [False]


def test_interrupted_start_of_a_background_run_ends_it(qm, queue, worker, monkeypatch):
    @worker.consumer("q")
    def handle(message):
        pass

    class Interrupted(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            super().wait(timeout)
            raise KeyboardInterrupt

    worker._ready = Interrupted()
    with pytest.raises(KeyboardInterrupt), worker.background(qm):
        pass
    assert not worker._claim.locked()


def test_error_of_a_background_run_is_raised(qm, worker):
    @worker.consumer("nowhere")
    def handle(message):
        pass

    with pytest.raises(mqredis.QueueNotFound), worker.background(qm):
        pass
