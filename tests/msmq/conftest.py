"""A queue manager with a test clock, on a real server and on fakeredis, by the blocking and the asyncio interface."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.facade import make_broker


@pytest.fixture(params=["real-sync", "real-async", "evalsha-sync", "fake-sync", "fake-async"])
def connect(request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """Create clients of one new queue manager. At the end the doctor must have no finding."""
    broker = make_broker(request.param, request)
    yield broker.client
    findings = broker.client().doctor().findings
    broker.close()
    assert not [finding for finding in findings if finding.severity != "notice"]


@pytest.fixture
def qm(connect: Callable[..., Any]) -> Any:
    return connect()
