"""Fixture ``broker``: real and fake server, blocking and asyncio interface; the doctor checks each at the end."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

import mqredis
from mqredis import Settings
from tests.matching.index_kit import Kit
from tests.matching.waiting_reader import PLAIN, Reader
from tests.support.backend import Backend
from tests.support.facade import Broker, make_broker


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "ibm(*ids): published cases for IBM MQ")


@pytest.fixture(params=["real-sync", "real-async", "fake-sync", "fake-async"])
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    made = make_broker(request.param, request)
    yield made
    try:
        findings = made.findings()
    finally:
        made.close()
    assert not findings


@pytest.fixture
def kit(backend: Backend) -> Iterator[Kit]:
    settings = Settings(test_clock=True, allow_volatile=True)
    with mqredis.connect(backend.client(), manager=f"i{uuid.uuid4().hex}", settings=settings) as qm:
        qm.create_queue("q")
        qm.create_queue("t", transactional=True)
        yield Kit(qm, backend.client())
        assert qm.doctor().healthy


@pytest.fixture
def notifications(backend):
    """A queue manager with queues, and a function that creates readers."""
    made = []
    manager = f"notified{uuid.uuid4().hex}"

    def reader(*args, **how):
        made.append(Reader(backend, manager, *args, **how))
        return made[-1]

    with mqredis.connect(backend.client(), manager=manager, settings=PLAIN) as qm:
        qm.create_queue("q")
        qm.create_queue("x", group_exclusive=True)
        yield qm, reader
        for item in made:
            item.close()
        assert qm.doctor().healthy
