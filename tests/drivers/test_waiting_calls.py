"""Waits whose next call is known: it is made once they were notified, and once only."""

from __future__ import annotations

import gc
import linecache
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import Any

import pytest
import redis

from mqredis.drivers.sync import Driver
from mqredis.steps import Call, Listen, Steps, Wait, Woken, procedure
from tests.drivers.kit import FAST, add, first, put, read, until
from tests.drivers.proxy import Proxy
from tests.drivers.test_interrupts import Bomb, Interrupt, echo, spared
from tests.support.server import RedisServer

__all__ = ["spared"]  # a fixture

# A reader that is not notified fetches again only after the test has failed.
SLOW = FAST.model_copy(update={"recheck_seconds": 60.0})
# What an operation does when it was woken, before it looks.
Then = Callable[[], object]


@procedure
def taking(
    driver: Driver,
    seen: list[Any] | None = None,
    *,
    before: Then = lambda: None,
    then: Then = lambda: None,
    scopes: tuple[object, ...] = (),
) -> Steps[str]:
    """Take one; wait with the next call known before. ``before``: called before the first wait; ``then``: after
    each."""
    seen = [] if seen is None else seen
    mode = yield Listen()
    look = Call("take", driver.core.keys.call("q"), [mode], first)
    while first(*(yield look)) == "wait":
        before()
        look = Call("take", driver.core.keys.call("q"), [mode], first)
        woken = yield Wait(None, scopes, look)
        seen.append(woken)
        then()
        if woken is not Woken.NOTIFIED:
            return str(woken.value)
    return "taken"


def count(driver: Driver) -> int:
    return int(driver.run(read(driver.core.keys)))


def waiting(driver: Driver) -> Callable[[], bool]:
    return lambda: bool(driver._waiters.table.waits)


def registered(driver: Driver, other: Driver) -> Callable[[], bool]:
    """Is a reader registered that ``put`` would ring?"""
    return lambda: other.command("HLEN", driver.core.keys.call("q").keys[1]) > 1


def test_many_wait_where_connections_are_few(
    redis_server: RedisServer, connect: Callable[..., Driver]
) -> None:
    driver = connect(redis_server.url, SLOW.model_copy(update={"max_connections": 2}))
    other = connect(redis_server.url)
    with ThreadPoolExecutor(20) as pool:
        futures = [pool.submit(driver.run, taking(driver)) for _ in range(20)]
        until(lambda: len(driver._waiters.table.waits) == 20)
        for _ in futures:
            other.run(put(other.core.keys))
        assert {future.result(30) for future in futures} == {"taken"}
    assert driver.unknown == []


@pytest.mark.parametrize("fault", ["request", "reply", "silence"])
def test_one_that_is_lost_is_repeated_and_done_once(
    redis_server: RedisServer, connect: Callable[..., Driver], fault: str
) -> None:
    other, seen = connect(redis_server.url), list[Any]()
    with Proxy(redis_server.socket_path) as proxy, ThreadPoolExecutor(1) as pool:
        driver = connect(proxy.url, SLOW.model_copy(update={"reply_timeout_seconds": 0.5}))
        future = pool.submit(driver.run, taking(driver, seen))
        until(waiting(driver))
        proxy.faults.append(fault)
        other.run(put(other.core.keys))
        other.run(put(other.core.keys))
        assert future.result(30) == "taken"
        assert not proxy.faults
        assert driver.unknown == []
        driver.close()
    assert seen == [Woken.NOTIFIED]
    assert count(other) == 1


def connections_die(driver: Driver, client: redis.Redis) -> None:
    client.client_kill_filter(_type="normal", skipme=True)


def session_ends(driver: Driver, client: redis.Redis) -> None:
    assert client.hdel(driver.core.keys.own[0], driver.session)
    assert echo(driver, "another thread notices") == "another thread notices"


@pytest.mark.parametrize("happens", [connections_die, session_ends])
def test_what_happens_meanwhile_is_mended_before(
    redis_server: RedisServer,
    connect: Callable[..., Driver],
    happens: Callable[[Driver, redis.Redis], None],
) -> None:
    driver, other = connect(redis_server.url, SLOW), connect(redis_server.url)
    with ThreadPoolExecutor(1) as pool, redis_server.client() as client:
        future = pool.submit(driver.run, taking(driver))
        until(waiting(driver))
        happens(driver, client)
        other.run(put(other.core.keys))
        assert future.result(30) == "taken"
    assert driver.unknown == []
    assert count(other) == 0


class Armed(Bomb):
    """Counts lines only from the wait on, and none where a lock is let go: there a signal's handler never runs."""

    armed = False

    def __call__(self, frame: FrameType, event: str, arg: Any) -> Any:
        if not self.armed or linecache.getline(frame.f_code.co_filename, frame.f_lineno).lstrip().startswith(
            "with "
        ):
            return self
        return super().__call__(frame, event, arg)

    def arm(self) -> None:
        self.armed = True


@pytest.mark.usefixtures("spared")
def test_a_thread_that_is_interrupted_anywhere_takes_nothing_twice(
    redis_server: RedisServer, connect: Callable[..., Driver]
) -> None:
    driver = connect(redis_server.url, SLOW.model_copy(update={"max_connections": 1000}))
    other = connect(redis_server.url)
    lines = interrupted = unknown = 0
    while True:
        lines += 1
        bomb = Armed(lines)

        def ring(bomb: Armed = bomb) -> None:
            other.run(put(other.core.keys))
            bomb.arm()

        before = sys.gettrace()
        gc.disable()
        sys.settrace(bomb)
        try:
            taken = driver.run(taking(driver, before=ring)) == "taken"
        except Interrupt:
            taken = False
        finally:
            sys.settrace(before)
            gc.enable()
        left, unknown = count(other), unknown + len(driver.unknown)
        assert echo(driver, f"w{lines}") == f"w{lines}", f"after an interrupt at line {lines}"
        if taken:
            break
        interrupted += 1
        assert left in (0, 1), f"after an interrupt at line {lines}"
        driver.core.unknown.clear()
        other.run(add(other.core.keys, -left))
    assert interrupted > 60, "the interrupts did not reach it"
    assert unknown, "none came while the look was under way"
