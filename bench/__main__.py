"""``python -m bench``: measure mqredis beside its peers and write the tables of docs/bench.md.

``make bench`` and ``make bench-quick`` call it. docs/bench.md has a marker for each of PARTS
(tests/unit/test_bench_report.py compares). The rows of a part are kept in build/bench for the developer alone.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from bench import envs, growth, report
from bench.messages import SHAPES
from bench.peers import PEERS, UNIT, WORKERS
from bench.runner import Candidate, memory, run, tell
from bench.server import Server
from bench.waiting import delays

PAGE = Path("docs/bench.md")
RESULTS = Path("build/bench")
LONG = 1_000_000


@dataclass(frozen=True)
class Amount:
    """How much is measured."""

    rounds: int
    count: int
    """Messages of each peer and kind of work in a round."""
    turns: int
    """Messages of each waiting reader in a round."""
    backlog: int
    """Messages of the long backlog."""
    beside: str | None = None
    """Another commit that is measured in the part shapes."""


FULL, QUICK = Amount(5, 2_000, 4, LONG), Amount(1, 300, 1, 10_000)


def part_shapes(amount: Amount) -> str:
    """Each shape of a message, and another commit beside it."""
    other = amount.beside
    ours, unit = PEERS["mqredis"], Candidate(UNIT, PEERS[UNIT])
    candidates = [unit, *(Candidate("mqredis", ours, letter) for letter in SHAPES)]
    if other:
        candidates += [Candidate(other, ours, letter, checkout=envs.checkout(other)) for letter in "abcdef"]
    with Server() as server:
        rows = run(server, candidates, amount.rounds, amount.count)
    _keep("shapes", rows)
    text = report.shapes(rows)
    return f"{text}\nRates as ratios to commit {other}:\n\n{report.beside(rows, other)}" if other else text


def part_sizes(amount: Amount) -> str:
    """Bodies of several sizes."""
    candidates = [
        Candidate(name, PEERS[name], size=size) for size in (200, 4_096, 65_536) for name in (UNIT, "mqredis")
    ]
    with Server() as server:
        rows = run(server, candidates, amount.rounds, amount.count // 4)
    _keep("sizes", rows)
    return report.sizes(rows)


def part_peers(amount: Amount) -> str:
    """All peers, everything read."""
    with Server() as server:
        rows = run(server, [Candidate(*item) for item in PEERS.items()], amount.rounds, amount.count)
    _keep("peers", rows)
    return f"{report.peers(rows)}\n{report.ahead(rows)}\n"


def part_workers(amount: Amount) -> str:
    """Workers with empty handlers."""
    with Server() as server:
        rows = run(server, [Candidate(*item) for item in WORKERS.items()], amount.rounds, amount.count)
    _keep("workers", rows)
    return report.peers(rows)


def part_durable(amount: Amount) -> str:
    """The fastest peers on a server with an append-only file, ``appendfsync everysec``."""
    names = [UNIT, "streams", "mqredis", "dramatiq", "rq", "bullmq"]
    with Server({"appendonly": "yes", "appendfsync": "everysec"}) as server:
        rows = run(server, [Candidate(name, PEERS[name]) for name in names], amount.rounds, amount.count)
    _keep("durable", rows)
    return report.peers(rows)


def part_memory(amount: Amount) -> str:
    """Memory of a queued message."""
    names = [name for name in PEERS if "asyncio" not in name]
    candidates = [Candidate(name, PEERS[name]) for name in names]
    candidates += [Candidate("mqredis", PEERS["mqredis"], letter) for letter in "ace"]
    with Server() as server:
        rows = memory(server, candidates, 10 * amount.count)
    _keep("memory", rows)
    return report.memory(rows)


def part_waiting(amount: Amount) -> str:
    """Readers that wait."""
    readers = [Candidate(UNIT, WORKERS[UNIT]), Candidate("mqredis worker", WORKERS["mqredis worker"])]
    readers.append(Candidate("mqredis asyncio", PEERS["mqredis asyncio"]))
    rows = delays(readers, amount.rounds, amount.turns)
    _keep("waiting", rows)
    return report.delays(rows)


def part_growth(amount: Amount) -> str:
    """A long backlog against a short one."""
    sizes = [1_000, amount.backlog]
    with Server() as server:
        server.pin({0})
        found = growth.ratios(growth.measure(server, sizes, amount.rounds * 3, 200), sizes)
    _keep("growth", [{"operation": name, "ratio": ratio} for name, ratio in found.items()])
    head = ["operation", f"{sizes[1]:,} against {sizes[0]:,} messages, at most 1.15"]
    return report.table(head, ([name, f"{ratio:.2f}"] for name, ratio in found.items()))


# The parts of the page, by the names between whose markers their tables stand there.
PARTS: dict[str, Callable[[Amount], str]] = {
    "shapes": part_shapes,
    "sizes": part_sizes,
    "peers": part_peers,
    "workers": part_workers,
    "durable": part_durable,
    "memory": part_memory,
    "waiting": part_waiting,
    "growth": part_growth,
}
# The peers of a part, for their environments; of other parts only those of the environment "peers".
MEASURED = {"peers": PEERS, "workers": WORKERS, "durable": PEERS, "memory": PEERS}


def _keep(part: str, rows: list[report.Row]) -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{part}.json").write_text(json.dumps(rows))


def _replaced(page: str, part: str, text: str) -> str:
    """The page with the text between the markers of a part."""
    begin, end = f"<!-- {part} -->\n", f"<!-- end of {part} -->"
    before, found, rest = page.partition(begin)
    if not found:
        raise SystemExit(f"{PAGE} has no place for {part}: {begin.strip()}")
    return f"{before}{begin}\n{text}\n{end}{rest.partition(end)[2]}"


def about(seconds: float) -> str:
    """Date and machine of the last measurement."""
    load = os.getloadavg()[0]
    return (
        f"{time.strftime('%Y-%m-%d', time.gmtime())}, {platform.system()} on {platform.machine()}, "
        f"{os.cpu_count()} cores, Python {platform.python_version()}, {seconds:.0f} seconds, load {load:.1f}\n"
    )


def main() -> None:
    """Measure the parts and write the page, or print the tables."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one short round, nothing is written")
    parser.add_argument("--parts", default=",".join(PARTS), help="separated by commas (default: all)")
    parser.add_argument("--beside", metavar="COMMIT", help="measure this commit in the part shapes, too")
    parser.add_argument("--rounds", type=int, help="rounds of each part")
    options = parser.parse_args()
    parts = options.parts.split(",")
    if unknown := set(parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    amount = replace(QUICK if options.quick else FULL, beside=options.beside)
    if options.rounds:
        amount = replace(amount, rounds=options.rounds)
    envs.ensure({"peers"} | {e.environment for part in parts for e in MEASURED.get(part, {}).values()})
    for part in parts:
        tell(part)
        start = time.monotonic()
        text = PARTS[part](amount)
        text += f"\n{about(time.monotonic() - start)}"
        print(f"\n## {part}\n\n{text}")
        if not options.quick:
            PAGE.write_text(_replaced(PAGE.read_text(), part, text))


if __name__ == "__main__":
    main()
