"""Calls: tokens, sessions, retries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mqredis.drivers import AsyncDriver, Driver
from mqredis.drivers.alinks import AsyncLink
from mqredis.drivers.session import Run
from mqredis.steps import Listen, Operation, Wait
from tests.drivers.kit import add, read
from tests.drivers.test_interrupts import Interrupt


class Stop:
    """No step: whoever is to carry it out is interrupted."""

    def __repr__(self) -> str:
        raise Interrupt


def test_calls_run_once_each(url: str, connect: Callable[..., Driver]) -> None:
    """Ten calls, ten additions, one slot."""
    driver = connect(url)
    for n in range(1, 11):
        assert driver.run(add(driver.core.keys)) == str(n)
    assert driver.run(read(driver.core.keys)) == "10"
    assert driver.history == 10
    assert driver.session == "1"


@pytest.mark.asyncio
async def test_async_calls_run_once_each(url: str, aconnect: Callable[..., AsyncDriver]) -> None:
    """The same with asyncio."""
    driver = aconnect(url)
    for n in range(1, 11):
        assert await driver.run(add(driver.core.keys)) == str(n)
    assert await driver.run(read(driver.core.keys)) == "10"


def test_an_operation_goes_on_with_what_the_last_one_left_clean(
    url: str, connect: Callable[..., Driver]
) -> None:
    driver = connect(url)
    driver.run(add(driver.core.keys))
    session = driver.core.session
    assert session is not None
    slot = session.free[-1]

    def left() -> Run | None:
        return slot.run

    run = left()
    assert run is not None
    driver.run(add(driver.core.keys))
    assert (session.free[-1], left()) == (slot, run)

    def waits() -> Operation[None]:
        yield Listen()

    driver.run(waits())
    assert left() is None, "who listened has a bell, and a place in a journal"
    driver.run(add(driver.core.keys))
    assert left() not in (None, run)

    stop: Any = Stop()

    def interrupted() -> Operation[str]:
        try:
            yield stop
        except Interrupt:
            return (yield from read(driver.core.keys))
        return ""

    assert int(driver.run(interrupted())) == 3
    assert left() is None, "what comes after an interrupt has no time"
    assert int(driver.run(read(driver.core.keys))) == 3
    last = left()
    assert last is not None
    assert last.deadline is None


async def test_so_does_one_of_asyncio(url: str, aconnect: Callable[..., AsyncDriver]) -> None:
    driver = aconnect(url)
    await driver.run(add(driver.core.keys))
    session = driver.core.session
    assert session is not None
    slot = session.free[-1]

    def left() -> Run | None:
        return slot.run

    run = left()
    assert run is not None
    await driver.run(add(driver.core.keys))
    assert (session.free[-1], left()) == (slot, run)

    def waits(first: Listen | Wait) -> Operation[None]:
        yield first

    await driver.run(waits(Wait(0)))
    assert left() is None, "who waited has an event of this loop, and the next one may see another"
    await driver.run(add(driver.core.keys))
    await driver.run(waits(Listen()))
    assert left() is None
    await driver.run(add(driver.core.keys))
    assert left() not in (None, run)


async def test_an_interrupt_while_a_connection_is_put_away(
    url: str, aconnect: Callable[..., AsyncDriver], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call was made, and nobody knows of it: its number may not be used again."""
    driver = aconnect(url)
    await driver.run(add(driver.core.keys))

    put_away = driver.backend.discard

    async def discard(link: AsyncLink) -> None:
        await put_away(link)
        raise Interrupt

    with monkeypatch.context() as patch:
        patch.setattr(driver.backend, "give", lambda _link: False)
        patch.setattr(driver.backend, "discard", discard)
        with pytest.raises(Interrupt):
            await driver.run(add(driver.core.keys))
    (token,) = driver.core.unknown
    assert token.endswith(":2")
    assert await driver.run(add(driver.core.keys)) == "3"
