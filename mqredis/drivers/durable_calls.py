# Generated from mqredis/drivers/durable_calls_aio.py by tools/generate_blocking.py. Do not edit: run `make format`.
"""Calls whose change has to reach a level of durability.

``calls`` hands it each Durable step (``operations.durability.wrapper`` makes them), and the tries of a call that
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
    from mqredis.drivers.calls import Calls
    from mqredis.drivers.net.pool import Connection
    from mqredis.drivers.session import Run


def call_durably(driver: Calls, step: Durable, run: Run) -> Reply:
    """Make a call, and wait until its change has reached the level of ``step``."""
    if step.level == Durability.MEMORY:
        return driver.call(step.call, run)
    wait = DurabilityWait(step, driver.settings)
    _find_wait_command(driver, wait)
    answer = driver.call(step.call, run, wait)
    step.token = run.slot.latest()
    return answer


def _find_wait_command(driver: Calls, wait: DurabilityWait) -> None:
    """Find the command by which the server of the present session waits, and note it with the run_id of that server."""
    core, level = driver.core, wait.durable.level
    while True:
        run_id = core.run_id
        command = core.wait_commands.get((run_id, level))
        if command is None:
            command = driver.ask(wait_command(level, driver.settings.appendfsync_always))
            if core.run_id != run_id:
                continue  # another caller has opened the session at another server: which of them answered?
            core.wait_commands[run_id, level] = command
        wait.command, wait.run_id = command, run_id
        return


def renew_wait_command(driver: Calls, attempt: Attempt, wait: DurabilityWait) -> None:
    """Find the wait command again, since the session is at another server now.

    Raises UnsafeServer or BrokerRefused if that server has none, unless the call may have been carried out already.
    """
    try:
        _find_wait_command(driver, wait)
    except (UnsafeServer, BrokerRefused):
        if not attempt.may_have_run:
            raise
        wait.command, wait.run_id = None, driver.core.run_id


def wait_for_durability(connection: Connection, attempt: Attempt, wait: DurabilityWait, reply: Any) -> None:
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
            answer = connection.exchange(rounds.send(answer))
