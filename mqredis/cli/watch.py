"""``mqredis top``: a live view of the queues."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

from mqredis.cli.common import Arguments, Output, Subparsers, command, open_manager
from mqredis.cli.exits import Exit
from mqredis.client import QueueManager
from mqredis.errors import IoTimeout, MqError
from mqredis.models import Access, QueueInfo

COLUMNS = ("queue", "ready", "delayed", "locked", "bytes", "change_per_s", "waiters", "oldest_s")


def register(subparsers: Subparsers) -> None:
    """Add the command."""
    top = command(subparsers, "top", "watch the queues", _top)
    top.add_argument("pattern", nargs="?", help="only queues that match this glob")
    top.add_argument("--interval", type=float, default=1.0, metavar="SECONDS")
    top.add_argument("--count", type=int, default=0, help="end after so many views (default: never)")


def _top(arguments: Arguments, output: Output) -> Exit:
    interval = max(0.05, arguments.interval)
    live = sys.stdout.isatty() and not output.json_lines
    with open_manager(arguments) as qm:
        views = _views(qm, arguments.pattern, time.monotonic)
        for number, (head, rows) in enumerate(views, 1):
            if live:
                print("\x1b[H\x1b[2J", end="")
            if output.json_lines:
                output.line("", **head, queues=rows)
            else:
                print("  ".join(f"{name} {value}" for name, value in head.items()))
                output.rows(rows, COLUMNS)
            print(end="", flush=True)
            if arguments.count and number >= arguments.count:
                break
            time.sleep(interval)
    return Exit.DONE


View = tuple[dict[str, Any], list[dict[str, Any]]]


def _views(qm: QueueManager, pattern: str | None, clock: Callable[[], float]) -> Iterator[View]:
    """The manager and its queues, again and again; rates are against the view before."""
    before: dict[str, int] = {}
    history, then = -1, clock()
    while True:
        info, now = qm.info(), clock()
        passed = now - then
        queues = qm.queues(pattern)
        rows = [_row(qm, queue, before, passed) for queue in queues]
        changes = (info.history - history) / passed if history >= 0 and passed > 0 else 0.0
        head = {
            "manager": info.name,
            "messages": info.messages,
            "bytes": info.bytes,
            "sessions": info.sessions,
            "throttled": info.throttled,
            "changes_per_s": round(changes, 1),
        }
        before, history, then = {queue.name: queue.messages for queue in queues}, info.history, now
        yield head, rows


def _row(qm: QueueManager, queue: QueueInfo, before: dict[str, int], passed: float) -> dict[str, Any]:
    change = queue.messages - before[queue.name] if queue.name in before else 0
    return {
        "queue": queue.name,
        "ready": queue.ready,
        "delayed": queue.delayed,
        "locked": queue.locked,
        "bytes": queue.bytes,
        "change_per_s": round(change / passed, 1) if passed > 0 else 0.0,
        "waiters": queue.waiters,
        "oldest_s": _oldest(qm, queue),
    }


def _oldest(qm: QueueManager, queue: QueueInfo) -> float | None:
    """How long the message that is next has been there, in seconds; None if none is available."""
    if not queue.ready:
        return None
    try:
        with qm.open(queue.name, Access.PEEK) as handle:
            message = handle.peek(0)
    except (IoTimeout, MqError):
        return None
    return round(max(0.0, (datetime.now(UTC) - message.arrived_at).total_seconds()), 1)
