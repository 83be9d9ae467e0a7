"""The ``broker`` of a conformance test: six kinds, checked by the doctor at the end of every test."""

from __future__ import annotations

import importlib
import itertools
import os
from collections.abc import Iterator
from typing import Any

import pytest

from mqredis import Settings
from mqredis.drivers.connect import forget_store
from tests import model
from tests.conformance.facade import Broker, LoopThread

# "evalsha": a real server whose scripts are called by EVALSHA, as Redis 6.2 is; on all others they are functions.
KINDS = ("real-sync", "real-async", "evalsha-sync", "fake-sync", "fake-async", "model-sync")

_numbers = itertools.count(1)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "case(id, basis): published case of the specification; basis L, F n, P or C n (contested)"
    )


@pytest.fixture(scope="session")
def loop_thread() -> Iterator[LoopThread]:
    thread = LoopThread()
    yield thread
    thread.close()


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def broker(kind: str, request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A fresh queue manager. The doctor must have nothing to report when the test is over."""
    made = make_broker(kind, request)
    yield made
    try:
        findings = made.findings()
    finally:
        made.close()
        forget_store(made.manager)
    assert not findings


def make_broker(kind: str, request: pytest.FixtureRequest) -> Broker:
    store, interface = kind.split("-")
    manager = f"conformance-{os.getpid()}-{next(_numbers)}"
    if store == "model":
        return Broker(kind, model.connect, manager, None)
    url = f"memory://{manager}" if store == "fake" else request.getfixturevalue("redis_server").url
    functions = "off" if store == "evalsha" else "auto"
    module = importlib.import_module("mqredis" if interface == "sync" else "mqredis.asyncio")

    def connect(settings: Settings, **how: Any) -> Any:
        return module.connect(url, settings=settings.model_copy(update={"functions": functions}), **how)

    thread = request.getfixturevalue("loop_thread") if interface == "async" else None
    return Broker(kind, connect, manager, thread)
