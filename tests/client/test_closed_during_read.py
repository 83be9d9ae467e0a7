"""A handle or a browser is closed while a read is under way: what the read has locked is released."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any

import pytest

import mqredis.asyncio
from mqredis import Grouping, Mark, Match, Message, Outgoing, Settings
from mqredis.asyncio import Cursor
from mqredis.errors import GroupInconsistent, OperationCancelled
from tests.coalescing.kit import turns
from tests.support.faults import Hold, is_script
from tests.support.proxy import Proxy
from tests.support.server import RedisServer

# No lease ends within a test.
SETTINGS = Settings(lease_seconds=1000, reply_timeout_seconds=60)
Read = Callable[[mqredis.asyncio.Queue, Message, Cursor], Awaitable[Any]]

LOCKS: dict[str, Read] = {
    "lock": lambda queue, _, __: queue.lock(0),
    "lock-many": lambda queue, _, __: queue.lock_many(10, 0),
    "match": lambda queue, _, __: queue.lock(0, match=Match(correlation_id="c")),
    "group": lambda queue, _, __: queue.lock(0, grouping=Grouping.COMPLETE_MESSAGE),
    "by-lookup-id": lambda queue, message, _: queue.lock_by_lookup_id(message.lookup_id),
    "cursor": lambda _, __, cursor: cursor.lock(0),
}


@pytest.fixture
async def proxy(redis_server: RedisServer) -> AsyncIterator[Proxy]:
    async with mqredis.asyncio.connect(redis_server.url, settings=SETTINGS) as qm:
        await qm.create_queue("q")
        async with qm.open("q") as queue:
            await queue.send_many([Outgoing(text, correlation_id="c") for text in "01"])
            message = await queue.peek(0)
            for read in LOCKS.values():  # load every script, so that a test holds its read
                locked = await read(queue, message, await queue.cursor())
                for lock in locked if isinstance(locked, list) else [locked]:
                    await lock.abort()
            async with queue.browser() as browser:
                await browser.first(lock=True, mark=Mark.HANDLE)
    with Proxy(redis_server.socket_path) as made:
        yield made


async def attempts(qm: mqredis.asyncio.QueueManager) -> list[int]:
    async with qm.open("q") as queue:
        return [message.attempts async for message in queue.browse()]


async def closed_meanwhile(
    proxy: Proxy, queue: mqredis.asyncio.Queue, read: Awaitable[Any], close: Coroutine[Any, Any, None]
) -> None:
    """Close while the reply of the read is under way: the read is refused, and its messages are available, without a
    failed attempt."""
    before = await attempts(queue.manager)
    rule = proxy.add(Hold(reply=True), where=is_script)
    task = asyncio.ensure_future(read)
    assert await asyncio.to_thread(rule.wait, 60)
    closing = asyncio.create_task(close)
    await turns()
    rule.release()
    with pytest.raises(OperationCancelled, match="closed during this read"):
        await task
    await closing
    info = await queue.manager.queue_info("q")
    assert (info.ready, info.locked) == (2, 0)
    assert not queue.handle.locks
    assert await attempts(queue.manager) == before


@pytest.mark.parametrize("read", LOCKS.values(), ids=LOCKS.keys())
async def test_closing_a_queue_releases_what_a_read_locks_meanwhile(proxy: Proxy, read: Read) -> None:
    async with mqredis.asyncio.connect(proxy.url(), settings=SETTINGS) as qm:
        queue = await qm.open("q")
        message, cursor = await queue.peek(0), await queue.cursor()
        await closed_meanwhile(proxy, queue, read(queue, message, cursor), queue.close())


async def test_closing_a_browser_releases_what_it_locks_and_marks_meanwhile(proxy: Proxy) -> None:
    async with mqredis.asyncio.connect(proxy.url(), settings=SETTINGS) as qm, qm.open("q") as queue:
        browser = await queue.browser()
        read = browser.first(lock=True, mark=Mark.HANDLE)
        await closed_meanwhile(proxy, queue, read, browser.close())


async def test_group_refuses_a_message_while_another_one_is_sent(proxy: Proxy) -> None:
    async with mqredis.asyncio.connect(proxy.url(), settings=SETTINGS) as qm, qm.open("q") as queue:
        await queue.purge()
        async with queue.group() as group:
            results = await asyncio.gather(group.send("0"), group.send("1"), return_exceptions=True)
            assert isinstance(results[1], GroupInconsistent)
            await group.send("1", last=True)
        assert [(found.text, found.sequence) async for found in queue.browse()] == [("0", 1), ("1", 2)]


@pytest.mark.parametrize("end", ["unlock", "take"])
async def test_browser_keeps_the_lock_that_it_gets_while_the_one_before_ends(proxy: Proxy, end: str) -> None:
    async with mqredis.asyncio.connect(proxy.url(), settings=SETTINGS) as qm, qm.open("q") as queue:
        browser = await queue.browser()
        await browser.first(lock=True)
        await asyncio.gather(browser.next(lock=True), getattr(browser, end)())
        await browser.close()
        assert (await qm.queue_info("q")).locked == 0
