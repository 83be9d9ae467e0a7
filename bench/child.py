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
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from bench.adapters.base import Peer
from bench.server import Wire, pin


def measure(peer: Peer, wire: Wire, order: dict[str, Any]) -> dict[str, Any]:
    """Open the peer, do what is ordered, close it. The orders of one process alone begin on an empty server."""
    job = {
        "drain": drain,
        "memory": memory,
        "grow": grow,
        "arrivals": arrivals,
        "spaced": spaced,
    }
    work = order["work"]
    if work not in ("arrivals", "spaced"):
        wire.flush()
    peer.open()
    try:
        return job.get(work, plain)(peer, wire, order)
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


def drain(peer: Peer, wire: Wire, order: dict[str, Any]) -> dict[str, Any]:
    """A worker handles what is there: from the end of its first tasks to that of the last, without its start."""
    count, warm = order["count"], order["warm"]
    peer.fill(0, count + warm)
    before, cpu = wire.counters(), time.process_time()
    times = getattr(peer, "arrivals")(count + warm)  # noqa: B009 (only some peers have it)
    cpu, used = time.process_time() - cpu, wire.counters() - before
    every = count + warm
    return {
        "count": count,
        "seconds": times[-1] - times[warm - 1],
        "client_cpu": cpu * count / every,
        "server_cpu": used.cpu * count / every,
        "reads": used.reads / every,
        "commands": used.commands / every,
        "bytes_in": used.bytes_in / every,
        "bytes_out": used.bytes_out / every,
    }


def grow(peer: Peer, wire: Wire, order: dict[str, Any]) -> dict[str, Any]:
    """Every operation on queues of several sizes, or beside more and more of something else."""
    what = {name: order[name] for name in ("axis", "sizes", "rounds", "count", "seconds")}
    return {"rows": getattr(peer, "grow")(wire, **what)}  # noqa: B009 (only some peers have it)


def memory(peer: Peer, wire: Wire, order: dict[str, Any]) -> dict[str, Any]:
    """Bytes of the server's memory for each queued message."""
    # Enough for the tables of hashes to be filled as they are on the average, where that does not take too long.
    count = order["count"] * (10 if "send_batch" in peer.works else 1)
    peer.fill(0, 1000)
    before = wire.counters().memory
    peer.fill(1000, count)
    return {"count": count, "bytes": (wire.counters().memory - before) / count}


def arrivals(peer: Peer, _: Wire, order: dict[str, Any]) -> dict[str, Any]:
    """Wait for messages and tell when each came."""
    waiters = order["waiters"]
    if waiters != 1 and not peer.many:
        raise LookupError("one reader waits here")
    more = {"waiters": waiters} if peer.many else {}
    return {"times": getattr(peer, "arrivals")(order["count"], **more)}  # noqa: B009


def spaced(peer: Peer, wire: Wire, order: dict[str, Any]) -> dict[str, Any]:
    """Send messages with pauses of 10 to 30 ms and tell when each call began, and what the server did meanwhile."""
    pauses, times = random.Random(order["count"]), []
    wire.ask("CONFIG", "RESETSTAT")
    before = wire.counters()
    for number in range(order["count"]):
        time.sleep(pauses.uniform(0.01, 0.03))
        times.append(time.monotonic())
        peer.send(number, 1)
    time.sleep(0.1)  # for what follows the last one
    used = wire.counters() - before
    each = {"commands": used.commands, "scripts": wire.script_calls(), "server_us": used.cpu * 1e6}
    return {"times": times, **{name: value / order["count"] for name, value in each.items()}}


def ready(peer: Peer, order: dict[str, Any]) -> dict[str, Any]:
    """Open and make the first calls: what they cost is told by itself, and not counted with the lives."""
    peer.open()  # it stays so for the order to live
    cpu = time.process_time()
    _live(peer, order["count"], order["size"])
    return {"client_cpu": time.process_time() - cpu}


def lives(peer: Peer, order: dict[str, Any]) -> dict[str, Any]:
    """After the order to be ready: send so many and receive as many, again and again, from the moment agreed with
    other processes until another one. All are at work up to there: each goes on until its portion is through, and of
    that portion the part counts that lay before the end."""
    count, size, stop = order["count"], order["size"], order["until"]
    try:
        time.sleep(max(0.0, order["at"] - time.monotonic()))
        begun, cpu, done = time.monotonic(), time.process_time(), 0
        late, last, now = begun - order["at"], begun, begun
        while now < stop:
            last = now
            _live(peer, count, size)
            now, done = time.monotonic(), done + count
        cpu = time.process_time() - cpu
    finally:
        peer.close()
    if not done:
        raise TimeoutError(f"came to its turn {late:.1f} s late, when that was over")
    return {"lives": done - count * (now - stop) / (now - last), "all": done, "late": late, "client_cpu": cpu}


def _live(peer: Peer, count: int, size: int) -> None:
    run(peer, "send_batch" if size > 1 else "send", 0, count, size)
    run(peer, "receive_batch" if size > 1 else "receive", 0, count, size)


#: Orders to processes of which many live beside each other: without a look at the server, which their parent has.
TOGETHER = {"ready": ready, "lives": lives}


def main() -> None:
    """Serve orders until stdin ends."""
    module, cls, url = sys.argv[1:4]
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print must not get between the answers
    peer_class: type[Peer] = getattr(importlib.import_module(f"bench.adapters.{module}"), cls)
    # Of the node itself, where it is one of a cluster. Whoever only waits for the turn of its crowd has none.
    wire = cache(lambda: Wire(urlsplit(url).port or 6379))
    peer = peer_class(url)
    hello = {"works": peer.works, "settings": peer.settings, "acknowledges": peer.acknowledges}
    answers.write(json.dumps(hello) + "\n")
    for line in sys.stdin:
        order = json.loads(line)
        if order["cores"]:
            pin(os.getpid(), set(order["cores"]))
        try:
            together = TOGETHER.get(order["work"])
            answer = together(peer, order) if together else measure(peer, wire(), order)
        except Exception as error:  # noqa: BLE001 (whatever a peer raises belongs into the report)
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
