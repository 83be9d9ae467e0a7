"""Fixtures: a client and a queue on a real and a fake server, and a gate that holds calls back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

import mqredis
import mqredis.asyncio
from tests.coalescing.kit import SETTINGS, Gate, Queue
from tests.support.proxy import Proxy
from tests.support.server import RedisServer


@pytest_asyncio.fixture
async def qm(url: str) -> AsyncIterator[mqredis.asyncio.QueueManager]:
    async with mqredis.asyncio.connect(url, settings=SETTINGS) as manager:
        await manager.create_queue("q")
        yield manager


@pytest_asyncio.fixture
async def queue(qm: mqredis.asyncio.QueueManager) -> Queue:
    return await qm.open("q")


@pytest.fixture
def gate(queue: Queue) -> Gate:
    return Gate(queue._manager)


@pytest.fixture
def proxy(redis_server: RedisServer) -> Iterator[Proxy]:
    with Proxy(redis_server.socket_path) as between:
        yield between
