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

from mqredis.drivers.aio import AsyncDriver
from mqredis.drivers.net.pool import Backend, Connection
from mqredis.drivers.sync import Driver
from mqredis.errors import BrokerUnavailable
from tests.drivers.kit import FAST, take, until

# No server listens on this port.
NODE = ("127.0.0.1", 1)


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
        with pytest.raises(BrokerUnavailable, match="closed by this process"):
            backend.acquire(time.monotonic() + 30, node)
    assert backend._count == before


def test_connection_opened_while_the_pool_closes_is_not_kept(
    url: str, connect: Callable[..., Driver], monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = connect(url).backend
    current = backend._current

    def located() -> Any:
        found = current()
        backend.close()
        return found

    monkeypatch.setattr(backend, "_current", located)
    link = backend.acquire(time.monotonic() + 30)
    backend.release(link)
    assert not backend._idle
    assert backend._count == 0


async def test_async_closed_pool_refuses_to_connect(url: str, aconnect: Callable[..., AsyncDriver]) -> None:
    backend = aconnect(url).backend
    await backend.close()
    before = backend._count
    for node in (None, NODE):
        with pytest.raises(BrokerUnavailable, match="closed by this process"):
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


async def aio_turn(condition: Callable[[], bool]) -> None:
    """Let other tasks run until the condition holds."""
    loop = asyncio.get_running_loop()
    while not condition():
        turned = loop.create_future()
        loop.call_soon(turned.set_result, None)
        await turned
