"""Fixture ``broker``: real and fake server, blocking and asyncio interface; the doctor checks each at the end."""

from __future__ import annotations

import itertools
import os
import uuid
from collections.abc import Iterator

import pytest

import mqredis
from mqredis import Settings
from mqredis.drivers.connect import forget_store
from tests.matching.index_kit import Kit
from tests.matching.kit import Broker, Loop
from tests.support.backend import Backend

_numbers = itertools.count(1)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "ibm(*ids): published cases for IBM MQ")


@pytest.fixture(scope="session")
def loop() -> Iterator[Loop]:
    made = Loop()
    yield made
    made.close()


@pytest.fixture(params=["real-sync", "real-async", "fake-sync", "fake-async"])
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    server, interface = request.param.split("-")
    manager = f"matching-{os.getpid()}-{next(_numbers)}"
    url = request.getfixturevalue("redis_server").url if server == "real" else f"memory://{manager}"
    made = Broker(url, manager, request.getfixturevalue("loop") if interface == "async" else None)
    yield made
    try:
        findings = made.qm.doctor().findings
    finally:
        made.close()
        forget_store(manager)
    assert not findings


@pytest.fixture
def kit(backend: Backend) -> Iterator[Kit]:
    settings = Settings(test_clock=True, allow_volatile=True)
    with mqredis.connect(backend.client(), manager=f"i{uuid.uuid4().hex}", settings=settings) as qm:
        qm.create_queue("q")
        qm.create_queue("t", transactional=True)
        yield Kit(qm, backend.client())
        assert qm.doctor().healthy
