"""The pipelined asyncio connection: order of replies, cancelled callers, errors, timeouts."""

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
from tests.drivers.kit import add, put, take
from tests.support.server import RedisServer
from tests.support.until import aio_until


class Transport:
    """Records what is written."""

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
    transport, connection = Transport(), PipelinedConnection(60.0)
    connection.connection_made(transport)
    return connection, transport


async def loop_iteration() -> None:
    """Run the callbacks that are scheduled in the event loop."""
    done = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(done.set_result, None)
    await done


async def test_requests_of_one_loop_iteration_are_written_together_and_answered_in_order() -> None:
    connection, transport = make()
    replies = [connection.exchange(b"one more"), connection.exchange(b" two")]
    assert transport.written == []
    await loop_iteration()
    assert transport.written == [b"one more two"]
    connection.data_received(b"+1\r\n+")
    assert await replies[0] == b"1"
    assert not replies[1].done()
    connection.data_received(b"2\r\n")
    assert await replies[1] == b"2"


async def test_request_of_a_single_task_is_written_immediately() -> None:
    connection, transport = make()

    async def exchange(*requests: bytes) -> list[bytes]:
        """Return what was written before the end of the loop iteration."""
        before = len(transport.written)
        replies = [connection.exchange(request) for request in requests]
        at_once = transport.written[before:]
        await loop_iteration()
        connection.data_received(b"".join(b"+%b\r\n" % request for request in requests))
        assert [await reply for reply in replies] == [*requests]
        assert b"".join(transport.written[before:]) == b"".join(requests)
        return at_once

    assert await exchange(b"a") == []
    assert await exchange(b"b") == [b"b"]
    assert await exchange(b"c", b"d") == [b"c"], "only the first of two requests is written immediately"
    assert await exchange(b"e", b"f") == []
    assert await exchange(b"g") == []
    assert await exchange(b"h") == [b"h"]


async def test_task_resumes_where_its_reply_is_read_in_its_own_context() -> None:
    connection, transport = make()
    mine: ContextVar[int] = ContextVar("mine", default=0)
    seen: list[tuple[int, object, int]] = []

    async def send_requests(number: int) -> None:
        mine.set(number)
        seen.append((number, await connection.exchange(b"a%d" % number), mine.get()))
        seen.append((number, await connection.exchange(b"b%d" % number), mine.get()))

    tasks = [asyncio.create_task(send_requests(number)) for number in (1, 2)]
    await loop_iteration()
    await loop_iteration()
    assert transport.written == [b"a1a2"]
    asyncio.get_running_loop().call_soon(connection.data_received, b"+one\r\n+two\r\n")
    asyncio.get_running_loop().call_soon(lambda: seen.append((0, [*transport.written], mine.get())))
    await loop_iteration()
    assert seen == [(1, b"one", 1), (2, b"two", 2), (0, [b"a1a2", b"b1b2"], 0)]
    connection.data_received(b"+one\r\n+two\r\n")
    assert len(seen) == 3, "a task ran inside of another one"
    await asyncio.gather(*tasks)
    assert seen[3:] == [(1, b"one", 1), (2, b"two", 2)]


async def test_next_request_of_the_last_answered_task_is_written_immediately() -> None:
    connection, transport = make()
    seen: list[list[bytes]] = []

    async def send_requests(number: int) -> None:
        await connection.exchange(b"a%d" % number)
        reply = connection.exchange(b"b%d" % number)
        seen.append([*transport.written])
        await reply

    tasks = [asyncio.create_task(send_requests(number)) for number in (1, 2)]
    await loop_iteration()
    await loop_iteration()
    for replies in (b"+one\r\n", b"+two\r\n", b"+one\r\n", b"+two\r\n"):
        asyncio.get_running_loop().call_soon(connection.data_received, replies)
        await loop_iteration()
    await asyncio.gather(*tasks)
    assert seen == [[b"a1a2"], [b"a1a2", b"b1"]], "a request made while others wait is coalesced with theirs"
    tasks = [asyncio.create_task(send_requests(3))]
    await loop_iteration()
    await loop_iteration()
    asyncio.get_running_loop().call_soon(connection.data_received, b"+one\r\n")
    await loop_iteration()
    assert seen[2][-1] == b"b3"
    connection.data_received(b"+two\r\n")
    await asyncio.gather(*tasks)


@pytest.mark.parametrize("data", [b"+one\r\n", b"+on"])
async def test_received_data_restarts_the_reply_timeout(data: bytes) -> None:
    connection, _ = make()
    replies = [connection.exchange(b"a"), connection.exchange(b"b")]
    await loop_iteration()
    connection._due = 0.0
    connection.data_received(data)
    connection._late()
    assert connection.lost is None
    connection.data_received(b"+one\r\n+two\r\n"[len(data) :])
    assert [await reply for reply in replies] == [b"one", b"two"]


async def test_cancelled_task_leaves_the_reply_of_the_other_task() -> None:
    connection, _ = make()

    async def send_requests() -> object:
        return await connection.exchange(b"a")

    first, second = asyncio.create_task(send_requests()), asyncio.create_task(send_requests())
    await loop_iteration()
    first.cancel("enough")
    with pytest.raises(asyncio.CancelledError, match="enough"):
        await first
    connection.data_received(b"+mine\r\n+yours\r\n")
    assert await second == b"yours"


def test_system_exit_of_a_task_leaves_the_other_replies_to_the_next_run() -> None:
    loop = asyncio.new_event_loop()
    received: list[object] = []

    async def send_requests(connection: PipelinedConnection, leave: bool) -> None:
        received.append(await connection.exchange(b"a"))
        if leave:
            raise SystemExit

    async def begin() -> tuple[PipelinedConnection, list[asyncio.Task[None]]]:
        connection, _ = make()
        tasks = [asyncio.create_task(send_requests(connection, leave)) for leave in (True, False)]
        await loop_iteration()
        return connection, tasks

    connection, tasks = loop.run_until_complete(begin())
    loop.call_soon(connection.data_received, b"+one\r\n+two\r\n")
    with pytest.raises(SystemExit):
        loop.run_until_complete(tasks[1])
    assert received == [b"one"]
    with pytest.raises(SystemExit):
        tasks[0].result()
    loop.run_until_complete(tasks[1])
    connection.close()
    loop.close()
    assert received == [b"one", b"two"]


async def test_reply_of_a_cancelled_caller_is_dropped() -> None:
    connection, transport = make()
    first, second = connection.exchange(b"a"), connection.exchange(b"b")
    first.cancel()
    connection.data_received(b"+mine\r\n+yours\r\n")
    assert await second == b"yours"
    assert not transport.aborted


async def test_error_reply_is_raised_in_its_caller_only() -> None:
    connection, transport = make()
    first, second = connection.exchange(b"a"), connection.exchange(b"b")
    connection.data_received(b"-ERR no\r\n:7\r\n")
    with pytest.raises(rx.ResponseError, match="no"):
        await first
    assert await second == 7
    assert not transport.aborted


@pytest.mark.parametrize("how", ["silence", "end", "loss", "noise"])
async def test_lost_connection_raises_in_waiting_and_later_callers(how: str) -> None:
    connection, transport = make()
    replies = [connection.exchange(b"a"), connection.exchange(b"b")]
    replies[0].cancel()
    if how == "silence":
        connection._due = 0.0
        connection._late()
    elif how == "end":
        connection.eof_received()
    elif how == "loss":
        connection.connection_lost(ConnectionResetError("reset"))
    else:
        connection.data_received(b"?nonsense\r\n")
    with pytest.raises((rx.ConnectionError, rx.TimeoutError, rx.InvalidResponse)):
        await replies[1]
    assert transport.aborted
    with pytest.raises(rx.ConnectionError):
        await connection.exchange(b"c")


async def test_failed_transport_is_not_written_to() -> None:
    connection, transport = make()
    transport.abort()
    with pytest.raises(rx.ConnectionError):
        await connection.exchange(b"one")
    assert transport.written == []
    with pytest.raises(rx.ConnectionError):
        await connection.exchange(b"two")


async def test_unexpected_reply_aborts_the_connection() -> None:
    connection, transport = make()
    connection.data_received(b"+what\r\n")
    assert transport.aborted
    assert isinstance(connection.lost, rx.InvalidResponse)


async def test_timer_of_an_earlier_request_does_not_time_out_a_later_one() -> None:
    connection, transport = make()
    reply = connection.exchange(b"a")
    connection._late()  # called by the timer of an earlier request
    assert not transport.aborted
    connection.data_received(b"+ok\r\n")
    assert await reply == b"ok"
    connection.close()


async def test_calls_of_concurrent_tasks_share_a_connection(
    redis_server: RedisServer, aconnect: Callable[..., AsyncDriver]
) -> None:
    driver = aconnect(redis_server.url)
    await driver.run(add(driver.core.keys))
    found = await asyncio.gather(*(driver.run(add(driver.core.keys)) for _ in range(20)))
    assert sorted(map(int, found)) == list(range(2, 22))
    assert driver.backend._count == 1


async def test_cancelled_calls_keep_the_connection_for_the_others(
    redis_server: RedisServer, aconnect: Callable[..., AsyncDriver]
) -> None:
    driver = aconnect(redis_server.url)
    await driver.run(add(driver.core.keys))
    tasks = [asyncio.create_task(driver.run(add(driver.core.keys))) for _ in range(10)]
    await loop_iteration()  # all requests are sent
    for task in tasks[::2]:
        task.cancel()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(one, asyncio.CancelledError) for one in found[::2])
    assert [one for one in found[1::2] if isinstance(one, BaseException)] == []
    assert driver.backend._count == 1
    assert int(await driver.run(add(driver.core.keys))) == 12  # the cancelled ones ran as well
    assert len(driver.unknown) == 5


def subscribed(received: Callable[[Any], None]) -> tuple[Subscription, Transport]:
    transport, subscription = Transport(), Subscription(received)
    subscription.connection_made(transport)
    return subscription, transport


async def test_subscription_delivers_messages_and_errors_as_they_are_read() -> None:
    received: list[Any] = []
    subscription, transport = subscribed(received.append)
    subscription.data_received(b"*1\r\n$3\r\none\r\n*1\r\n$3\r\nt")
    assert received == [[b"one"]]
    subscription.data_received(b"wo\r\n-ERR no\r\n")
    assert received[1] == [b"two"]
    assert isinstance(received[2], rx.ResponseError)
    assert await subscription.news(0)
    assert not await subscription.news(0)
    assert not transport.aborted


@pytest.mark.parametrize("how", ["noise", "trouble"])
async def test_subscription_is_aborted_after_bad_data_or_a_failing_handler(how: str) -> None:
    def trouble(_: Any) -> None:
        raise ValueError("trouble")

    subscription, transport = subscribed(trouble)
    subscription.data_received(b"?nonsense\r\n" if how == "noise" else b"+what\r\n")
    assert transport.aborted
    subscription.connection_lost(None)
    with pytest.raises(rx.ConnectionError, match="trouble" if how == "trouble" else "Protocol"):
        await subscription.news(60)


async def test_lost_connection_raises_in_a_waiting_subscriber() -> None:
    subscription, _ = subscribed(lambda _: None)
    task = asyncio.create_task(subscription.news(60))
    await loop_iteration()
    subscription.connection_lost(ConnectionResetError("reset"))
    with pytest.raises(rx.ConnectionError, match="reset"):
        await task


async def test_waiter_registry_uses_the_own_subscription_protocol(
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
