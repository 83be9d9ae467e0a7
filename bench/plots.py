"""Pictures of a run. Needs matplotlib, so it has an environment of its own::

python -m bench.plots results.json folder
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import matplotlib as mpl

mpl.use("svg")
mpl.rcParams["svg.hashsalt"] = "mqredis"  # the same figures give the same file
import matplotlib.pyplot as plt  # noqa: E402

from bench import report  # noqa: E402
from bench.adapters import BARE, UNIT  # noqa: E402

OURS, OTHERS = "#c0392b", "#7f8c8d"


def save(figure: Any, folder: Path, name: str) -> str:
    """Write a picture; its file name."""
    figure.tight_layout()
    figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
    plt.close(figure)
    return f"{name}.svg"


def bars(document: dict[str, Any], folder: Path) -> Iterator[str]:
    """Rates of all peers, for each kind of work on one core."""
    for work, title in report.TITLES.items():
        rows = [row for row in document["rows"] if row["work"] == work and row["place"] == "one core"]
        found = report.ratios(rows, report.rate)
        peers = sorted(found, key=lambda peer: median(found[peer]))
        if len(peers) < 2:
            continue
        figure, axes = plt.subplots(figsize=(8, 0.8 + 0.28 * len(peers)))
        middles = [median(found[peer]) for peer in peers]
        spans = [
            [middle - min(found[peer]) for peer, middle in zip(peers, middles, strict=True)],
            [max(found[peer]) - middle for peer, middle in zip(peers, middles, strict=True)],
        ]
        colors = [OURS if peer.startswith("mqredis") else OTHERS for peer in peers]
        axes.barh(peers, middles, xerr=spans, color=colors, ecolor="#2c3e50", capsize=2)
        axes.axvline(1, color="#2c3e50", linewidth=0.8, linestyle=":")
        axes.set_xlabel(f"rate, {UNIT} = 1; median, minimum and maximum")
        axes.set_title(f"{title}, one core", fontsize=10)
        yield save(figure, folder, work)


def curves(document: dict[str, Any], folder: Path) -> Iterator[str]:
    """Time of each operation against what grows."""
    rows = document["company"].get("growth", [])
    for axis, label in report.AXES.items():
        found = report.grown(rows, axis)
        if not found:
            continue
        figure, axes = plt.subplots(figsize=(8, 4.5))
        for work, by_size in found.items():
            sizes = sorted(by_size)
            at = [max(size, 1) for size in sizes]
            style = "--" if work.startswith(("raw", BARE)) else "-"
            axes.plot(at, [median(by_size[size]) for size in sizes], style, marker=".", label=work)
        axes.set_xscale("log")
        if axis == "bytes":
            axes.set_yscale("log")
        else:
            axes.set_ylim(bottom=0)
            axes.axhline(1.15, color=OTHERS, linewidth=0.8, linestyle=":")
        axes.set_xlabel(label)
        axes.set_ylabel("time, at the smallest size = 1")
        axes.legend(fontsize=6, ncol=2)
        yield save(figure, folder, f"growth-{axis}")


def waiting(document: dict[str, Any], folder: Path) -> Iterator[str]:
    """Time to wake, and script calls, against the number of waiting readers."""
    rows = [
        row
        for row in document["company"].get("wakes", [])
        if row["peer"] == "mqredis asyncio" and "waits" in row
    ]
    numbers = sorted({row["waiters"] for row in rows})
    if len(numbers) < 2:
        return
    figure, axes = plt.subplots(figsize=(8, 3.5))
    by_number = {n: [row for row in rows if row["waiters"] == n] for n in numbers}
    for part in (50, 99):
        times = [report.percentile([w for row in by_number[n] for w in row["waits"]], part) for n in numbers]
        axes.plot(numbers, times, marker="o", label=f"p{part} of a wake, ms")
    scripts = [median(row["scripts"] for row in by_number[n]) for n in numbers]
    axes.plot(numbers, scripts, marker="s", color=OURS, label="script calls for a message")
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("waiting readers on one queue")
    axes.legend(fontsize=8)
    yield save(figure, folder, "growth-waiters")


def main() -> None:
    """Draw everything; print the names of the files."""
    document = json.loads(Path(sys.argv[1]).read_text())
    folder = Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    names = [name for draw in (bars, curves, waiting) for name in draw(document, folder)]
    print(json.dumps(names))


if __name__ == "__main__":
    main()
