"""The wake channels of a driver: which are subscribed, and which operations their notifications wake."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from redis import exceptions as rx

from mqredis.drivers.aio import AsyncDriver
from mqredis.drivers.session import Run, Session
from mqredis.drivers.sync import Driver
from mqredis.drivers.waiting.table import Heartbeat, WaiterTable, WakeChannel
from mqredis.settings import Settings
from tests.drivers.kit import FAST, take
from tests.support.server import RedisServer

SLOW = FAST.model_copy(update={"recheck_seconds": 60.0})
OLD, NEW, NEWER = Session("1"), Session("2"), Session("3")


@pytest.fixture
def table() -> WaiterTable[threading.Event]:
    return WaiterTable(Settings(), threading.Event)


def using(table: WaiterTable[threading.Event], session: Session) -> Run:
    """An operation that is registered, on the channel of a slot of its own."""
    run = Run(session.take())
    run.wake, _ = table.wake_channel(run.slot.name, f"ch:{run.slot.name}", session.number)
    table.registered_runs.add(run)
    return run


def wake_of(run: Run) -> WakeChannel[Any]:
    """The channel of an operation that listens."""
    assert run.wake is not None
    return run.wake


def renew(table: WaiterTable[threading.Event], run: Run, session: Session) -> None:
    """Remove stale channels, as the registries do when the session has ended."""
    old, run.slot = run.slot, session.take()
    wake, _ = table.wake_channel(run.slot.name, f"ch:{run.slot.name}", session.number)
    table.remove_stale(session.number)
    table.redirect(old, run.slot)
    run.wake = wake


def notify(table: WaiterTable[threading.Event], name: str) -> None:
    table.received([b"message", name.encode(), b"sadd"])


def test_old_channel_wakes_the_new_slot_while_the_operation_runs(
    table: WaiterTable[threading.Event],
) -> None:
    run = using(table, OLD)
    first = wake_of(run).name
    for session in (NEW, NEWER):
        renew(table, run, session)
        wake_of(run).notified.clear()
        notify(table, first)
        assert wake_of(run).notified.is_set()
        assert first in table.names()[0]
    table.registered_runs.discard(run)
    assert first in table.remove_stale("4")
    assert table.names() == []


def test_channel_of_an_operation_in_a_call_is_kept(table: WaiterTable[threading.Event]) -> None:
    run, other = using(table, OLD), using(table, OLD)
    renew(table, run, NEW)
    notify(table, wake_of(other).name)
    assert wake_of(other).notified.is_set()
    renew(table, other, NEW)
    notify(table, "ch:" + other.slot.name)
    assert wake_of(other).notified.is_set()


def test_removed_channel_is_not_subscribed_again(table: WaiterTable[threading.Event]) -> None:
    run = using(table, OLD)
    first = wake_of(run).name
    renew(table, run, NEW)
    assert sorted(table.remove(run.slot.name)) == sorted([first, wake_of(run).name])
    assert table.names() == []


def test_channel_created_after_a_denied_subscription_needs_no_confirmation(
    table: WaiterTable[threading.Event],
) -> None:
    table.deny("NOPERM")
    assert wake_of(using(table, OLD)).confirmed.is_set()


def test_no_reply_in_the_period_after_a_ping_is_a_connection_error() -> None:
    heartbeat = Heartbeat()
    assert [heartbeat.next_period(received) for received in (True, False, True, False)] == [
        False, True, False, True,
    ]  # fmt: skip
    with pytest.raises(rx.ConnectionError):
        heartbeat.next_period(False)


def test_message_on_the_old_channel_sets_the_new_flag(
    redis_server: RedisServer, connect: Callable[..., Driver]
) -> None:
    driver = connect(redis_server.url, SLOW)
    driver.run(take(driver.core.keys, seconds=0.01))
    waiters = driver._waiters
    assert driver.core.session is not None
    run = Run(driver.core.session.take())
    waiters.listen(run)
    old, channel, run.slot = run.slot, wake_of(run).name, Session("another").take()
    waiters.redirect(run, old)
    assert waiters._reader.sleep(run.flag, 30), "the subscription to the new channel is confirmed"
    run.flag.clear()
    driver.command("PUBLISH", channel, "sadd")
    assert waiters._reader.sleep(run.flag, 30)
    waiters.table.registered_runs.discard(run)


async def test_async_message_on_the_old_channel_sets_the_new_flag(
    redis_server: RedisServer, aconnect: Callable[..., AsyncDriver]
) -> None:
    driver = aconnect(redis_server.url, SLOW)
    await driver.run(take(driver.core.keys, seconds=0.01))
    waiters = driver._waiters
    assert driver.core.session is not None
    run = Run(driver.core.session.take())
    await waiters.listen(run)
    old, channel, run.slot = run.slot, wake_of(run).name, Session("another").take()
    await waiters.redirect(run, old)
    await asyncio.wait_for(run.flag.wait(), 30)
    run.flag.clear()
    await driver.command("PUBLISH", channel, "sadd")
    await asyncio.wait_for(run.flag.wait(), 30)
    waiters.table.registered_runs.discard(run)
