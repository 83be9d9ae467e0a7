"""``python -m bench``: measure, print the tables, keep the figures in build/bench, write the page."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from bench import cluster, company, envs, goals, ladder, merge, page, report, shots
from bench.adapters import FLOOR, PEERS, SCRIPTS, UNIT, WAKED
from bench.adapters.base import WORKS
from bench.runner import Results, Section, run, tell
from bench.server import OPTIONS, Server

ABOUT = """\
Every figure is divided by that of the raw list (LPUSH, LMOVE, LREM through redis-py and hiredis) in the same
round; then median (minimum-maximum) over the rounds. Body 200 bytes, properties about 100. One server without
persistence, one process, one connection, no-op work. One core: server and client share it, so the figure is
the cost of the code. Two cores: one each, so that every round trip also wakes the other core."""

SYSTEM = f"{platform.system()} {'.'.join(platform.release().split('.')[:2])}"
LEFT_OUT = "left out: the time was over"
LOOPS = tuple(work for work in WORKS if work != "drain")
#: Whoever is measured in company.
READERS = [
    (UNIT, 1),
    (WAKED, 1),
    ("mqredis worker", 1),
    ("mqredis asyncio", 1),
    ("mqredis asyncio", 500),
]
MORE_READERS = [("streams", 1), ("mqredis", 1), ("mqredis asyncio", 10), ("mqredis asyncio", 100)]
SIZES = {
    "backlog": [1_000, 10_000, 100_000, 1_000_000],
    "queues": [1, 10, 100, 1_000],
    "transactions": [0, 10, 100, 1_000],
    "bytes": [100, 1_000, 10_000, 100_000, 1_000_000],
}
APART = "loops on two cores"
#: The parts, and of the time what each has for itself if none takes longer.
SHARES = {
    "loops on one core": 0.34,
    "workers on one core": 0.07,
    "workers on two cores": 0.07,
    "waiting readers": 0.22,
    "idle readers": 0.10,
    "many processes": 0.20,
    "memory": 0.06,
    "cluster": 0.05,
    "growth, backlog": 0.10,  # a million takes its time to fill
    "growth, queues": 0.02,
    "growth, transactions": 0.02,
    "growth, bytes": 0.02,
    APART: 0.06,
}


@dataclass
class Run:
    """What one run measures, and what came of it."""

    server: Server
    peers: tuple[str, ...]
    quick: bool
    rounds: int | None
    results: Results = field(default_factory=Results)
    company: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def loops(self, seconds: float) -> None:
        """All peers, every kind of work, one core."""
        peers = tuple(peer for peer in self.peers if not PEERS[peer].worker)
        count, rounds = (600, 2) if self.quick else (2_500, 5)
        self._run(Section("rates", peers, LOOPS, self.rounds or rounds, count, seconds=seconds))

    def loops_apart(self, seconds: float) -> None:
        """The fastest of them again, on two cores."""
        steps = (peer for peer in self.peers if PEERS[peer].quick and not PEERS[peer].step)
        peers = tuple(peer for peer in steps if not PEERS[peer].worker)
        section = Section("rates", peers, LOOPS, self.rounds or 3, 2_500, "two cores", seconds=seconds)
        self._run(section)

    def workers(self, place: str, seconds: float) -> None:
        """Workers draining a queue."""
        peers = (UNIT, *(peer for peer in self.peers if PEERS[peer].worker or peer == "streams"))
        count, rounds = (1_000, 1) if self.quick else (3_000, 5)
        section = Section("workers", peers, ("drain",), self.rounds or rounds, count, place, seconds=seconds)
        self._run(section)

    def memory(self, seconds: float) -> None:
        """Memory of a queued message."""
        others = (peer for peer in self.peers if not (PEERS[peer].step or PEERS[peer].alike))
        peers = tuple(peer for peer in others if not PEERS[peer].worker)
        self._run(Section("memory", peers, ("memory",), 1, 1_000 if self.quick else 5_000, seconds=seconds))

    def _run(self, section: Section) -> None:
        run(self.server, section, self.results)

    def wakes(self, seconds: float) -> None:
        """Waiting readers."""
        readers = [reader for reader in READERS if reader[0] in (*self.peers, WAKED)]
        rounds, turns = (1, 1) if self.quick else (4, 4)
        rows = company.wakes(readers, self.rounds or rounds, turns, seconds)
        if not self.quick:
            more = [reader for reader in MORE_READERS if reader[0] in self.peers]
            rows += company.wakes(more, 1, turns, seconds)
        self.company["wakes"] = rows

    def idle(self, _: float) -> None:
        """A hundred readers in a process that wait in vain."""
        # What is done every five or six seconds comes in bursts: of half a minute chance decides how many it holds.
        span = 3.0 if self.quick else 60.0
        with (
            Server() as other,
            ThreadPoolExecutor() as pool,
        ):  # each kind has a server of its own, which counts for it
            places = (self.server, "mqredis asyncio"), (other, "mqredis worker")
            found = [pool.submit(company.idle, *place, 100, span) for place in places]
            self.company["idle"] = [row.result() for row in found]

    def crowd(self, seconds: float) -> None:
        """Sixteen processes on one server."""
        processes, turn, rounds = (4, 0.3, 1) if self.quick else (16, 1.2, 5)
        calls = {1: 2_000, 100: 40} if self.quick else {1: 20_000, 100: 400}
        some = [company.Crowd(peer, processes, (self.server,)) for peer in (UNIT, FLOOR, SCRIPTS, "mqredis")]
        start = time.monotonic()
        self.company["crowd"] = company.crowds(some, turn, rounds, 0.85 * seconds)
        left = seconds - (time.monotonic() - start)
        self.company["shots"] = shots.shots(self.server, calls, rounds, left)

    def shards(self, seconds: float) -> None:
        """A cluster of three nodes."""
        rounds, turn = (1, 0.3) if self.quick else (3, 1.0)
        self.company["shards"] = cluster.shards(rounds, turn, seconds)

    def growth(self, axis: str, seconds: float) -> None:
        """What grows."""
        sizes = SIZES[axis][:2] if self.quick else SIZES[axis]
        tell(f"growth: {axis}")
        # The page shows the worst operation of a backlog: of few rounds that would be the unluckiest.
        rounds = 1 if self.quick else 15 if axis == "backlog" else 7
        rows = company.growth(self.server, axis, sizes, rounds, seconds)
        self.company.setdefault("growth", []).extend(rows)

    def parts(self) -> list[tuple[str, float, Callable[[float], None]]]:
        """Name, share of the time and work of each part, the most important first."""
        works: dict[str, Callable[[float], None]] = {
            "loops on one core": self.loops,
            "workers on one core": lambda seconds: self.workers("one core", seconds),
            "workers on two cores": lambda seconds: self.workers("two cores", seconds),
            "waiting readers": self.wakes,
            "idle readers": self.idle,
            "many processes": self.crowd,
            "memory": self.memory,
            "cluster": self.shards,
            APART: self.loops_apart,
        }
        works |= {f"growth, {axis}": partial(self.growth, axis) for axis in SIZES}
        return [
            (name, share, works[name]) for name, share in SHARES.items() if not (self.quick and name == APART)
        ]


def measure(this: Run, seconds: float, chosen: Sequence[str] = ()) -> dict[str, str]:
    """Every part in its turn, or those chosen in their part of the time. One that fails is told, and the others go on.

    What one takes longer than its share is taken from all that follow, which make fewer rounds; when the time is over
    all the same the rest is left out, and that is told, too."""
    failed: dict[str, str] = {}
    every = this.parts()
    left = [part for part in every if not chosen or part[0] in chosen]
    seconds *= sum(share for _, share, _ in left) / sum(share for _, share, _ in every)
    start = time.monotonic()
    while left:
        name, share, part = left[0]
        rest = seconds - (time.monotonic() - start)
        budget = max(rest, 0.0) * share / sum(share for _, share, _ in left)
        del left[0]
        if rest < 0 and not chosen:
            failed[name] = LEFT_OUT
            continue
        tell(f"{name}: {budget:.0f} seconds")
        try:
            part(budget)
        except Exception as error:  # noqa: BLE001 (the figures of the others must not be lost)
            traceback.print_exc()
            failed[name] = f"{type(error).__name__}: {error}"
    return failed


def _used_by_others() -> float:
    """Seconds of processors that all but this process and what it has started and waited for have used."""
    words = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    user, nice, system, _idle, _waiting, *interrupts = (int(word) for word in words[1:9])
    own = os.times()
    busy = (user + nice + system + sum(interrupts)) / os.sysconf("SC_CLK_TCK")
    return busy - (own.user + own.system + own.children_user + own.children_system)


def main() -> None:
    """Parse, run, report."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="mqredis beside its peers.")
    parser.add_argument("--quick", action="store_true", help="the fastest peers, about a minute")
    parser.add_argument("--peers", help="only these, separated by semicolons: " + "; ".join(PEERS))
    parser.add_argument(
        "--parts", help="only these parts, separated by semicolons, put into the last figures"
    )
    parser.add_argument("--rounds", type=int, help="how many rounds")
    parser.add_argument(
        "--seconds",
        type=float,
        default=720,
        help="of a whole run: each part has its share; none begins after it",
    )
    parser.add_argument("--alone", action="store_true", help="only the loops of one process")
    parser.add_argument("--out", type=Path, default=Path("build/bench"), help="folder for results and tables")
    parser.add_argument("--page", type=Path, help="write this page (default of a full run: docs/bench.md)")
    options = parser.parse_args()
    names = [name.strip() for name in options.peers.split(";")] if options.peers else list(PEERS)
    unknown = set(names) - set(PEERS)
    if unknown:
        parser.error(f"no such peer: {', '.join(sorted(unknown))}")
    results = options.out / f"{'quick' if options.quick else 'full'}.json"
    parts = [part.strip() for part in options.parts.split(";")] if options.parts else []
    unknown = set(parts) - set(SHARES)
    if unknown:
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    if parts and not results.exists():
        parser.error(f"{results} is not there: nothing to put {', '.join(parts)} into")
    if options.quick and not options.peers:
        names = [name for name, entry in PEERS.items() if entry.quick]
    peers = tuple(dict.fromkeys([UNIT, *names]))
    environments = {PEERS[name].environment for name in peers}
    envs.ensure(environments)
    load, start, used = os.getloadavg(), time.monotonic(), _used_by_others()
    with Server() as server:
        this = Run(server, peers, options.quick, options.rounds)
        if options.alone:
            this.loops(options.seconds)
            failed: dict[str, str] = {}
        else:
            failed = measure(this, options.seconds, parts)
        redis_version = server.wire.info("server").get("redis_version", "?")
    document = {
        "about": ABOUT,
        "quick": options.quick,
        "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "seconds": time.monotonic() - start,
        "machine": {
            "system": SYSTEM,
            "cores": os.cpu_count(),
            "load": load,
            "others": (_used_by_others() - used) / (time.monotonic() - start),
        },
        "server": {"version": redis_version, **OPTIONS},
        "versions": {name: envs.versions(name) for name in sorted(environments)},
        "peers": this.results.peers,
        "rows": this.results.rows,
        "company": this.company,
        "failed": failed,
    }
    if parts:
        document = merge.merge(json.loads(results.read_text()), document, parts)
    options.out.mkdir(parents=True, exist_ok=True)
    results.write_text(json.dumps(document))
    text = f"{ABOUT}\n\n{report.report(document)}\n{ladder.table(document)}\n\n{goals.table(document)}\n"
    tables = results.with_suffix(".md")
    tables.write_text(text)
    print(text)
    for part, why in failed.items():
        print(f"not measured: {part}: {why}")
    print(f"figures: {results}, tables: {tables}")
    target = options.page or (
        None if options.quick or options.peers or options.alone else Path("docs/bench.md")
    )
    if target is not None:
        page.write(results.resolve(), target.resolve())
        print(f"page: {target}")
    sys.exit(1 if set(failed.values()) - {LEFT_OUT} else 0)


if __name__ == "__main__":
    main()
