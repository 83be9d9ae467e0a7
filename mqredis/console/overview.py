"""The state of all queues of a queue manager, of one moment."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mqredis.asyncio import QueueManager
from mqredis.keys import SYSTEM
from mqredis.models import ManagerInfo, QueueInfo

#: Subqueues in which messages wait that could not be handled.
POISON = ";poison"

#: What the overview can be sorted by.
COLUMNS = ("name", "ready", "delayed", "locked", "bytes", "waiters", "poison")


@dataclass(frozen=True)
class Row:
    """A queue in the overview."""

    info: QueueInfo
    #: Messages in ``;poison``.
    poison: int

    def value(self, column: str) -> str | int:
        """What the row is sorted by."""
        found: str | int = self.poison if column == "poison" else getattr(self.info, column)
        return found


@dataclass(frozen=True)
class Overview:
    """A queue manager and its queues."""

    manager: ManagerInfo
    queues: dict[str, QueueInfo]

    @classmethod
    async def read(cls, manager: QueueManager, before: Overview | None) -> Overview:  # noqa: ARG003
        """Read it from the broker."""
        info = await manager.info()
        return cls(info, {queue.name: queue for queue in await manager.queues()})

    @property
    def rows(self) -> list[Row]:
        """The queues of applications, without their subqueues and the queues of the system."""
        return [
            Row(queue, self.messages(queue.name + POISON))
            for queue in self.queues.values()
            if ";" not in queue.name
        ]

    @property
    def system(self) -> list[QueueInfo]:
        """The queues of the system: dead letters and the journal."""
        return [queue for queue in self.queues.values() if queue.name.startswith(f"{SYSTEM};")]

    def subqueues(self, name: str) -> list[QueueInfo]:
        """The subqueues of a queue."""
        return [queue for queue in self.queues.values() if queue.name.startswith(f"{name};")]

    def messages(self, name: str) -> int:
        """Number of messages in a queue; 0 if it does not exist."""
        return self.queues[name].messages if name in self.queues else 0


def arranged(rows: Iterable[Row], text: str, column: str, descending: bool) -> list[Row]:
    """The rows whose name or label contains the text, sorted."""
    wanted = text.casefold()
    found = [row for row in rows if wanted in row.info.name.casefold() or wanted in row.info.label.casefold()]
    found.sort(key=lambda row: row.info.name)
    if column in COLUMNS:
        found.sort(key=lambda row: row.value(column), reverse=descending)
    return found
