"""Verdicts of the mutants, stored in build/, so that an interrupted run continues where it stopped."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from mqredis import scripts

LINES = Path("build/mutants.jsonl")
# Which mutants make a difference in which tests, and how long these take: the run on the unchanged Lua with probes.
MAP = Path("build/mutants-map.json")
# The tests that check mutants, and what they are made of.
TESTS = (
    "client",
    "conformance",
    "msmq",
    "matching",
    "doctor",
    "contract",
    "property",
    "model",
    "support",
    "reliability",
    "selector",
    "operator",
    "inspection",
    "worker",
    "console",
)


def digest(files: Iterable[Path]) -> str:
    """Of names and contents."""
    found = hashlib.sha256()
    for path in sorted(files):
        found.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()[:16]


class Ledger:
    """One line for each verdict, under what it was reached with: a digest of all Lua, and one of the tests."""

    def __init__(self, lines: Path = LINES, map_: Path = MAP) -> None:
        self.lines, self.map = lines, map_
        self.lua = digest(scripts.root().rglob("*.lua"))
        self.tests = digest(path for name in TESTS for path in Path("tests", name).rglob("*.py"))
        self._verdicts: dict[str, str] = {}
        # Per mutant the test that noticed it last, with whatever Lua; per file of Lua, how often each test did.
        self.hints: dict[str, str] = {}
        self.kills: dict[str, Counter[str]] = {}
        for line in self._read():
            self._take(line)

    def verdict(self, mutant: str) -> str | None:
        """What noticed it; "" if nothing did; None: to be tried.

        A kill holds for the same Lua, since tests seldom go; a survivor only for the same tests, too.
        """
        return self._verdicts.get(mutant)

    def add(self, mutant: str, killed: str) -> None:
        """Store a verdict."""
        line = {"lua": self.lua, "tests": self.tests, "mutant": mutant, "killed": killed}
        self.lines.parent.mkdir(exist_ok=True)
        with self.lines.open("a") as file:
            file.write(json.dumps(line) + "\n")
        self._take(line)

    def differences(self) -> dict[str, Any] | None:
        """What ``Trials`` found on this unchanged Lua with these tests, if it did."""
        if self.map.exists():
            found: dict[str, Any] = json.loads(self.map.read_text())
            if (found["lua"], found["tests"]) == (self.lua, self.tests):
                return found
        return None

    def keep_differences(self, found: dict[str, Any]) -> None:
        """Store that."""
        self.map.parent.mkdir(exist_ok=True)
        self.map.write_text(json.dumps({"lua": self.lua, "tests": self.tests, **found}))

    def _read(self) -> Iterator[dict[str, str]]:
        if self.lines.exists():
            yield from map(json.loads, self.lines.read_text().splitlines())

    def _take(self, line: dict[str, str]) -> None:
        mutant, killed = line["mutant"], line["killed"]
        if killed:
            test = killed.removeprefix("hangs: ")
            self.hints[mutant] = test
            self.kills.setdefault(mutant.partition("|")[0], Counter())[test] += 1
        if line["lua"] == self.lua and (killed or line["tests"] == self.tests):
            self._verdicts[mutant] = killed
