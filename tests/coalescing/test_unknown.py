"""Failures of batched calls: unknown outcomes, an unavailable server, durability levels that are not reached."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

import mqredis
import mqredis.asyncio
from mqredis import (
    Durability,
    DurabilityNotReached,
    Settings,
)
from tests.coalescing.kit import (
    NO_RETRIES,
    SETTINGS,
    Gate,
    Queue,
    bodies,
    gathered,
    kinds,
    outcomes,
    send_batcher,
    turns,
)
from tests.support.faults import CutReply, CutRequest, Hold
from tests.support.proxy import Proxy


async def through(
    proxy: Proxy, settings: Settings, work: Callable[[Any, Queue], Coroutine[Any, Any, None]]
) -> None:
    async with mqredis.asyncio.connect(proxy.url(), settings=settings) as qm:
        await qm.create_queue("q")
        queue = await qm.open("q")
        await queue.send(b"warm")
        assert await bodies(queue) == [b"warm"]
        await work(qm, queue)


def batch(request: Any) -> bool:
    """True for a call that sends three messages."""
    return b"333" in request.args


@pytest.mark.parametrize(
    "fault, outcome", [(CutReply(), "done"), (CutRequest(), "never"), (CutRequest(200), "never")]
)
async def test_lost_connection_gives_outcome_unknown_with_one_token(proxy, redis_server, fault, outcome):
    async def work(qm: Any, queue: Queue) -> None:
        rule = proxy.add(fault, where=batch)
        found = await asyncio.gather(*(queue.send(b"%d" % n) for n in range(4)), return_exceptions=True)
        assert rule.hits == 1
        assert kinds(found) == ["", *["OutcomeUnknown"] * 3]
        unknown: list[Any] = found[1:]
        assert len({id(error) for error in unknown}) == 3
        assert len({error.token for error in unknown}) == 1
        assert len({str(error) for error in unknown}) == 1
        for error in unknown:
            resolution = await qm.resolve(error.token)
            assert (resolution.outcome, resolution.status) == (outcome, 0)
        wanted = [b"0", b"1", b"2", b"3"] if outcome == "done" else [b"0"]
        assert await bodies(queue) == wanted, "it was sent again"

    await through(proxy, NO_RETRIES, work)


async def test_lost_reply_is_fetched_by_repeating_the_call(proxy):
    async def work(qm: Any, queue: Queue) -> None:
        rule = proxy.add(CutReply(5), where=batch)
        found = await asyncio.gather(*(queue.send(b"%d" % n) for n in range(4)))
        assert rule.hits == 1
        assert [one.lookup_id for one in found] == [
            message.lookup_id for message in await queue.receive_many(9, 0)
        ]

    await through(proxy, SETTINGS, work)


async def test_cancelled_batcher_task_gives_outcome_unknown_after_the_call(proxy):
    async def work(qm: Any, queue: Any) -> None:
        rule = proxy.add(Hold(reply=True), where=batch)
        tasks = [asyncio.ensure_future(queue.send(b"%d" % n)) for n in range(4)]
        assert await asyncio.to_thread(rule.wait)
        later = asyncio.ensure_future(queue.send(b"4"))
        await turns()
        send_batcher(queue)._task.cancel()
        await turns()
        rule.release()
        found: list[Any] = await asyncio.gather(*tasks, later, return_exceptions=True)
        assert kinds(found) == ["", *["OutcomeUnknown"] * 3, ""]
        assert {(await qm.resolve(error.token)).outcome for error in found[1:4]} == {"done"}
        assert await bodies(queue) == [b"0", b"1", b"2", b"3", b"4"]

    await through(proxy, SETTINGS, work)


async def test_unavailable_server_fails_all_batched_sends(proxy):
    async def work(qm: Any, queue: Queue) -> None:
        proxy.down = True
        proxy.cut_all()
        gate = Gate(qm)
        found = await outcomes(gate, await gathered(gate, *(queue.send(b"%d" % n) for n in range(4))))
        proxy.down = False
        assert {*kinds(found)} == {"BrokerUnavailable"}
        assert len({id(error) for error in found}) == 4
        await queue.send(b"x")
        assert await bodies(queue) == [b"x"]

    await through(proxy, NO_RETRIES, work)


async def test_batched_sends_with_time_left_are_retried(queue, gate, monkeypatch):
    """The retry time of the first callers is over before that of the later ones."""
    driver = queue._manager._driver
    monkeypatch.setattr(driver, "settings", SETTINGS.model_copy(update={"retry_seconds": 1000.0}))
    tasks = await gathered(gate, *(queue.send(b"%d" % n) for n in range(4)))
    for one in list(send_batcher(queue)._waiting)[:2]:
        one.since -= 1000.0
    original, deadlines = gate._call, []

    async def down(call: Any, run: Any, *args: Any) -> Any:
        deadlines.append(run.deadline)
        if len(deadlines) == 2:
            raise mqredis.BrokerUnavailable("down")
        return await original(call, run, *args)

    gate._call = down
    assert kinds(await outcomes(gate, tasks)) == ["", "BrokerUnavailable", "BrokerUnavailable", ""]
    assert deadlines[0] is None
    assert deadlines[2] - deadlines[1] == pytest.approx(1000, abs=100)
    assert await bodies(queue) == [b"0", b"3"]


async def test_durability_shortfall_is_raised_with_the_result_of_each_send(redis_server):
    short = Settings(durability=Durability.REPLICA, durability_seconds=0.02)
    with mqredis.connect(redis_server.url) as plain:
        plain.create_queue("q")
    async with mqredis.asyncio.connect(redis_server.url, settings=short) as qm:
        queue = await qm.open("q")
        found: list[Any] = await asyncio.gather(
            *(queue.send(b"%d" % n) for n in range(4)), return_exceptions=True
        )
        assert all(isinstance(error, DurabilityNotReached) for error in found)
        assert len({error.token for error in found}) == 2
        there = [message.lookup_id async for message in queue.browse()]
        assert [error.result.lookup_id for error in found] == there
