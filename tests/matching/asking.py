"""A queue manager before the first search for an identifier, and the contents of its indexes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mqredis
from mqredis import Match, Outgoing
from mqredis.commands import read
from mqredis.commands.filters import Filter
from mqredis.steps import perform
from tests.matching.kit import drain
from tests.support.counts import line, set_reach

C = Match(correlation_id="c")
TEXT = Filter(C).text()
# What a message asks for so that it is more than named.
SPECIAL: list[dict[str, Any]] = [
    {},
    {"message_id": "m"},
    {"time_to_be_received": 600.0},
    {"group_id": "g"},
    {"message_id": "m", "group_id": "g"},
]


@dataclass
class Kit:
    """Queue ``q``, and ``t`` with transactions."""

    qm: mqredis.QueueManager
    raw: Any

    @property
    def meta(self) -> str:
        return f"mq:{{{self.qm.name}}}:meta"

    def key(self, queue: str, part: str) -> str:
        (key,) = self.raw.keys(f"mq:*:q:{queue}:{part}")
        return str(key.decode())

    def reach(self, queue: str = "q") -> str:
        """The id up to which the index has all; of a message that is there its correlation id."""
        upto = self.raw.hget(self.key(queue, "q"), "index")
        record = self.raw.hget(self.key(queue, "m"), upto) if self.raw.keys(f"mq:*:q:{queue}:m") else None
        assert line(self.raw, self.key(queue, "q")).config.rpartition(b"|")[2] == upto
        return str((record.partition(b"\3c")[2][1:].partition(b"\0")[0] if record else upto).decode())

    def say(self, index: str, upto: str | None = None) -> None:
        """Write into fields ``index`` and ``index_at`` of queue q how far its index reaches."""
        properties = self.key("q", "q")
        set_reach(self.raw, properties, index.encode())
        self.raw.hset(properties, "index", index)
        if upto is not None:
            self.raw.hset(properties, "index_at", upto)

    def indexed(self, queue: str = "q") -> list[str]:
        """The correlation ids in the index, one for each message."""
        keys = self.raw.keys(f"mq:*:q:{queue}:i")
        members = self.raw.zrange(keys[0], 0, -1) if keys else []
        return [name.partition(b"\0")[0][2:].decode() for name in members if name[:1] == b"c"]

    def ask(self, queue: str = "q") -> None:
        """Brings the index up to date, and finds nothing."""
        assert drain(self.qm.open(queue), match=Match(correlation_id="nobody")) == []

    def look(self, place: str = "", text: bytes = TEXT) -> tuple[list[bytes], str]:
        """One call of a peek: bodies, and where the search goes on."""
        address = self.qm.open("q")._handle.address
        cursor, step = ("A" + place, "after") if place else ("", "current")
        found = self.qm._run(perform(read.peek(address, 1, cursor=cursor, step=step, match=text)))
        return [raw[2].rpartition(b"\0")[2] for raw in found.messages], found.place


def named(*names: str, **more: Any) -> list[Outgoing]:
    """Messages with a correlation id, which is their body as well."""
    return [Outgoing(body=name.encode(), correlation_id=name, **more) for name in names]


def numbered(start: int, stop: int) -> list[Outgoing]:
    return named(*(f"n{number}" for number in range(start, stop)))
