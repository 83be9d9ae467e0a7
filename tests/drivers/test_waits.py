"""Waits: notifications, cancellation, the three wake modes."""

from __future__ import annotations

import asyncio
import gc
import time
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any

import pytest
import redis

from mqredis.drivers.aio import AsyncDriver
from mqredis.drivers.sync import Driver
from mqredis.drivers.waiting import registry, registry_aio
from mqredis.settings import Settings
from mqredis.steps import Call, Procedure, Woken, perform
from tests.drivers.kit import FAST, Connect, first, put, take
from tests.support.proxy import Proxy
from tests.support.server import RedisServer
from tests.support.until import aio_until, until

SLOW = FAST.model_copy(update={"recheck_seconds": 60.0})


def waiting(driver: Any, count: int) -> Callable[[], bool]:
    return lambda: len(driver._waiters.table.waits) == count


def test_notification_wakes_a_waiter_immediately(url: str, connect: Callable[..., Driver]) -> None:
    driver, other = connect(url, SLOW), connect(url)
    with ThreadPoolExecutor(1) as pool:
        for _ in range(20):
            seen: list[Any] = []
            future = pool.submit(driver.run, take(driver.core.keys, seen=seen))
            until(waiting(driver, 1))
            other.run(put(driver.core.keys))
            # The next re-check would come after 48 seconds at the earliest.
            assert future.result(30) == "taken"
            assert seen == ["k", Woken.NOTIFIED]
    assert driver.wake_mode == "keyspace"
    assert not driver._waiters.table.registered_runs, "an operation that has ended does not wait"


def test_cancelled_scope_ends_only_its_own_waits(url: str, connect: Callable[..., Driver]) -> None:
    driver = connect(url, SLOW)
    mine, others = object(), object()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(driver.run, take(driver.core.keys, scopes=(mine,)))
        second = pool.submit(driver.run, take(driver.core.keys, scopes=(others, "tag")))
        until(waiting(driver, 2))
        driver.cancel(mine)
        assert first.result(30) == "cancelled"
        assert waiting(driver, 1)()
        driver.cancel("tag")
        assert second.result(30) == "cancelled"


def test_wait_times_out(url: str, connect: Callable[..., Driver]) -> None:
    driver = connect(url, SLOW)
    start = time.monotonic()
    assert driver.run(take(driver.core.keys, seconds=0.05)) == "timed out"
    assert time.monotonic() - start >= 0.05


def test_many_waiters_share_one_subscription(
    redis_server: RedisServer, connect: Callable[..., Driver]
) -> None:
    driver, other = connect(redis_server.url, SLOW), connect(redis_server.url)
    with ThreadPoolExecutor(120) as pool:
        futures = [pool.submit(driver.run, take(driver.core.keys)) for _ in range(120)]
        until(waiting(driver, 120))
        with redis_server.client() as client:
            assert len(client.client_list(_type="pubsub")) == 1
        for _ in futures:
            other.run(put(driver.core.keys))
        assert {future.result(30) for future in futures} == {"taken"}


def test_lost_subscription_is_renewed_and_its_waiter_polls(
    redis_server: RedisServer, connect_either: Connect
) -> None:
    driver, other = connect_either(redis_server.url, SLOW), connect_either(redis_server.url)
    seen: list[Any] = []
    with ThreadPoolExecutor(1) as pool, redis_server.client() as client:
        future = pool.submit(driver.run, take(driver.core.keys, seen=seen))
        until(waiting(driver, 1))
        client.client_kill_filter(_type="pubsub")
        until(lambda: len(seen) >= 3)  # it has polled again after the reconnection
        until(waiting(driver, 1))
        other.run(put(driver.core.keys))
        assert future.result(30) == "taken"


def test_unresponsive_subscription_is_replaced(
    redis_server: RedisServer, connect_either: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (registry, registry_aio):
        monkeypatch.setattr(module, "HEALTH_SECONDS", 0.1)
    seen: list[Any] = []
    with Proxy(redis_server.socket_path) as proxy, ThreadPoolExecutor(1) as pool:
        driver, other = connect_either(proxy.url(), SLOW), connect_either(redis_server.url)
        future = pool.submit(driver.run, take(driver.core.keys, seen=seen))
        until(waiting(driver, 1))
        proxy.freeze()
        until(lambda: len(seen) >= 3)
        until(waiting(driver, 1))
        other.run(put(driver.core.keys))
        assert future.result(30) == "taken"


def test_publish_is_used_if_keyspace_notifications_are_off(
    redis_server: RedisServer, connect: Callable[..., Driver]
) -> None:
    with redis_server.client() as client:
        client.config_set("notify-keyspace-events", "")
    driver, other = connect(redis_server.url, SLOW), connect(redis_server.url)
    seen: list[Any] = []
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(driver.run, take(driver.core.keys, seen=seen))
        until(waiting(driver, 1))
        other.run(put(driver.core.keys))
        assert future.result(30) == "taken"
    assert seen == ["p", Woken.NOTIFIED]
    assert driver.wake_mode == "publish"


def test_mode_is_tried_again_after_a_busy_server(
    redis_server: RedisServer, connect: Callable[..., Driver], monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = connect(redis_server.url)
    driver.open()
    command, busy = driver.command, {"SADD", "PUBLISH"}

    def command_of_busy_server(*args: str) -> object:
        if args[0] in busy:
            raise redis.ResponseError("BUSY Redis is busy running a script.")
        return command(*args)

    monkeypatch.setattr(driver, "command", command_of_busy_server)
    assert (driver._waiters._mode(), driver.wake_mode) == ("poll", "")
    busy.clear()
    monkeypatch.setattr(driver._waiters, "_probe_again_at", 0.0)
    assert driver._waiters._mode() in ("keyspace", "publish")


def test_configure_server_adds_to_the_present_notification_flags(
    redis_server: RedisServer, connect: Callable[..., Driver]
) -> None:
    with redis_server.client() as client:
        client.config_set("notify-keyspace-events", "Ex")
        driver = connect(redis_server.url, Settings(configure_server=True))
        assert driver.run(take(driver.core.keys, seconds=0.01)) == "timed out"
        assert driver.wake_mode == "keyspace"
        assert set(client.config_get()["notify-keyspace-events"]) == set("ExKs")


@pytest.mark.parametrize(
    "rules,mode",
    [
        ("+config allchannels", "keyspace"),
        ("-config allchannels", "keyspace"),
        ("-config resetchannels", "poll"),
    ],
)
def test_acl_determines_the_wake_mode(
    redis_server: RedisServer, connect: Callable[..., Driver], manager: str, rules: str, mode: str
) -> None:
    with redis_server.client() as client:
        client.execute_command(
            "ACL", "SETUSER", "worker", "reset", "on", ">pw", f"~mq:{{{manager}}}:*", "+@all", *rules.split()
        )
        try:
            driver = connect(f"unix://worker:pw@{redis_server.socket_path}", SLOW)
            assert driver.run(take(driver.core.keys, seconds=0.01)) == "timed out"
            assert driver.wake_mode == mode
        finally:
            driver.close()
            client.acl_deluser("worker")


def test_message_without_a_notification_is_found_by_the_recheck(
    url: str, connect: Callable[..., Driver]
) -> None:
    driver = connect(url, FAST.model_copy(update={"recheck_seconds": 0.05}))
    other = connect(url)
    with ThreadPoolExecutor(3) as pool:
        futures = [pool.submit(driver.run, take(driver.core.keys)) for _ in range(3)]
        until(waiting(driver, 3))
        for _ in futures:
            other.run(perform(Call("silent", driver.core.keys.call("q"), [], first)))
        assert {future.result(30) for future in futures} == {"taken"}


async def awaiting(driver: AsyncDriver, count: int) -> None:
    await aio_until(lambda: len(driver._waiters.table.waits) == count)


async def test_async_notification_and_cancelled_scope_end_waits(
    url: str, aconnect: Callable[..., AsyncDriver]
) -> None:
    driver, other = aconnect(url, SLOW), aconnect(url)
    keys = driver.core.keys
    tasks = [asyncio.create_task(driver.run(take(keys, scopes=("tag", n)))) for n in range(100)]
    await awaiting(driver, 100)
    driver.cancel(5)
    assert await asyncio.wait_for(tasks[5], 5) == "cancelled"
    for _ in range(100):  # one is for the waiter that was cancelled and is still registered
        await other.run(put(keys))
    results = await asyncio.wait_for(asyncio.gather(*tasks[:5], *tasks[6:]), 10)
    assert set(results) == {"taken"}
    assert driver.wake_mode == "keyspace"
    assert not driver._waiters.table.registered_runs, "an operation that has ended does not wait"


def test_scope_cancelled_between_fetch_and_wait_ends_the_wait(
    url: str, connect: Callable[..., Driver]
) -> None:
    driver = connect(url, SLOW)
    inner = iter(take(driver.core.keys, scopes=("tag",)))

    def operation() -> Any:
        answer = None
        while True:
            try:
                step = inner.send(answer)
            except StopIteration as stop:
                return stop.value
            answer = yield step
            if isinstance(step, Call):
                driver.cancel("tag")  # after the fetch, before the wait

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(driver.run, Procedure(operation())).result(30) == "cancelled"


def test_subscription_closed_by_the_output_buffer_limit_is_renewed(
    start_server: Callable[..., RedisServer], connect: Callable[..., Driver]
) -> None:
    """After the output buffer overflowed, waiting readers subscribe again and fetch before the next re-check."""
    server = start_server(options={"client-output-buffer-limit": "pubsub 1kb 1kb 1"})
    driver, other = connect(server.url, SLOW), connect(server.url)
    with server.client() as raw, ThreadPoolExecutor(1) as pool:

        def subscribers() -> set[str]:
            return (
                {client["id"] for client in raw.client_list(_type="pubsub")}
                if raw.pubsub_channels()
                else set()
            )

        seen: list[Any] = []
        future = pool.submit(driver.run, take(driver.core.keys, seen=seen))
        until(waiting(driver, 1))  # the subscription is now that of the waiter, not the test of the server
        first = subscribers()
        raw.publish(raw.pubsub_channels()[0], b"x" * 100_000)
        until(lambda: bool(subscribers() - first))
        other.run(put(driver.core.keys))
        assert future.result(30) == "taken"
    assert seen[0] == "k"


async def test_context_of_the_first_waiter_ends_with_its_task(
    url: str, aconnect: Callable[..., AsyncDriver]
) -> None:
    driver, request = aconnect(url, SLOW), ContextVar[object]("request")
    await driver.open()

    class Request:
        """What a framework keeps in a context variable."""

    async def handle() -> weakref.ref[Request]:
        mine = Request()
        request.set(mine)
        assert await driver.run(take(driver.core.keys, seconds=0.01)) == "timed out"
        return weakref.ref(mine)

    seen = await asyncio.create_task(handle())
    assert driver._waiters._tasks

    def is_gone() -> bool:
        gc.collect()
        return seen() is None

    await aio_until(is_gone)  # the time limit of the last reply keeps it for a second
