"""How a change gets to a level: which command of this server waits for it, and what its answers mean.

WAIT and WAITAOF speak of what the same connection has written, so they follow the script on its connection. A call
that is repeated writes its stored reply again (core/context): a connection that wrote nothing would have nothing to
wait for.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any

from mqredis.commands import lasting
from mqredis.drivers.wire import bulk
from mqredis.models import Durability
from mqredis.operations.levels import IMPLIED
from mqredis.settings import Settings
from mqredis.steps import Durable


class Ack:
    """The wait behind one call."""

    __slots__ = ("deadline", "durable", "local", "replicas", "settings", "way")

    def __init__(self, durable: Durable, way: str, settings: Settings) -> None:
        self.durable = durable
        self.settings = settings
        #: "" where the server has no way to the level (any more).
        self.way = way
        self.deadline = 0.0
        self.local = 0
        self.replicas = 0

    @property
    def early(self) -> bool:
        """Is it sent together with the script? Not behind a read: without a message there is nothing to wait for."""
        return self.way not in ("", IMPLIED) and self.durable.call.script not in lasting.READS

    def request(self) -> bytes:
        """WAIT or WAITAOF. It waits for less than a reply may take, and is asked again until the time is over."""
        if not self.deadline:
            self.deadline = time.monotonic() + self.settings.durability_seconds
        left = max(self.deadline - time.monotonic(), 0.001)
        limit = b"%d" % max(1, int(min(left, self.settings.reply_timeout_seconds / 2) * 1000))
        replicas = b"%d" % (
            0 if self.durable.level == Durability.FSYNC else self.settings.durability_replicas
        )
        parts = [b"WAIT", replicas, limit] if self.way == "WAIT" else [b"WAITAOF", b"1", replicas, limit]
        return b"*%d\r\n%b" % (len(parts), b"".join(map(bulk, parts)))

    def rounds(self, reply: Any) -> Generator[list[bytes], Any, None]:
        """What to send next (nothing: only to read) behind the script's reply; is sent the answer."""
        if self.way == IMPLIED or not self.changed(reply):
            if self.early:
                yield []
            return
        self.durable.reached = Durability.MEMORY
        if not self.way:
            return
        answer = yield [] if self.early else [self.request()]
        while not self._enough(answer) and time.monotonic() < self.deadline:
            answer = yield [self.request()]

    def changed(self, reply: Any) -> bool:
        """Is there something to wait for behind this reply of the script?"""
        return lasting.changed(self.durable.call, int(reply[0]))

    def _enough(self, answer: Any) -> bool:
        level, need = self.durable.level, self.settings.durability_replicas
        if self.way == "WAIT":
            self.replicas = int(answer)
        else:
            self.local, self.replicas = int(answer[0]), int(answer[1])
        local = level == Durability.REPLICA or self.local >= 1
        done = local and (level == Durability.FSYNC or self.replicas >= need)
        self.durable.replicas = self.replicas
        self.durable.reached = None if done else Durability.FSYNC if self.local >= 1 else Durability.MEMORY
        return done
