"""Sends that are cancelled: before the call, during it, and after the reply."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from tests.coalescing.kit import (
    bodies,
    gathered,
    kinds,
    outcomes,
    send_batcher,
    turns,
    under_way,
)
from tests.support.counts import messages_of


async def test_send_cancelled_before_its_call_is_not_sent(queue, gate):
    tasks = await gathered(gate, *(queue.send(b"%d" % n) for n in range(6)))
    for n in (1, 4):
        tasks[n].cancel()
    found = await outcomes(gate, tasks)
    assert kinds(found) == ["", "CancelledError", "", "", "CancelledError", ""]
    assert await bodies(queue) == [b"0", b"2", b"3", b"5"]
    assert queue._manager._driver.unknown == []


async def test_no_call_is_made_if_all_batched_sends_are_cancelled(queue, gate):
    tasks = await gathered(gate, *(queue.send(b"%d" % n) for n in range(4)))
    for task in tasks[1:]:
        task.cancel()
    assert kinds(await outcomes(gate, tasks)) == ["", *["CancelledError"] * 3]
    assert gate.sizes == [1]
    await queue.send(b"next")
    assert await bodies(queue) == [b"0", b"next"]


async def test_cancelled_first_send_does_not_affect_the_others(queue, gate):
    tasks = await gathered(gate, *(queue.send(b"%d" % n) for n in range(4)))
    tasks[0].cancel()
    assert kinds(await outcomes(gate, tasks)) == ["CancelledError", "", "", ""]
    assert await bodies(queue) == [b"1", b"2", b"3"]


async def test_send_cancelled_during_the_call_can_be_resolved_and_others_succeed(qm, queue, gate):
    tasks = await gathered(gate, *(queue.send(b"%d" % n) for n in range(5)))
    original, reached = gate._call, asyncio.Event()
    answered = asyncio.Event()

    async def held(call: Any, *args: Any) -> Any:
        answer = await original(call, *args)
        if call.script == "send" and messages_of(call) > 1:
            reached.set()  # the server has executed the call, the client has no reply yet
            await answered.wait()
        return answer

    gate._call = held
    gate.open.set()
    await reached.wait()
    tasks[2].cancel()
    tasks[3].cancel()
    await turns()
    answered.set()
    found = await outcomes(gate, tasks)
    assert kinds(found) == ["", "", "CancelledError", "CancelledError", ""]
    tokens = qm._driver.unknown
    assert len(tokens) == 2
    assert len({*tokens}) == 1
    for token in tokens:
        resolution = await qm.resolve(token)
        assert (resolution.outcome, resolution.status, len(resolution.payload[0])) == ("done", 0, 4 * 16)
    assert qm._driver.unknown == []
    assert await bodies(queue) == [b"0", b"1", b"2", b"3", b"4"]


async def test_send_cancelled_after_the_reply_can_be_resolved(qm, queue, gate):
    tasks = await gathered(gate, *(queue.send(b"%d" % n) for n in range(3)))
    tell = send_batcher(queue)._answer

    def and_cancel(*args: Any) -> None:
        tell(*args)
        tasks[1].cancel()

    send_batcher(queue)._answer = and_cancel
    found = await outcomes(gate, tasks)
    assert kinds(found) == ["", "CancelledError", ""]
    await queue.send(b"3")  # in another slot
    assert [(await qm.resolve(token)).outcome for token in qm._driver.unknown] == ["done"]
    assert await bodies(queue) == [b"0", b"1", b"2", b"3"]


async def test_sends_cancelled_at_random_moments_lose_and_duplicate_nothing(qm, queue, gate):
    seed = random.randrange(1 << 32)
    rng = random.Random(seed)
    sent: set[bytes] = set()

    async def one(body: bytes) -> None:
        await queue.send(body)
        sent.add(body)

    async def cancelled(task: asyncio.Task[None], after: int) -> None:
        await turns(after)
        task.cancel()

    cancels = 0
    for round_number in range(60):
        tasks = [asyncio.create_task(one(b"%d %d" % (round_number, n))) for n in range(8)]
        await asyncio.gather(*(cancelled(task, rng.randrange(16)) for task in tasks))
        found = await asyncio.gather(*tasks, return_exceptions=True)
        cancels += sum(isinstance(one, asyncio.CancelledError) for one in found)
    while send_batcher(queue).under_way:
        await turns(1)
    unknown = qm._driver.unknown
    done = [(await qm.resolve(token)).outcome for token in unknown].count("done")
    there = await bodies(queue)
    assert len(there) == len({*there}), f"seed {seed}"
    assert sent <= {*there}, f"seed {seed}: lost"
    assert len(there) - len(sent) == done, f"seed {seed}: {cancels} cancelled, {len(unknown)} unknown"


async def test_cancelled_batcher_task_is_replaced_before_the_call(qm, queue, gate):
    tasks = await gathered(gate, *(queue.send(b"%d" % n) for n in range(3)))
    await under_way(gate, tasks)
    later = asyncio.ensure_future(queue.send(b"3"))
    await turns()
    send_batcher(queue)._task.cancel()
    await turns()
    found = await outcomes(gate, [*tasks, later])
    assert kinds(found) == [""] * 4, "the call had not been made, so another task makes it"
    assert await bodies(queue) == [b"0", b"1", b"2", b"3"]
