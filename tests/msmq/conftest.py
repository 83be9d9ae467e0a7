"""A queue manager with a test clock, on a real server and on fakeredis, by the blocking and the asyncio interface."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

import mqredis
import mqredis.asyncio
from mqredis import Settings
from mqredis.drivers.connect import forget_store
from tests.msmq.kit import Loop, Proxy

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def loop() -> Iterator[Loop]:
    made = Loop()
    yield made
    made.close()


# "evalsha": a real server whose scripts are called by EVALSHA, as Redis 6.2 is; on all others they are functions.
@pytest.fixture(params=["real-sync", "real-async", "evalsha-sync", "fake-sync", "fake-async"])
def connect(request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """Create clients of one new queue manager. At the end the doctor must have no finding."""
    store, interface = request.param.split("-")
    name = f"msmq-{os.getpid()}-{next(_numbers)}"
    url = f"memory://{name}" if store == "fake" else request.getfixturevalue("redis_server").url
    functions = "off" if store == "evalsha" else "auto"
    clients: list[Any] = []

    def make(**settings: Any) -> Any:
        chosen = Settings(**{"test_clock": True, "allow_volatile": True, "functions": functions, **settings})
        if interface == "sync":
            clients.append(mqredis.connect(url, manager=name, settings=chosen))
        else:
            thread = request.getfixturevalue("loop")
            client = thread.call(mqredis.asyncio.connect, url, manager=name, settings=chosen)
            clients.append(Proxy(client, thread))
        return clients[-1]

    yield make
    findings = make().doctor().findings
    for client in reversed(clients):
        client.close()
    forget_store(name)
    assert not [finding for finding in findings if finding.severity != "notice"]


@pytest.fixture
def qm(connect: Callable[..., Any]) -> Any:
    return connect()


class Background:
    """Runs blocking calls in threads."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(16)

    def __call__(self, work: Callable[[], Any]) -> Future[Any]:
        return self._pool.submit(work)

    def until(self, condition: Callable[[], object]) -> None:
        """Poll until the condition holds."""
        deadline = time.monotonic() + 30
        pause = threading.Event()
        while not condition():
            assert time.monotonic() < deadline, "the condition never became true"
            pause.wait(0.005)


@pytest.fixture
def background() -> Background:
    return Background()
