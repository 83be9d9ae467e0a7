"""Waits that carry their next call: it is executed exactly once after the notification."""

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
from tests.drivers.kit import FAST, LOST, add, first, put, read
from tests.drivers.test_interrupts import Interrupt, InterruptAtLine, echo, ignore_unclosed_sockets
from tests.support.faults import is_script
from tests.support.proxy import Proxy
from tests.support.server import RedisServer
from tests.support.until import until

__all__ = ["ignore_unclosed_sockets"]  # a fixture

# A reader that is not notified fetches again only after the test has failed.
SLOW = FAST.model_copy(update={"recheck_seconds": 60.0})
# Called by an operation before or after a wait.
Hook = Callable[[], object]


@procedure
def taking(
    driver: Driver,
    seen: list[Any] | None = None,
    *,
    before: Hook = lambda: None,
    after: Hook = lambda: None,
    scopes: tuple[object, ...] = (),
) -> Steps[str]:
    """Take one; each wait carries the next call. ``before`` is called before each wait, ``after`` after it."""
    seen = [] if seen is None else seen
    mode = yield Listen()
    fetch = Call("take", driver.core.keys.call("q"), [mode], first)
    while first(*(yield fetch)) == "wait":
        before()
        fetch = Call("take", driver.core.keys.call("q"), [mode], first)
        woken = yield Wait(None, scopes, fetch)
        seen.append(woken)
        after()
        if woken is not Woken.NOTIFIED:
            return str(woken.value)
    return "taken"


def count(driver: Driver) -> int:
    return int(driver.run(read(driver.core.keys)))


def waiting(driver: Driver) -> Callable[[], bool]:
    return lambda: bool(driver._waiters.table.waits)


def registered(driver: Driver, other: Driver) -> Callable[[], bool]:
    """Return whether a reader is registered that ``put`` would notify."""
    return lambda: other.command("HLEN", driver.core.keys.call("q").keys[1]) > 1


def test_more_waiters_than_connections_are_all_served(
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
def test_lost_call_after_a_wait_is_executed_once(
    redis_server: RedisServer, connect: Callable[..., Driver], fault: str
) -> None:
    other, seen = connect(redis_server.url), list[Any]()
    with Proxy(redis_server.socket_path) as proxy, ThreadPoolExecutor(1) as pool:
        driver = connect(proxy.url(), SLOW.model_copy(update={"reply_timeout_seconds": 0.5}))
        future = pool.submit(driver.run, taking(driver, seen))
        until(waiting(driver))
        rule = proxy.add(LOST[fault], where=is_script)
        other.run(put(other.core.keys))
        other.run(put(other.core.keys))
        assert future.result(30) == "taken"
        assert rule.hits == 1
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
def test_call_after_a_wait_recovers_lost_connections_and_sessions(
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


class ArmedInterrupt(InterruptAtLine):
    """Counts lines only after ``arm``, and none where a lock is released: no signal handler runs there."""

    armed = False

    def __call__(self, frame: FrameType, event: str, arg: Any) -> Any:
        if not self.armed or linecache.getline(frame.f_code.co_filename, frame.f_lineno).lstrip().startswith(
            "with "
        ):
            return self
        return super().__call__(frame, event, arg)

    def arm(self) -> None:
        self.armed = True


@pytest.mark.usefixtures("ignore_unclosed_sockets")
def test_thread_interrupted_at_any_line_takes_a_message_once(
    redis_server: RedisServer, connect: Callable[..., Driver]
) -> None:
    driver = connect(redis_server.url, SLOW.model_copy(update={"max_connections": 1000}))
    other = connect(redis_server.url)
    lines = interrupted = unknown = 0
    while True:
        lines += 1
        interrupt_at_line = ArmedInterrupt(lines)

        def put_and_arm(interrupt_at_line: ArmedInterrupt = interrupt_at_line) -> None:
            other.run(put(other.core.keys))
            interrupt_at_line.arm()

        before = sys.gettrace()
        gc.disable()
        sys.settrace(interrupt_at_line)
        try:
            taken = driver.run(taking(driver, before=put_and_arm)) == "taken"
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
        driver.core.outcomes.tokens.clear()
        other.run(add(other.core.keys, -left))
    assert interrupted > 60, "the interrupts did not reach it"
    assert unknown, "no interrupt came while the fetch was in progress"
