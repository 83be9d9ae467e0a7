"""``python -m tests.conformance.report [pytest arguments]``: the published cases as a table.

One row for each case: how it went on each store and interface, and a verdict. The same goes to
``build/conformance.json``. The exit code is 0 when every case that has a test holds everywhere; a contested
case that differs is told but does not fail the run.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.cases import BASIS, LEFT_OUT

COLUMNS = ("real-sync", "real-async", "evalsha-sync", "fake-sync", "fake-async")
HERE = Path(__file__).parent
# The cases of timers, moves and traces. There the name alone tells the case: test_n10_n11.
FEATURES = sorted((HERE.parent / "msmq").glob("test_cases*.py"))
OUTPUT = HERE.parent.parent / "build" / "conformance.json"


class Collector:
    """A pytest plugin that records the outcome of every test of a published case."""

    def __init__(self) -> None:
        self.cases: dict[str, tuple[list[str], str]] = {}
        self.outcomes: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
        self.others = {"passed": 0, "failed": 0}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            callspec = getattr(item, "callspec", None)
            values = [v for v in callspec.params.values() if isinstance(v, str)] if callspec else []
            kind = next((v for v in values if v in COLUMNS), "")
            ids = [mark.args[0] for mark in item.iter_markers("case")]
            for mark in item.iter_markers("case"):
                assert BASIS.get(mark.args[0]) == mark.args[1], f"{item.nodeid}: {mark.args} is not published"
            if item.path in FEATURES:
                ids += named(getattr(item, "originalname", item.name))
            self.cases[item.nodeid] = (ids, kind)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call" and report.passed:
            return
        ids, kind = self.cases[report.nodeid]
        outcome = "pass" if report.passed else "fail"
        for case in ids:
            self.outcomes[case][kind].append(outcome)
        if not ids:
            self.others["passed" if report.passed else "failed"] += 1

    def outcome(self, case: str, kind: str) -> str:
        """Return the worst outcome of a case on one kind; empty if it has no test."""
        found = self.outcomes.get(case, {}).get(kind, [])
        return "fail" if "fail" in found else "pass" if found else ""


def named(test: str) -> list[str]:
    """The published cases in the name of a test: ``test_n10_n11`` stands for N10 and N11."""
    return [word.upper() for word in test.split("_")[1:] if word.upper() in BASIS]


def verdict(case: str, results: dict[str, str]) -> str:
    """Return the verdict about a case."""
    basis = BASIS[case]
    contested = basis.startswith("C")
    if not any(results.values()):
        return f"left out ({LEFT_OUT[case]})" if case in LEFT_OUT else "NO TEST"
    if "fail" in results.values():
        return f"differs (contested, D{basis[1:]})" if contested else "FAILS"
    return f"holds (our reading of D{basis[1:]})" if contested else "holds"


def rows(collector: Collector) -> list[dict[str, Any]]:
    """What the table and the file say, one entry for each published case in the order of publication."""
    out = []
    for case, basis in BASIS.items():
        results = {kind: collector.outcome(case, kind) for kind in COLUMNS}
        out.append({"case": case, "basis": basis, **results, "verdict": verdict(case, results)})
    return out


def show(table: list[dict[str, Any]], others: dict[str, int]) -> None:
    """Print the table."""
    print(f"{'case':5} {'basis':5} " + " ".join(f"{kind:12}" for kind in COLUMNS) + " verdict")
    for row in table:
        cells = " ".join(f"{row[kind] or '-':12}" for kind in COLUMNS)
        print(f"{row['case']:5} {row['basis']:5} {cells} {row['verdict']}")
    words = [row["verdict"].split(" (")[0] for row in table]
    counts = ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words))
    print(f"\n{len(table)} published cases: {counts}")
    print(f"other tests of the events: {others['passed']} passed, {others['failed']} failed")


def main(arguments: list[str]) -> int:
    """Run the tests, print and write the table; return 1 if a test failed or a case fails or has no test, else 0."""
    collector = Collector()
    deselected = ["--deselect", str(HERE / "test_report.py")]
    pytest.main(
        [str(HERE), *map(str, FEATURES), "-q", "--no-header", "--tb=short", *deselected, *arguments],
        plugins=[collector],
    )
    table = rows(collector)
    show(table, collector.others)
    OUTPUT.parent.mkdir(exist_ok=True)
    OUTPUT.write_text(json.dumps({"cases": table, "others": collector.others}, indent=1) + "\n")
    bad = collector.others["failed"] or any(row["verdict"] in ("FAILS", "NO TEST") for row in table)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
