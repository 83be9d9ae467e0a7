"""The state of all queues of a queue manager, of one moment.

``shared`` reads it for all viewers, ``pages.overview`` shows it, and ``pages.failures``, ``holders``, ``scheduled`` and
``topics`` take the queues from it; templates/overview.html shows the fields of ``Row`` and of its ``QueueDepth``.
Applications' queues have no ";" in their names, those of the system begin with ``SYSTEM``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from time import monotonic

from mqredis.asyncio import QueueManager
from mqredis.keys import SYSTEM
from mqredis.models import ManagerInfo, QueueDepth

# What the overview can be sorted by: attributes of QueueDepth or Row. The heads of the table in templates/overview.html
# lead there; a test in tests/console/test_offers.py compares them.
COLUMNS = (
    "name", "ready", "delayed", "locked", "poison", "bytes", "rate_in", "rate_out", "oldest_seconds", "waiters"
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    """A queue, and its arrivals and departures per second since the last reading; None: this is the first one."""

    depth: QueueDepth
    rate_in: float | None = None
    rate_out: float | None = None

    def value(self, column: str) -> str | float:
        """What the row is sorted by."""
        found: str | float | None = getattr(self if column.startswith("rate") else self.depth, column)
        return -1 if found is None else found


@dataclass(frozen=True)
class Overview:
    """A queue manager and its queues."""

    manager: ManagerInfo
    queues: dict[str, Row]
    at: float = field(default_factory=monotonic)

    @classmethod
    async def read(cls, manager: QueueManager, before: Overview | None) -> Overview:
        """Read it from the broker, and compare it with the reading before."""
        info = await manager.info()
        now, known = monotonic(), before.queues if before is not None else {}
        passed = now - before.at if before is not None else 0.0
        rows = {
            depth.name: _row(depth, known[depth.name].depth if depth.name in known else None, passed)
            for depth in await manager.overview()
        }
        return cls(info, rows, now)

    @property
    def rows(self) -> list[Row]:
        """The queues of applications, without their subqueues and the queues of the system."""
        return [row for name, row in self.queues.items() if ";" not in name]

    @property
    def system(self) -> list[Row]:
        """The queues of the system, such as dead letters."""
        return [row for name, row in self.queues.items() if name.startswith(f"{SYSTEM};")]


def _row(depth: QueueDepth, before: QueueDepth | None, passed: float) -> Row:
    # A queue that was deleted and made again counts from 0.
    if before is None or passed <= 0 or depth.total_in < before.total_in:
        return Row(depth)
    came, left = depth.total_in - before.total_in, depth.total_out - before.total_out
    return Row(depth, came / passed, max(left, 0) / passed)


def arranged(rows: Iterable[Row], text: str, column: str, descending: bool) -> list[Row]:
    """The rows whose name contains the text, sorted."""
    wanted = text.casefold()
    found = [row for row in rows if wanted in row.depth.name.casefold()]
    found.sort(key=lambda row: row.depth.name)
    if column in COLUMNS:
        found.sort(key=lambda row: row.value(column), reverse=descending)
    return found
