"""``prefetch``: messages locked ahead by a thread that handles them one by one."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

import mqredis
from mqredis.errors import MqError
from mqredis.operations import settle, several
from mqredis.steps import procedure
from mqredis.testing import drain
from mqredis.worker import Reject, Retry, Worker, prefetch
from mqredis.worker.loop import Loop

WAIT = 30


@pytest.fixture
def queue(qm):
    qm.create_queue("q")
    with qm.open("q") as handle:
        yield handle


@pytest.fixture(autouse=True)
def treat_handlers_as_quick(monkeypatch):
    """Treat handlers as quick, however slow the machine is."""
    monkeypatch.setattr(prefetch, "QUICK_RUN_SECONDS", 60.0)


@pytest.fixture(params=["thread", "coroutine"])
def register(request):
    """Return a function that registers ``work(message)`` as a function or as a coroutine."""

    def register(worker: Worker, work: Any, **options: Any) -> None:
        def handle(message: mqredis.Message) -> None:
            work(message)

        async def handle_async(message: mqredis.Message) -> None:
            work(message)

        options.setdefault("prefetch", 8)
        worker.consumer("q", **options)(handle if request.param == "thread" else handle_async)

    return register


@pytest.fixture
def loops(monkeypatch):
    """The loops of the worker."""
    found: list[Loop] = []
    init = Loop.__init__

    def noted(self, *given):
        init(self, *given)
        found.append(self)

    monkeypatch.setattr(Loop, "__init__", noted)
    return found


@pytest.fixture
def locked(qm, monkeypatch):
    """How many messages each lock call requested."""
    requested: list[int] = []
    lock = several.lock

    def counted(handles, count, *rest, **options):
        requested.append(count[0])
        return lock(handles, count, *rest, **options)

    monkeypatch.setattr(several, "lock", counted)
    return requested


def burst(worker: Worker, qm: mqredis.QueueManager, errors: str = "log") -> int:
    return worker.run(burst=True, manager=qm, errors=errors, signals=False)


def ignore(message: mqredis.Message) -> None:
    """Handle a message successfully."""


def counts(qm: mqredis.QueueManager) -> tuple[int, int]:
    info = qm.queue_info("q")
    return info.messages, info.locked


def test_prefetched_messages_are_handled_in_order_and_removed(qm, queue, worker, register, locked):
    names = [b"%d" % n for n in range(50)]
    queue.send_many(names)
    seen: list[bytes] = []
    register(worker, lambda message: seen.append(message.body))
    assert burst(worker, qm) == 50
    assert seen == names
    assert counts(qm) == (0, 0)
    assert locked[:5] == [1, 2, 4, 8, 8]


def test_at_most_prefetch_messages_are_locked(qm, queue, worker, register):
    queue.send_many([b"x"] * 20)
    held: list[int] = []
    register(worker, lambda _: held.append(counts(qm)[1]), prefetch=3)
    assert burst(worker, qm) == 20
    # The messages of the previous run are committed by the call that locks the next ones.
    assert held[-1] <= 3
    assert max(held) == 3


def test_prefetch_1_locks_one_message_per_call(qm, queue, worker, register, locked):
    queue.send_many([b"x"] * 5)
    register(worker, ignore, prefetch=1)
    assert burst(worker, qm) == 5
    assert set(locked) == {1}


def test_slow_handler_locks_one_message_per_call(qm, queue, worker, register, locked, monkeypatch):
    monkeypatch.setattr(prefetch, "QUICK_RUN_SECONDS", 0.0)
    queue.send_many([b"x"] * 10)
    register(worker, ignore)
    assert burst(worker, qm) == 10
    assert set(locked) == {1}
    assert counts(qm) == (0, 0)


def test_handled_messages_are_committed_when_a_handler_becomes_slow(qm, queue, worker, register, monkeypatch):
    queue.send_many([b"%d" % n for n in range(7)])
    left: list[int] = []

    def work(message: mqredis.Message) -> None:
        if message.body == b"3":  # the first of a run of four
            monkeypatch.setattr(prefetch, "QUICK_RUN_SECONDS", 0.0)
        left.append(counts(qm)[0])

    register(worker, work)
    assert burst(worker, qm) == 7
    assert left[3:] == [4, 3, 2, 1]


def test_failed_message_is_delayed_and_the_others_are_handled(qm, queue, worker, register, locked):
    queue.send_many([b"%d" % n for n in range(12)])
    seen: list[bytes] = []

    def work(message: mqredis.Message) -> None:
        seen.append(message.body)
        if message.body == b"4":
            raise RuntimeError("not now")
        if message.body == b"9":
            raise Reject("never")

    register(worker, work, retry=Retry(delay=3600))
    assert burst(worker, qm) == 10
    assert seen == [b"%d" % n for n in range(12)]
    assert counts(qm) == (1, 0), "the delayed message"
    assert (qm.statistics("q").retry_messages, qm.statistics("q").poison_messages) == (1, 1)
    assert locked[:4] == [1, 2, 4, 1], "after a failure it locks one message again"


def test_raised_error_releases_the_messages_not_handled(qm, queue, worker, register):
    queue.send_many([b"%d" % n for n in range(7)])

    def work(message: mqredis.Message) -> None:
        if message.body == b"3":
            raise RuntimeError("no")

    register(worker, work, retry=Retry(delay=0))
    with pytest.raises(RuntimeError, match="no"):
        burst(worker, qm, "raise")
    assert counts(qm) == (4, 0)
    assert [m.body for m in drain(queue)] == [b"3", b"4", b"5", b"6"]


def test_stop_releases_messages_not_begun_while_a_handler_runs(qm, queue, register, started):
    worker = Worker(shutdown_seconds=WAIT)
    queue.send_many([b"%d" % n for n in range(7)])
    running, proceed = threading.Event(), threading.Event()

    def work(message: mqredis.Message) -> None:
        if message.body == b"3":
            running.set()
            assert proceed.wait(WAIT)

    register(worker, work)
    thread = started(worker)
    assert running.wait(WAIT)
    worker.stop()
    # The handler still runs. Another reader gets the other messages; only their delivery count has changed.
    others = [queue.receive(WAIT) for _ in range(3)]
    assert [(m.body, m.delivery_count, m.abort_count) for m in others] == [
        (b"4", 2, 0), (b"5", 2, 0), (b"6", 2, 0),
    ]  # fmt: skip
    proceed.set()
    thread.join(WAIT)
    assert counts(qm) == (0, 0)


def stop_in_handler_of(body: bytes, worker: Worker, started: Callable[[Worker], threading.Thread]) -> None:
    """Stop the worker while its handler works on this message for ever, and wait for the worker's end."""
    running, never = threading.Event(), threading.Event()

    @worker.consumer("q", prefetch=8)
    def handle(message: mqredis.Message) -> None:
        if message.body == body:
            running.set()
            while True:
                never.wait(0.01)

    thread = started(worker)
    assert running.wait(WAIT)
    worker.stop()
    thread.join(WAIT)


def test_end_without_time_for_handlers_is_no_attempt_of_messages_not_begun(qm, queue, started):
    worker = Worker(shutdown_seconds=0)
    queue.send_many([b"%d" % n for n in range(7)])
    stop_in_handler_of(b"3", worker, started)
    assert [(m.body, m.attempts) for m in queue.browse()] == [(b"%d" % n, 0) for n in range(3, 7)]


def test_handled_messages_are_committed_at_the_shutdown_deadline(qm, queue, started):
    worker = Worker(shutdown_seconds=0.1)
    queue.send_many([b"%d" % n for n in range(7)])
    stop_in_handler_of(b"5", worker, started)  # the third of a run of four
    assert sorted(m.body for m in drain(queue)) == [b"5", b"6"]


def test_leases_of_prefetched_messages_are_renewed(qm, queue, worker, register, started, monkeypatch):
    monkeypatch.setattr("mqredis.worker.held_messages._RENEW_AT", 1 / 100)
    queue.send_many([b"%d" % n for n in range(7)])
    running, proceed, renewed = threading.Event(), threading.Event(), threading.Event()
    original = settle.settle

    @procedure
    def watched(handle, settlements, *rest):
        result = yield from original(handle, settlements, *rest)
        if [action for action, _, _ in settlements] == ["x", "x", "x"] and running.is_set():
            renewed.set()  # two that are not begun and one that is not committed
        return result

    monkeypatch.setattr(settle, "settle", watched)

    def work(message: mqredis.Message) -> None:
        if message.body == b"4":
            running.set()
            assert proceed.wait(WAIT)

    register(worker, work, lease=20)
    started(worker)
    assert running.wait(WAIT)
    assert renewed.wait(WAIT)
    proceed.set()
    worker.stop()


def test_prefetched_messages_are_handled_after_their_leases_were_renewed(
    qm, queue, worker, register, loops, caplog
):
    queue.send_many([b"%d" % n for n in range(7)])
    seen: list[tuple[bytes, int]] = []

    def work(message: mqredis.Message) -> None:
        seen.append((message.body, message.delivery_count))
        if message.body == b"3":
            prefetch = loops[0].prefetch
            waiting = [*prefetch._waiting]
            assert [lock.body for lock in waiting] == [b"4", b"5", b"6"]
            waiting[0].abort()
            for lock in waiting:
                lock._until = 0.0  # as if the leases of the read had passed, but for the renewal
            prefetch._renew(waiting[0].queue, list)

    register(worker, work, lease=20, retry=Retry(delay=0))
    with caplog.at_level(logging.WARNING):
        burst(worker, qm)
    assert [body for body, _ in seen] == [b"0", b"1", b"2", b"3", b"5", b"6", b"4"]
    assert {count for body, count in seen if body != b"4"} == {1}
    assert "lapsed" not in caplog.text
    assert counts(qm) == (0, 0)


def test_failed_renewal_of_prefetched_messages_is_told_to_the_keeper(
    qm, queue, worker, register, loops, monkeypatch
):
    queue.send_many([b"%d" % n for n in range(7)])
    errors: list[MqError] = []

    def unavailable(*_: Any) -> None:
        raise mqredis.BrokerUnavailable("no answer")

    def work(message: mqredis.Message) -> None:
        if message.body == b"3":
            prefetch = loops[0].prefetch
            with monkeypatch.context() as patch:
                patch.setattr(settle, "settle", unavailable)
                with pytest.raises(mqredis.BrokerUnavailable) as caught:
                    prefetch._renew(prefetch._waiting[0].queue, list)
            errors.append(caught.value)

    register(worker, work, lease=20)
    burst(worker, qm)
    assert len(errors) == 1
    assert counts(qm) == (0, 0)


def test_prefetched_message_whose_lease_lapsed_is_not_handled(qm, queue, worker, register, loops, caplog):
    queue.send_many([b"%d" % n for n in range(7)])
    seen: list[bytes] = []

    def work(message: mqredis.Message) -> None:
        seen.append(message.body)
        if message.body == b"3":
            for lock in loops[0].prefetch._waiting:
                lock._until = 0.0
                lock.abort()

    register(worker, work, retry=Retry(delay=0))
    with caplog.at_level(logging.WARNING):
        burst(worker, qm)
    assert seen == [b"%d" % n for n in range(7)], "the lapsed ones are handled in a later run"
    assert caplog.text.count("lapsed before its handler began") == 3
    assert counts(qm) == (0, 0)


def test_exclusive_groups_have_one_message_at_a_time(qm, worker, register):
    qm.create_queue("q", group_exclusive=True)
    busy: dict[Any, int] = {}
    seen: list[tuple[Any, bytes]] = []
    with qm.open("q") as queue:
        for n in range(12):
            queue.send(b"%d" % n, group_id="ab"[n % 2])

    def work(message: mqredis.Message) -> None:
        busy[message.group_id] = busy.get(message.group_id, 0) + 1
        assert busy[message.group_id] == 1
        seen.append((message.group_id, message.body))
        busy[message.group_id] -= 1

    register(worker, work)
    assert burst(worker, qm) == 12
    for group, first in (("a", 0), ("b", 1)):
        assert [body for which, body in seen if which == group] == [b"%d" % n for n in range(first, 12, 2)]


@pytest.mark.parametrize(
    "create, options",
    [
        ({"transactional": True}, {}),
        ({}, {"rate": "100000/s"}),
    ],
    ids=["transactions", "rate"],
)
def test_prefetch_is_1_for_transactions_and_rates(qm, worker, register, loops, create, options):
    qm.create_queue("q", **create)
    register(worker, ignore, **options)
    most: list[int] = []

    @worker.consumer("end", create={"transactional": False})
    def end(message):
        most.extend(loop.prefetch.most for loop in loops)

    with qm.open("q") as queue:
        qm.create_queue("end")
        with qm.open("end") as other:
            other.send(b"x")
        assert queue.name == "q"
        burst(worker, qm)
    assert most == [1, 1]


@pytest.mark.parametrize("prefetch", [0, -1, 257])
def test_prefetch_out_of_range_is_refused(worker, prefetch):
    with pytest.raises(mqredis.InvalidArgument, match="prefetch"):
        worker.consumer("q", prefetch=prefetch)(ignore)
