"""``python -m bench``: measure, print the tables, keep the figures in build/bench."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from pathlib import Path
from typing import Any

from bench import company, envs, report
from bench.adapters import PEERS, UNIT
from bench.adapters.base import WORKS
from bench.runner import Results, Section, run
from bench.server import OPTIONS, Server

ABOUT = """\
Every figure is divided by that of the raw list (LPUSH, LMOVE, LREM through redis-py and hiredis) in the same
round; then median (minimum-maximum) over the rounds. Body 200 bytes, properties about 100. One server without
persistence, one process, one connection, no-op work. One core: server and client share it, so the figure is
the cost of the code. Two cores: one each, so that every round trip also wakes the other core."""


#: The peers that are also measured in company.
COMPANY = (UNIT, "streams", "mqredis")
BACKLOGS = (1_000, 100_000, 1_000_000)


def sections(quick: bool, peers: tuple[str, ...], rounds: int | None) -> list[Section]:
    """What is measured in loops of one process: quick, or in full."""
    if quick:
        return [Section("rates", peers, WORKS, rounds or 3, 2_000)]
    return [
        Section("rates", peers, WORKS, rounds or 5, 3_000),
        Section("rates, two cores", peers, WORKS, rounds or 3, 3_000, place="two cores"),
        Section("memory", peers, ("memory",), 1, 20_000),
    ]


def in_company(server: Server, peers: tuple[str, ...], quick: bool) -> dict[str, list[dict[str, Any]]]:
    """Waiting readers, many processes, long queues."""
    some = [peer for peer in COMPANY if peer in peers]
    many = "mqredis asyncio"
    tell("waiting readers")
    samples = 60 if quick else 300
    wakes = [company.wakes(server, peer, 1, samples) for peer in some]
    if many in peers:
        wakes += [company.wakes(server, many, waiters, samples) for waiters in ((1,) if quick else (1, 500))]
    if quick:
        return {"wakes": wakes}
    idle = [company.idle(server, many, waiters, 10) for waiters in (1, 100)] if many in peers else []
    tell("many processes")
    sizes = {1: 2_000, 100: 10_000}
    crowd = [company.crowd(server, peer, 16, count, size) for size, count in sizes.items() for peer in some]
    growth = []
    for backlog in BACKLOGS:
        tell(f"backlog {backlog:,}")
        for peer in some:
            growth += company.growth(server, peer, backlog, 2_000, 3)
    return {"wakes": wakes, "idle": idle, "crowd": crowd, "growth": growth}


def tell(what: str) -> None:
    """Show progress."""
    print(f"         {what}", file=sys.stderr)


def main() -> None:
    """Parse, run, report."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="mqredis beside its peers.")
    parser.add_argument("--quick", action="store_true", help="the fastest peers, three rounds, below 90 s")
    parser.add_argument("--peers", help="only these, separated by semicolons: " + "; ".join(PEERS))
    parser.add_argument("--rounds", type=int, help="how many rounds")
    parser.add_argument("--seconds", type=float, default=600, help="begin no further round after this time")
    parser.add_argument("--alone", action="store_true", help="only the loops of one process")
    parser.add_argument("--out", type=Path, default=Path("build/bench"), help="folder for results and tables")
    options = parser.parse_args()
    names = [name.strip() for name in options.peers.split(";")] if options.peers else list(PEERS)
    unknown = set(names) - set(PEERS)
    if unknown:
        parser.error(f"no such peer: {', '.join(sorted(unknown))}")
    if options.quick and not options.peers:
        names = [name for name, entry in PEERS.items() if entry.quick]
    peers = tuple(dict.fromkeys([UNIT, *names]))
    environments = {PEERS[name].environment for name in peers}
    envs.ensure(environments)
    results = Results()
    with Server() as server:
        run(server, sections(options.quick, peers, options.rounds), results, options.seconds)
        together = {} if options.alone else in_company(server, peers, options.quick)
        redis_version = server.wire.info("server").get("redis_version", "?")
    document = {
        "about": ABOUT,
        "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": {"system": platform.platform(), "cores": os.cpu_count(), "load": os.getloadavg()},
        "server": {"version": redis_version, **OPTIONS},
        "versions": {name: envs.versions(name) for name in sorted(environments)},
        "peers": results.peers,
        "rows": results.rows,
        "company": together,
    }
    options.out.mkdir(parents=True, exist_ok=True)
    name = "quick" if options.quick else "full"
    (options.out / f"{name}.json").write_text(json.dumps(document, indent=1))
    text = report.report(document)
    (options.out / f"{name}.md").write_text(text)
    print(text)
    print(f"figures: {options.out / name}.json, tables: {options.out / name}.md")


if __name__ == "__main__":
    main()
