"""Parts that are measured anew, and how the time is shared."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from bench import __main__ as bench
from bench import merge, page, runner
from tests.unit.test_bench_report import document, row


def part(made: str, **company: list[dict[str, Any]]) -> dict[str, Any]:
    machine = {"system": "none", "cores": 2, "load": [0.0, 0.1, 0.2], "others": 0.02}
    new = {"made": made, "seconds": 5.0, "machine": machine, "peers": {}, "versions": {}, "failed": {}}
    return {**document(), **new, "rows": [], "company": company}


def grown(axis: str, seconds: float) -> dict[str, Any]:
    return {"axis": axis, "work": "send", "round": 1, "size": 10, "seconds": seconds}


def test_what_is_measured_anew_replaces_what_stood_there_and_nothing_else():
    old = document()
    old["company"]["growth"] = [grown("backlog", 1.0), grown("queues", 2.0)]
    found = merge.merge(old, part("later", growth=[grown("backlog", 3.0)]), ["growth, backlog"])
    assert found["company"]["growth"] == [grown("queues", 2.0), grown("backlog", 3.0)]
    assert found["company"]["idle"] == old["company"]["idle"]
    assert found["rows"] == old["rows"]
    assert found["made"] == old["made"]
    assert old["company"]["growth"][0] == grown("backlog", 1.0), "the old figures are left as they were"


def test_rounds_of_loops_are_replaced_whole():
    old, new = document(), part("later")
    new["rows"] = [row("mqredis", 0)]
    other = {**row("mqredis", 0), "section": "workers"}
    old["rows"].append(other)
    assert merge.merge(old, new, ["loops on one core"])["rows"] == [other, *new["rows"]]


def test_a_part_that_was_left_out_is_no_longer_missing_and_one_that_fails_is():
    old, new = document(), part("later", idle=[])
    old["failed"] = {"idle readers": bench.LEFT_OUT, "memory": "ValueError: no"}
    new["failed"] = {"cluster": "ValueError: no"}
    found = merge.merge(old, new, ["idle readers", "cluster"])
    assert found["failed"] == {"memory": "ValueError: no", "cluster": "ValueError: no"}


def test_the_page_says_what_was_measured_later():
    once = merge.merge(document(), part("noon", idle=[]), ["idle readers", "cluster"])
    twice = merge.merge(once, part("evening", shards=[]), ["cluster"])
    assert [(one["made"], one["parts"]) for one in twice["later"]] == [
        ("noon", ["idle readers"]),
        ("evening", ["cluster"]),
    ]
    text = page.page(twice, [], "bench")
    assert 'Measured again, noon: "idle readers"; other work during it 0.02 of a processor.' in text
    assert "busy with other work" not in text
    twice["later"][0]["machine"] = {**twice["machine"], "others": 0.4}
    assert "busy with other work" in page.page(twice, [], "bench")


@pytest.mark.parametrize(
    "passed, done, more", [(99.0, 0, True), (4.0, 1, True), (6.0, 1, False), (6.5, 2, True)]
)
def test_a_round_begins_if_there_is_room_for_one_as_long_as_those_before(
    passed: float, done: int, more: bool
):
    assert runner.room(passed, done, 10.0) is more


class Parts:
    """Parts that take so many seconds of a clock of their own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, lasting: dict[str, float]) -> None:
        self.now = 0.0
        self.given: dict[str, float] = {}
        self._lasting = lasting
        monkeypatch.setattr(bench, "time", SimpleNamespace(monotonic=lambda: self.now))

    def _part(self, name: str, seconds: float) -> None:
        self.given[name] = round(seconds, 6)
        self.now += self._lasting[name]

    def parts(self) -> list[tuple[str, float, Any]]:
        return [(name, 0.25, lambda seconds, name=name: self._part(name, seconds)) for name in self._lasting]


@pytest.mark.parametrize(
    "lasting, chosen, given, left_out",
    [
        ([10, 10, 10, 10], (), [10, 10, 10, 10], ""),
        ([25, 5, 5, 5], (), [10, 5, 5, 5], ""),
        ([4, 4, 4, 4], (), [10, 12, 16, 28], ""),
        ([50, 1, 1, 1], (), [10], "bcd"),
        ([10, 10, 10, 10], ("b", "d"), [10, 10], ""),
        ([10, 30, 10, 10], ("b", "d"), [10, 0], ""),
    ],
)
def test_what_one_part_takes_too_long_the_others_have_less(
    monkeypatch: pytest.MonkeyPatch,
    lasting: list[float],
    chosen: tuple[str, ...],
    given: list[float],
    left_out: str,
):
    parts: Any = Parts(monkeypatch, dict(zip("abcd", lasting, strict=True)))
    failed = bench.measure(parts, 40.0, chosen)
    assert list(parts.given.values()) == given
    assert failed == dict.fromkeys(left_out, bench.LEFT_OUT)
