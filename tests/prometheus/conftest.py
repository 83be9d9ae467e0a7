from __future__ import annotations

from collections.abc import Iterator

import pytest

import mqredis
from tests.support.backend import Backend


@pytest.fixture
def qm(backend: Backend) -> Iterator[mqredis.QueueManager]:
    settings = mqredis.Settings(allow_volatile=True, test_clock=True, recheck_seconds=0.5)
    with mqredis.connect(backend.client(), manager="w", settings=settings) as manager:
        yield manager
