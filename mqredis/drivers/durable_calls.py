# Generated from mqredis/drivers/durable_calls_aio.py by tools/generate_blocking.py. Do not edit: run `make format`.
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
    from mqredis.drivers.calls import Calls
    from mqredis.drivers.net.pool import Connection
    from mqredis.drivers.session import Run


def call_durably(driver: Calls, step: Durable, run: Run) -> Reply:
    """Make a call, and wait until its change has reached the level of ``step``."""
    if step.level == Durability.MEMORY:
        return driver.call(step.call, run)
    wait = DurabilityWait(step, _command(driver, step.level), driver.settings)
    answer = driver.call(step.call, run, wait)
    step.token = run.slot.latest()
    return answer


def _command(driver: Calls, level: Durability) -> str:
    known = (driver.core.run_id, level)
    if known not in driver.core.wait_commands:
        driver.core.wait_commands[known] = driver.ask(wait_command(level, driver.settings.appendfsync_always))
    return driver.core.wait_commands[known]


def change_server(driver: Calls, attempt: Attempt, wait: DurabilityWait) -> None:
    """Find the wait command of another server that answers now.

    Raises UnsafeServer or BrokerRefused if it has none, unless the call may have been carried out already.
    """
    try:
        wait.command = _command(driver, wait.durable.level)
    except (UnsafeServer, BrokerRefused):
        if not attempt.maybe:
            raise
        wait.command = ""


def follow(connection: Connection, attempt: Attempt, wait: DurabilityWait, reply: Any) -> None:
    """Wait for durability on the connection of a script that has run. If that fails, a repeated call gets the stored
    reply of the script."""
    attempt.maybe = attempt.maybe or wait.changed(reply)
    rounds, answer = wait.rounds(reply), None
    with suppress(StopIteration):
        while True:
            answer = connection.exchange(rounds.send(answer))
