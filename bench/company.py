"""What one loop in one process does not show: waiting readers, idle readers, many processes, long queues.

Each function returns rows for the report; :mod:`bench.runner` has the loops of one process.
"""

from __future__ import annotations

import os
import time
from contextlib import ExitStack, closing
from statistics import quantiles
from typing import Any

from bench.runner import Child
from bench.server import Server

Row = dict[str, Any]
#: Sent before the samples that count.
WARM = 20


def _everywhere(server: Server) -> None:
    server.pin(set(range(os.cpu_count() or 1)))


def wakes(server: Server, peer: str, waiters: int, samples: int) -> Row:
    """Milliseconds from a send to its arrival at one of so many waiting readers in another process; 20-60 ms
    lie between two sends. With it what the server did for each message."""
    _everywhere(server)
    server.wire.flush()
    with closing(Child(peer, server.url)) as reader, closing(Child(peer, server.url)) as writer:
        reader.begin(work="arrivals", count=samples + WARM, waiters=waiters, cores=[])
        _settled(server)
        server.wire.ask("CONFIG", "RESETSTAT")
        before = server.wire.counters()
        sent = writer.order(work="spaced", count=samples + WARM, cores=[])
        came = reader.answer()
        used = server.wire.counters() - before
        scripts = server.wire.script_calls()
    row: Row = {"peer": peer, "waiters": waiters}
    if "error" in sent or "error" in came:
        return {**row, "error": sent.get("error") or came.get("error")}
    waits = [(b - a) * 1e3 for a, b in zip(sent["times"], sorted(came["times"]), strict=True)][WARM:]
    cuts = quantiles(waits, n=100)
    return {
        **row,
        "p50": cuts[49],
        "p99": cuts[98],
        "max": max(waits),
        "scripts": scripts / (samples + WARM),
        "commands": used.commands / (samples + WARM),
        "server_us": used.cpu / (samples + WARM) * 1e6,
    }


def idle(server: Server, peer: str, waiters: int, seconds: float) -> Row:
    """Commands a second, and the share of a processor, that so many readers cost who wait in vain."""
    _everywhere(server)
    server.wire.flush()
    with closing(Child(peer, server.url)) as reader, closing(Child(peer, server.url)) as writer:
        reader.begin(work="arrivals", count=1, waiters=waiters, cores=[])
        _settled(server)
        look = server.wire.own_cost()
        before = server.wire.counters()
        time.sleep(seconds)
        used = server.wire.counters() - before
        writer.order(work="spaced", count=1, cores=[])
        reader.answer()
    commands = (used.commands - look.commands) / seconds
    return {"peer": peer, "waiters": waiters, "commands": commands, "server": used.cpu / seconds}


def _settled(server: Server) -> None:
    """Wait until the readers have connected and looked: until the server has nothing to do for a while."""
    seen, since = -1, time.monotonic()
    while time.monotonic() - since < 1.0:
        commands = server.wire.counters().commands
        if commands - seen > 20:
            since = time.monotonic()
        seen = commands
        time.sleep(0.1)


def crowd(server: Server, peer: str, processes: int, count: int, size: int) -> Row:
    """Whole lives a second of so many processes on one queue, and the share of the server's processor."""
    _everywhere(server)
    server.wire.flush()
    with ExitStack() as stack:
        children = [stack.enter_context(closing(Child(peer, server.url))) for _ in range(processes)]
        before = server.wire.counters()
        for child in children:
            child.begin(work="lives", count=count, size=size, cores=[])
        answers = [child.answer() for child in children]
        used = server.wire.counters() - before
    row: Row = {"peer": peer, "processes": processes, "size": size}
    failed = [answer["error"] for answer in answers if "error" in answer]
    if failed:
        return {**row, "error": failed[0]}
    seconds = max(answer["stop"] for answer in answers) - min(answer["start"] for answer in answers)
    return {**row, "lives": processes * count / seconds, "server": used.cpu / seconds}


def growth(server: Server, peer: str, backlog: int, count: int, rounds: int) -> list[Row]:
    """Each operation on top of a backlog, on one core."""
    server.pin({0})
    with closing(Child(peer, server.url)) as child:
        answer = child.order(work="deep", count=count, backlog=backlog, rounds=rounds, cores=[0])
    if "error" in answer:
        return [{"peer": peer, "backlog": backlog, "error": answer["error"]}]
    return [
        {"peer": peer, "backlog": backlog, "work": work, **row}
        for work, rows in answer["rows"].items()
        for row in rows
    ]
