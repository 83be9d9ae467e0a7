"""Calls whose change has to reach a level of durability."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from mqredis.drivers.durability import DurabilityWait
from mqredis.errors import BrokerRefused, UnsafeServer
from mqredis.models import Durability
from mqredis.operations.durability.levels import wait_command
from mqredis.steps import Durable, Reply

if TYPE_CHECKING:
    from mqredis.drivers.attempt import Attempt
    from mqredis.drivers.calls_aio import AsyncCalls
    from mqredis.drivers.net.pool_aio import AsyncConnection
    from mqredis.drivers.session import Run


async def call_durably(driver: AsyncCalls, step: Durable, run: Run) -> Reply:
    """Make a call, and wait until its change has reached the level of ``step``."""
    if step.level == Durability.MEMORY:
        return await driver.call(step.call, run)
    wait = DurabilityWait(step, await _command(driver, step.level), driver.settings)
    answer = await driver.call(step.call, run, wait)
    step.token = run.slot.latest()
    return answer


async def _command(driver: AsyncCalls, level: Durability) -> str:
    known = (driver.core.run_id, level)
    if known not in driver.core.wait_commands:
        driver.core.wait_commands[known] = await driver.ask(
            wait_command(level, driver.settings.appendfsync_always)
        )
    return driver.core.wait_commands[known]


async def change_server(driver: AsyncCalls, attempt: Attempt, wait: DurabilityWait) -> None:
    """Find the wait command of another server that answers now.

    Raises UnsafeServer or BrokerRefused if it has none, unless the call may have been carried out already.
    """
    try:
        wait.command = await _command(driver, wait.durable.level)
    except (UnsafeServer, BrokerRefused):
        if not attempt.maybe:
            raise
        wait.command = ""


async def follow(connection: AsyncConnection, attempt: Attempt, wait: DurabilityWait, reply: Any) -> None:
    """Wait for durability on the connection of a script that has run. If that fails, a repeated call gets the stored
    reply of the script."""
    attempt.maybe = attempt.maybe or wait.changed(reply)
    rounds, answer = wait.rounds(reply), None
    with suppress(StopIteration):
        while True:
            answer = await connection.exchange(rounds.send(answer))
