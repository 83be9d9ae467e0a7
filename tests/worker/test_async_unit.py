"""Sends of a coroutine handler must be awaited before the message counts as handled."""

from __future__ import annotations

import asyncio
import gc

import pytest

import mqredis
from mqredis.worker import AsyncUnit, Retry, Worker


@pytest.fixture(params=[False, True], ids=["locks", "transactions"], autouse=True)
def queues(qm, request):
    """The queue ``in`` with one message, and the queue ``out``."""
    for name in ("in", "out"):
        qm.create_queue(name, transactional=request.param)
    with qm.open("in") as queue, qm.transaction() as tx:
        queue.send(b"a", transaction=tx if request.param else None)


def run(worker: Worker, qm) -> int:
    return worker.run(burst=True, manager=qm, signals=False)


def depths(qm) -> tuple[int, int]:
    with qm.open("in;poison") as poison, qm.open("out") as out:
        return len([*poison.browse()]), len([*out.browse()])


def test_send_that_is_not_awaited_fails_the_attempt(qm, worker: Worker):
    @worker.consumer("in", retry=Retry(attempts=1))
    async def handle(message, tx: AsyncUnit):
        tx.send("out", b"x")  # type: ignore[unused-coroutine]

    assert run(worker, qm) == 0
    gc.collect()  # a coroutine that was never awaited would warn now
    assert depths(qm) == (1, 0)
    with qm.open("in;poison") as poison:
        (failed,) = poison.browse()
    assert "TransactionUsage: tx.send('out', ...) was not awaited" in failed.reason


def test_send_still_running_when_the_handler_returns_fails_the_attempt(qm, worker: Worker):
    @worker.consumer("in", retry=Retry(attempts=1))
    async def handle(message, tx: AsyncUnit):
        tasks.append(asyncio.create_task(tx.send("out", b"x")))

    tasks: list[asyncio.Task[None]] = []
    assert run(worker, qm) == 0
    assert depths(qm) == (1, 0)


def test_error_of_the_handler_takes_precedence_over_unawaited_sends(qm, worker: Worker):
    @worker.consumer("in")
    async def handle(message, tx: AsyncUnit):
        tx.send("out", b"x")  # type: ignore[unused-coroutine]
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="disk"):
        worker.run(burst=True, manager=qm, signals=False, errors="raise")


def test_sends_may_be_awaited_by_gather_and_task_groups(qm, worker: Worker):
    @worker.consumer("in")
    async def handle(message, tx: AsyncUnit):
        await asyncio.gather(tx.send("out", b"1"), tx.send("out", b"2"))
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(tx.send("out", b"3"))

    assert run(worker, qm) == 1
    assert depths(qm) == (0, 3)


def test_refused_send_that_the_handler_catches_is_not_a_failure(qm, worker: Worker):
    @worker.consumer("in")
    async def handle(message, tx: AsyncUnit):
        with pytest.raises(mqredis.QueueNotFound):
            await tx.send("nowhere", b"x")

    assert run(worker, qm) == 1
    assert depths(qm) == (0, 0)
