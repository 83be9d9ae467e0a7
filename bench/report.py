"""The tables of a run, as Markdown: ``bench.__main__`` writes them into docs/bench.md.

``runner`` and ``waiting`` make the rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import median, quantiles
from typing import Any

from bench.messages import SHAPES
from bench.peers import PEERS, UNIT, WORKERS

Row = dict[str, Any]
# The title of each work.
TITLES = {
    "send": "send",
    "receive": "lock and settle",
    "send_batch": "send 100",
    "receive_batch": "lock and settle 100",
    "transact": "receive, send, commit",
    "drain": "worker",
}
# Goals by shape and work: rates as ratios to the raw list. docs/bench.md says which are met.
GOALS = {
    ("b", "send"): 0.85,
    ("b", "receive"): 1.4,
    ("b", "send_batch"): 0.5,
    ("b", "receive_batch"): 2.3,
    ("d", "send"): 0.8,
    ("d", "receive"): 1.35,
    ("d", "receive_batch"): 2.0,
    ("c", "send"): 0.65,
    ("c", "receive"): 1.25,
}
# The CPU of a shape divided by that of the plainest, at most.
CLIFFS = {"b": 1.25, "d": 1.25, "c": 1.6, "e": 1.6}


def ratio(rows: Sequence[Row], work: str, of: Row, to: Row, figure: str = "rate") -> list[float]:
    """A figure of the rows ``of`` divided by that of the rows ``to`` in the same round, one for each round."""

    def by_round(which: Row) -> dict[int, float]:
        return {
            row["round"]: row[figure]
            for row in rows
            if row["work"] == work and figure in row and all(row.get(key) == which[key] for key in which)
        }

    ours, theirs = by_round(of), by_round(to)
    return [ours[number] / theirs[number] for number in sorted(ours.keys() & theirs.keys())]


def spread(values: Sequence[float]) -> str:
    """Median, and minimum and maximum in brackets."""
    return f"{median(values):.2f} ({min(values):.2f}-{max(values):.2f})" if values else ""


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def with_cpu(rows: Iterable[Row]) -> list[Row]:
    """The rows with the CPU of client and server together as ``us``."""
    return [{**row, "us": row["client_us"] + row["server_us"]} if "rate" in row else row for row in rows]


def shapes(rows: Sequence[Row]) -> str:
    """Rates of each shape as ratios to the raw list, and CPU as ratios to shape a."""
    works = [work for work in TITLES if any(row["work"] == work and row["peer"] == "mqredis" for row in rows)]
    letters = sorted({row["shape"] for row in rows if row["peer"] == "mqredis" and row["bytes"] == 200})
    unit = {"peer": UNIT}

    def cell(letter: str, work: str) -> str:
        values = ratio(rows, work, {"peer": "mqredis", "shape": letter, "bytes": 200}, unit)
        goal = GOALS.get((letter, work))
        met = f", goal {goal} {'met' if values and median(values) >= goal else 'missed'}" if goal else ""
        return spread(values) + met

    def cpu(letter: str, work: str) -> str:
        ours = {"peer": "mqredis", "shape": letter, "bytes": 200}
        values = ratio(with_cpu(rows), work, ours, {"peer": "mqredis", "shape": "a", "bytes": 200}, "us")
        goal = CLIFFS.get(letter)
        met = f", at most {goal}: {'met' if values and median(values) <= goal else 'missed'}" if goal else ""
        return spread(values) + met

    head = ["shape", *(TITLES[work] for work in works)]
    rates = table(head, ([f"{x}: {SHAPES[x].about}", *(cell(x, w) for w in works)] for x in letters))
    costs = table(head, ([x, *(cpu(x, w) for w in works)] for x in letters if x != "a"))
    return (
        "Rates as ratios to the raw list (more is better):\n\n"
        + rates
        + "\nCPU of client and server as ratios to shape a (less is better):\n\n"
        + costs
    )


def sizes(rows: Sequence[Row]) -> str:
    """Rates by the size of the body, as ratios to the raw list with bodies of that size."""
    found = sorted({row["bytes"] for row in rows})
    works = [work for work in TITLES if any(row["work"] == work for row in rows)]

    def cell(size: int, work: str) -> str:
        return spread(ratio(rows, work, {"peer": "mqredis", "bytes": size}, {"peer": UNIT, "bytes": size}))

    return table(
        ["bytes", *(TITLES[w] for w in works)], ([f"{s:,}", *(cell(s, w) for w in works)] for s in found)
    )


def beside(rows: Sequence[Row], commit: str) -> str:
    """Rates of this tree divided by those of another commit."""
    letters = sorted({row["shape"] for row in rows if row["peer"] == commit})
    works = [work for work in TITLES if any(row["work"] == work and row["peer"] == commit for row in rows)]

    def cell(letter: str, work: str) -> str:
        return spread(
            ratio(rows, work, {"peer": "mqredis", "shape": letter}, {"peer": commit, "shape": letter})
        )

    return table(["shape", *(TITLES[w] for w in works)], ([x, *(cell(x, w) for w in works)] for x in letters))


def peers(rows: Sequence[Row]) -> str:
    """Rates of all peers as ratios to the raw list, everything read on both sides."""
    entries = {**PEERS, **WORKERS}
    names = list(dict.fromkeys(row["peer"] for row in rows))
    works = [work for work in TITLES if any(row["work"] == work for row in rows)]

    def line(name: str) -> list[str]:
        entry = entries[name]
        about = ", ".join(
            filter(None, [entry.settings, "" if entry.acknowledges else "a crash loses messages"])
        )
        failed = [row["error"] for row in rows if row["peer"] == name and row["work"] == "start"]
        cells = [spread(ratio(rows, work, {"peer": name}, {"peer": UNIT})) for work in works]
        return [name + (f" ({about})" if about else "") + (f": {failed[0]}" if failed else ""), *cells]

    return table(["peer", *(TITLES[w] for w in works)], map(line, names))


def ahead(rows: Sequence[Row]) -> str:
    """Names each row of the table of peers in which a peer is ahead of mqredis."""
    found = defaultdict(list)
    for work in dict.fromkeys(row["work"] for row in rows if "rate" in row):
        ours = ratio(rows, work, {"peer": "mqredis"}, {"peer": UNIT})
        for name in dict.fromkeys(row["peer"] for row in rows):
            theirs = ratio(rows, work, {"peer": name}, {"peer": UNIT})
            if not name.startswith(("mqredis", "raw")) and ours and theirs and median(theirs) > median(ours):
                found[name].append(f"{TITLES[work]} ({median(theirs):.2f} against {median(ours):.2f})")
    return (
        "\n".join(f"- {name} is ahead in: {', '.join(where)}" for name, where in found.items())
        or "No peer is ahead."
    )


def delays(rows: Sequence[Row]) -> str:
    """Percentiles of the delay of waiting readers."""
    by_peer: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        if "ms" in row:
            by_peer[row["peer"]].append(row["ms"])
    if UNIT not in by_peer:
        return "The raw list did not run.\n"
    cut = {name: quantiles(values, n=100) for name, values in by_peer.items()}

    def line(name: str) -> list[str]:
        p50, p99 = cut[name][49], cut[name][98]
        unit50, unit99 = cut[UNIT][49], cut[UNIT][98]
        return [name, f"{p50:.2f}", f"{p99:.2f}", f"{p50 / unit50:.2f}", f"{p99 / unit99:.2f}"]

    return table(["reader", "p50 ms", "p99 ms", "p50 ratio", "p99 ratio"], map(line, cut))


def memory(rows: Sequence[Row]) -> str:
    """Bytes of a queued message, as ratios to an entry of the raw list."""
    unit = next(row["memory"] for row in rows if row["peer"] == UNIT)
    lines = ([f"{r['peer']} {r['shape']}", f"{r['memory']:.0f}", f"{r['memory'] / unit:.2f}"] for r in rows)
    return table(["peer and shape", "bytes", "ratio"], lines)
