"""The look for all who wait: what it finds, and what happens when it is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from mqredis import scripts
from mqredis.drivers.aio import AsyncDriver
from mqredis.drivers.sync import Driver
from mqredis.errors import AccessDenied, InvariantBroken, ManagerNotFound
from mqredis.keys import ManagerKeys
from mqredis.status import Status
from mqredis.steps import Call, Operation, perform
from tests.drivers.kit import FAST, TinyScript, aio_until, first, take, until

# It looks for all by itself, often; the others only when a test asks them to.
OFTEN = FAST.model_copy(update={"recheck_seconds": 0.02})
NEVER = FAST.model_copy(update={"recheck_seconds": 600.0})

REFUSED = f"return envelope({int(Status.ACCESS_DENIED)})"
SHORT = "return envelope(0, '1')"


def silent(keys: ManagerKeys) -> Operation[str]:
    """Add one and notify no reader."""
    return perform(Call("silent", keys.call("q"), [], first))


def waits(driver: Any, count: int) -> Callable[[], bool]:
    return lambda: len(driver._waiters.table.waits) == count


@pytest.fixture
def glance(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Puts another script in the place of the glance."""

    def put(body: str) -> None:
        plain, other = scripts.get, TinyScript("poll_all", body)
        monkeypatch.setattr(scripts, "get", lambda name: other if name == "poll_all" else plain(name))

    return put


refusals = pytest.mark.parametrize("body, error", [(REFUSED, AccessDenied), (SHORT, InvariantBroken)])


@refusals
def test_what_a_refusal_means(
    url: str,
    connect: Callable[..., Driver],
    glance: Callable[[str], None],
    body: str,
    error: type[Exception],
) -> None:
    glance(body)
    driver = connect(url, NEVER)
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(driver.run, take(driver.core.keys, scopes=("tag",)))
        until(waits(driver, 1))
        with pytest.raises(error):
            driver._waiters.recheck()
        assert driver.last_poll == 0.0
        driver.cancel("tag")
        assert future.result(30) == "cancelled"


def test_where_it_is_refused_each_looks(
    url: str, connect: Callable[..., Driver], glance: Callable[[str], None]
) -> None:
    glance(REFUSED)
    driver, other = connect(url, OFTEN), connect(url)
    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(driver.run, take(driver.core.keys)) for _ in range(2)]
        until(waits(driver, 2))
        for _ in futures:
            other.run(silent(driver.core.keys))
        assert {future.result(30) for future in futures} == {"taken"}
    assert driver.last_poll == 0.0


def test_who_waits_learns_that_the_manager_is_gone(url: str, connect: Callable[..., Driver]) -> None:
    driver, other = connect(url, OFTEN), connect(url)
    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(driver.run, take(driver.core.keys)) for _ in range(2)]
        until(waits(driver, 2))
        other.command("DEL", driver.core.keys.own[0])
        for future in futures:
            with pytest.raises(ManagerNotFound):
                future.result(30)


def test_a_session_that_is_gone_is_no_refusal(url: str, connect: Callable[..., Driver]) -> None:
    driver, other = connect(url, OFTEN), connect(url)
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(driver.run, take(driver.core.keys))
        until(waits(driver, 1))
        assert driver.core.session is not None
        other.command("HDEL", driver.core.keys.own[0], driver.core.session.number)
        other.run(silent(driver.core.keys))
        assert future.result(30) == "taken"


@refusals
async def test_async_what_a_refusal_means(
    url: str,
    aconnect: Callable[..., AsyncDriver],
    glance: Callable[[str], None],
    body: str,
    error: type[Exception],
) -> None:
    glance(body)
    driver = aconnect(url, NEVER)
    task = asyncio.create_task(driver.run(take(driver.core.keys, scopes=("tag",))))
    await aio_until(waits(driver, 1))
    with pytest.raises(error):
        await driver._waiters.recheck()
    assert driver.last_poll == 0.0
    driver.cancel("tag")
    assert await asyncio.wait_for(task, 30) == "cancelled"


async def test_async_where_it_is_refused_each_looks(
    url: str, aconnect: Callable[..., AsyncDriver], glance: Callable[[str], None]
) -> None:
    glance(REFUSED)
    driver, other = aconnect(url, OFTEN), aconnect(url)
    tasks = [asyncio.create_task(driver.run(take(driver.core.keys))) for _ in range(2)]
    await aio_until(waits(driver, 2))
    for _ in tasks:
        await other.run(silent(driver.core.keys))
    assert await asyncio.wait_for(asyncio.gather(*tasks), 30) == ["taken", "taken"]
    assert driver.last_poll == 0.0


async def test_async_who_waits_learns_that_the_manager_is_gone(
    url: str, aconnect: Callable[..., AsyncDriver]
) -> None:
    driver, other = aconnect(url, OFTEN), aconnect(url)
    tasks = [asyncio.create_task(driver.run(take(driver.core.keys))) for _ in range(2)]
    await aio_until(waits(driver, 2))
    await other.command("DEL", driver.core.keys.own[0])
    ended = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 30)
    assert [type(error) for error in ended] == [ManagerNotFound, ManagerNotFound]
