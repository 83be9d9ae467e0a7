"""All viewers share one reading, and nothing is read without viewers."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import mqredis.asyncio
from mqredis import BrokerUnavailable
from mqredis.console.overview import Overview
from mqredis.console.poller import Poller
from tests.support.server import RedisServer


class Reading:
    """Counts how often it is read; fails while ``broken``."""

    def __init__(self) -> None:
        self.count = 0
        self.broken = False

    async def __call__(self, before: int | None) -> int:
        assert before == (self.count or None)
        if self.broken:
            raise BrokerUnavailable
        self.count += 1
        return self.count


async def test_all_viewers_share_one_reading() -> None:
    reading = Reading()
    poller = Poller(reading, 0.02)
    async with aclosing(poller.follow()) as first, aclosing(poller.follow()) as second:
        for _ in range(3):
            assert set(await asyncio.gather(anext(first), anext(second))) == {"tick"}
        assert poller.viewers == 2
        assert reading.count <= 4
    assert poller.viewers == 0


async def test_nothing_is_read_without_viewers() -> None:
    reading = Reading()
    poller = Poller(reading, 0.01)
    async with aclosing(poller.follow()) as viewer:
        await anext(viewer)
    running = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    assert running == []
    async with aclosing(poller.follow()) as viewer:
        assert await anext(viewer) == "tick"


async def test_viewer_who_comes_while_the_last_one_leaves_is_notified() -> None:
    poller = Poller(Reading(), 3600.0)
    leaving = poller.follow()
    await anext(leaving)
    async with aclosing(poller.follow()) as viewer:
        _, event = await asyncio.wait_for(asyncio.gather(leaving.aclose(), anext(viewer)), 5)
    assert event == "tick"


async def test_viewers_are_notified_of_a_lost_and_recovered_broker() -> None:
    reading = Reading()
    poller = Poller(reading, 0.01)
    async with aclosing(poller.follow()) as viewer:
        assert await anext(viewer) == "tick"
        reading.broken = True
        while await anext(viewer) != "down":
            pass
        reading.broken = False
        while await anext(viewer) != "tick":
            pass


async def test_pages_use_the_latest_reading() -> None:
    reading = Reading()
    poller = Poller(reading, 3600.0)
    assert set(await asyncio.gather(poller.state(), poller.state(), poller.state())) == {1}


async def test_overview_of_many_queues_takes_few_calls(redis_server: RedisServer) -> None:
    def calls() -> int:
        found = redis_server.client().info("commandstats")
        return sum(
            row["calls"] for name, row in found.items() if name in ("cmdstat_fcall", "cmdstat_evalsha")
        )

    async with mqredis.asyncio.connect(redis_server.url) as manager:
        for number in range(100):
            await manager.create_queue(f"queue-{number}")
        before = calls()
        overview = await Overview.read(manager, None)
        assert len(overview.rows) == 100
        assert calls() - before <= 6
