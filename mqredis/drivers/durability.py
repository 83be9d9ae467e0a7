"""The wait for a level of durability behind the script of a :class:`Durable` step.

WAIT and WAITAOF wait for what the same connection has written, so they follow the script on its connection. A call that
is repeated writes its stored reply again (lua/core/context.lua): a connection that had written nothing would have
nothing to wait for.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from mqredis.drivers.net.wire import packed_command
from mqredis.errors import BrokerRefused, UnsafeServer
from mqredis.models import Durability
from mqredis.operations.durability import changes
from mqredis.operations.durability.levels import IMPLIED, wait_command
from mqredis.settings import Settings
from mqredis.steps import Durable, Reply

if TYPE_CHECKING:
    from mqredis.drivers.aio import AsyncDriver
    from mqredis.drivers.attempt import Attempt
    from mqredis.drivers.net.pool import Connection
    from mqredis.drivers.net.pool_aio import AsyncConnection
    from mqredis.drivers.session import Run
    from mqredis.drivers.sync import Driver


class DurabilityWait:
    """The wait behind one call."""

    __slots__ = ("command", "deadline", "durable", "local", "replicas", "settings")

    def __init__(self, durable: Durable, command: str, settings: Settings) -> None:
        self.durable = durable
        self.settings = settings
        #: "WAIT", "WAITAOF" or IMPLIED; "" if the server that answers now has no command for the level.
        self.command = command
        self.deadline = 0.0
        self.local = 0
        self.replicas = 0

    @property
    def sent_with_call(self) -> bool:
        """Is the command sent together with the script? Not behind a read, which may find nothing to wait for."""
        return self.command not in ("", IMPLIED) and self.durable.call.script not in changes.READS

    def request(self) -> bytes:
        """The packed command. It waits for less than a reply may take, and is repeated until the time is over."""
        if not self.deadline:
            self.deadline = time.monotonic() + self.settings.durability_seconds
        left = max(self.deadline - time.monotonic(), 0.001)
        limit = str(max(1, int(min(left, self.settings.reply_timeout_seconds / 2) * 1000)))
        replicas = "0" if self.durable.level == Durability.FSYNC else str(self.settings.durability_replicas)
        if self.command == "WAIT":
            return packed_command(("WAIT", replicas, limit))
        return packed_command(("WAITAOF", "1", replicas, limit))

    def rounds(self, reply: Any) -> Generator[list[bytes], Any, None]:
        """Yield what to send next behind the script's reply (an empty list: only read), and take the answers."""
        if self.command == IMPLIED or not self.changed(reply):
            if self.sent_with_call:
                yield []
            return
        self.durable.reached = Durability.MEMORY
        if not self.command:
            return
        answer = yield [] if self.sent_with_call else [self.request()]
        while not self._enough(answer) and time.monotonic() < self.deadline:
            answer = yield [self.request()]

    def changed(self, reply: Any) -> bool:
        """Has the script with this reply changed anything?"""
        return changes.changed(self.durable.call, int(reply[0]))

    def _enough(self, answer: Any) -> bool:
        level, need = self.durable.level, self.settings.durability_replicas
        if self.command == "WAIT":
            self.replicas = int(answer)
        else:
            self.local, self.replicas = int(answer[0]), int(answer[1])
        local = level == Durability.REPLICA or self.local >= 1
        done = local and (level == Durability.FSYNC or self.replicas >= need)
        self.durable.replicas = self.replicas
        self.durable.reached = None if done else Durability.FSYNC if self.local >= 1 else Durability.MEMORY
        return done


def call_durably(driver: Driver, step: Durable, run: Run) -> Reply:
    """Make a call whose change has to get further than the memory of the primary."""
    if step.level == Durability.MEMORY:
        return driver.call(step.call, run)
    wait = DurabilityWait(step, _command(driver, step.level), driver.settings)
    answer = driver.call(step.call, run, wait)
    step.token = run.slot.latest()
    return answer


def _command(driver: Driver, level: Durability) -> str:
    known = (driver.core.run_id, level)
    if known not in driver.core.wait_commands:
        driver.core.wait_commands[known] = driver.ask(wait_command(level, driver.settings.appendfsync_always))
    return driver.core.wait_commands[known]


def change_server(driver: Driver, attempt: Attempt, wait: DurabilityWait) -> None:
    """Find the command of another server that answers now. If the change may be done, the server is not refused."""
    try:
        wait.command = _command(driver, wait.durable.level)
    except (UnsafeServer, BrokerRefused):
        if not attempt.maybe:
            raise
        wait.command = ""


def follow(link: Connection, attempt: Attempt, wait: DurabilityWait, reply: Any) -> None:
    """Wait behind a script on its connection. The script has run: if the wait fails, a repeated call finds that."""
    attempt.maybe = attempt.maybe or wait.changed(reply)
    rounds, answer = wait.rounds(reply), None
    with suppress(StopIteration):
        while True:
            answer = link.exchange(rounds.send(answer))


# ---- asyncio -------------------------------------------------------------------------------------


async def acall_durably(driver: AsyncDriver, step: Durable, run: Run) -> Reply:
    """``call_durably`` for tasks."""
    if step.level == Durability.MEMORY:
        return await driver.call(step.call, run)
    wait = DurabilityWait(step, await _acommand(driver, step.level), driver.settings)
    answer = await driver.call(step.call, run, wait)
    step.token = run.slot.latest()
    return answer


async def _acommand(driver: AsyncDriver, level: Durability) -> str:
    known = (driver.core.run_id, level)
    if known not in driver.core.wait_commands:
        driver.core.wait_commands[known] = await driver.ask(
            wait_command(level, driver.settings.appendfsync_always)
        )
    return driver.core.wait_commands[known]


async def achange_server(driver: AsyncDriver, attempt: Attempt, wait: DurabilityWait) -> None:
    """``change_server`` for tasks."""
    try:
        wait.command = await _acommand(driver, wait.durable.level)
    except (UnsafeServer, BrokerRefused):
        if not attempt.maybe:
            raise
        wait.command = ""


async def afollow(link: AsyncConnection, attempt: Attempt, wait: DurabilityWait, reply: Any) -> None:
    """``follow`` for tasks."""
    attempt.maybe = attempt.maybe or wait.changed(reply)
    rounds, answer = wait.rounds(reply), None
    with suppress(StopIteration):
        while True:
            answer = await link.exchange(rounds.send(answer))
