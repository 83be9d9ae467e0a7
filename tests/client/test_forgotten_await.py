"""Errors for a forgotten ``await`` or ``async with`` say what is missing."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

import mqredis.asyncio
from mqredis import Settings
from tests.support.backend import Backend

pytestmark = pytest.mark.asyncio


@pytest_asyncio.fixture
async def qm(backend: Backend) -> AsyncIterator[Any]:
    async with mqredis.asyncio.connect(backend.async_client(), settings=Settings(allow_volatile=True)) as qm:
        await qm.create_queue("q")
        yield qm


async def test_attribute_of_an_unawaited_call_raises_with_advice(qm: Any) -> None:
    pending = qm.open("q")
    expected = "QueueManager.open() was not awaited: write `(await ...).send`, or `async with ... as ...`"
    with pytest.raises(AttributeError, match=re.escape(expected)):
        pending.send(b"x")
    async with pending as queue:  # the failed access changed nothing
        await queue.send(b"x")
        lock = queue.lock(0)
        with pytest.raises(
            AttributeError, match=re.escape("Queue.lock() was not awaited: write `(await ...).commit`")
        ):
            lock.commit()
        async with lock:
            pass


async def test_task_opens_a_queue(qm: Any) -> None:
    async with await asyncio.create_task(qm.open("q")) as queue:
        task = asyncio.create_task(queue.lock(timeout=60))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_with_on_an_async_context_raises_with_advice(qm: Any) -> None:
    pending = qm.open("q")
    expected = "QueueManager.open() is asynchronous: write `async with` instead of `with`"
    with pytest.raises(TypeError, match=re.escape(expected)), pending:
        pass
    await pending
