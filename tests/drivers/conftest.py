"""Fixtures of the drivers' own tests."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
import pytest_asyncio

from mqredis import scripts
from mqredis.drivers.aio import AsyncDriver
from mqredis.drivers.connect import open_async_backend, open_backend
from mqredis.drivers.sync import Driver
from mqredis.keys import ManagerKeys
from mqredis.settings import Settings
from tests.drivers.kit import BODIES, FAST, Connect, TinyScript
from tests.support import proxy as proxies
from tests.support.facade import LoopThread, Proxy
from tests.support.server import RedisServer


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the drivers run the tiny scripts."""
    table = {name: TinyScript(name, body) for name, body in BODIES.items()}
    monkeypatch.setattr(scripts, "get", table.__getitem__)
    monkeypatch.setattr(scripts, "names", lambda: sorted(table))
    monkeypatch.setattr(scripts, "explain", lambda _, text: text)


@pytest.fixture
def manager() -> str:
    """Name of a manager that no other test uses on the shared server."""
    return f"t-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def connect(manager: str) -> Iterator[Callable[..., Driver]]:
    """Return a factory of blocking drivers, which are closed after the test."""
    made: list[Driver] = []

    def make(where: Any, settings: Settings = FAST, name: str = "") -> Driver:
        keys = ManagerKeys(name or manager)
        made.append(Driver(settings, keys, open_backend(where, settings, keys.own[0])))
        return made[-1]

    yield make
    for driver in made:
        driver.close()


@pytest_asyncio.fixture
async def aconnect(manager: str) -> AsyncIterator[Callable[..., AsyncDriver]]:
    """Return a factory of asyncio drivers, which are closed after the test."""
    made: list[AsyncDriver] = []

    def make(where: Any, settings: Settings = FAST, name: str = "") -> AsyncDriver:
        keys = ManagerKeys(name or manager)
        made.append(AsyncDriver(settings, keys, open_async_backend(where, settings, keys.own[0])))
        return made[-1]

    yield make
    for driver in made:
        await driver.close()


@pytest.fixture(params=["blocking", "asyncio"])
def connect_either(
    connect: Callable[..., Driver], manager: str, loop_thread: LoopThread, request: pytest.FixtureRequest
) -> Iterator[Connect]:
    """Return a factory of drivers of either kind, with blocking methods."""
    made: list[Proxy] = []

    def make(where: Any, settings: Settings = FAST, name: str = "") -> Proxy:
        keys = ManagerKeys(name or manager)
        driver = loop_thread.call(
            lambda: AsyncDriver(settings, keys, open_async_backend(where, settings, keys.own[0]))
        )
        made.append(Proxy(driver, loop_thread))
        return made[-1]

    yield connect if request.param == "blocking" else make
    for driver in made:
        driver.close()


@pytest.fixture
def proxy(redis_server: RedisServer) -> Iterator[proxies.Proxy]:
    with proxies.Proxy(redis_server.socket_path) as proxy:
        yield proxy
