"""Readers that are cancelled during a lock call: the messages that it locked are released at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio

import mqredis.asyncio
from mqredis import Grouping, Match, Settings
from mqredis.drivers.attempt import Attempt
from tests.coalescing.kit import turns
from tests.support.server import RedisServer

# No lease ends within a test.
SETTINGS = Settings(allow_volatile=True, lease_seconds=1000)
HOW: dict[str, dict[str, Any]] = {
    "plain": {},
    "match": {"match": Match(correlation_id="c")},
    "selector": {"selector": "a = 1"},
    "grouping": {"grouping": Grouping.COMPLETE_MESSAGE},
    "long-lease": {"lease": 500},
}
how = pytest.mark.parametrize("how", HOW.values(), ids=HOW.keys())


@pytest_asyncio.fixture
async def qm(url: str) -> AsyncIterator[mqredis.asyncio.QueueManager]:
    async with mqredis.asyncio.connect(url, settings=SETTINGS) as manager:
        await manager.create_queue("q")
        yield manager


class CancelAtRead:
    """Cancels a task when it sends its next read, so that the task never gets the reply."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.task: asyncio.Task[Any] | None = None
        self.cuts = 0
        packed = Attempt.packed

        def cutting(attempt: Attempt) -> Any:
            reads = attempt.call.script in ("receive", "lookup")
            if reads and self.task is not None and asyncio.current_task() is self.task:
                self.task.cancel()
                self.task = None
                self.cuts += 1
            return packed(attempt)

        patch.setattr(Attempt, "packed", cutting)


@pytest.fixture
def cancel_at_read(monkeypatch: pytest.MonkeyPatch) -> CancelAtRead:
    return CancelAtRead(monkeypatch)


async def cancelled(task: asyncio.Task[Any]) -> None:
    with pytest.raises(asyncio.CancelledError):
        await task


async def waiting(qm: Any) -> None:
    while not (await qm.queue_info("q")).waiters:
        await turns()


async def nothing_held(qm: Any) -> None:
    """The message is available, no waiter and no unknown token is left, and the next reader gets the message."""
    info = await qm.queue_info("q")
    assert (info.ready, info.locked, info.waiters) == (1, 0, 0)
    assert qm.unknown == []
    async with qm.open("q") as queue:
        lock = await queue.lock(0, **HOW["match"])
        await lock.commit()
    assert not (await qm.doctor()).findings


@pytest_asyncio.fixture
async def real(redis_server: RedisServer) -> AsyncIterator[mqredis.asyncio.QueueManager]:
    """A real server; a fake one replies before the task can be cancelled."""
    async with mqredis.asyncio.connect(redis_server.url, settings=SETTINGS) as manager:
        await manager.create_queue("q")
        yield manager


async def send(queue: Any) -> None:
    await queue.send(b"A", correlation_id="c", properties={"a": 1})


@how
@pytest.mark.parametrize("times", [1, 3])
async def test_lock_cancelled_during_its_first_poll_is_released(real, cancel_at_read, how, times):
    q = await real.open("q")
    await send(q)
    await (await q.lock(0)).abort()  # does what only the first call of a session does
    for n in range(times):

        async def lock() -> Any:
            return await q.lock(0, **how)

        cancel_at_read.task = asyncio.create_task(lock())
        await cancelled(cancel_at_read.task)
        assert cancel_at_read.cuts == n + 1
    await nothing_held(real)


@how
async def test_lock_cancelled_during_registration_is_deregistered(real, cancel_at_read, how):
    q = await real.open("q")

    async def lock() -> Any:
        return await q.lock(None, **how)

    first = asyncio.create_task(lock())  # so that the next one registers at once
    await waiting(real)
    first.cancel()
    await cancelled(first)
    cancel_at_read.task = asyncio.create_task(lock())
    await cancelled(cancel_at_read.task)
    assert (await real.queue_info("q")).waiters == 0
    await send(q)
    await nothing_held(real)


@how
async def test_lock_cancelled_during_the_poll_after_a_notification_is_released(real, cancel_at_read, how):
    q = await real.open("q")

    async def lock() -> Any:
        return await q.lock(None, **how)

    task = asyncio.create_task(lock())
    await waiting(real)
    cancel_at_read.task = task
    await send(q)
    if how in (HOW["plain"], HOW["long-lease"]):  # it gets the message by handoff, and does not poll
        await (await task).abort()
    else:
        await cancelled(task)
        assert cancel_at_read.cuts == 1
    await nothing_held(real)


@pytest.mark.parametrize("reader", ["lookup", "browser", "cursor", "several"])
async def test_cancelled_locks_of_other_readers_are_released(real, cancel_at_read, reader):
    q = await real.open("q")
    sent = await q.send(b"A", correlation_id="c")
    browser, cursor = await q.browser(), await q.cursor()
    await cursor.peek(0)
    locks_by_reader: dict[str, Callable[[], Any]] = {
        "lookup": lambda: q.lock_by_lookup_id(sent.lookup_id),
        "browser": lambda: browser.first(lock=True),
        "cursor": lambda: cursor.lock(0),
        "several": lambda: q.lock_many(5, 0),
    }

    async def lock() -> Any:
        return await locks_by_reader[reader]()

    cancel_at_read.task = asyncio.create_task(lock())
    await cancelled(cancel_at_read.task)
    assert cancel_at_read.cuts == 1
    await nothing_held(real)


async def test_cancelled_lock_many_releases_its_locks_and_its_commits_can_be_resolved(real, cancel_at_read):
    q = await real.open("q")
    await q.send_many([b"%d" % n for n in range(4)])
    (held,) = await q.lock_many(1, 0)
    cancel_at_read.task = asyncio.create_task(q.lock_many(3, 0, settle=[held]))
    await cancelled(cancel_at_read.task)
    info = await real.queue_info("q")
    assert info.locked <= 1
    (token,) = real.unknown  # the caller can find out whether the commit was done
    resolution = await real.resolve(token)
    assert (info.messages, info.locked) == ((3, 0) if resolution.outcome == "done" else (4, 1))
    assert real.unknown == []


async def test_cancelled_receive_can_be_resolved_by_its_token(real, cancel_at_read):
    q = await real.open("q")
    await send(q)
    cancel_at_read.task = asyncio.create_task(q.receive(0, **HOW["match"]))
    await cancelled(cancel_at_read.task)
    for token in real.unknown:
        left = (await real.queue_info("q")).messages
        assert (await real.resolve(token)).outcome == ("never" if left else "done")


@how
async def test_lock_cancelled_at_any_moment_is_released(qm, how):
    q = await qm.open("q")

    async def lock() -> Any:
        return await q.lock(None, **how)

    for after in range(24):
        task = asyncio.create_task(lock())
        await waiting(qm)
        await send(q)
        await turns(after)
        task.cancel()
        found: Any = (await asyncio.gather(task, return_exceptions=True))[0]
        if not isinstance(found, BaseException):
            await found.abort()
        await nothing_held(qm)
