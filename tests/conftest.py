"""Servers for every test. The broker's fixtures stand in ``conformance/conftest.py`` and build on these."""

from __future__ import annotations

import os
import signal
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

import mqredis
from mqredis.drivers.connect import forget_store
from tests.support.backend import Backend, ServerKind, fake_backend
from tests.support.facade import LoopThread, connected
from tests.support.server import RedisServer, ServerMissing
from tests.support.standing_clock import StandingClock, stop_clock


@pytest.fixture(autouse=True, scope="session")
def clean_environment() -> Iterator[None]:
    """No ``MQREDIS_*`` setting of the developer's shell reaches a test (``MQREDIS_TEST_*`` are for us)."""
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith("MQREDIS_") and not name.startswith("MQREDIS_TEST_"):
                patch.delenv(name)
        yield


@pytest.fixture(autouse=True, scope="session")
def interrupts() -> None:
    """A run in the background of a shell has SIGINT ignored, and so would every process that the tests start."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def session_server() -> Iterator[RedisServer]:
    """The real server that the tests share. Not there: a failure, never a skip."""
    server = RedisServer()
    try:
        with server:
            yield server
    except ServerMissing as missing:
        server.close()
        pytest.fail(str(missing), pytrace=False)


@pytest.fixture
def redis_server(session_server: RedisServer) -> RedisServer:
    """The shared real server, empty and with its own settings. Tests that kill it take ``start_server``."""
    session_server.start()  # a test may have ended it after all
    session_server.reset()
    return session_server


@pytest.fixture
def start_server() -> Iterator[Callable[..., RedisServer]]:
    """Starts servers that belong to one test: ``start_server(aof=True)``; they end with the test."""
    servers: list[RedisServer] = []

    def start(**options: Any) -> RedisServer:
        server = RedisServer(**options)
        servers.append(server)
        return server.start()

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def durable_server(start_server: Callable[..., RedisServer]) -> RedisServer:
    """A real server of the test's own whose append-only file survives ``restart(kill=True)``."""
    return start_server(aof=True)


@pytest.fixture(scope="session")
def loop_thread() -> Iterator[LoopThread]:
    """The event loop of the asyncio interface in tests that are written once for both."""
    thread = LoopThread()
    yield thread
    thread.close()


@pytest.fixture(params=["blocking", "asyncio"])
def connect_either(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """``connect`` of either interface, for clients with blocking methods."""
    if request.param == "blocking":
        return mqredis.connect
    return partial(connected, request.getfixturevalue("loop_thread"))


@pytest.fixture(params=["real", "fake"])
def server_kind(request: pytest.FixtureRequest) -> ServerKind:
    """Runs the test twice: on a real server and on fakeredis."""
    kind: ServerKind = request.param
    return kind


@pytest.fixture
def url(server_kind: ServerKind, request: pytest.FixtureRequest) -> Iterator[str]:
    """Each test that takes it runs on a real server and on fakeredis."""
    if server_kind == "fake":
        name = uuid.uuid4().hex
        yield f"memory://{name}"
        forget_store(name)
    else:
        server: RedisServer = request.getfixturevalue("redis_server")
        yield server.url


@pytest.fixture
def backend(server_kind: ServerKind, request: pytest.FixtureRequest) -> Backend:
    """The empty server of this kind; ``client()`` and ``async_client()`` reach it."""
    if server_kind == "real":
        return Backend("real", real=request.getfixturevalue("redis_server"))
    return fake_backend()


@pytest.fixture
def standing_clock(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandingClock]:
    """A queue manager whose clock moves only when the test moves it; the doctor checks it at the end."""
    stop_clock(monkeypatch)
    clock = StandingClock(backend)
    yield clock
    clock.close()
