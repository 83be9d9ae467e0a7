"""``mqredis top``: a live view of the queues.

``cli.app`` adds the command. Columns and the head are the fields of ``--json``, too; docs/cli.md shows an example. Each
view takes a call for every queue.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from mqredis.cli.common import Arguments, Subparsers, command, open_manager
from mqredis.cli.figures import figure
from mqredis.cli.output import Output
from mqredis.client import QueueManager
from mqredis.errors import QueueNotFound
from mqredis.models import QueueStatistics

COLUMNS = ("queue", "ready", "delayed", "locked", "bytes", "in_per_s", "out_per_s", "waiters", "oldest_s")

# Seconds between two views at most; time.sleep refuses "inf".
_LONGEST = 86_400.0


def register(subparsers: Subparsers) -> None:
    """Add the command."""
    top = command(subparsers, "top", "watch the queues", _top)
    top.add_argument("pattern", nargs="?", help="only queues that match this glob")
    top.add_argument("--interval", type=float, default=1.0, metavar="SECONDS")
    top.add_argument("--count", type=int, default=0, help="end after so many views (default: never)")


def _top(arguments: Arguments, output: Output) -> None:
    interval = min(max(0.05, arguments.interval), _LONGEST)
    live = sys.stdout.isatty() and not output.json_lines
    with open_manager(arguments) as qm:
        views = _views(qm, arguments.pattern, time.monotonic)
        for number, (head, rows) in enumerate(views, 1):
            if live:
                print("\x1b[H\x1b[2J", end="")
            if output.json_lines:
                output.line("", **head, queues=rows)
            else:
                output.line("  ".join(f"{name} {figure(name, value)}" for name, value in head.items()))
                output.rows(rows, COLUMNS, figure)
            print(end="", flush=True)
            if arguments.count and number >= arguments.count:
                break
            time.sleep(interval)


View = tuple[dict[str, Any], list[dict[str, Any]]]


def _views(qm: QueueManager, pattern: str | None, clock: Callable[[], float]) -> Iterator[View]:
    """The manager and its queues, again and again; rates are against the view before."""
    before: dict[str, QueueStatistics] = {}
    history, then = -1, clock()
    while True:
        info, now = qm.info(), clock()
        passed = now - then
        queues = {each.name: each for each in _statistics(qm, pattern)}
        rows = [_row(queue, before.get(name), passed) for name, queue in queues.items()]
        changes = (info.history - history) / passed if history >= 0 and passed > 0 else 0.0
        head = {
            "manager": info.name,
            "messages": info.messages,
            "bytes": info.bytes,
            "sessions": info.sessions,
            "throttled": info.throttled,
            "changes_per_s": round(changes, 1),
        }
        before, history, then = queues, info.history, now
        yield head, rows


def _statistics(qm: QueueManager, pattern: str | None) -> Iterator[QueueStatistics]:
    for queue in qm.queues(pattern):
        with suppress(QueueNotFound):  # deleted meanwhile
            yield qm.statistics(queue.name)


def _row(queue: QueueStatistics, before: QueueStatistics | None, passed: float) -> dict[str, Any]:
    known = before if passed > 0 else None
    if known and (known.total_in > queue.total_in or known.total_out > queue.total_out):
        known = None  # it was deleted and created again
    return {
        "queue": queue.name,
        "ready": queue.ready,
        "delayed": queue.delayed,
        "locked": queue.locked,
        "bytes": queue.bytes,
        "in_per_s": round((queue.total_in - known.total_in) / passed, 1) if known else 0.0,
        "out_per_s": round((queue.total_out - known.total_out) / passed, 1) if known else 0.0,
        "waiters": queue.waiters,
        "oldest_s": round(max(queue.oldest_seconds.values()), 1) if queue.oldest_seconds else None,
    }
