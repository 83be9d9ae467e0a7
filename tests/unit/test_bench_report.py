"""The benchmark's arithmetic: ratios within a round, then medians."""

from __future__ import annotations

from bench import report
from bench.adapters import UNIT


def row(peer: str, number: int, work: str = "send", seconds: float = 1.0) -> report.Row:
    figures = {"client_cpu": seconds / 2, "server_cpu": seconds / 4}
    counts = {"reads": 1.0, "commands": 1.0, "bytes_in": 10.0, "bytes_out": 5.0}
    place = {"place": "one core", "section": "rates", "count": 100}
    return {"peer": peer, "round": number, "work": work, "seconds": seconds, **figures, **counts, **place}


def test_a_ratio_is_taken_within_its_round():
    rows = [row(UNIT, 0), row("fast", 0, seconds=0.5), row(UNIT, 1, seconds=10), row("fast", 1, seconds=5)]
    assert report.ratios(rows, report.rate)["fast"] == [2.0, 2.0]


def test_errors_and_rounds_without_unit_are_left_out():
    rows = [row(UNIT, 0), {"peer": "bad", "round": 0, "error": "no"}, row("late", 1)]
    assert report.ratios(rows, report.rate) == {UNIT: [1.0]}


def test_spread_shows_median_and_range():
    assert report.spread([1.0, 3.0, 2.0]) == "2.00 (1.00-3.00)"
    assert report.spread([0.05]) == "0.050 (0.050-0.050)"


def test_life_is_the_sum_of_both_halves_of_the_same_peer():
    rows = [row(p, 0, w, s) for p, s in ((UNIT, 1.0), ("slow", 2.0)) for w in ("send", "receive")]
    rows.append(row("half", 0, "send"))
    text = report.life(rows, ("send", "receive"))
    assert "| slow     | 2.00 (2.00-2.00)" in text
    assert "half" not in text


def test_growth_compares_with_the_smallest_backlog_of_the_same_peer():
    rows = [
        {**row("x", n, seconds=s), "backlog": b} for n in range(3) for b, s in ((1_000, 1.0), (100_000, 1.5))
    ]
    assert "| x    | send | 1.00  | 1.50    |" in report.growth(rows)


def test_the_page_holds_every_table():
    document = {
        "about": "about",
        "rows": [row(p, 0, w) for p in (UNIT, "x") for w in report.TITLES],
        "company": {"idle": [{"peer": "x", "waiters": 1, "commands": 1.0, "server": 0.01}]},
        "peers": {UNIT: {}, "x": {"settings": "odd", "acknowledges": False}},
        "versions": {"peers": {"redis": "8"}},
    }
    page = report.report(document)
    assert all(title in page for title in report.TITLES.values())
    assert "- x: odd; no acknowledgement" in page
    assert "Readers that wait in vain" in page
