"""Concurrent commits, aborts and rejections are batched into one call; each caller gets the result of its own lock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import mqredis
import mqredis.asyncio
from mqredis import Durability, DurabilityNotReached, Journal, Outgoing, Settings
from tests.coalescing.kit import NO_RETRIES, bodies, gathered, outcomes, turns
from tests.support.faults import CutReply


async def locks(queue: Any, count: int) -> list[Any]:
    """Lock each message by its own call, so that the fences differ."""
    await queue.send_many([b"%d" % n for n in range(count)])
    return [await queue.lock(0) for _ in range(count)]


def names(found: list[Any]) -> list[str]:
    return ["" if one is None else type(one).__name__ for one in found]


async def test_50_concurrent_commits_take_two_calls(qm, queue, gate):
    held = await locks(queue, 50)
    await asyncio.gather(*(one.commit() for one in held))
    assert gate.settled == [1, 49]
    assert all(one.settled for one in held)
    assert (await qm.queue_info("q")).messages == 0
    assert queue._handle.locks == {}


async def test_commits_of_several_worker_tasks_are_batched(qm, queue, gate):
    await queue.send_many([b"%d" % n for n in range(60)])

    async def work() -> None:
        for _ in range(3):
            async with queue.lock(0) as one:
                assert one.body

    await asyncio.gather(*(work() for _ in range(20)))
    assert (await qm.queue_info("q")).messages == 0
    assert len(gate.settled) < 20


async def test_batched_commits_aborts_and_rejections_take_effect(qm, queue, gate):
    await queue.send_many([Outgoing(body=b"%d" % n, journal=Journal.DEAD_LETTER) for n in range(5)])
    held = [await queue.lock(0) for _ in range(5)]
    settling = [
        held[0].commit(),
        held[1].abort(),
        held[2].reject("two"),
        held[3].commit(),
        held[4].reject("four"),
    ]
    assert names(await outcomes(gate, await gathered(gate, *settling))) == [""] * 5
    assert gate.settled == [1, 4] or gate.settled == [1, 4, 4], (
        "the call is repeated if it needs another queue"
    )
    assert await bodies(queue) == [b"1"]
    async with qm.open(mqredis.keys.DEAD_LETTER) as dead:
        found = await dead.receive_many(9, 0)
    reasons = [(message.body, message.reason) for message in found]
    assert reasons == [(b"2", "receive_rejected: two"), (b"4", "receive_rejected: four")]


async def test_lost_lock_is_raised_in_its_own_commit(qm, queue, gate):
    held = await locks(queue, 5)
    await held[2].abort()
    again = await queue.lock(0)
    gate.settled.clear()
    found = await outcomes(gate, await gathered(gate, *(one.commit() for one in held)))
    assert names(found) == ["", "", "LockLost", "", ""]
    assert "another reader" in str(found[2])
    assert gate.settled == [1, 4]
    await again.commit()
    assert [one.settled for one in held] == [True, True, True, True, True]  # the third by its abort


async def test_second_settlement_of_a_lock_is_refused(qm, queue, gate):
    first, second, third, fourth = await locks(queue, 4)
    settling = [first.commit(), second.abort(), third.commit(), second.commit(), fourth.commit()]
    found = await outcomes(gate, await gathered(gate, *settling))
    assert names(found) == ["", "", "", "LockLost", ""]
    assert gate.settled == [1, 2, 2], "the second settlement is in a later call"
    assert await bodies(queue) == [b"1"]


async def test_settlements_with_special_handling_are_not_batched(qm, queue, gate):
    held = await locks(queue, 3)
    gate.open.clear()
    tasks = [
        asyncio.ensure_future(one)
        for one in (held[0].commit(), held[1].extend(60), held[2].commit(durability="memory"))
    ]
    await turns()
    assert gate.waiting == 3
    assert names(await outcomes(gate, tasks)) == [""] * 3


async def test_commit_cancelled_before_its_call_is_not_made(qm, queue, gate):
    held = await locks(queue, 4)
    tasks = await gathered(gate, *(one.commit() for one in held))
    tasks[2].cancel()
    assert names(await outcomes(gate, tasks)) == ["", "", "CancelledError", ""]
    assert gate.settled == [1, 2]
    assert not held[2].settled
    await held[2].commit()
    assert (await qm.queue_info("q")).messages == 0


async def test_commit_on_a_closed_handle_is_refused(queue, gate):
    held = await locks(queue, 3)
    await queue.close()
    found = await asyncio.gather(*(one.commit() for one in held), return_exceptions=True)
    assert names(found) == ["InvalidHandle"] * 3


async def test_lost_reply_gives_outcome_unknown_for_all_batched_commits(proxy):
    async with mqredis.asyncio.connect(proxy.url(), settings=NO_RETRIES) as qm:
        await qm.create_queue("q")
        queue = await qm.open("q")
        held = await locks(queue, 4)
        await held[0].commit()
        more = await locks(queue, 1)
        rule = proxy.add(
            CutReply(), where=lambda request: len(request.args[-1]) == 16 and len(request.args) > 20
        )
        found = await asyncio.gather(*(one.commit() for one in [*more, *held[1:]]), return_exceptions=True)
        assert rule.hits == 1
        assert names(found) == ["", *["OutcomeUnknown"] * 3]
        unknown: list[Any] = found[1:]
        assert len({error.token for error in unknown}) == 1
        assert {(await qm.resolve(error.token)).outcome for error in unknown} == {"done"}
        assert (await qm.queue_info("q")).messages == 0


@asynccontextmanager
async def short_of_durability(redis_server: Any) -> AsyncIterator[tuple[Any, Any, list[Any]]]:
    """A client, another whose commits fall short of their durability, and four messages that the second has locked."""
    short = Settings(durability=Durability.REPLICA, durability_seconds=0.02)
    with mqredis.connect(redis_server.url) as plain:
        plain.create_queue("q")
        with plain.open("q") as filled:
            filled.send_many([b"x"] * 4)
        async with mqredis.asyncio.connect(redis_server.url, settings=short) as qm:
            queue = await qm.open("q")
            yield plain, qm, [await queue.lock(0) for _ in range(4)]


async def test_durability_shortfall_is_raised_and_the_locks_are_settled(redis_server):
    async with short_of_durability(redis_server) as (_, _, held):
        found = await asyncio.gather(*(one.commit() for one in held), return_exceptions=True)
        assert all(isinstance(error, DurabilityNotReached) for error in found)
        assert all(one.settled for one in held)


async def test_lost_lock_among_batched_commits_that_fall_short_is_lost(redis_server):
    async with short_of_durability(redis_server) as (plain, qm, held):
        plain.operator("tests").release("q", [held[2].lookup_id])
        found = await asyncio.gather(*(one.commit() for one in held), return_exceptions=True)
        expected = ["DurabilityNotReached", "DurabilityNotReached", "LockLost", "DurabilityNotReached"]
        assert names(found) == expected
        assert [one.settled for one in held] == [True, True, False, True]
        assert (await qm.queue_info("q")).messages == 1


@pytest.mark.parametrize("how", ["commit", "abort"])
async def test_settlement_of_a_segmented_message_is_not_batched(queue, gate, how):
    await queue.send_group([b"abcdef"], segment_bytes=2)
    whole = await queue.lock(0, grouping=mqredis.Grouping.COMPLETE_MESSAGE)
    held = await locks(queue, 3)
    gate.open.clear()
    settling = (held[0].commit(), getattr(whole, how)(), held[1].commit(), held[2].commit())
    tasks = [asyncio.ensure_future(one) for one in settling]
    await turns()
    assert gate.waiting == 4, (
        "while it is locked no other settlement is batched either, since its segments have own locks"
    )
    assert names(await outcomes(gate, tasks)) == [""] * 4
    assert await bodies(queue) == ([] if how == "commit" else [b"ab", b"cd", b"ef"])
