"""A call is done once, or its outcome is known to be unknown; its slot comes back, or stays away."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator

import pytest

from mqredis.drivers.aio import AsyncDriver
from mqredis.drivers.session import Slot
from mqredis.drivers.sync import Driver
from mqredis.errors import HistoryRolledBack, InvalidHandle, ManagerNotFound, OutcomeUnknown
from tests.drivers.kit import FAST, add
from tests.drivers.proxy import Proxy
from tests.drivers.test_interrupts import echo, struck
from tests.support.faults import Hold
from tests.support.proxy import Proxy as Between
from tests.support.server import RedisServer

BRIEF = FAST.model_copy(update={"retry_seconds": 0.3, "reply_timeout_seconds": 30})
HASTY = FAST.model_copy(update={"reply_timeout_seconds": 0.1})


def go(driver: Driver) -> str:
    """Add one."""
    return driver.run(add(driver.core.keys))


async def ago(driver: AsyncDriver) -> str:
    return await driver.run(add(driver.core.keys))


def free(driver: Driver | AsyncDriver) -> list[Slot]:
    """The free slots."""
    session = driver.core.session
    assert session is not None
    return session.free


@pytest.fixture
def proxy(redis_server: RedisServer) -> Iterator[Proxy]:
    with Proxy(redis_server.socket_path) as proxy:
        yield proxy


def test_what_has_to_be_done_before_is_done(url: str, connect: Callable[..., Driver]) -> None:
    driver = connect(url)
    assert [go(driver), go(driver)] == ["1", "2"]
    driver.backend.drop_idle()
    assert go(driver) == "3", "there was no connection"
    driver.core.run_id = "another"
    assert go(driver) == "4", "the session was shown to another server"
    assert len(free(driver)) == 1
    assert len(driver.backend._idle) == 1
    driver.close()
    with pytest.raises(InvalidHandle):
        go(driver)


@pytest.mark.parametrize("fault", ["request", "reply", "silence"])
@pytest.mark.parametrize("times", [1, 3])
def test_a_lost_call_is_done_once(
    proxy: Proxy, connect: Callable[..., Driver], fault: str, times: int
) -> None:
    driver = connect(proxy.url, HASTY)
    driver.run(add(driver.core.keys))
    proxy.faults.extend([fault] * times)
    assert go(driver) == "2"
    assert not proxy.faults
    assert [go(driver), driver.run(add(driver.core.keys))] == ["3", "4"]
    assert driver.unknown == []
    assert [slot.last for slot in free(driver)] == [4], "each in the same slot"


@pytest.mark.parametrize("fault", ["request", "reply", "silence"])
@pytest.mark.parametrize("times", [1, 3])
async def test_async_a_lost_call_is_done_once(
    proxy: Proxy, aconnect: Callable[..., AsyncDriver], fault: str, times: int
) -> None:
    driver = aconnect(proxy.url, HASTY)
    await driver.run(add(driver.core.keys))
    proxy.faults.extend([fault] * times)
    assert await ago(driver) == "2"
    assert [await ago(driver), await driver.run(add(driver.core.keys))] == ["3", "4"]
    assert driver.unknown == []
    assert [slot.last for slot in free(driver)] == [4]


def test_an_unknown_outcome_names_its_token(proxy: Proxy, connect: Callable[..., Driver]) -> None:
    driver = connect(proxy.url, BRIEF)
    driver.run(add(driver.core.keys))
    proxy.faults.extend(["reply"] * 1000)
    with pytest.raises(OutcomeUnknown) as caught:
        go(driver)
    proxy.faults.clear()
    assert caught.value.token == f"{driver.session}.0:2"
    assert driver.unknown == [caught.value.token]
    assert driver.run(add(driver.core.keys)) == "3"  # in another slot: the call had been carried out
    assert [slot.name for slot in free(driver)] == [f"{driver.session}.1"]


async def test_async_an_unknown_outcome_names_its_token(
    proxy: Proxy, aconnect: Callable[..., AsyncDriver]
) -> None:
    driver = aconnect(proxy.url, BRIEF)
    await driver.run(add(driver.core.keys))
    proxy.faults.extend(["reply"] * 1000)
    with pytest.raises(OutcomeUnknown) as caught:
        await ago(driver)
    proxy.faults.clear()
    assert caught.value.token == f"{driver.session}.0:2"
    assert driver.unknown == [caught.value.token]
    assert await driver.run(add(driver.core.keys)) == "3"


def test_a_flushed_script_cache_is_filled_again(
    url: str, redis_server: RedisServer, connect: Callable[..., Driver]
) -> None:
    driver = connect(url)
    driver.run(add(driver.core.keys))
    for n in range(2, 5):
        driver.command("SCRIPT", "FLUSH")
        if driver.core.functions:
            driver.command("FUNCTION", "FLUSH")
        assert go(driver) == str(n)
    assert driver.unknown == []


def test_a_session_that_the_server_has_forgotten(url: str, connect: Callable[..., Driver]) -> None:
    driver = connect(url)
    driver.run(add(driver.core.keys))
    was = driver.session
    driver.command("HDEL", driver.core.keys.own[0], was)
    assert go(driver) == "2"
    assert driver.session != was
    assert [slot.name for slot in free(driver)] == [f"{driver.session}.0"]
    assert go(driver) == "3"


def test_a_slot_that_somebody_else_has_used(url: str, connect: Callable[..., Driver]) -> None:
    driver = connect(url)
    driver.run(add(driver.core.keys))
    driver.command("HSET", driver.core.keys.own[0], f"{driver.session}.0", "7 9")
    assert go(driver) == "2"
    assert driver.unknown == []


def test_a_manager_that_is_gone(url: str, connect: Callable[..., Driver]) -> None:
    driver = connect(url)
    driver.run(add(driver.core.keys))
    left = free(driver)
    driver.command("DEL", driver.core.keys.own[0])
    with pytest.raises(ManagerNotFound):
        go(driver)
    assert len(left) == 1, "the slot is back"
    with pytest.raises(ManagerNotFound):
        go(driver)


def test_a_history_that_goes_back(url: str, connect: Callable[..., Driver]) -> None:
    driver = connect(url)
    for _ in range(3):
        driver.run(add(driver.core.keys))
    driver.command("HSET", driver.core.keys.own[0], "history", "0")
    with pytest.raises(HistoryRolledBack):
        go(driver)
    assert driver.run(add(driver.core.keys)) == "5"


def test_a_signal_while_it_waits_for_its_reply(
    redis_server: RedisServer, connect: Callable[..., Driver]
) -> None:
    for driver, n in struck(redis_server, connect, 10, go):
        assert driver.unknown[n:] == [f"{driver.session}.{n}:{1 if n else 2}"]
        assert [slot.name for slot in free(driver)] == [f"{driver.session}.{n + 1}"], (
            "but for one all are away"
        )
        assert echo(driver, f"w{n}") == f"w{n}"


async def test_a_task_that_is_cancelled_while_it_waits(
    redis_server: RedisServer, aconnect: Callable[..., AsyncDriver]
) -> None:
    with Between(redis_server.socket_path) as proxy:
        driver = aconnect(proxy.url(), FAST.model_copy(update={"reply_timeout_seconds": 60.0}))
        await driver.run(add(driver.core.keys))
        for n in range(5):
            rule = proxy.add(Hold(reply=True), command="FCALL" if driver.core.functions else "EVALSHA")
            task = asyncio.ensure_future(ago(driver))
            assert await asyncio.to_thread(rule.wait, 60)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            rule.release()
            assert len(driver.unknown) == n + 1
            assert [slot.name for slot in free(driver)] == [f"{driver.session}.{n + 1}"]
            assert await ago(driver) == str(3 + 2 * n), "what was cancelled was carried out"


def test_threads_share_a_driver(url: str, connect: Callable[..., Driver]) -> None:
    driver = connect(url)
    driver.run(add(driver.core.keys))
    found: list[str] = []

    def work() -> None:
        found.extend(go(driver) for _ in range(200))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(int, found)) == [*range(2, 1602)]
    names = [slot.name for slot in free(driver)]
    assert len(set(names)) == len(names) <= 8
