"""``python -m bench``: measure, print the tables, keep the figures in build/bench."""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from pathlib import Path

from bench import envs, report
from bench.adapters import PEERS, UNIT
from bench.adapters.base import WORKS
from bench.runner import Results, Section, run
from bench.server import OPTIONS, Server

ABOUT = """\
Every figure is divided by that of the raw list (LPUSH, LMOVE, LREM through redis-py and hiredis) in the same
round; then median (minimum-maximum) over the rounds. Body 200 bytes, properties about 100. One server without
persistence, one process, one connection, no-op work. One core: server and client share it, so the figure is
the cost of the code. Two cores: one each, so that every round trip also wakes the other core."""


def sections(quick: bool, peers: tuple[str, ...], rounds: int | None) -> list[Section]:
    """What is measured: quick, or in full."""
    if quick:
        return [Section("rates", peers, WORKS, rounds or 3, 2_000)]
    deep = tuple(peer for peer in peers if peer in (UNIT, "streams", "mqredis"))
    return [
        Section("rates", peers, WORKS, rounds or 5, 3_000),
        Section("rates, two cores", peers, WORKS, rounds or 3, 3_000, place="two cores"),
        Section("memory", peers, ("memory",), 1, 20_000),
        *(
            Section(f"backlog {backlog:,}", deep, ("send", "receive"), 3, 3_000, backlog=backlog)
            for backlog in (1_000, 100_000, 1_000_000)
        ),
    ]


def main() -> None:
    """Parse, run, report."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="mqredis beside its peers.")
    parser.add_argument("--quick", action="store_true", help="the fastest peers, three rounds, below 90 s")
    parser.add_argument("--peers", help="only these, separated by semicolons: " + "; ".join(PEERS))
    parser.add_argument("--rounds", type=int, help="how many rounds")
    parser.add_argument("--seconds", type=float, default=600, help="begin no further round after this time")
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
        redis_version = server.wire.info("server").get("redis_version", "?")
    document = {
        "about": ABOUT,
        "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": {"system": platform.platform(), "cores": os.cpu_count(), "load": os.getloadavg()},
        "server": {"version": redis_version, **OPTIONS},
        "versions": {name: envs.versions(name) for name in sorted(environments)},
        "peers": results.peers,
        "rows": results.rows,
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
