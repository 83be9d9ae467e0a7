"""How the loops of a worker commit and release messages, and what they do if that fails."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import mqredis
from mqredis.errors import BrokerFull, BrokerUnavailable, OutcomeUnknown, ScriptsNotLoaded, UnsafeServer
from mqredis.operations import giveback
from mqredis.steps import Operation
from mqredis.worker import AsyncUnit, Reject, Retry, RetryLater, Unit, Worker
from mqredis.worker.lock_loop import HandledLocks, LockLoop
from mqredis.worker.outcomes import GivenUp
from mqredis.worker.run import Running
from mqredis.worker.shutdown import Shutdown
from mqredis.worker.waiting_reads import Pauses, WaitingReads
from tests.support.faults import CutReply, Hold, is_script
from tests.support.proxy import Proxy
from tests.support.server import RedisServer
from tests.support.until import until
from tests.worker.kit import bodies, burst, create, ignore

WAIT = 30


def commits_or_sends(operation: Operation[Any]) -> bool:
    """Return whether the operation commits a transaction or sends the messages of a handler."""
    return getattr(operation, "outcome", "") == "commit" or operation.name in ("send", "Send", "send_many")


class SubqueueConsumer:
    """A consumer of a subqueue, which has no retry policy. Records each pause and the locks held during it."""

    def __init__(self, qm: mqredis.QueueManager, transactional: bool) -> None:
        create(qm, "q", transactional, b"x")
        first = Worker()

        @first.consumer("q")
        def refuse(message: mqredis.Message) -> None:
            raise Reject("to the subqueue")

        burst(first, qm)
        self.qm = qm
        self.locked: list[int] = []
        self.waits: list[float] = []

    def run(self, handler: Callable[..., None]) -> None:
        worker = Worker()
        worker.consumer("q;poison", retry=Retry(delay=40))(handler)
        running = Running(self.qm, worker.consumers, shutdown=Shutdown(), shutdown_seconds=5)
        running.prepare()

        class Stopping(threading.Event):
            def wait(_, timeout: float | None = None) -> bool:  # noqa: N805 - self is the enclosing object
                self.waits.append(timeout or 0)
                self.locked.append(len(list(self.qm.locks("q;poison"))))
                return True

        running.shutdown.stopping = Stopping()
        try:
            running._loops[0].turn(0)
        finally:
            running.close()


@pytest.mark.parametrize("error", [RuntimeError("no"), Reject("never")], ids=["failure", "reject"])
def test_failed_message_of_a_subqueue_is_released_before_the_pause(qm, transactional, error):
    """Rejected messages are in ;poison already, and stay there: without a pause they would be read again at once."""
    consumer_of_subqueue = SubqueueConsumer(qm, transactional)

    def fail(message):
        raise error

    consumer_of_subqueue.run(fail)
    assert (consumer_of_subqueue.waits, consumer_of_subqueue.locked) == ([40], [0])
    assert bodies(qm, "q;poison") == [b"x"]


def test_message_of_poison_that_is_not_valid_causes_a_pause(qm, transactional):
    consumer_of_subqueue = SubqueueConsumer(qm, transactional)

    def handle(number: int):
        raise AssertionError(number)

    consumer_of_subqueue.run(handle)
    assert (consumer_of_subqueue.waits, consumer_of_subqueue.locked) == ([40], [0])


def test_retry_later_causes_no_pause(qm, transactional):
    consumer_of_subqueue = SubqueueConsumer(qm, transactional)

    def end(message):
        raise RetryLater(5)

    consumer_of_subqueue.run(end)
    assert consumer_of_subqueue.waits == []


def handled_locks(qm: mqredis.QueueManager, running: Running, *names: str) -> list[mqredis.LockedMessage]:
    """Lock every message of these queues as the loop of ``running`` does."""
    return [lock for name in names for lock in running._queues.open(name).lock_many(10, 0)]


def test_flush_after_an_error_commits_only_the_rest(qm, fail_operations, caplog):
    for name in ("a", "b"):
        create(qm, name, False, b"1", b"2", b"3")
    worker = Worker()
    worker.consumer("a", "b")(ignore)
    running = Running(qm, worker.consumers, shutdown=Shutdown(), shutdown_seconds=5)
    running.prepare()
    loop = running._loops[0]
    assert isinstance(loop, LockLoop)
    loop._handled.add(handled_locks(qm, running, "a", "b"))
    fail_operations(lambda operation: operation.name == "settle", None, BrokerUnavailable("down"))
    with pytest.raises(BrokerUnavailable):
        loop.flush()
    assert [lock.message.body for lock in loop._handled.copy()] == [b"1", b"2", b"3"], (
        "only the messages of b are left"
    )
    assert (qm.queue_info("a").messages, qm.queue_info("b").messages) == (0, 3)
    with caplog.at_level(logging.WARNING):
        loop.flush()
    assert (qm.queue_info("b").messages, loop._handled.copy(), caplog.text) == (0, [], "")
    running.close()


def test_handled_messages_of_a_deleted_queue_are_dropped_with_a_warning(qm, caplog):
    create(qm, "a", False, b"1")
    create(qm, "b", False, b"1")
    worker = Worker()
    worker.consumer("a", "b")(ignore)
    running = Running(qm, worker.consumers, shutdown=Shutdown(), shutdown_seconds=5)
    running.prepare()
    loop = running._loops[0]
    assert isinstance(loop, LockLoop)
    loop._handled.add(handled_locks(qm, running, "a", "b"))
    qm.delete_queue("a")
    loop.flush()
    assert loop._handled.copy() == []
    assert qm.queue_info("b").messages == 0
    assert "1 handled message(s) are gone" in caplog.text
    running.close()


def test_message_of_a_paused_queue_is_committed_before_the_next_read(qm, monkeypatch):
    create(qm, "a", False, b"1")
    create(qm, "b", False, b"2")
    worker = Worker()
    left: list[int] = []

    @worker.consumer("a", "b")
    def handle(message):
        if message.body == b"1":
            running._reads.set_pauses(Pauses(frozenset({"q:a"})))

    running = Running(qm, worker.consumers, shutdown=Shutdown(), shutdown_seconds=5)
    running.prepare()
    loop = running._loops[0]
    assert loop.turn(0)
    read_next = loop._read

    def watched(operation):
        left.append(qm.queue_info("a").messages)
        return read_next(operation)

    monkeypatch.setattr(loop, "_read", watched)
    assert loop.turn(0)
    assert left == [0]
    running.close()


def test_segments_are_handled_one_by_one(qm, worker):
    """Locks of joined messages, which are several, never come to a worker."""
    qm.create_queue("q")
    handled = []
    worker.consumer("q", prefetch=8)(lambda message: handled.append((message.body, message.offset)))
    with qm.open("q") as queue:
        queue.send_group([b"abcd"], segment_bytes=2)
    assert burst(worker, qm) == 2
    assert (handled, bodies(qm, "q")) == ([(b"ab", 0), (b"cd", 2)], [])


def test_locks_of_a_batch_are_renewed_and_given_back_with_one_call_each(
    qm: mqredis.QueueManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(qm, "q", False, b"1", b"2", b"3")
    worker, original = Worker(), qm.run
    calls: list[str] = []

    def counted(operation: Operation[Any]) -> Any:
        calls.append(operation.name)
        return original(operation)

    @worker.consumer("q", lease=30)
    def handle(bodies: list[bytes]) -> None:
        qm.advance_clock(20)
        monkeypatch.setattr(qm, "run", counted)
        (held,) = running._renewer.handlers()
        held.renew()
        assert len(calls) == 1
        qm.advance_clock(20)
        assert qm.queue_info("q").locked == 3
        calls.clear()
        raise RetryLater(5)

    running = Running(qm, worker.consumers, shutdown=Shutdown(), shutdown_seconds=5)
    running.prepare()
    running._loops[0].turn(0)
    assert calls == ["settle"]
    assert qm.statistics("q").retry_messages == 3
    running.close()


def test_failed_counts_the_messages_of_a_batch(qm, worker, transactional):
    create(qm, "q", transactional, b"1", b"2", b"3")

    @worker.consumer("q", retry=Retry(attempts=1))
    def handle(bodies: list[bytes]) -> None:
        raise RuntimeError("no")

    burst(worker, qm)
    assert worker.consumers[0].failed == 3


def test_message_of_a_running_handler_is_given_back_after_that_of_an_earlier_one_was(
    qm: mqredis.QueueManager, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The renewer gives up a handler, which ends then, and goes on when the next handler has begun."""
    create(qm, "q", True, b"1", b"2")
    worker.consumer("q")(ignore)
    running = Running(qm, worker.consumers, shutdown=Shutdown(), shutdown_seconds=5)
    running.prepare()
    loop = running._loops[0]
    give_ups: list[Callable[[str], None]] = []

    def run(*arguments: Any) -> GivenUp:
        give_ups.append(arguments[-1])
        if len(give_ups) == 2:
            give_ups[0](giveback.unattempted())
            assert (qm.queue_info("q").ready, qm.queue_info("q").locked) == (1, 1)
            loop.give_back()
            assert (qm.queue_info("q").ready, qm.queue_info("q").locked) == (2, 0)
        return GivenUp("its time is over")

    monkeypatch.setattr(loop.shared.attempts, "run", run)
    assert loop.turn(0)
    assert loop.turn(0)
    assert len(give_ups) == 2
    running.close()


def test_handled_lock_is_taken_once_by_concurrent_threads(qm, monkeypatch):
    create(qm, "q", False, b"1", b"2")
    with qm.open("q") as queue:
        locks = queue.lock_many(2, 0)
        handled = HandledLocks()
        mutex, begun = handled._mutex, threading.Event()
        taken: list[mqredis.LockedMessage] = []

        class Mutex:
            def __enter__(self) -> None:
                if threading.current_thread() is thread:
                    begun.set()
                mutex.acquire()

            def __exit__(self, *_: object) -> None:
                mutex.release()

        def take() -> None:
            taken.extend(handled.take())
            begun.set()

        def adding() -> Iterator[mqredis.LockedMessage]:
            yield locks[0]
            thread.start()
            assert begun.wait(WAIT), "take has returned or waits for the mutex"
            yield locks[1]

        monkeypatch.setattr(handled, "_mutex", Mutex())
        thread = threading.Thread(target=take)
        handled.add(adding())
        thread.join(WAIT)
        assert [*taken, *handled.take()] == locks


each_broker_error = pytest.mark.parametrize(
    "error",
    [
        BrokerFull("no memory"),
        BrokerUnavailable("down"),
        OutcomeUnknown("lost"),
        ScriptsNotLoaded("restarted"),
        UnsafeServer("no log"),
    ],
)


@each_broker_error
def test_error_of_the_broker_at_commit_is_not_a_failure_of_the_handler(
    qm, worker, transactional, fail_operations, error, caplog
):
    create(qm, "in", transactional, b"1")
    create(qm, "out", transactional)
    seen: list[bytes] = []

    @worker.consumer("in", retry=Retry(attempts=1))
    def handle(body: bytes, tx: Unit) -> None:
        seen.append(body)
        tx.send("out", body)
        fail_operations(commits_or_sends, error)

    with pytest.raises(type(error)):
        burst(worker, qm)
    consumer = worker.consumers[0]
    assert (seen, consumer.failed, consumer.handled, consumer.last_error) == ([b"1"], 0, 0, "")
    assert "failed with message" not in caplog.text
    assert "may be handled again" not in caplog.text
    if transactional and isinstance(error, OutcomeUnknown):
        assert qm.queue_info("in").ready == 0, "the transaction may be committed"
    else:
        assert bodies(qm, "in") == [b"1"]


@each_broker_error
@pytest.mark.parametrize("kind", ["plain", "coroutine"])
def test_error_of_the_broker_at_a_send_of_the_handler_is_not_its_failure(
    qm, worker, transactional, fail_operations, kind, error, caplog, monkeypatch
):
    create(qm, "in", transactional, b"1")
    create(qm, "out", transactional)

    def fail() -> None:
        if transactional:
            fail_operations(commits_or_sends, error)
        else:  # only the queue is opened now: the message is sent when the handler has returned

            def open_queue(name: str, access: mqredis.Access) -> mqredis.Queue:
                raise error

            monkeypatch.setattr(qm, "open", open_queue)

    if kind == "plain":

        @worker.consumer("in", retry=Retry(attempts=1))
        def handle(body: bytes, tx: Unit) -> None:
            fail()
            tx.send("out", body)

    else:

        @worker.consumer("in", retry=Retry(attempts=1))
        async def handle_async(body: bytes, tx: AsyncUnit) -> None:
            fail()
            await tx.send("out", body)

    with pytest.raises(type(error)):
        burst(worker, qm)
    consumer = worker.consumers[0]
    assert (consumer.failed, consumer.handled, consumer.last_error) == (0, 0, "")
    assert "failed with message" not in caplog.text
    assert "may be handled again" not in caplog.text
    monkeypatch.undo()
    assert bodies(qm, "in") == [b"1"]


@pytest.mark.parametrize("invalid", [False, True], ids=["all valid", "one not valid"])
def test_batch_is_not_committed_after_a_send_of_unknown_outcome(
    redis_server: RedisServer, worker: Worker, invalid: bool
) -> None:
    """The handler does not know that its message was sent. So the transaction is undone, and the batch comes again."""
    settings = mqredis.Settings(allow_volatile=True, retry_seconds=0.2)
    calls: list[list[int]] = []
    with (
        Proxy(redis_server.socket_path) as proxy,
        mqredis.connect(proxy.url(), manager="w", settings=settings) as qm,
    ):
        create(qm, "in", True, b"1", b"2", *([b"not a number"] if invalid else []))
        create(qm, "out", True)

        @worker.consumer("in", retry=Retry(delay=0.0, jitter=0.0))
        def handle(numbers: list[int], tx: Unit) -> None:
            calls.append(numbers)
            if len(calls) == 1:
                proxy.add(CutReply(), where=lambda request: b"unseen" in b"".join(request.args), times=None)
                with pytest.raises(OutcomeUnknown):
                    tx.send("out", b"unseen")
                proxy.clear()

        burst(worker, qm)
        assert calls == [[1, 2], [1, 2]]
        assert (bodies(qm, "in"), bodies(qm, "out")) == ([], [])
        assert qm.statistics("in").poison_messages == int(invalid)


def test_end_without_time_for_handlers_waits_for_a_read_that_is_under_way(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch, transactional: bool
) -> None:
    settings = mqredis.Settings(allow_volatile=True, lease_seconds=1000)
    cancel = WaitingReads.cancel
    with (
        Proxy(redis_server.socket_path) as proxy,
        mqredis.connect(redis_server.url, manager="w", settings=settings) as qm,
    ):
        create(qm, "in", transactional)
        worker = Worker(
            proxy.url(), manager="w", settings=settings, shutdown_seconds=0, heartbeat_seconds=None
        )
        worker.consumer("in")(ignore)
        thread = threading.Thread(target=lambda: worker.run(signals=False))
        thread.start()
        until(lambda: qm.queue_info("in").waiters)
        held = proxy.add(Hold(reply=True), where=is_script)
        with qm.open("in") as queue, qm.transaction() as tx:
            queue.send(b"1", transaction=tx if transactional else None)
        assert held.wait(WAIT)

        def cancel_and_reply(reads: WaitingReads) -> None:
            cancel(reads)
            held.release()

        monkeypatch.setattr(WaitingReads, "cancel", cancel_and_reply)
        worker.stop()
        thread.join(WAIT)
        held.release()
        info = qm.queue_info("in")
        assert info.locked == 0
        with qm.open("in") as queue:
            assert [message.attempts for message in queue.browse()] in ([0], [])


def test_send_refused_by_the_broker_is_a_failure_of_the_handler(qm, worker, transactional):
    create(qm, "in", transactional, b"1")
    qm.create_queue("out", transactional=transactional, quota_bytes=1)

    @worker.consumer("in", retry=Retry(attempts=1))
    def handle(body: bytes, tx: Unit) -> None:
        tx.send("out", b"more than fits")

    burst(worker, qm)
    assert worker.consumers[0].failed == 1
    assert qm.statistics("in").poison_messages == 1
