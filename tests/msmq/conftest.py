"""A queue manager with a test clock, on a real server and on fakeredis."""

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
from mqredis import Settings

_numbers = itertools.count(1)


@pytest.fixture(params=["real", "fake"])
def connect(request: pytest.FixtureRequest) -> Iterator[Callable[[], mqredis.QueueManager]]:
    """Makes clients of one fresh queue manager."""
    name = f"msmq-{os.getpid()}-{next(_numbers)}"
    real = request.param == "real"
    url = request.getfixturevalue("redis_server").url if real else f"memory://{name}"
    clients: list[mqredis.QueueManager] = []

    def make(**settings: Any) -> mqredis.QueueManager:
        chosen = Settings(**{"test_clock": True, "allow_volatile": True, **settings})
        clients.append(mqredis.connect(url, manager=name, settings=chosen))
        return clients[-1]

    yield make
    with mqredis.connect(url, manager=name, settings=Settings(test_clock=True, allow_volatile=True)) as last:
        findings = last.doctor().findings
    for client in reversed(clients):
        client.close()
    assert not [finding for finding in findings if finding.severity != "notice"]


@pytest.fixture
def qm(connect: Callable[[], mqredis.QueueManager]) -> mqredis.QueueManager:
    return connect()


class Background:
    """Runs calls that may block beside the test."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(16)

    def __call__(self, work: Callable[[], Any]) -> Future[Any]:
        return self._pool.submit(work)

    def until(self, condition: Callable[[], object]) -> None:
        """Look until something holds."""
        deadline = time.monotonic() + 10
        pause = threading.Event()
        while not condition():
            assert time.monotonic() < deadline, "it never came true"
            pause.wait(0.005)


@pytest.fixture
def background() -> Background:
    return Background()
