"""What a worker does with messages when an error occurs that its code does not expect there."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pydantic import BaseModel, field_validator

import mqredis
from mqredis.testing import drain
from mqredis.worker import Cancelled, Reject, Retry, Worker, app
from mqredis.worker.liveness import Liveness
from tests.worker.kit import burst, create

WAIT = 30


class Known(BaseModel):
    """A type with a validator that raises what pydantic does not expect."""

    kind: str

    @field_validator("kind")
    @classmethod
    def _known(cls, value: str) -> str:
        return {"a": "A", "c": "C"}[value]


def orders(*kinds: str) -> list[bytes]:
    return [b'{"kind": "%s"}' % kind.encode() for kind in kinds]


def test_worker_ends_with_an_error_when_the_application_closes_its_queue_manager(backend, qm, worker):
    create(qm, "q", False, b"1")
    handled = threading.Event()

    @worker.consumer("q")
    def handle(_message):
        handled.set()

    with ThreadPoolExecutor(1) as pool:
        with mqredis.connect(backend.client(), manager="w", settings=qm.context.settings) as own:
            run = pool.submit(worker.run, manager=own, signals=False)
            assert handled.wait(WAIT)
        try:
            assert isinstance(run.exception(WAIT), mqredis.InvalidHandle)
        finally:
            with contextlib.suppress(Exception):
                worker.stop()


def test_error_of_a_validator_is_a_failed_attempt_of_its_message_alone(qm, worker, transactional):
    create(qm, "q", transactional, *orders("a", "b", "c"))
    seen = []

    @worker.consumer("q", prefetch=8, retry=Retry(attempts=2))
    def handle(order: Known) -> None:
        seen.append(order.kind)

    burst(worker, qm)
    assert (seen, worker.consumers[0].handled, worker.consumers[0].failed) == (["A", "C"], 2, 1)
    qm.advance_clock(2)
    burst(worker, qm)
    with qm.open("q;poison") as poison:
        (message,) = drain(poison)
    assert (message.reason, message.properties["failure_attempts"]) == ("poison: KeyError: 'b'", 2)


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_handler_that_exits_ends_the_worker_and_repeats_no_handled_message(qm, worker, kind):
    """The error of a coroutine must not end the event loop: the worker would wait for ever, and renew its leases."""
    create(qm, "q", False, *(b"%d" % n for n in range(1, 8)))
    seen = []

    def plain(body: bytes) -> None:
        seen.append(body)
        if body == b"5":
            sys.exit(3)

    async def coroutine(body: bytes) -> None:
        plain(body)

    worker.consumer("q", prefetch=8)(plain if kind == "plain" else coroutine)
    ended: list[SystemExit] = []

    def run() -> None:
        try:
            burst(worker, qm)
        except SystemExit as error:
            ended.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(WAIT)
    assert [error.code for error in ended] == [3]
    assert seen == [b"1", b"2", b"3", b"4", b"5"]
    left = [stored.message for stored in [*qm.messages("q"), *qm.scheduled("q")]]
    assert [(message.body, message.attempts) for message in left] == [(b"6", 0), (b"7", 0), (b"5", 1)]


def test_errors_raise_ends_a_worker_that_runs_until_it_is_stopped(qm, worker, transactional):
    create(qm, "q", transactional, b"1", b"2")
    seen = []

    @worker.consumer("q")
    def handle(body: bytes) -> None:
        seen.append(body)
        raise ValueError("no")

    ended: list[ValueError] = []

    def run() -> None:
        try:
            worker.run(manager=qm, errors="raise", signals=False)
        except ValueError as error:
            ended.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(WAIT)
    worker.stop()  # or else it would go on after a failure of this test
    assert [str(error) for error in ended] == ["no"]
    assert seen == [b"1"]
    with qm.open("q") as queue:
        assert [message.body for message in drain(queue)] == [b"2"]


def refuse(message: mqredis.Message) -> None:
    raise ValueError("no such item")


async def refuse_later(message: mqredis.Message) -> None:
    raise ValueError("no such item")


class Shop:
    def refuse(self, message: mqredis.Message) -> None:
        raise ValueError("no such item")


@pytest.mark.parametrize(
    "handler", [refuse, refuse_later, Shop().refuse], ids=["plain", "coroutine", "method"]
)
def test_traceback_of_a_failure_begins_in_the_handler(
    qm: mqredis.QueueManager, worker: Worker, handler: Any, caplog: pytest.LogCaptureFixture
) -> None:
    qm.create_queue("q")
    worker.consumer("q", retry=Retry(attempts=1))(handler)
    with qm.open("q") as queue, qm.open("q;poison") as poison:
        queue.send(b"x")
        worker.run(burst=True, manager=qm)
        stored = str(poison.peek(0).properties["failure_traceback"])
    for text in (stored, caplog.text):
        frames = [line.strip() for line in text.splitlines() if line.strip().startswith("File ")]
        assert len(frames) == 1
        assert frames[0].endswith(f"in {handler.__name__}")


class Unspeakable(Exception):
    """An error whose text cannot be had."""

    def __str__(self) -> str:
        raise AttributeError("no text")


class Refused(Unspeakable, Reject):
    """A rejection of this kind."""


@pytest.mark.parametrize("error", [Unspeakable(), Refused()], ids=["error", "reject"])
def test_error_without_a_text_is_a_failed_attempt(qm, worker, transactional, error):
    create(qm, "q", transactional, b"1", b"2")

    @worker.consumer("q", retry=Retry(attempts=1))
    def handle(body: bytes) -> None:
        if body == b"1":
            raise error

    burst(worker, qm)
    (consumer,) = worker.consumers
    assert (consumer.handled, consumer.failed + consumer.rejected) == (1, 1)
    with qm.open("q;poison") as poison:
        assert [message.body for message in drain(poison)] == [b"1"]


@pytest.mark.parametrize("kind", ["plain", "async", "own"])
def test_handler_that_ends_as_cancelled_though_nobody_cancelled_it_has_failed(
    qm,
    worker,
    transactional,
    kind,
):
    """Its message would return without an attempt, and be handled again for ever."""
    create(qm, "q", transactional, b"1")

    def plain(body: bytes) -> None:
        raise Cancelled if kind == "own" else asyncio.CancelledError

    async def coroutine(body: bytes) -> None:
        task = asyncio.ensure_future(asyncio.Event().wait())
        task.cancel()
        await task

    worker.consumer("q", retry=Retry(attempts=1))(coroutine if kind == "async" else plain)
    burst(worker, qm)
    assert worker.consumers[0].failed == 1
    with qm.open("q;poison") as poison:
        (message,) = drain(poison)
    assert "although nobody cancelled it" in str(message.reason)


def test_error_of_the_main_thread_ends_the_loops(qm, worker, monkeypatch):
    """Such as KeyboardInterrupt in a run without signals, or an error of the health file."""
    qm.create_queue("q")
    worker.consumer("q", name="h")(lambda _message: None)

    def fail(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Liveness, "note", fail)
    with pytest.raises(KeyboardInterrupt):
        worker.run(manager=qm, signals=False)
    with qm.open("q") as queue:
        queue.send(b"x")
        assert (queue.peek().body, qm.queue_info("q").waiters) == (b"x", 0)
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("mqredis-h")]


def test_threads_that_have_begun_end_if_another_cannot_begin(qm, worker, monkeypatch):
    qm.create_queue("q")
    worker.consumer("q", concurrency=3, name="h")(lambda _message: None)
    start = threading.Thread.start

    def limited(thread: threading.Thread) -> None:
        if thread.name == "mqredis-h-2":
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", limited)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        worker.run(manager=qm, signals=False)
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("mqredis-h")]


def test_stop_of_a_worker_that_still_connects_ends_its_run(qm, worker, monkeypatch):
    worker.consumer("q", create={})(lambda _message: None)

    def connect(*_: Any, **__: Any) -> contextlib.nullcontext[mqredis.QueueManager]:
        worker.stop()
        return contextlib.nullcontext(qm)

    monkeypatch.setattr(app, "connect", connect)
    thread = threading.Thread(target=lambda: worker.run(signals=False), daemon=True)
    thread.start()
    thread.join(WAIT)
    alive = thread.is_alive()
    worker.stop()
    assert not alive


def test_end_of_a_worker_does_not_wait_for_a_blocking_call_of_a_coroutine(qm):
    create(qm, "q", False, b"1")
    begun, end = threading.Event(), threading.Event()
    worker = Worker(shutdown_seconds=0.1)

    def block() -> None:
        begun.set()
        end.wait(WAIT)

    @worker.consumer("q")
    async def handle(body: bytes) -> None:
        await asyncio.to_thread(block)

    thread = threading.Thread(target=lambda: worker.run(manager=qm, signals=False), daemon=True)
    thread.start()
    try:
        assert begun.wait(WAIT)
        worker.stop()
        thread.join(10)
        assert not thread.is_alive()
    finally:
        end.set()
        thread.join(WAIT)
