"""The table lists every published case, with a test or with a reason."""

from __future__ import annotations

import re
from pathlib import Path

from tests.conformance.cases import BASIS, LEFT_OUT
from tests.conformance.report import COLUMNS, FEATURES, Collector, named, rows, verdict
from tests.conformance.test_scripts import CASES

HERE = Path(__file__).parent
MARK = re.compile(r'^@case\("(\w+)", "(\w+)"\)$', re.MULTILINE)


def marked() -> dict[str, str]:
    return {
        case: basis
        for path in sorted(HERE.glob("test_*.py"))
        for case, basis in MARK.findall(path.read_text())
    }


def features() -> set[str]:
    text = "\n".join(path.read_text() for path in FEATURES)
    names = re.findall(r"^def (test_\w+)\(", text, re.MULTILINE)
    assert all(named(name) for name in names)
    return {case for name in names for case in named(name)}


def test_every_published_case_has_a_test_or_is_left_out_with_a_reason():
    tested = set(marked()) | features() | {case.published for case in CASES if case.published}
    assert set(BASIS) == tested | set(LEFT_OUT)
    assert not tested & set(LEFT_OUT)


def test_every_mark_names_the_published_basis():
    assert marked() == {case: BASIS[case] for case in marked()}


def test_name_of_a_marked_test_begins_with_its_case():
    for path in sorted(HERE.glob("test_*.py")):
        for block in re.split(r"\n\n\n+", path.read_text()):
            cases = [case for case, _ in MARK.findall(block)]
            names = re.findall(r"^def test_(\w+)\(", block, re.MULTILINE)
            if cases and names:
                assert names[0].split("_")[0] == cases[0], f"{path.name}: {names[0]} is marked {cases}"


def test_verdict_of_each_combination_of_results():
    def results(**changes: str) -> dict[str, str]:
        return {kind: changes.get(kind.replace("-", "_"), "pass") for kind in COLUMNS}

    assert verdict("A1", results()) == "holds"
    assert verdict("A1", results(fake_async="fail")) == "FAILS"
    assert verdict("A1", dict.fromkeys(COLUMNS, "")) == "NO TEST"
    assert verdict("F3", results()) == "holds (our reading of D44)"
    assert verdict("F3", results(real_sync="fail")) == "differs (contested, D44)"
    assert verdict("G12", dict.fromkeys(COLUMNS, "")).startswith("left out")


def test_row_has_the_worst_outcome_of_each_column():
    collector = Collector()
    collector.outcomes["A1"]["real-sync"] = ["pass", "fail", "pass"]
    collector.outcomes["A1"]["fake-sync"] = ["pass"]
    row = rows(collector)[0]
    assert (row["case"], row["real-sync"], row["fake-sync"], row["real-async"]) == ("A1", "fail", "pass", "")
    assert row["verdict"] == "FAILS"
