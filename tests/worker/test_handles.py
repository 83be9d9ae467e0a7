"""Handlers send to queues that come and go while their worker runs."""

from __future__ import annotations

import queue as queues
from collections.abc import Callable
from threading import Event, Thread
from typing import Any

import pytest

import mqredis
from mqredis import handles as module
from mqredis.worker import Retry, Unit, Worker
from tests.worker.kit import create

WAIT = 30


def test_handler_sends_to_a_queue_that_was_deleted_and_created_anew(
    qm: mqredis.QueueManager,
    transactional: bool,
    started: Callable[[Worker], Thread],
) -> None:
    create(qm, "in", transactional)
    create(qm, "out", transactional)
    worker = Worker(shutdown_seconds=5)
    attempts: queues.Queue[int] = queues.Queue()

    @worker.consumer("in", retry=Retry(attempts=1))
    def handle(message: mqredis.Message, tx: Unit) -> None:
        tx.send("out", message.body)
        attempts.put(message.attempts)

    started(worker)
    for body in (b"1", b"2"):
        with qm.open("in") as opened, qm.transaction() as unit:
            opened.send(body, transaction=unit if transactional else None)
        with qm.open("out") as out:
            assert out.receive(WAIT).body == body
        assert attempts.get(timeout=WAIT) == 1
        qm.delete_queue("out")
        create(qm, "out", transactional)


def test_only_some_handles_are_kept_and_one_that_was_closed_is_opened_again(
    qm: mqredis.QueueManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST", 2)
    names = ("a", "b", "c", "d")
    for name in names:
        create(qm, name, False)

    def open_handles() -> int:
        return len(qm.context.open_handles())

    targets = module.Handles(qm)
    unit = Unit(targets, [], None)
    for name in names:
        unit.send(name, name)
    assert open_handles() == 2
    unit.flush()
    assert open_handles() == 2
    assert [qm.queue_info(name).ready for name in names] == [1, 1, 1, 1]
    targets.close()
    assert open_handles() == 0


def test_open_handle_is_found_while_another_thread_opens_one(
    qm: mqredis.QueueManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(qm, "slow", False)
    create(qm, "work", False)
    targets = module.Handles(qm)
    work = targets.open("work")
    opening, opened = Event(), Event()
    open_queue = qm.open

    def slow(*given: Any) -> mqredis.Queue:
        opening.set()
        assert opened.wait(WAIT)
        return open_queue(*given)

    monkeypatch.setattr(qm, "open", slow)
    both = [Thread(target=targets.open, args=["slow"]) for _ in range(2)]
    for thread in both:
        thread.start()
    assert opening.wait(WAIT)
    found: queues.Queue[mqredis.Queue] = queues.Queue()
    Thread(target=lambda: found.put(targets.open("work")), daemon=True).start()
    try:
        assert found.get(timeout=2) is work
    finally:
        opened.set()
        for thread in both:
            thread.join(WAIT)
    assert qm.queue_info("slow").active == 1
    targets.close()
    assert qm.queue_info("slow").active == 0
