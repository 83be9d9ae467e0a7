"""stats_history.lua: statistics of queues over time.

``mqredis.operations.history`` calls it, whose head says what a new number needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mqredis.codec.history import Counters, History
from mqredis.commands.replies import check, number, text
from mqredis.keys import ManagerKeys
from mqredis.steps import Call, Payload

# Queues of a call at most. A large reply ends after fewer queues.
QUEUES = 128


@dataclass(slots=True)
class HistoryRow:
    """A queue's history, and its counters now."""

    now: Counters
    arrival_ms: int  # of the oldest available message; -1: none is available
    history: History | None  # None: nothing was written yet, or it cannot be read, which the doctor tells


@dataclass(slots=True)
class HistoryRows:
    """The histories of the first of the queues that were asked for; None for a queue that does not exist."""

    now_ms: int
    lead_ms: int  # how much of the broker time users are not shown (lua/core/context.lua)
    rows: list[HistoryRow | None]


def history(manager: ManagerKeys, paths: Sequence[str], buckets: int) -> Call[HistoryRows]:
    """The histories of these queues with so many ended buckets, for as many queues as one call returns."""

    def parse(status: int, payload: Payload) -> HistoryRows:
        check(status)
        now, lead, *rows = payload
        return HistoryRows(number(now), number(lead), [_row(text(row)) for row in rows])

    return Call("stats_history", manager.call(*paths), [str(buckets)], parse, changes=False)


def _row(row: str) -> HistoryRow | None:
    if not row:
        return None
    came, left, failed, retried, arrival, kept = row.split(" ", 5)
    counters = Counters(int(came), int(left), int(failed), int(retried))
    try:
        history = History.parse(kept)
    except ValueError:
        history = None
    return HistoryRow(counters, int(arrival), history)
