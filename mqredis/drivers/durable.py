"""The wait for a level, done by a driver: what comes behind the script of a :class:`Durable` step, once per driver."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from mqredis.drivers.acks import Ack
from mqredis.drivers.attempt import Attempt
from mqredis.drivers.session import Run
from mqredis.errors import BrokerRefused, UnsafeServer
from mqredis.models import Durability
from mqredis.operations.levels import way
from mqredis.steps import Durable, Reply

if TYPE_CHECKING:
    from mqredis.drivers.aio import AsyncDriver
    from mqredis.drivers.alinks import AsyncLink
    from mqredis.drivers.links import Link
    from mqredis.drivers.sync import Driver


def carry(driver: Driver, step: Durable, run: Run) -> Reply:
    """A call whose change has to get further than the primary's memory."""
    if step.level == Durability.MEMORY:
        return driver.call(step.call, run)
    ack = Ack(step, _way(driver, step.level), driver.settings)
    answer = driver.call(step.call, run, ack)
    step.token = run.slot.latest()
    return answer


def _way(driver: Driver, level: Durability) -> str:
    known = (driver.core.run_id, level)
    if known not in driver.core.ways:
        driver.core.ways[known] = driver.ask(way(level, driver.settings.appendfsync_always))
    return driver.core.ways[known]


def renew(driver: Driver, attempt: Attempt, ack: Ack) -> None:
    """It is another server now: how does that one get to the level? What is done may not be refused any more."""
    try:
        ack.way = _way(driver, ack.durable.level)
    except (UnsafeServer, BrokerRefused):
        if not attempt.maybe:
            raise
        ack.way = ""


def follow(link: Link, attempt: Attempt, ack: Ack, reply: Any) -> None:
    """The wait behind a script, on its connection. What it did is done: if this fails, a repetition finds that."""
    attempt.maybe = attempt.maybe or ack.changed(reply)
    rounds, answer = ack.rounds(reply), None
    with suppress(StopIteration):
        while True:
            answer = link.exchange(rounds.send(answer))


# ---- the same for tasks --------------------------------------------------------------------------


async def acarry(driver: AsyncDriver, step: Durable, run: Run) -> Reply:
    """The twin."""
    if step.level == Durability.MEMORY:
        return await driver.call(step.call, run)
    ack = Ack(step, await _away(driver, step.level), driver.settings)
    answer = await driver.call(step.call, run, ack)
    step.token = run.slot.latest()
    return answer


async def _away(driver: AsyncDriver, level: Durability) -> str:
    known = (driver.core.run_id, level)
    if known not in driver.core.ways:
        driver.core.ways[known] = await driver.ask(way(level, driver.settings.appendfsync_always))
    return driver.core.ways[known]


async def arenew(driver: AsyncDriver, attempt: Attempt, ack: Ack) -> None:
    """The twin."""
    try:
        ack.way = await _away(driver, ack.durable.level)
    except (UnsafeServer, BrokerRefused):
        if not attempt.maybe:
            raise
        ack.way = ""


async def afollow(link: AsyncLink, attempt: Attempt, ack: Ack, reply: Any) -> None:
    """The twin."""
    attempt.maybe = attempt.maybe or ack.changed(reply)
    rounds, answer = ack.rounds(reply), None
    with suppress(StopIteration):
        while True:
            answer = await link.exchange(rounds.send(answer))
