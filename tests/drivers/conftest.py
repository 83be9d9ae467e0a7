"""Fixtures of the drivers' own tests."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
import pytest_asyncio
from driver_kit import BODIES, FAST, Server, TinyScript

from mqredis import scripts
from mqredis.drivers import AsyncDriver, Driver, open_async_backend, open_backend
from mqredis.keys import ManagerKeys
from mqredis.settings import Settings


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """The drivers run the tiny scripts."""
    table = {name: TinyScript(name, body) for name, body in BODIES.items()}
    monkeypatch.setattr(scripts, "get", table.__getitem__)
    monkeypatch.setattr(scripts, "names", lambda: sorted(table))
    monkeypatch.setattr(scripts, "explain", lambda text: text)


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for the tests that do not hurt it; notifications as we like them."""
    if not shutil.which("redis-server"):
        pytest.skip("no redis-server on PATH")
    server = Server(tmp_path_factory.mktemp("redis"), "--notify-keyspace-events", "Ks")
    yield server
    server.kill()


@pytest.fixture
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Server]]:
    """Makes servers for tests that stop, kill or reconfigure them."""
    if not shutil.which("redis-server"):
        pytest.skip("no redis-server on PATH")
    made: list[Server] = []

    def make(*options: str) -> Server:
        made.append(Server(tmp_path_factory.mktemp("redis"), *options))
        return made[-1]

    yield make
    for server in made:
        server.kill()


@pytest.fixture(params=["real", "fake"])
def url(request: pytest.FixtureRequest) -> str:
    """Each test that takes it runs on a real server and on fakeredis."""
    if request.param == "fake":
        return f"memory://{uuid.uuid4().hex}"
    server: Server = request.getfixturevalue("shared_server")
    return server.url


@pytest.fixture
def manager() -> str:
    """A manager of one's own on the shared server."""
    return f"t-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def connect(manager: str) -> Iterator[Callable[..., Driver]]:
    """Makes blocking drivers and closes them."""
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
    """Makes asyncio drivers and closes them."""
    made: list[AsyncDriver] = []

    def make(where: Any, settings: Settings = FAST, name: str = "") -> AsyncDriver:
        keys = ManagerKeys(name or manager)
        made.append(AsyncDriver(settings, keys, open_async_backend(where, settings, keys.own[0])))
        return made[-1]

    yield make
    for driver in made:
        await driver.close()
