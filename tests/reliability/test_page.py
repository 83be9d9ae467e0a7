"""The page of the reliability checks is built from the results of several runs and names the commit of each."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.reliability import catalog, check
from tests.reliability.check import CHECKS, Check, play
from tools.reliability_doc import page

catalog.load()


def result_line(name: str, commit: str, seconds: float) -> str:
    return json.dumps(
        {
            "check": name,
            "commit": commit,
            "seed": 1,
            "scale": 1.0,
            "promise": "all is well",
            "counts": {"things": 1200},
            "seconds": seconds,
            "verdict": "pass",
        }
    )


def test_later_result_of_a_check_replaces_an_earlier_one(tmp_path: Path) -> None:
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    first.write_text(
        result_line("of Spark", "aaaaaaa", 4.0)
        + "\n"
        + result_line("leaks", "aaaaaaa", 1.0)
        + "\n"
        + result_line("cuts", "aaaaaaa", 2.0)
        + "\n"
    )
    second.write_text(result_line("leaks", "bbbbbbb", 3.0) + "\n")
    rows = [text for text in page([first, second]).splitlines() if "| 1.0 |" in text]
    # In the order of the catalogue.
    assert [text.split(" | ")[0] for text in rows] == [
        "| cuts",
        "| leaks",
        "| of Spark",
    ]
    assert rows[0].endswith("| 1,200 things | aaaaaaa | 1 | 1.0 | 2.0 | pass |")
    assert rows[1].endswith("| 1,200 things | bbbbbbb | 1 | 1.0 | 3.0 | pass |")
    assert all("| all is well |" in text for text in rows)


def test_check_that_did_not_run_keeps_its_row(tmp_path: Path) -> None:
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    first.write_text(
        result_line("of Spark", "aaaaaaa", 4.0) + "\n" + result_line("leaks", "aaaaaaa", 1.0) + "\n"
    )
    second.write_text(
        result_line("leaks", "bbbbbbb", 3.0) + "\n" + result_line("cuts", "bbbbbbb", 2.0) + "\n"
    )
    before = page([first])
    assert page([], before) == before
    assert page([second], before) == page([first, second])


def test_result_without_a_commit_is_shown_as_unknown(tmp_path: Path) -> None:
    old = {"check": "leaks", "seed": 1, "scale": 1.0, "counts": {}, "seconds": 1.0, "verdict": "pass"}
    (tmp_path / "a").write_text(json.dumps(old))
    assert f"| leaks | {CHECKS['leaks'].promise} |  | unknown | 1 | 1.0 | 1.0 | pass |" in page(
        [tmp_path / "a"]
    )


def test_results_are_appended_with_their_commit(tmp_path: Path) -> None:
    check.commit.cache_clear()
    output = tmp_path / "lines.jsonl"
    for seed in (1, 2):
        play(Check("nothing", "nothing", lambda run: run.add("things")), seed, 1.0, output)
    lines = [json.loads(text) for text in output.read_text().splitlines()]
    assert [each["seed"] for each in lines] == [1, 2]
    assert {each["commit"] for each in lines} == {check.commit()}


def test_commit_of_a_modified_tree_has_a_plus(monkeypatch: pytest.MonkeyPatch) -> None:
    for changed, expected in (("", "abc1234"), (" M mqredis/keys.py\n", "abc1234+")):
        told = {"rev-parse": "abc1234\n", "status": changed}
        monkeypatch.setattr(check, "_git", lambda *arguments, told=told: told[arguments[0]])
        check.commit.cache_clear()
        assert check.commit() == expected
    check.commit.cache_clear()
