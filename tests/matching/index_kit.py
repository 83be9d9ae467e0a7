"""A queue manager whose indexes are not built yet, and access to the contents of the indexes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mqredis
from mqredis import Match, Outgoing
from mqredis.commands import read
from mqredis.commands.filters import Filter
from mqredis.steps import perform
from tests.matching.kit import drain
from tests.support.counts import header, set_reach

C = Match(correlation_id="c")
TEXT = Filter(C).text()
# Fields that make a message more than one with a correlation id.
SPECIAL: list[dict[str, Any]] = [
    {},
    {"message_id": "m"},
    {"time_to_be_received": 600.0},
    {"group_id": "g"},
    {"message_id": "m", "group_id": "g"},
]


@dataclass
class Kit:
    """Queue ``q``, and ``t``, which is transactional."""

    qm: mqredis.QueueManager
    raw: Any

    @property
    def meta(self) -> str:
        return f"mq:{{{self.qm.name}}}:meta"

    def key(self, queue: str, part: str) -> str:
        (key,) = self.raw.keys(f"mq:*:q:{queue}:{part}")
        return str(key.decode())

    def indexed_up_to(self, queue: str = "q") -> str:
        """The id up to which the index is complete; the correlation id instead if the message still exists."""
        upto = self.raw.hget(self.key(queue, "q"), "index")
        record = self.raw.hget(self.key(queue, "m"), upto) if self.raw.keys(f"mq:*:q:{queue}:m") else None
        assert header(self.raw, self.key(queue, "q")).config.rpartition(b"|")[2] == upto
        return str((record.partition(b"\3c")[2][1:].partition(b"\0")[0] if record else upto).decode())

    def set_index_fields(self, index: str, upto: str | None = None) -> None:
        """Set the fields ``index`` and ``index_at`` of queue q, which say how far its index is complete."""
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

    def build_index(self, queue: str = "q") -> None:
        """Bring the index up to date, by a search that finds nothing."""
        assert drain(self.qm.open(queue), match=Match(correlation_id="nobody")) == []

    def peek_once(self, place: str = "", text: bytes = TEXT) -> tuple[list[bytes], str]:
        """Make one peek call; return the bodies, and the place at which the search continues."""
        address = self.qm.open("q")._handle.address
        cursor, step = ("A" + place, "after") if place else ("", "current")
        found = self.qm.run(perform(read.peek(address, 1, cursor=cursor, step=step, match=text)))
        return [raw[2].rpartition(b"\0")[2] for raw in found.messages], found.place


def named(*names: str, **more: Any) -> list[Outgoing]:
    """Messages with a correlation id, which is their body as well."""
    return [Outgoing(body=name.encode(), correlation_id=name, **more) for name in names]


def numbered(start: int, stop: int) -> list[Outgoing]:
    return named(*(f"n{number}" for number in range(start, stop)))
