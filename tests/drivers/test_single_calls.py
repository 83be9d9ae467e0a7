"""A call is executed once or reported as OutcomeUnknown; its slot is returned or retired accordingly."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
import redis

from mqredis.drivers.aio import AsyncDriver
from mqredis.drivers.attempt import MAX_RENEWALS, Attempt
from mqredis.drivers.session import Slot
from mqredis.drivers.sync import Driver
from mqredis.errors import (
    BrokerUnavailable,
    HistoryRolledBack,
    InvalidHandle,
    ManagerNotFound,
    OutcomeUnknown,
    UnsafeServer,
)
from tests.coalescing.kit import turns
from tests.drivers.kit import FAST, LOST, Connect, add, adding
from tests.drivers.test_interrupts import echo, interrupted_by_signal
from tests.support.faults import CutReply, Hold, is_script
from tests.support.proxy import Proxy
from tests.support.server import RedisServer

SHORT_RETRY = FAST.model_copy(update={"retry_seconds": 0.3, "reply_timeout_seconds": 30})
SHORT_REPLY_TIMEOUT = FAST.model_copy(update={"reply_timeout_seconds": 0.1})


def add_one(driver: Driver) -> str:
    """Add one."""
    return driver.run(add(driver.core.keys))


async def async_add_one(driver: AsyncDriver) -> str:
    return await driver.run(add(driver.core.keys))


def free_slots(driver: Driver | AsyncDriver) -> list[Slot]:
    """Return the free slots of the session."""
    session = driver.core.session
    assert session is not None
    return session.free


def test_call_reconnects_and_reopens_the_session_first(url: str, connect: Callable[..., Driver]) -> None:
    driver = connect(url)
    assert [add_one(driver), add_one(driver)] == ["1", "2"]
    driver.backend.drop_idle()
    assert add_one(driver) == "3", "the call opens a connection"
    driver.core.run_id = "another"
    assert add_one(driver) == "4", "the call opens its session on a server with another run id"
    assert len(free_slots(driver)) == 1
    assert len(driver.backend._idle) == 1
    driver.close()
    with pytest.raises(InvalidHandle):
        add_one(driver)


@pytest.mark.parametrize("fault", ["request", "reply", "silence"])
@pytest.mark.parametrize("times", [1, 3])
def test_lost_call_is_executed_once_in_one_slot(
    proxy: Proxy, connect_either: Connect, fault: str, times: int
) -> None:
    driver = connect_either(proxy.url(), SHORT_REPLY_TIMEOUT)
    driver.run(add(driver.core.keys))
    rule = proxy.add(LOST[fault], where=is_script, times=times)
    assert add_one(driver) == "2"
    assert rule.hits == times
    assert [add_one(driver), driver.run(add(driver.core.keys))] == ["3", "4"]
    assert driver.unknown == []
    assert [slot.last for slot in free_slots(driver)] == [4], "all calls used one slot"


def test_unknown_outcome_retires_the_slot(proxy: Proxy, connect_either: Connect) -> None:
    driver = connect_either(proxy.url(), SHORT_RETRY)
    driver.run(add(driver.core.keys))
    proxy.add(CutReply(), where=is_script, times=None)
    with pytest.raises(OutcomeUnknown) as caught:
        add_one(driver)
    proxy.clear()
    assert caught.value.token == f"{driver.session}.0:2"
    assert driver.unknown == [caught.value.token]
    # The unknown call was executed; this one uses another slot.
    assert driver.run(add(driver.core.keys)) == "3"
    assert [slot.name for slot in free_slots(driver)] == [f"{driver.session}.1"]


def forget_scripts(driver: Driver, client: redis.Redis, _: pytest.MonkeyPatch) -> None:
    """As a restart does before Redis 7."""
    driver.core.run_id = "another"
    client.script_flush()


def refuse_server(driver: Driver, _: redis.Redis, patch: pytest.MonkeyPatch) -> None:
    driver.core.run_id = "another"

    def unsafe(*_: object) -> None:
        raise UnsafeServer("the server is too old")

    patch.setattr(driver, "_session_open", unsafe)


def close_session(driver: Driver, _: redis.Redis, patch: pytest.MonkeyPatch) -> None:
    """As another thread that closes the client does first."""
    patch.setattr(driver.core, "closed", True)
    patch.setattr(driver.core, "session", None)


def point_elsewhere(driver: Driver, _: redis.Redis, patch: pytest.MonkeyPatch) -> None:
    """The address leads to a node of a cluster that does not hold the manager."""

    def moved(*_: object) -> None:
        raise redis.exceptions.MovedError("1 127.0.0.1:1")

    patch.setattr(driver.backend, "acquire", moved)


def roll_back(driver: Driver, client: redis.Redis, _: pytest.MonkeyPatch) -> None:
    driver.core.run_id = "another"
    client.hset(driver.core.keys.own[0], "history", "0")


def replace_data(driver: Driver, client: redis.Redis, _: pytest.MonkeyPatch) -> None:
    driver.core.run_id = "another"
    client.hset(driver.core.keys.own[0], "incarnation", "other")


@pytest.mark.parametrize(
    "event, error",
    [
        (forget_scripts, OutcomeUnknown),
        (refuse_server, OutcomeUnknown),
        (close_session, OutcomeUnknown),
        (point_elsewhere, OutcomeUnknown),
        (roll_back, HistoryRolledBack),
        (replace_data, ManagerNotFound),
    ],
)
def test_no_error_after_a_lost_reply_says_that_nothing_was_done(
    proxy: Proxy,
    redis_server: RedisServer,
    connect: Callable[..., Driver],
    monkeypatch: pytest.MonkeyPatch,
    event: Callable[[Driver, redis.Redis, pytest.MonkeyPatch], None],
    error: type[Exception],
) -> None:
    """What the client finds between two tries must not hide that the first one was perhaps carried out."""
    with redis_server.client() as client:
        client.execute_command(
            "ACL", "SETUSER", "app", "on", ">pw", "+@all", "-script", "-function", "~*", "&*"
        )
        for settings in ({"functions": "off"}, {}):
            loader = connect(redis_server.url, FAST.model_copy(update=settings))
            loader.run(add(loader.core.keys))
        driver = connect(
            proxy.url().replace("://", "://app:pw@"), FAST.model_copy(update={"functions": "off"})
        )
        before = int(add_one(driver))
        assert driver.core.session is not None
        (slot,) = free_slots(driver)
        next_pause = Attempt.next_pause

        def pause(attempt: Attempt) -> float:
            event(driver, client, patch)
            return next_pause(attempt)

        with monkeypatch.context() as patch:
            patch.setattr(Attempt, "next_pause", pause)
            proxy.add(CutReply(), where=is_script)
            with pytest.raises(error) as caught:
                add_one(driver)
        assert client.hget(driver.core.keys.own[0], "counter") == str(before + 1).encode()
    assert "nothing was done" not in str(caught.value)
    assert driver.unknown == [f"{slot.name}:2"]
    if error is OutcomeUnknown:
        assert caught.value.token == f"{slot.name}:2"  # type: ignore[attr-defined]
    assert slot not in slot.session.free, "the server may keep the reply of this call"


def test_flushed_script_cache_is_reloaded_without_an_unknown_outcome(
    url: str, redis_server: RedisServer, connect: Callable[..., Driver]
) -> None:
    driver = connect(url)
    driver.run(add(driver.core.keys))
    for n in range(2, 5):
        driver.command("SCRIPT", "FLUSH")
        if driver.core.forms.functions:
            driver.command("FUNCTION", "FLUSH")
        assert add_one(driver) == str(n)
    assert driver.unknown == []


def test_expired_session_is_replaced_and_its_slots_dropped(url: str, connect: Callable[..., Driver]) -> None:
    driver = connect(url)
    driver.run(add(driver.core.keys))
    was = driver.session
    driver.command("HDEL", driver.core.keys.own[0], was)
    assert add_one(driver) == "2"
    assert driver.session != was
    assert [slot.name for slot in free_slots(driver)] == [f"{driver.session}.0"]
    assert add_one(driver) == "3"


def test_reused_token_of_a_slot_is_retried_in_another(url: str, connect: Callable[..., Driver]) -> None:
    driver = connect(url)
    driver.run(add(driver.core.keys))
    driver.command("HSET", driver.core.keys.own[0], f"{driver.session}.0", "7 9")
    assert add_one(driver) == "2"
    assert driver.unknown == []


def test_manager_not_found_returns_the_slot(url: str, connect: Callable[..., Driver]) -> None:
    driver = connect(url)
    driver.run(add(driver.core.keys))
    left = free_slots(driver)
    driver.command("DEL", driver.core.keys.own[0])
    with pytest.raises(ManagerNotFound):
        add_one(driver)
    assert len(left) == 1, "the slot was returned"
    with pytest.raises(ManagerNotFound):
        add_one(driver)


def test_rolled_back_history_raises_once(url: str, connect: Callable[..., Driver]) -> None:
    driver = connect(url)
    for _ in range(3):
        driver.run(add(driver.core.keys))
    driver.command("HSET", driver.core.keys.own[0], "history", "0")
    with pytest.raises(HistoryRolledBack):
        add_one(driver)
    assert driver.run(add(driver.core.keys)) == "5"


def test_call_interrupted_by_a_signal_is_unknown_and_retires_its_slot(
    redis_server: RedisServer, connect: Callable[..., Driver]
) -> None:
    for driver, n in interrupted_by_signal(redis_server, connect, 10, add_one):
        assert driver.unknown[n:] == [f"{driver.session}.{n}:{1 if n else 2}"]
        assert [slot.name for slot in free_slots(driver)] == [f"{driver.session}.{n + 1}"], (
            "the slots of unknown calls are not used again"
        )
        assert echo(driver, f"w{n}") == f"w{n}"


async def test_cancelled_call_is_unknown_and_retires_its_slot(
    redis_server: RedisServer, aconnect: Callable[..., AsyncDriver]
) -> None:
    with Proxy(redis_server.socket_path) as proxy:
        driver = aconnect(proxy.url(), FAST.model_copy(update={"reply_timeout_seconds": 60.0}))
        await driver.run(add(driver.core.keys))
        for n in range(5):
            rule = proxy.add(Hold(reply=True), where=is_script)
            task = asyncio.ensure_future(async_add_one(driver))
            assert await asyncio.to_thread(rule.wait, 60)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            rule.release()
            assert len(driver.unknown) == n + 1
            assert [slot.name for slot in free_slots(driver)] == [f"{driver.session}.{n + 1}"]
            assert await async_add_one(driver) == str(3 + 2 * n), "the cancelled call was executed"


async def test_cancelled_command_leaves_its_shared_connection_open(
    redis_server: RedisServer, aconnect: Callable[..., AsyncDriver]
) -> None:
    driver = aconnect(redis_server.url)
    assert await driver.command("ECHO", "1") == b"1"
    shared = [*driver.backend._free]
    task = asyncio.ensure_future(driver.command("ECHO", "2"))
    await turns(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert driver.backend._free == shared
    assert await driver.command("ECHO", "3") == b"3"


def test_threads_share_a_driver_and_its_slots(url: str, connect: Callable[..., Driver]) -> None:
    driver = connect(url)
    driver.run(add(driver.core.keys))
    found: list[str] = []

    def work() -> None:
        found.extend(add_one(driver) for _ in range(200))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(int, found)) == [*range(2, 1602)]
    names = [slot.name for slot in free_slots(driver)]
    assert len(set(names)) == len(names) <= 8


CLOSED = r"^the connection was closed by this process$"


def test_call_on_a_pool_that_another_thread_has_closed_is_not_repeated(
    url: str, connect: Callable[..., Driver], monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = connect(url)
    driver.run(add(driver.core.keys))
    run = driver.begin()
    driver.backend.close()
    monkeypatch.setattr(driver, "_prepare", None)  # nothing is prepared for another try
    with pytest.raises(InvalidHandle, match=CLOSED):
        driver.call(adding(driver.core.keys), run)


async def test_async_call_on_a_pool_that_another_task_has_closed_is_not_repeated(
    url: str, aconnect: Callable[..., AsyncDriver], monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = aconnect(url)
    await driver.run(add(driver.core.keys))
    run = await driver.begin()
    await driver.backend.close()
    monkeypatch.setattr(driver, "_prepare", None)
    with pytest.raises(InvalidHandle, match=CLOSED):
        await driver.call(adding(driver.core.keys), run)


def restless(driver: Driver | AsyncDriver, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """After each opening let another server be the one with the session. Returns the servers where it was opened."""
    opened: list[str] = []
    adopt = driver.core.adopt

    def adopt_elsewhere(reply: Any, run_id: str) -> bool:
        opened.append(run_id)
        return adopt(reply, "another")

    monkeypatch.setattr(driver.core, "adopt", adopt_elsewhere)
    return opened


def test_session_that_does_not_last_is_given_up(
    url: str, connect_either: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = connect_either(url, SHORT_RETRY)
    opened = restless(driver, monkeypatch)
    with pytest.raises(BrokerUnavailable, match=r"^\S+ cannot be used: the session does not last"):
        driver.run(add(driver.core.keys))
    assert len(opened) == 1 + MAX_RENEWALS
