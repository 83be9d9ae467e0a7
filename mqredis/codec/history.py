"""Statistics of a queue over time, as ``lua/core/statistics.lua`` writes them into a queue's hash.
``tests/contract/test_stored_texts.py`` compares both sides. A new counter needs what ``operations.history`` lists, and
a new schema number, since a text with another number of counters counts as damaged.

``commands.history``, ``operations.history`` and the doctor (``operations.doctor.checks.queues``) use it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

# The length of a bucket in ms, and how many that have ended a history keeps (queue.bucket and statistics.items in Lua).
BUCKET_MS, KEPT = 300_000, 288
_NUMBER = r"(?:-?[1-9a-z][0-9a-z]*)?"
_ITEMS = rf"(?:(?:{_NUMBER},{_NUMBER},{_NUMBER},{_NUMBER},{_NUMBER})?;)*"
_HISTORY = re.compile(rf"\d+ \d+ \d+ \d+ \d+ {_ITEMS}")


@dataclass(slots=True)
class Counters:
    """Messages that came, left, failed and were tried again: in a bucket, or since the queue was created."""

    came: int = 0
    left: int = 0
    failed: int = 0
    retried: int = 0

    def since(self, before: Counters) -> Counters:
        """What was counted after ``before``."""
        return Counters(
            self.came - before.came,
            self.left - before.left,
            self.failed - before.failed,
            self.retried - before.retried,
        )


@dataclass(slots=True)
class Item:
    """A bucket that has ended. ``age``: seconds of the oldest available message at its end; None if there was none."""

    counted: Counters
    age: int | None = None

    @classmethod
    def parse(cls, text: str) -> Item:
        """One without the semicolon behind it."""
        if not text:
            return cls(Counters())
        came, left, failed, retried, age = (int(part or "0", 36) for part in text.split(","))
        return cls(Counters(came, left, failed, retried), age - 1 if age else None)


@dataclass(slots=True)
class History:
    """The buckets of a queue."""

    bucket: int  # that is open: broker time in ms / BUCKET_MS
    before: Counters  # when it began
    items: list[Item] = field(default_factory=list)  # of the buckets before it, the last one at the end

    @classmethod
    def parse(cls, text: str) -> History:
        """Raises ValueError for any other text."""
        if not _HISTORY.fullmatch(text):
            raise ValueError(f"{text!r:.80} is not a valid history")
        bucket, came, left, failed, retried, items = text.split(" ")
        counters = Counters(int(came), int(left), int(failed), int(retried))
        return cls(int(bucket), counters, [Item.parse(item) for item in items.split(";")[:-1]])


def end_of(text: str) -> int | None:
    """When the open bucket of a stored text ends, in ms of broker time; None for any other text."""
    return (int(text.partition(" ")[0]) + 1) * BUCKET_MS if _HISTORY.fullmatch(text) else None
