"""Measures peers in turn, round by round, so that changes of the machine's speed affect all of them alike.

``bench.__main__`` calls it, and ``waiting`` takes ``Process``. ``child`` and peers/bullmq.mjs read the orders of a
``Process``; ``report`` reads the rows by their keys.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import envs
from bench.peers import Entry
from bench.server import Server, pin

# Seconds after which a peer that does not answer is ended.
PATIENCE = 120.0
# Messages before those that count.
WARM = 300
BATCH = 100
_START = time.monotonic()

Row = dict[str, Any]


@dataclass(frozen=True)
class Candidate:
    """A peer in one shape, perhaps from another checkout."""

    name: str
    entry: Entry
    shape: str = "b"
    size: int = 200
    """Bytes of the body."""
    checkout: Path | None = None
    """A folder whose ``mqredis`` is measured instead of this one's."""


def tell(text: str) -> None:
    """Show progress on standard error."""
    print(f"[{time.monotonic() - _START:5.0f} s] {text}", file=sys.stderr, flush=True)


class Process:
    """The process of one candidate."""

    def __init__(self, candidate: Candidate, url: str, core: int) -> None:
        arguments = [url, candidate.shape, str(candidate.size)]
        self.process = subprocess.Popen(
            [*envs.command(candidate.entry), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if os.environ.get("MQREDIS_BENCH_DEBUG") else subprocess.DEVNULL,
            env=envs.variables(candidate.checkout),
            cwd="/",  # `python -m` searches the current folder first, which has an mqredis of its own
            text=True,
        )
        pin(self.process.pid, {core})

    def order(self, work: str, **arguments: Any) -> Row:
        """Give the process one order. Returns its measurement, or ``{"error": ...}``."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with suppress(BrokenPipeError):  # the missing answer is the error
            self.process.stdin.write(json.dumps({"work": work, **arguments}) + "\n")
            self.process.stdin.flush()
        patience = threading.Timer(PATIENCE, self.process.kill)
        patience.start()
        try:
            line = self.process.stdout.readline()
        finally:
            patience.cancel()
        answer: Row = json.loads(line) if line else {"error": "the process has ended"}
        return answer

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@contextmanager
def opened(candidate: Candidate, server: Server, core: int) -> Iterator[Process]:
    """A process of the candidate that is connected to an empty server. Raises RuntimeError if it cannot start."""
    server.flush()
    process = Process(candidate, server.url, core)
    try:
        if error := process.order("open").get("error"):
            raise RuntimeError(f"{candidate.name} does not start: {error}")
        yield process
        process.order("close")
    finally:
        process.close()


def run(server: Server, candidates: Sequence[Candidate], rounds: int, count: int) -> list[Row]:
    """Measure all candidates; one row for each candidate, work and round. ``count``: messages for each work.

    Server and client run on one core, so the rate is the cost of the code on both sides.
    """
    server.pin({0})
    rows: list[Row] = []
    for number in range(rounds):
        tell(f"round {number + 1} of {rounds}")
        place = number * max(1, len(candidates) // rounds) % len(candidates)
        for candidate in (*candidates[place:], *candidates[:place]):
            who = {"round": number, "peer": candidate.name, "shape": candidate.shape, "bytes": candidate.size}
            try:
                with opened(candidate, server, 0) as process:
                    rows += [{**who, **row} for row in _works(server, process, candidate, count)]
            except RuntimeError as error:
                rows.append({**who, "work": "start", "error": str(error)})
    return rows


def _works(server: Server, process: Process, candidate: Candidate, count: int) -> Iterator[Row]:
    count = max(BATCH, int(count * candidate.entry.share) // BATCH * BATCH)
    warm = WARM if candidate.entry.share == 1 else BATCH
    for work in candidate.entry.works:
        batch = {"size": BATCH} if work.endswith("_batch") else {}
        sends, drains = work.startswith("send"), work == "drain"
        if not sends:
            fill = "fill_source" if work == "transact" else "fill"
            process.order(fill, first=0, count=count + warm)
        if not drains:
            process.order(work, **({"first": 0} if sends else {}), count=warm, **batch)
        before = server.cpu()
        first = {"first": warm} if sends else {}
        answer = process.order(work, **first, count=count + warm if drains else count, **batch)
        used = server.cpu() - before
        if "error" in answer:
            yield {"work": work, "error": answer["error"]}
            continue
        if drains:  # the worker's start does not count
            times, every = answer["times"], count + warm
            seconds = times[-1] - times[warm - 1]
            cpu = (answer["cpu"] / every, used / every)
        else:
            seconds, cpu = answer["seconds"], (answer["cpu"] / count, used / count)
        yield {"work": work, "rate": count / seconds, "client_us": cpu[0] * 1e6, "server_us": cpu[1] * 1e6}


def memory(server: Server, candidates: Sequence[Candidate], count: int) -> list[Row]:
    """Bytes of the server's memory for each queued message."""
    rows = []
    for candidate in candidates:
        many = int(count * candidate.entry.share)
        with opened(candidate, server, 0) as process:
            process.order("fill", first=0, count=1_000)
            before = server.memory()
            process.order("fill", first=1_000, count=many)
            used = (server.memory() - before) / many
        rows.append({"peer": candidate.name, "shape": candidate.shape, "memory": used})
    return rows
