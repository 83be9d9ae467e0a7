"""Common parts of the checks: seed, size, verdict, one line of JSON for the result."""

from __future__ import annotations

import json
import random
import subprocess
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

OUTPUT = Path("build/reliability.jsonl")
Counts = dict[str, int | float | str]


@dataclass
class Run:
    """One check under way. ``scale``: 1.0 is the full size of the issue."""

    seed: int
    scale: float
    counts: Counts = field(default_factory=dict)

    def size(self, full: int, least: int = 1) -> int:
        """Return how many repetitions this run makes if the full run makes ``full``."""
        return max(least, round(full * self.scale))

    def rng(self, *names: object) -> random.Random:
        """Return a random generator that is the same for the same seed."""
        return random.Random(f"{self.seed}/{'/'.join(map(str, names))}")

    def add(self, name: str, amount: int = 1) -> None:
        """Add to a counter of the result."""
        self.counts[name] = int(self.counts.get(name, 0)) + amount


@dataclass(frozen=True)
class Check:
    """A guarantee and the function that tries to violate it."""

    name: str
    promise: str
    play: Callable[[Run], None]


CHECKS: dict[str, Check] = {}


def check(name: str, promise: str) -> Callable[[Callable[[Run], None]], Callable[[Run], None]]:
    """Register a check."""

    def register(play: Callable[[Run], None]) -> Callable[[Run], None]:
        CHECKS[name] = Check(name, promise, play)
        return play

    return register


@cache
def commit() -> str:
    """Return the short hash of the commit, with "+" if files differ from it; "unknown" outside a repository."""
    try:
        head = _git("rev-parse", "--short", "HEAD").strip()
        # The page of the last run.
        changed = _git("status", "--porcelain", "--", ".", ":!docs/reliability.md")
        return head + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], capture_output=True, text=True, check=True).stdout


def merged(texts: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Lines of runs by the name of the check; a later line takes the place of an earlier one."""
    return {line["check"]: line for line in map(json.loads, texts)}


def play(chosen: Check, seed: int, scale: float, output: Path | None = OUTPUT) -> dict[str, object]:
    """Run a check, print its result and append it to the output file."""
    run = Run(seed, scale)
    began = time.monotonic()
    line: dict[str, object] = {"check": chosen.name, "commit": commit(), "seed": seed, "scale": scale}
    line.update(promise=chosen.promise, counts=run.counts)
    try:
        chosen.play(run)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the verdict
        line["verdict"] = "fail"
        line["why"] = f"{type(error).__name__}: {error}"
        traceback.print_exc()
    else:
        line["verdict"] = "pass"
    line["seconds"] = round(time.monotonic() - began, 1)
    text = json.dumps(line)
    print(text, flush=True)
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        with output.open("a") as file:
            file.write(text + "\n")
    return line
