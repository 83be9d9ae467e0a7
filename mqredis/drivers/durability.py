"""The wait for a level of durability that follows the script of a :class:`Durable` step.

``durable_calls`` and its asyncio twin make one for a step, and send what ``rounds`` yields; ``attempt`` packs the first
command behind the call. Both drivers share it.

WAIT and WAITAOF wait for the writes of their own connection, so they follow the script on its connection. A repeated
call writes its stored reply again (lua/core/context.lua): without a write of its own a connection would not wait.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any

from mqredis.commands.arguments import READS
from mqredis.drivers.net.wire import packed_command
from mqredis.models import Durability
from mqredis.operations.durability import changes
from mqredis.operations.durability.levels import IMPLIED
from mqredis.settings import Settings
from mqredis.steps import Durable


class DurabilityWait:
    """The wait that follows one call."""

    __slots__ = ("command", "deadline", "durable", "run_id", "settings")

    def __init__(self, durable: Durable, settings: Settings) -> None:
        self.durable = durable
        self.settings = settings
        # "WAIT", "WAITAOF" or IMPLIED (the server's settings give the level already); None if the server that answers
        # now has no command for the level.
        self.command: str | None = None
        # The server that has this command. A call that reaches another one finds its command first.
        self.run_id = ""
        # When to stop waiting, on the monotonic clock; 0 before the first request of a try.
        self.deadline = 0.0

    @property
    def sent_with_call(self) -> bool:
        """Is the command sent together with the script? Not with a read, which may have found and changed nothing."""
        return self.command not in (None, IMPLIED) and self.durable.call.script not in READS

    def first_request(self) -> bytes:
        """Pack the command that follows the script. The time begins with each try of the call, since a try that was
        refused or lost has changed nothing that could have become durable meanwhile."""
        self.deadline = time.monotonic() + self.settings.durability_seconds
        return self.request()

    def request(self) -> bytes:
        """Pack the command. It waits less long than a reply may take, and is repeated until the time is over."""
        left = max(self.deadline - time.monotonic(), 0.001)
        limit = str(max(1, int(min(left, self.settings.reply_timeout_seconds / 2) * 1000)))
        replicas = "0" if self.durable.level == Durability.FSYNC else str(self.settings.durability_replicas)
        if self.command == "WAIT":
            return packed_command(("WAIT", replicas, limit))
        return packed_command(("WAITAOF", "1", replicas, limit))

    def rounds(self, reply: Any) -> Generator[bytes, Any, None]:
        """Yield the requests that follow the script's reply (an empty one: only read a reply); each is answered with
        its reply. At the end ``durable.fell_short_at`` tells how the wait has ended."""
        if self.command == IMPLIED or not self.changed(reply):
            if self.sent_with_call:
                yield b""  # the reply of the command, which is not used
            return
        self.durable.fell_short_at = Durability.MEMORY
        if self.command is None:
            return
        answer = yield b"" if self.sent_with_call else self.first_request()
        while not self._note(answer) and time.monotonic() < self.deadline:
            answer = yield self.request()

    def changed(self, reply: Any) -> bool:
        """Has the script with this reply changed anything?"""
        return changes.changed(self.durable.call, int(reply[0]))

    def _note(self, answer: Any) -> bool:
        """Note in the step how far the change has come, by this reply of WAIT or WAITAOF. True: it is far enough."""
        level = self.durable.level
        on_disk, replicas = (0, answer) if self.command == "WAIT" else answer
        is_on_disk = int(on_disk) >= 1
        self.durable.replicas = int(replicas)
        disk_suffices = is_on_disk or level == Durability.REPLICA
        replicas_suffice = level == Durability.FSYNC or int(replicas) >= self.settings.durability_replicas
        if disk_suffices and replicas_suffice:
            self.durable.fell_short_at = None
            return True
        self.durable.fell_short_at = Durability.FSYNC if is_on_disk else Durability.MEMORY
        return False
