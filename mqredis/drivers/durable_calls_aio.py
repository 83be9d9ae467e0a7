# mqredis/drivers/durable_calls.py is generated from this file: run `make format` after a change.
"""Calls whose change has to reach a level of durability.

``calls_aio`` hands it each Durable step (``operations.durability.wrapper`` makes them), and the tries of a call that
waits. ``drivers.durability`` says what is sent.
"""

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
    wait = DurabilityWait(step, driver.settings)
    await _find_wait_command(driver, wait)
    answer = await driver.call(step.call, run, wait)
    step.token = run.slot.latest()
    return answer


async def _find_wait_command(driver: AsyncCalls, wait: DurabilityWait) -> None:
    """Find the command by which the server of the present session waits, and note it with the run_id of that server."""
    core, level = driver.core, wait.durable.level
    while True:
        run_id = core.run_id
        command = core.wait_commands.get((run_id, level))
        if command is None:
            command = await driver.ask(wait_command(level, driver.settings.appendfsync_always))
            if core.run_id != run_id:
                continue  # another caller has opened the session at another server: which of them answered?
            core.wait_commands[run_id, level] = command
        wait.command, wait.run_id = command, run_id
        return


async def renew_wait_command(driver: AsyncCalls, attempt: Attempt, wait: DurabilityWait) -> None:
    """Find the wait command again, since the session is at another server now.

    Raises UnsafeServer or BrokerRefused if that server has none, unless the call may have been carried out already.
    """
    try:
        await _find_wait_command(driver, wait)
    except (UnsafeServer, BrokerRefused):
        if not attempt.may_have_run:
            raise
        wait.command, wait.run_id = None, driver.core.run_id


async def wait_for_durability(
    connection: AsyncConnection, attempt: Attempt, wait: DurabilityWait, reply: Any
) -> None:
    """Wait for durability on the connection of a script that has run. If that fails, a repeated call gets the stored
    reply of the script.

    The caller has sent the first request behind the script, so both replies may be read together. Nothing may be
    awaited before the first exchange here, which waits for the second: a ``PipelinedConnection`` fails on a reply
    for which no future waits.
    """
    attempt.may_have_run = attempt.may_have_run or wait.changed(reply)
    # The generator yields requests and is sent their replies. It is shared with the other interface, so it cannot
    # exchange them itself, and a `for` loop could not send it anything.
    rounds, answer = wait.rounds(reply), None
    with suppress(StopIteration):
        while True:
            answer = await connection.exchange(rounds.send(answer))
