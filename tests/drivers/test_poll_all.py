"""The call that polls for all waiters of a driver: results, and what happens if it is refused."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from mqredis import scripts
from mqredis.drivers.sync import Driver
from mqredis.errors import AccessDenied, InvariantBroken, ManagerNotFound
from mqredis.keys import ManagerKeys
from mqredis.status import Status
from mqredis.steps import Call, Operation, perform
from tests.drivers.kit import FAST, Connect, TinyScript, first, take
from tests.support.until import until

# OFTEN polls by itself every 20 ms, NEVER only if a test calls `recheck`.
OFTEN = FAST.model_copy(update={"recheck_seconds": 0.02})
NEVER = FAST.model_copy(update={"recheck_seconds": 600.0})

REFUSED = f"return envelope({int(Status.ACCESS_DENIED)})"
SHORT = "return envelope(0, '1')"


def silent(keys: ManagerKeys) -> Operation[str]:
    """Add one and notify no reader."""
    return perform(Call("silent", keys.call("q"), [], first))


def waits(driver: Any, count: int) -> Callable[[], bool]:
    return lambda: len(driver._waiters.table.waits) == count


@pytest.fixture
def replace_poll_all(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return a function that replaces the script poll_all."""

    def put(body: str) -> None:
        plain, other = scripts.get, TinyScript("poll_all", body)
        monkeypatch.setattr(scripts, "get", lambda name: other if name == "poll_all" else plain(name))

    return put


refusals = pytest.mark.parametrize("body, error", [(REFUSED, AccessDenied), (SHORT, InvariantBroken)])


@refusals
def test_refused_poll_raises_and_keeps_the_waits(
    url: str,
    connect_either: Connect,
    replace_poll_all: Callable[[str], None],
    body: str,
    error: type[Exception],
) -> None:
    replace_poll_all(body)
    driver = connect_either(url, NEVER)
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(driver.run, take(driver.core.keys, scopes=("tag",)))
        until(waits(driver, 1))
        with pytest.raises(error):
            driver._waiters.recheck()
        assert driver.last_poll == 0.0
        driver.cancel("tag")
        assert future.result(30) == "cancelled"


def test_waiters_poll_individually_if_poll_all_is_refused(
    url: str, connect_either: Connect, replace_poll_all: Callable[[str], None]
) -> None:
    replace_poll_all(REFUSED)
    driver, other = connect_either(url, OFTEN), connect_either(url)
    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(driver.run, take(driver.core.keys)) for _ in range(2)]
        until(waits(driver, 2))
        for _ in futures:
            other.run(silent(driver.core.keys))
        assert {future.result(30) for future in futures} == {"taken"}
    assert driver.last_poll == 0.0


def test_deleted_manager_raises_in_every_waiter(url: str, connect_either: Connect) -> None:
    driver, other = connect_either(url, OFTEN), connect_either(url)
    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(driver.run, take(driver.core.keys)) for _ in range(2)]
        until(waits(driver, 2))
        other.command("DEL", driver.core.keys.own[0])
        for future in futures:
            with pytest.raises(ManagerNotFound):
                future.result(30)


def test_expired_session_is_replaced_during_a_wait(url: str, connect: Callable[..., Driver]) -> None:
    driver, other = connect(url, OFTEN), connect(url)
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(driver.run, take(driver.core.keys))
        until(waits(driver, 1))
        assert driver.core.session is not None
        other.command("HDEL", driver.core.keys.own[0], driver.core.session.number)
        other.run(silent(driver.core.keys))
        assert future.result(30) == "taken"
