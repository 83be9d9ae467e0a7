"""One peer in a process of its own: takes orders on stdin, answers with measurements, JSON in lines.

An order names the work and its size; the answer has the time, the processor time of both sides, and what the
server counted. An error is answered as ``{"error": text}``.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import random
import sys
import time
import traceback
from typing import Any
from urllib.parse import urlsplit

from bench.adapters.base import Peer
from bench.server import Wire, pin


def measure(peer: Peer, wire: Wire, order: dict[str, Any]) -> dict[str, Any]:
    """Open the peer, do what is ordered, close it. The orders of one process alone begin on an empty server."""
    job = {"memory": memory, "deep": deep, "arrivals": arrivals, "spaced": spaced, "lives": lives}
    if order["work"] not in ("arrivals", "spaced", "lives"):
        wire.flush()
    peer.open()
    try:
        return job.get(order["work"], plain)(peer, wire, order)
    finally:
        peer.close()


def plain(peer: Peer, wire: Wire, order: dict[str, Any]) -> dict[str, Any]:
    """One kind of work on a queue that holds just enough messages, after a warm-up."""
    work, count, warm, size = order["work"], order["count"], order["warm"], order["size"]
    if not work.startswith("send"):
        peer.fill(0, count + warm)
    run(peer, work, 0, warm, size)
    return timed(peer, wire, work, warm, count, size)


def timed(peer: Peer, wire: Wire, work: str, first: int, count: int, size: int) -> dict[str, Any]:
    """Time, processor time of both sides, and what the server counted for each message."""
    wire.ask("CONFIG", "RESETSTAT")
    look = wire.own_cost()
    gc.collect()
    before, cpu, start = wire.counters(), time.process_time(), time.perf_counter()
    run(peer, work, first, count, size)
    seconds, cpu, done = time.perf_counter() - start, time.process_time() - cpu, wire.counters()
    used = done - before
    return {
        "count": count,
        "seconds": seconds,
        "client_cpu": cpu,
        "server_cpu": used.cpu - look.cpu,
        "reads": (used.reads - look.reads) / count,
        "commands": (used.commands - look.commands) / count,
        "bytes_in": (used.bytes_in - look.bytes_in) / count,
        "bytes_out": (used.bytes_out - look.bytes_out) / count,
        "script_seconds": wire.script_seconds(),
    }


def run(peer: Peer, work: str, first: int, count: int, size: int) -> None:
    """Do ``count`` pieces of one kind of work."""
    what = [first, count] if work.startswith("send") else [count]
    getattr(peer, work)(*what, *([size] if work.endswith("_batch") else []))


def deep(peer: Peer, wire: Wire, order: dict[str, Any]) -> dict[str, Any]:
    """Send, receive (and seek, where the peer can) on top of a backlog, which stays as long as it was."""
    count = order["count"]
    found: dict[str, list[dict[str, Any]]] = {}
    peer.fill(0, order["backlog"])
    for number in range(order["rounds"] + 1):
        rows = {}
        for work in ("send", "receive", "seek"):
            if work in ("send", "receive") or hasattr(peer, work):
                rows[work] = timed(peer, wire, work, order["backlog"] + number * count, count, 1)
        found = {work: [*found.get(work, []), row] for work, row in rows.items()}
    return {"rows": {work: rows[1:] for work, rows in found.items()}}  # the first round warms up


def memory(peer: Peer, wire: Wire, order: dict[str, Any]) -> dict[str, Any]:
    """Bytes of the server's memory for each queued message."""
    peer.fill(0, 1000)
    before = wire.counters().memory
    peer.fill(1000, order["count"])
    return {"count": order["count"], "bytes": (wire.counters().memory - before) / order["count"]}


def arrivals(peer: Peer, _: Wire, order: dict[str, Any]) -> dict[str, Any]:
    """Wait for messages and tell when each came."""
    return {"times": getattr(peer, "arrivals")(order["count"], order["waiters"])}  # noqa: B009


def spaced(peer: Peer, _: Wire, order: dict[str, Any]) -> dict[str, Any]:
    """Send messages with pauses of 20 to 60 ms and tell when each call began."""
    pauses, times = random.Random(order["count"]), []
    for number in range(order["count"]):
        time.sleep(pauses.uniform(0.02, 0.06))
        times.append(time.monotonic())
        peer.send(number, 1)
    return {"times": times}


def lives(peer: Peer, _: Wire, order: dict[str, Any]) -> dict[str, Any]:
    """Send so many, then receive as many, beside other processes that do the same."""
    count, size = order["count"], order["size"]
    start, cpu = time.monotonic(), time.process_time()
    run(peer, "send_batch" if size > 1 else "send", 0, count, size)
    run(peer, "receive_batch" if size > 1 else "receive", 0, count, size)
    return {"start": start, "stop": time.monotonic(), "client_cpu": time.process_time() - cpu, "count": count}


def main() -> None:
    """Serve orders until stdin ends."""
    module, cls, url = sys.argv[1:4]
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print must not get between the answers
    peer_class: type[Peer] = getattr(importlib.import_module(f"bench.adapters.{module}"), cls)
    wire = Wire(urlsplit(url).port or 6379)
    peer = peer_class(url)
    hello = {"works": peer.works, "settings": peer.settings, "acknowledges": peer.acknowledges}
    answers.write(json.dumps(hello) + "\n")
    for line in sys.stdin:
        order = json.loads(line)
        if order["cores"]:
            pin(os.getpid(), set(order["cores"]))
        try:
            answer = measure(peer, wire, order)
        except Exception as error:  # noqa: BLE001 (whatever a peer raises belongs into the report)
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
