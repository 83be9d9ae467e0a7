"""Our own asyncio connection: order of replies, cancelled callers, errors, silence."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import pytest
from redis import exceptions as rx

from mqredis.drivers.aio import AsyncDriver
from mqredis.drivers.net.aio import PipelinedConnection, Subscription
from mqredis.drivers.waiting.registry_aio import AsyncWaiterRegistry
from tests.drivers.kit import add, aio_until, put, take
from tests.support.server import RedisServer


class Transport:
    """Keeps what is written."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.aborted = False

    def write(self, data: bytes) -> None:
        self.written.append(bytes(data))

    def abort(self) -> None:
        self.aborted = True

    def is_closing(self) -> bool:
        return self.aborted


def make() -> tuple[PipelinedConnection, Transport]:
    transport, line = Transport(), PipelinedConnection(60.0)
    line.connection_made(transport)
    return line, transport


async def turn() -> None:
    """Let the loop do what it was asked to."""
    done = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(done.set_result, None)
    await done


async def test_what_is_asked_in_one_turn_is_written_at_once_and_answered_in_order() -> None:
    line, transport = make()
    replies = [line.exchange([b"one", b" more"]), line.exchange([b" two"])]
    assert transport.written == []
    await turn()
    assert transport.written == [b"one more two"]
    line.data_received(b"+1\r\n+")
    assert await replies[0] == b"1"
    assert not replies[1].done()
    line.data_received(b"2\r\n")
    assert await replies[1] == b"2"


async def test_a_task_that_is_alone_does_not_wait_for_the_end_of_the_turn() -> None:
    line, transport = make()

    async def exchange(*requests: bytes) -> list[bytes]:
        """What had been written before the turn was over."""
        before = len(transport.written)
        replies = [line.exchange([request]) for request in requests]
        at_once = transport.written[before:]
        await turn()
        line.data_received(b"".join(b"+%b\r\n" % request for request in requests))
        assert [await reply for reply in replies] == [*requests]
        assert b"".join(transport.written[before:]) == b"".join(requests)
        return at_once

    assert await exchange(b"a") == []
    assert await exchange(b"b") == [b"b"]
    assert await exchange(b"c", b"d") == [b"c"], "the second shows that it is alone no more"
    assert await exchange(b"e", b"f") == []
    assert await exchange(b"g") == []
    assert await exchange(b"h") == [b"h"]


async def test_a_task_goes_on_where_its_reply_is_read_and_in_its_own_context() -> None:
    line, transport = make()
    mine: ContextVar[int] = ContextVar("mine", default=0)
    seen: list[tuple[int, object, int]] = []

    async def talk(number: int) -> None:
        mine.set(number)
        seen.append((number, await line.exchange([b"a%d" % number]), mine.get()))
        seen.append((number, await line.exchange([b"b%d" % number]), mine.get()))

    tasks = [asyncio.create_task(talk(number)) for number in (1, 2)]
    await turn()
    await turn()
    assert transport.written == [b"a1a2"]
    asyncio.get_running_loop().call_soon(line.data_received, b"+one\r\n+two\r\n")
    asyncio.get_running_loop().call_soon(lambda: seen.append((0, [*transport.written], mine.get())))
    await turn()
    assert seen == [(1, b"one", 1), (2, b"two", 2), (0, [b"a1a2", b"b1b2"], 0)]
    line.data_received(b"+one\r\n+two\r\n")
    assert len(seen) == 3, "a task ran inside of another one"
    await asyncio.gather(*tasks)
    assert seen[3:] == [(1, b"one", 1), (2, b"two", 2)]


async def test_what_the_last_one_to_be_answered_sends_is_written_at_once() -> None:
    line, transport = make()
    seen: list[list[bytes]] = []

    async def talk(number: int) -> None:
        await line.exchange([b"a%d" % number])
        reply = line.exchange([b"b%d" % number])
        seen.append([*transport.written])
        await reply

    tasks = [asyncio.create_task(talk(number)) for number in (1, 2)]
    await turn()
    await turn()
    for replies in (b"+one\r\n", b"+two\r\n", b"+one\r\n", b"+two\r\n"):
        asyncio.get_running_loop().call_soon(line.data_received, replies)
        await turn()
    await asyncio.gather(*tasks)
    assert seen == [[b"a1a2"], [b"a1a2", b"b1"]], "who goes on while others wait gathers with them"
    tasks = [asyncio.create_task(talk(3))]
    await turn()
    await turn()
    asyncio.get_running_loop().call_soon(line.data_received, b"+one\r\n")
    await turn()
    assert seen[2][-1] == b"b3"
    line.data_received(b"+two\r\n")
    await asyncio.gather(*tasks)


@pytest.mark.parametrize("data", [b"+one\r\n", b"+on"])
async def test_with_each_sign_of_life_the_next_reply_may_take_as_long_again(data: bytes) -> None:
    line, _ = make()
    replies = [line.exchange([b"a"]), line.exchange([b"b"])]
    await turn()
    line._due = 0.0
    line.data_received(data)
    line._late()
    assert line.lost is None
    line.data_received(b"+one\r\n+two\r\n"[len(data) :])
    assert [await reply for reply in replies] == [b"one", b"two"]


async def test_a_task_that_waits_for_a_reply_is_cancelled() -> None:
    line, _ = make()

    async def talk() -> object:
        return await line.exchange([b"a"])

    first, second = asyncio.create_task(talk()), asyncio.create_task(talk())
    await turn()
    first.cancel("enough")
    with pytest.raises(asyncio.CancelledError, match="enough"):
        await first
    line.data_received(b"+mine\r\n+yours\r\n")
    assert await second == b"yours"


def test_a_task_that_ends_the_loop_leaves_the_other_replies_to_the_next() -> None:
    loop = asyncio.new_event_loop()
    heard: list[object] = []

    async def talk(line: PipelinedConnection, leave: bool) -> None:
        heard.append(await line.exchange([b"a"]))
        if leave:
            raise SystemExit

    async def begin() -> tuple[PipelinedConnection, list[asyncio.Task[None]]]:
        line, _ = make()
        tasks = [asyncio.create_task(talk(line, leave)) for leave in (True, False)]
        await turn()
        return line, tasks

    line, tasks = loop.run_until_complete(begin())
    loop.call_soon(line.data_received, b"+one\r\n+two\r\n")
    with pytest.raises(SystemExit):
        loop.run_until_complete(tasks[1])
    assert heard == [b"one"]
    with pytest.raises(SystemExit):
        tasks[0].result()
    loop.run_until_complete(tasks[1])
    line.close()
    loop.close()
    assert heard == [b"one", b"two"]


async def test_the_reply_of_a_cancelled_caller_is_dropped() -> None:
    line, transport = make()
    first, second = line.exchange([b"a"]), line.exchange([b"b"])
    first.cancel()
    line.data_received(b"+mine\r\n+yours\r\n")
    assert await second == b"yours"
    assert not transport.aborted


async def test_an_error_reply_is_for_its_caller_alone() -> None:
    line, transport = make()
    first, second = line.exchange([b"a"]), line.exchange([b"b"])
    line.data_received(b"-ERR no\r\n:7\r\n")
    with pytest.raises(rx.ResponseError, match="no"):
        await first
    assert await second == 7
    assert not transport.aborted


@pytest.mark.parametrize("how", ["silence", "end", "loss", "noise"])
async def test_who_waits_on_a_lost_connection_is_told(how: str) -> None:
    line, transport = make()
    replies = [line.exchange([b"a"]), line.exchange([b"b"])]
    replies[0].cancel()
    if how == "silence":
        line._due = 0.0
        line._late()
    elif how == "end":
        line.eof_received()
    elif how == "loss":
        line.connection_lost(ConnectionResetError("reset"))
    else:
        line.data_received(b"?nonsense\r\n")
    with pytest.raises((rx.ConnectionError, rx.TimeoutError, rx.InvalidResponse)):
        await replies[1]
    assert transport.aborted
    with pytest.raises(rx.ConnectionError):
        await line.exchange([b"c"])


async def test_nothing_is_written_to_a_transport_that_has_failed() -> None:
    line, transport = make()
    transport.abort()
    with pytest.raises(rx.ConnectionError):
        await line.exchange([b"one"])
    assert transport.written == []
    with pytest.raises(rx.ConnectionError):
        await line.exchange([b"two"])


async def test_a_reply_that_nobody_asked_for_ends_the_connection() -> None:
    line, transport = make()
    line.data_received(b"+what\r\n")
    assert transport.aborted
    assert isinstance(line.lost, rx.InvalidResponse)


async def test_silence_is_measured_from_the_last_sign_of_life() -> None:
    line, transport = make()
    reply = line.exchange([b"a"])
    line._late()  # the timer of an earlier request
    assert not transport.aborted
    line.data_received(b"+ok\r\n")
    assert await reply == b"ok"
    line.close()


async def test_calls_of_many_tasks_share_a_connection(
    redis_server: RedisServer, aconnect: Callable[..., AsyncDriver]
) -> None:
    driver = aconnect(redis_server.url)
    await driver.run(add(driver.core.keys))
    found = await asyncio.gather(*(driver.run(add(driver.core.keys)) for _ in range(20)))
    assert sorted(map(int, found)) == list(range(2, 22))
    assert driver.backend._count == 1


async def test_a_cancelled_call_leaves_the_connection_to_the_others(
    redis_server: RedisServer, aconnect: Callable[..., AsyncDriver]
) -> None:
    driver = aconnect(redis_server.url)
    await driver.run(add(driver.core.keys))
    tasks = [asyncio.create_task(driver.run(add(driver.core.keys))) for _ in range(10)]
    await turn()  # all have asked
    for task in tasks[::2]:
        task.cancel()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(one, asyncio.CancelledError) for one in found[::2])
    assert [one for one in found[1::2] if isinstance(one, BaseException)] == []
    assert driver.backend._count == 1
    assert int(await driver.run(add(driver.core.keys))) == 12  # the cancelled ones ran as well
    assert len(driver.unknown) == 5


def listening(heard: Callable[[Any], None]) -> tuple[Subscription, Transport]:
    transport, ear = Transport(), Subscription(heard)
    ear.connection_made(transport)
    return ear, transport


async def test_what_a_subscription_brings_is_heard_where_it_is_read() -> None:
    heard: list[Any] = []
    ear, transport = listening(heard.append)
    ear.data_received(b"*1\r\n$3\r\none\r\n*1\r\n$3\r\nt")
    assert heard == [[b"one"]]
    ear.data_received(b"wo\r\n-ERR no\r\n")
    assert heard[1] == [b"two"]
    assert isinstance(heard[2], rx.ResponseError)
    assert await ear.news(0)
    assert not await ear.news(0)
    assert not transport.aborted


@pytest.mark.parametrize("how", ["noise", "trouble"])
async def test_a_subscription_that_makes_no_sense_is_given_up(how: str) -> None:
    def trouble(_: Any) -> None:
        raise ValueError("trouble")

    ear, transport = listening(trouble)
    ear.data_received(b"?nonsense\r\n" if how == "noise" else b"+what\r\n")
    assert transport.aborted
    ear.connection_lost(None)
    with pytest.raises(rx.ConnectionError, match="trouble" if how == "trouble" else "Protocol"):
        await ear.news(60)


async def test_who_listens_learns_at_once_that_the_connection_is_gone() -> None:
    ear, _ = listening(lambda _: None)
    task = asyncio.create_task(ear.news(60))
    await turn()
    ear.connection_lost(ConnectionResetError("reset"))
    with pytest.raises(rx.ConnectionError, match="reset"):
        await task


async def test_a_subscription_of_our_own(
    redis_server: RedisServer, aconnect: Callable[..., AsyncDriver], monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[object] = []

    async def slowly(_: AsyncWaiterRegistry, conn: Any) -> bool:
        read.append(conn)
        return False

    monkeypatch.setattr(AsyncWaiterRegistry, "_read", slowly)
    driver, other = aconnect(redis_server.url), aconnect(redis_server.url)
    task = asyncio.create_task(driver.run(take(driver.core.keys)))
    await aio_until(lambda: driver._waiters.table.waits)
    await other.run(put(other.core.keys))
    assert await task == "taken"
    assert read == []
