"""The ``broker`` of a conformance test: six kinds, checked by the doctor at the end of every test."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from tests import model
from tests.support.facade import Broker, make_broker

KINDS = ("real-sync", "real-async", "evalsha-sync", "fake-sync", "fake-async", "model-sync")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "case(id, basis): published case of the specification; basis L, F n, P or C n (contested)"
    )


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def broker(kind: str, request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A fresh queue manager. The doctor must have nothing to report when the test is over."""
    made = Broker(model.connect, uuid.uuid4().hex) if kind == "model-sync" else make_broker(kind, request)
    yield made
    try:
        findings = made.findings()
    finally:
        made.close()
    assert not findings
