"""A console over a queue manager on a real server and on fakeredis."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

import mqredis.asyncio
from mqredis.asyncio import QueueManager
from mqredis.console import app, everyone
from tests.console.browser import Browser


@pytest.fixture
async def manager(url: str) -> AsyncIterator[QueueManager]:
    async with mqredis.asyncio.connect(url) as opened:
        await opened.create_queue("orders", label="New orders")
        yield opened
        assert (await opened.doctor()).findings == ()


@pytest.fixture
async def browser(manager: QueueManager) -> AsyncIterator[Browser]:
    """A visitor who may do everything."""
    visitor = Browser(app({"main": manager}, access=everyone, interval=0.1))
    yield visitor
    await visitor.close()
