"""Connection pools: which connections are closed with them, and that none is opened afterwards."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis

from mqredis.drivers.aio import AsyncDriver
from mqredis.drivers.net.pool import Backend, Connection
from mqredis.drivers.net.pool_aio import DEPTH, AsyncBackend
from mqredis.drivers.sync import Driver
from mqredis.errors import BrokerUnavailable, InvalidHandle
from tests.drivers.kit import FAST, add, read, take
from tests.support.server import RedisServer
from tests.support.until import until

# No server listens on this port.
NODE = ("127.0.0.1", 1)


def interleave(monkeypatch: pytest.MonkeyPatch, backend: Backend, change: Callable[[], None]) -> None:
    """Make this change, as another thread may, between the look-up of the node and the connection to it."""
    current = backend._current

    def located() -> Any:
        found = current()
        change()
        return found

    monkeypatch.setattr(backend, "_current", located)


def test_connection_returned_while_idle_ones_are_dropped_is_closed(
    url: str, connect: Callable[..., Driver]
) -> None:
    driver = connect(url)
    driver.run(take(driver.core.keys, seconds=0))
    backend = driver.backend
    link = backend.acquire(time.monotonic() + 30)

    class Idle(deque[Connection]):
        def append(self, link: Connection) -> None:
            closing = threading.Thread(target=backend.drop_idle)
            closing.start()
            closing.join(30)
            super().append(link)

    backend._idle = Idle()
    assert backend.give(link)
    assert not backend._idle
    assert backend._count == 0


def test_connection_opened_while_another_thread_finds_a_new_node_is_not_kept(
    url: str, connect: Callable[..., Driver], monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = connect(url).backend
    backend.drop_idle()
    interleave(monkeypatch, backend, backend.drop_idle)
    link = backend.acquire(time.monotonic() + 30)
    kept = backend.give(link)
    backend.discard(link)
    assert not kept


def test_drop_idle_changes_the_epoch_under_the_lock(url: str, connect: Callable[..., Driver]) -> None:
    owned: list[bool] = []

    class Watched(Backend):
        @property
        def _epoch(self) -> int:
            return self._number

        @_epoch.setter
        def _epoch(self, number: int) -> None:
            self._number = number
            owned.append(self._cond._is_owned())  # type: ignore[attr-defined]

    backend = Watched(connect(url).backend.plan)
    owned.clear()
    backend.drop_idle()
    assert owned == [True]


def test_closed_pool_refuses_to_connect(url: str, connect: Callable[..., Driver]) -> None:
    backend = connect(url).backend
    backend.close()
    before = backend._count
    for node in (None, NODE):
        with pytest.raises(InvalidHandle, match="closed by this process"):
            backend.acquire(time.monotonic() + 30, node)
    assert backend._count == before


def test_connection_opened_while_the_pool_closes_is_not_kept(
    url: str, connect: Callable[..., Driver], monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = connect(url).backend
    interleave(monkeypatch, backend, backend.close)
    link = backend.acquire(time.monotonic() + 30)
    backend.release(link)
    assert not backend._idle
    assert backend._count == 0


async def test_async_closed_pool_refuses_to_connect(url: str, aconnect: Callable[..., AsyncDriver]) -> None:
    backend = aconnect(url).backend
    await backend.close()
    before = backend._count
    for node in (None, NODE):
        with pytest.raises(InvalidHandle, match="closed by this process"):
            await backend.acquire(time.monotonic() + 30, node)
    assert backend._count == before


class LateCondition(threading.Condition):
    """Lets the first wait fail although it was notified."""

    failure: BaseException | None = None

    def __init__(self) -> None:
        super().__init__()
        self._calls = 0

    def wait(self, timeout: float | None = None) -> bool:
        self._calls += 1
        if self._calls > 1:
            return super().wait(timeout)
        super().wait()
        if self.failure is not None:
            raise self.failure
        return False


@pytest.mark.parametrize("failure", [None, KeyboardInterrupt()], ids=["timeout", "interrupt"])
def test_wait_that_fails_although_it_was_notified_lets_another_one_go_on(
    url: str, connect: Callable[..., Driver], failure: BaseException | None
) -> None:
    backend = connect(url, FAST.model_copy(update={"max_connections": 1})).backend
    backend._cond = LateCondition()
    backend._cond.failure = failure
    link = backend.acquire(time.monotonic() + 30)
    with ThreadPoolExecutor(2) as pool:
        late = pool.submit(backend.acquire, time.monotonic() + 30)
        until(lambda: backend._waiting == 1)
        second = pool.submit(backend.acquire, time.monotonic() + 5)
        until(lambda: backend._waiting == 2)
        backend.release(link)
        assert isinstance(late.exception(30), KeyboardInterrupt if failure else BrokerUnavailable)
        backend.release(second.result(30))


class TimeOver:
    """Stands for ``asyncio.timeout``: its time is over when its block ends."""

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(self, *_: object) -> None:
        raise TimeoutError


async def test_async_wait_that_times_out_although_it_was_woken_lets_another_one_go_on(
    url: str, aconnect: Callable[..., AsyncDriver]
) -> None:
    backend = aconnect(url, FAST.model_copy(update={"max_connections": 1})).backend
    link = await backend.acquire(time.monotonic() + 30, alone=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asyncio, "timeout", lambda _: TimeOver())
        late = asyncio.create_task(backend.acquire(time.monotonic() + 30, alone=True))
        await aio_turn(lambda: len(backend._waiters) == 1)
    second = asyncio.create_task(backend.acquire(time.monotonic() + 5, alone=True))
    await aio_turn(lambda: len(backend._waiters) == 2)
    await backend.release(link)
    with pytest.raises(BrokerUnavailable, match="busy"):
        await late
    await backend.release(await second)


async def test_call_that_must_be_alone_gets_an_idle_connection_though_the_last_one_is_in_use(
    redis_server: RedisServer, aconnect: Callable[..., AsyncDriver]
) -> None:
    backend = aconnect(redis_server.url, FAST.model_copy(update={"max_connections": 2})).backend
    links = [await backend.acquire(soon()) for _ in range(DEPTH + 1)]
    for link in links:
        assert backend.give(link)
    used = backend.take()
    assert used is not None
    alone = await backend.acquire(soon(), alone=True)
    assert alone is not used
    assert alone.users == 1
    for link in (alone, used):
        assert backend.give(link)


async def test_nothing_joins_a_connection_until_the_call_that_must_be_alone_is_over(
    redis_server: RedisServer, aconnect: Callable[..., AsyncDriver]
) -> None:
    """Calls that use the connection already are answered before it."""
    backend = aconnect(redis_server.url, FAST.model_copy(update={"max_connections": 1})).backend
    before = await backend.acquire(soon())
    assert await backend.acquire(soon(), alone=True) is before
    assert backend.take() is None
    waiting = [asyncio.create_task(backend.acquire(soon())) for _ in range(3)]
    await aio_turn(lambda: len(backend._waiters) == 3)
    assert backend.give(before)
    assert backend.take() is None
    assert backend.give(before)
    assert [await each for each in waiting] == [before] * 3, "they share it"
    for link in [before] * 3:
        assert backend.give(link)


async def test_connection_of_a_cancelled_call_that_was_alone_is_closed(
    redis_server: RedisServer, aconnect: Callable[..., AsyncDriver]
) -> None:
    backend = aconnect(redis_server.url).backend
    link = await backend.acquire(soon(), alone=True)
    await backend.abandon(link)
    assert not link.connected, "the reply of WAIT would hold up the next call"


class Dials:
    """Counts the connections that a pool opens, and holds them up until ``go`` is set."""

    def __init__(
        self, backend: AsyncBackend, patch: pytest.MonkeyPatch, error: Exception | None = None
    ) -> None:
        self.go = asyncio.Event()
        self.count = 0
        make = backend._make

        async def held(*args: Any) -> Any:
            self.count += 1
            await self.go.wait()
            if error is not None:
                raise error
            return await make(*args)

        patch.setattr(backend, "_make", held)


async def test_burst_of_calls_opens_as_many_connections_as_it_fills(
    redis_server: RedisServer, aconnect: Callable[..., AsyncDriver], monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = aconnect(redis_server.url).backend
    dials = Dials(backend, monkeypatch)
    tasks = [asyncio.create_task(backend.acquire(soon())) for _ in range(2 * DEPTH + 1)]
    await aio_turn(lambda: dials.count >= 3)
    dials.go.set()
    links = [await each for each in tasks]
    assert dials.count == 3
    assert sorted(link.users for link in set(links)) == [1, DEPTH, DEPTH]
    for link in links:
        assert backend.give(link)


async def test_connection_that_cannot_be_opened_fails_all_calls_that_wait_for_it(
    redis_server: RedisServer, aconnect: Callable[..., AsyncDriver], monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = aconnect(redis_server.url).backend
    dials = Dials(backend, monkeypatch, redis.ConnectionError("no server"))
    tasks = [asyncio.create_task(backend.acquire(soon())) for _ in range(DEPTH)]
    await aio_turn(lambda: dials.count == 1)
    dials.go.set()
    for each in await asyncio.gather(*tasks, return_exceptions=True):
        assert str(each) == "no server"
    assert dials.count == 1
    assert backend._count == 0


async def test_call_goes_on_though_the_one_that_opens_its_connection_is_cancelled(
    redis_server: RedisServer, aconnect: Callable[..., AsyncDriver], monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = aconnect(redis_server.url).backend
    dials = Dials(backend, monkeypatch)
    opening, joined = (asyncio.create_task(backend.acquire(soon())) for _ in range(2))
    await aio_turn(lambda: dials.count == 1)
    opening.cancel()
    await aio_turn(lambda: dials.count == 2)
    dials.go.set()
    assert backend.give(await joined)
    assert opening.cancelled()
    assert backend._count == 1


async def test_server_is_asked_once_for_a_connection_that_calls_share(
    redis_server: RedisServer, aconnect: Callable[..., AsyncDriver]
) -> None:
    driver = aconnect(redis_server.url)
    with redis_server.client() as client:
        client.config_resetstat()
        await asyncio.gather(*(driver.run(add(driver.core.keys)) for _ in range(DEPTH)))
        asked = client.info("commandstats")["cmdstat_info"]["calls"]
    assert driver.backend._count == 1
    assert asked <= 3  # the server, perhaps what it keeps, and this test


def test_connection_opened_after_a_loss_stays_when_others_notice_theirs(
    url: str, connect: Callable[..., Driver]
) -> None:
    backend = connect(url).backend
    first, second = backend.acquire(soon()), backend.acquire(soon())
    backend.lose(first)
    new = backend.acquire(soon())
    assert backend.give(new)
    backend.lose(second)
    assert backend.take() is new
    backend.release(new)


async def test_async_connection_opened_after_a_loss_stays_when_others_notice_theirs(
    url: str, aconnect: Callable[..., AsyncDriver]
) -> None:
    backend = aconnect(url).backend
    first, second = await backend.acquire(soon(), alone=True), await backend.acquire(soon(), alone=True)
    await backend.lose(first)
    new = await backend.acquire(soon())
    assert backend.give(new)
    await backend.lose(second)
    assert await backend.acquire(soon()) is new
    await backend.release(new)


async def test_lost_connections_of_many_calls_are_replaced_by_as_many_as_the_calls_fill(
    redis_server: RedisServer, aconnect: Callable[..., AsyncDriver], monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = aconnect(redis_server.url)
    keys, tasks = driver.core.keys, 3 * DEPTH
    await driver.run(add(keys))
    dials = Dials(driver.backend, monkeypatch)
    dials.go.set()
    with redis_server.client() as client:
        for _ in range(5):
            calls = asyncio.gather(*(driver.run(add(keys)) for _ in range(tasks)))
            await asyncio.get_running_loop().run_in_executor(
                None, client.client_kill_filter, None, None, "normal"
            )
            await calls
    assert dials.count <= 5 * 2 * 3
    assert await driver.run(read(keys)) == str(5 * tasks + 1)


def soon() -> float:
    """A deadline that is far away."""
    return time.monotonic() + 30


async def aio_turn(condition: Callable[[], bool]) -> None:
    """Let other tasks run until the condition holds."""
    loop = asyncio.get_running_loop()
    while not condition():
        turned = loop.create_future()
        loop.call_soon(turned.set_result, None)
        await turned
