"""A consumer of several queues goes on with the others when one of them is deleted."""

from __future__ import annotations

import queue as queues
from collections.abc import Callable
from threading import Thread

import pytest

import mqredis
from mqredis.worker import Retry, Worker
from mqredis.worker import loop as module
from mqredis.worker.run import Running
from mqredis.worker.shutdown import Shutdown
from tests.worker.kit import create

WAIT = 30


def test_queues_that_still_exist_are_not_opened_again_when_one_is_deleted(
    qm: mqredis.QueueManager,
    transactional: bool,
) -> None:
    for name in ("deleted", "kept"):
        create(qm, name, transactional)
    worker = Worker()
    worker.consumer("deleted", "kept", concurrency=2)(lambda _: None)
    running = Running(qm, worker.consumers, shutdown=Shutdown(), shutdown_seconds=5)
    running.prepare()

    def handles() -> list[bytes]:
        """Return what the broker knows of open handles."""
        stored: list[bytes] = qm.driver.command("ZRANGE", f"{qm.context.keys.tag}handles", 0, -1)
        return stored

    before = [stored for stored in handles() if stored.startswith(b"kept")]
    assert len(before) == 2
    qm.delete_queue("deleted")
    for loop in running._loops:
        with pytest.raises(mqredis.QueueNotAvailable):
            loop.turn(0)
        loop.reopen()
    assert handles() == before
    running.close()
    assert handles() == []


def test_consumer_reads_the_others_of_its_queues_and_a_deleted_one_when_it_is_created_again(
    qm: mqredis.QueueManager,
    transactional: bool,
    started: Callable[[Worker], Thread],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(module, "POLL_READ_SECONDS", 0.2)
    for name in ("deleted", "kept"):
        create(qm, name, transactional)
    worker = Worker(shutdown_seconds=5)
    handled: queues.Queue[bytes] = queues.Queue()
    worker.consumer("deleted", "kept", retry=Retry(attempts=2))(lambda message: handled.put(message.body))
    thread = started(worker)

    def send(name: str, body: bytes) -> None:
        with qm.open(name) as opened, qm.transaction() as unit:
            opened.send(body, transaction=unit if transactional else None)

    send("deleted", b"1")
    assert handled.get(timeout=WAIT) == b"1"
    qm.delete_queue("deleted")
    for body in (b"2", b"3"):
        send("kept", body)
        assert handled.get(timeout=WAIT) == body
    create(qm, "deleted", transactional, b"4")
    assert handled.get(timeout=WAIT) == b"4"
    assert qm.queue_info("deleted").retry == Retry(attempts=2).policy()
    send("kept", b"5")
    assert handled.get(timeout=WAIT) == b"5"
    said = [record.message for record in caplog.records if "again when it exists" in record.message]
    assert len(said) == 1
    worker.stop()
    thread.join(WAIT)
    assert [qm.queue_info(name).messages for name in ("deleted", "kept")] == [0, 0]
