"""One peer in a process of its own: takes orders on stdin, answers with measurements, JSON in lines.

An order is ``{"work", "count", "warm", "size"}``; the answer has the time, the processor time of both sides,
and what the server counted. An error is answered as ``{"error": text}``.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
import time
import traceback
from typing import Any
from urllib.parse import urlsplit

from bench.adapters.base import Peer
from bench.server import Wire, pin


def measure(peer: Peer, wire: Wire, order: dict[str, Any]) -> dict[str, Any]:
    """Open the peer on an empty server, warm it up, measure, close it."""
    work, count, warm, size = order["work"], order["count"], order["warm"], order["size"]
    wire.flush()
    peer.open()
    try:
        if work == "memory":
            return memory(peer, wire, count)
        backlog = order.get("backlog", 0)
        if backlog or not work.startswith("send"):
            peer.fill(0, backlog + (count + warm if not work.startswith("send") else 0))
        run(peer, work, 0, warm, size)
        wire.ask("CONFIG", "RESETSTAT")
        look = wire.own_cost()
        gc.collect()
        before, cpu, start = wire.counters(), time.process_time(), time.perf_counter()
        run(peer, work, warm, count, size)
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
    finally:
        peer.close()


def run(peer: Peer, work: str, first: int, count: int, size: int) -> None:
    """Do ``count`` pieces of one kind of work."""
    what = [first, count] if work.startswith("send") else [count]
    getattr(peer, work)(*what, *([size] if work.endswith("_batch") else []))


def memory(peer: Peer, wire: Wire, count: int) -> dict[str, Any]:
    """Bytes of the server's memory for each queued message."""
    peer.fill(0, 1000)
    before = wire.counters().memory
    peer.fill(1000, count)
    return {"count": count, "bytes": (wire.counters().memory - before) / count}


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
        pin(os.getpid(), set(order["cores"]))
        try:
            answer = measure(peer, wire, order)
        except Exception as error:  # noqa: BLE001 (whatever a peer raises belongs into the report)
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
