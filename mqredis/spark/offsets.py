"""Offsets of a streaming read, as Spark keeps them in its checkpoint.

The streaming readers and ``planning`` use it.

An offset of a receiving query names the query (``owner``: ``consumerName``, or the id of the checkpoint), the id of
the checkpoint (``lineage``), and for each queue the sequence of the last claim with what was planned for that claim,
so that a restarted driver asks for the same claim. An offset of a browsing query holds the last SequentialID of each
queue.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from mqredis.spark.connection import SourceError

# Of the form of both kinds of offsets. Checkpoints of users hold offsets, so a release must read those of earlier ones:
# give a new field a default in ``parse``, as "a" has, and raise this number only if that is not possible.
VERSION = 1


@dataclass
class Plan:
    """Where a receiving query is in one queue."""

    sequence: int = 0
    """That of the last claim planned."""
    initial: int = 0
    """The sequence before the first claim of this checkpoint."""
    wanted: int = 0
    """How many messages that claim takes at most."""
    most_bytes: int = 0
    """How many bytes it takes at most; 0: no limit."""
    bound: str = ""
    """The claim takes nothing behind this SequentialID (AvailableNow); "": no limit."""
    generation: str = ""
    """Of the queue, which differs if it was deleted and created again."""
    after: str = ""
    """The query takes nothing up to this SequentialID (startingPosition)."""

    @property
    def has_claim(self) -> bool:
        """Was a claim of this checkpoint planned?"""
        return self.sequence > self.initial

    def json(self) -> dict[str, Any]:
        """For the offset log."""
        return {
            "s": self.sequence,
            "i": self.initial,
            "n": self.wanted,
            "z": self.most_bytes,
            "b": self.bound,
            "g": self.generation,
            "a": self.after,
        }

    @classmethod
    def parse(cls, value: dict[str, Any]) -> Plan:
        """From the offset log."""
        sequence, initial, wanted, most_bytes = (int(value[key]) for key in "sinz")
        texts = (str(value["b"]), str(value["g"]), str(value.get("a", "")))
        return cls(sequence, initial, wanted, most_bytes, *texts)


@dataclass
class Offset:
    """An offset of a receiving query."""

    owner: str
    lineage: str
    queues: dict[str, Plan] = field(default_factory=dict)

    def new_claims(self, start: Offset) -> dict[str, Plan]:
        """The queues of which this offset plans a claim that ``start`` does not plan.

        A driver that starts again in the first batch gives an initial offset of another lineage as the start, which
        says nothing of the claims.
        """
        known = start.queues if start.lineage == self.lineage else {}
        return {
            key: plan
            for key, plan in self.queues.items()
            if plan.sequence > (known[key].sequence if key in known else plan.initial)
        }

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
        queues = {key: Plan.parse(plan) for key, plan in value["queues"].items()}
        return cls(str(value["owner"]), str(value["lineage"]), queues)


@dataclass
class BrowseOffset:
    """An offset of a browsing query: the last SequentialID of each queue that the query has shown."""

    lineage: str
    positions: dict[str, int]

    def json(self) -> dict[str, Any]:
        """For the offset log."""
        queues = dict(sorted(self.positions.items()))
        return {"v": VERSION, "mode": "browse", "lineage": self.lineage, "queues": queues}

    @classmethod
    def parse(cls, value: dict[str, Any]) -> BrowseOffset:
        """From the offset log."""
        _check(value, "browse")
        positions = {key: int(position) for key, position in value["queues"].items()}
        return cls(str(value["lineage"]), positions)


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
