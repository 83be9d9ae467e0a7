"""Statistics of queues over time (lua/core/statistics.lua): periods of the last day, of which each is some buckets.

``QueueManager`` makes them, and the console's charts and ``mqredis stats --history`` show them. The first period may
begin before ``since``, and then has only its buckets from ``since`` on. A new number in a period needs
lua/core/statistics.lua, lua/stats_history.lua, ``codec.history``, ``_row`` in commands/history.py, ``HistoryPeriod``,
HISTORY in cli/admin.py, and COUNTS in console/charts.py with its template.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import datetime, timedelta

from mqredis import keys
from mqredis.codec.history import BUCKET_MS, KEPT, Counters, Item
from mqredis.commands import history as commands
from mqredis.commands.history import HistoryRow, HistoryRows
from mqredis.errors import InvalidArgument, QueueNotFound
from mqredis.keys import path_of
from mqredis.models.inspection import HistoryPeriod, QueueHistory
from mqredis.models.text import time_at
from mqredis.operations import checks
from mqredis.operations.context import Context
from mqredis.steps import Steps, perform, procedure

BUCKET_SECONDS = BUCKET_MS // 1000


@procedure
def history(context: Context, name: object, since: object, step: object) -> Steps[QueueHistory]:
    """The history of one queue; arguments as of ``histories``. Raises QueueNotFound."""
    path = path_of(name)
    found = yield from histories(context, [path], since, step)
    if path in found:
        return found[path]
    if keys.is_system_queue(path):
        return QueueHistory(path, _step(step) * BUCKET_SECONDS, ())
    raise QueueNotFound(f"there is no queue {path!r}")


@procedure
def histories(context: Context, names: object, since: object, step: object) -> Steps[dict[str, QueueHistory]]:
    """The histories of those of these queues that exist, by name.

    ``since``: a timedelta back from the broker's time, a datetime with a time zone, or None: the last day. ``step``:
    the length of a period in seconds, a multiple of 300. Raises InvalidArgument, InvalidName.
    """
    paths = [path_of(name) for name in checks.several(names, "queues")]
    buckets, joined = _buckets(since), _step(step)
    found: dict[str, QueueHistory] = {}
    at = 0
    while at < len(paths):
        chunk = paths[at : at + commands.QUEUES]
        told = yield from perform(commands.history(context.keys, chunk, buckets))
        for path, row in zip(chunk, told.rows, strict=False):
            if row is not None:
                periods = tuple(_periods(row, told, _first(since, told), joined))
                found[path] = QueueHistory(path, joined * BUCKET_SECONDS, periods)
        at += len(told.rows)
    return found


def _step(step: object) -> int:
    """Buckets of a period. Raises InvalidArgument."""
    seconds = checks.count(step, "step", KEPT * BUCKET_SECONDS)
    if seconds % BUCKET_SECONDS:
        raise InvalidArgument(f"step must be a multiple of {BUCKET_SECONDS} seconds, not {seconds}")
    return seconds // BUCKET_SECONDS


def _buckets(since: object) -> int:
    """How many buckets that have ended have to be read. Raises InvalidArgument.

    For a datetime all are read: the time of the broker is known only from the reply.
    """
    if isinstance(since, timedelta):
        seconds = checks.seconds(since.total_seconds(), "since", positive=True)
        return min(KEPT, math.ceil(seconds / BUCKET_SECONDS))
    if since is not None and (not isinstance(since, datetime) or since.tzinfo is None):
        raise InvalidArgument(
            f"since must be a timedelta, a datetime with a time zone or None, not {since!r:.60}"
        )
    return KEPT


def _first(since: object, told: HistoryRows) -> int:
    """The first bucket that is wanted: the one that ``since`` lies in."""
    start = told.now_ms - KEPT * BUCKET_MS
    if isinstance(since, timedelta):
        start = max(start, told.now_ms - round(since.total_seconds() * 1000))
    elif isinstance(since, datetime):
        start = max(start, round(since.timestamp() * 1000) + told.lead_ms)
    return start // BUCKET_MS


def _items(row: HistoryRow, present: int, now_ms: int) -> Iterator[tuple[int, Item]]:
    """Each bucket that is known, with its number: those that were written, and those since then."""
    history = row.history
    if history is None:
        return
    first = history.bucket - len(history.items)
    yield from enumerate(history.items, first)
    counted = row.now.since(history.before)
    for bucket in range(history.bucket, present + 1):
        age = (min((bucket + 1) * BUCKET_MS, now_ms) - row.arrival_ms) // 1000
        yield bucket, Item(counted, max(0, age) if row.arrival_ms >= 0 else None)
        counted = Counters()


def _periods(row: HistoryRow, told: HistoryRows, first: int, joined: int) -> Iterator[HistoryPeriod]:
    """The buckets from ``first`` on, ``joined`` of them in a period."""
    present = told.now_ms // BUCKET_MS
    items = [(number, item) for number, item in _items(row, present, told.now_ms) if number >= first]
    growth = sum(item.counted.came - item.counted.left for _, item in items)
    messages = row.now.came - row.now.left - growth  # as many as there were when the first bucket began
    at = 0
    while at < len(items):
        start = items[at][0] // joined
        part = [item for number, item in items[at : at + joined] if number // joined == start]
        counts = [item.counted for item in part]
        came, went = sum(count.came for count in counts), sum(count.left for count in counts)
        messages += came - went
        ages = [item.age for item in part if item.age is not None]
        yield HistoryPeriod(
            start=time_at(start * joined * BUCKET_MS - told.lead_ms),
            messages_in=came,
            messages_out=went,
            failed=sum(count.failed for count in counts),
            retried=sum(count.retried for count in counts),
            messages=messages,
            oldest_seconds=max(ages) if ages else None,
            complete=(start + 1) * joined <= present,
        )
        at += len(part)
