"""Offsets of a streaming read, as Spark keeps them in its checkpoint.

A receiving query's offset names the owner and its lineage (which checkpoint), and for each queue the sequence
of its last claim with what was planned for it, so that a restarted driver asks for the very same claim. A
browsing query's offset is the last SequentialID of each queue.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from mqredis.spark.connection import SourceError

VERSION = 1


@dataclass
class Plan:
    """Where a receiving query is in one queue."""

    sequence: int = 0  # of the last claim planned
    first: int = 0  # sequence before the first claim of this lineage
    wanted: int = 0
    most_bytes: int = 0  # 0: no limit
    bound: str = ""
    generation: str = ""

    def json(self) -> dict[str, Any]:
        """For the offset log."""
        return {
            "s": self.sequence,
            "i": self.first,
            "n": self.wanted,
            "z": self.most_bytes,
            "b": self.bound,
            "g": self.generation,
        }


@dataclass
class Offset:
    """An offset of a receiving query."""

    owner: str
    lineage: str
    queues: dict[str, Plan] = field(default_factory=dict)

    def json(self) -> dict[str, Any]:
        """For the offset log."""
        queues = {key: plan.json() for key, plan in sorted(self.queues.items())}
        return {
            "v": VERSION,
            "mode": "receive",
            "owner": self.owner,
            "lineage": self.lineage,
            "queues": queues,
        }

    @classmethod
    def parse(cls, value: dict[str, Any]) -> Offset:
        """From the offset log."""
        _check(value, "receive")
        queues = {
            key: Plan(int(p["s"]), int(p["i"]), int(p["n"]), int(p["z"]), str(p["b"]), str(p["g"]))
            for key, p in value["queues"].items()
        }
        return cls(str(value["owner"]), str(value["lineage"]), queues)


def browse_json(positions: dict[str, int]) -> dict[str, Any]:
    """The offset of a browsing query."""
    return {"v": VERSION, "mode": "browse", "queues": dict(sorted(positions.items()))}


def browse_parse(value: dict[str, Any]) -> dict[str, int]:
    """Positions of a browsing query."""
    _check(value, "browse")
    return {key: int(position) for key, position in value["queues"].items()}


def _check(value: dict[str, Any], mode: str) -> None:
    if value.get("v") != VERSION or "queues" not in value:
        raise SourceError(
            f"mqredis: the checkpoint holds an offset this version cannot read: {str(value)[:200]}"
        )
    if value.get("mode") != mode:
        raise SourceError(
            f"mqredis: the checkpoint belongs to a query with readMode={value.get('mode')}, not {mode}; "
            "use another checkpoint"
        )


def check_queues(known: set[str], wanted: set[str], pattern: bool) -> None:
    """Refuse a checkpoint whose queues are not those that the options name."""
    gone, new = known - wanted, wanted - known
    if gone or (new and not pattern):
        changes = [
            f"without {', '.join(sorted(gone))}" if gone else "",
            f"with {', '.join(sorted(new))}" if new else "",
        ]
        raise SourceError(
            "mqredis: the query was started with other queues than its checkpoint knows: "
            f"{' and '.join(change for change in changes if change)}. Restore the list, or use a new checkpoint"
        )
