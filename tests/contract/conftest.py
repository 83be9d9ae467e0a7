"""A queue manager on a real server, whose calls are counted."""

from __future__ import annotations

from typing import Any

import pytest

import mqredis
import mqredis.asyncio
from tests.support.buckets import begin_bucket
from tests.support.server import RedisServer


@pytest.fixture
def qm(redis_server: RedisServer) -> Any:
    with mqredis.connect(
        redis_server.url, manager="cost", settings=mqredis.Settings(test_clock=True)
    ) as manager:
        begin_bucket(manager)  # the first call of a bucket writes the statistics
        manager.create_queue("q")
        manager.create_queue("t", transactional=True)
        yield manager
