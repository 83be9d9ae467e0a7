"""The benchmark's arithmetic: ratios within a round, then medians."""

from __future__ import annotations

from typing import Any

import pytest

from bench import goals, ladder, page, report
from bench.adapters import CLIENT, FLOOR, HANDLE, PREFETCH, PROMISES, SCRIPTS, UNIT


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


def test_growth_compares_within_a_round_with_the_smallest_size():
    def grown(number: int, size: int, seconds: float) -> report.Row:
        return {"axis": "backlog", "work": "send", "round": number, "size": size, "seconds": seconds}

    rows = [grown(n, b, s * (n + 1)) for n in range(3) for b, s in ((1_000, 1.0), (100_000, 1.5))]
    rows[-1]["seconds"] = 6.0
    assert report.grown(rows, "backlog") == {"send": {1_000: [1.0] * 3, 100_000: [1.5, 1.5, 2.0]}}
    assert "| 1.50 (1.50-2.00) |" in report.growth(rows)


def wake(peer: str, number: int, milliseconds: float, waiters: int = 1) -> report.Row:
    counts = {"scripts": 2.0, "commands": 3.0, "server_us": 50.0}
    return {"peer": peer, "waiters": waiters, "round": number, "waits": [milliseconds] * 10, **counts}


def document() -> dict[str, Any]:
    rows = [row(p, 0, w) for p in (UNIT, "x") for w in report.TITLES]
    wakes = [wake(UNIT, 0, 1.0), wake("mqredis worker", 0, 3.0)]
    return {
        "about": "about",
        "quick": True,
        "made": "today",
        "seconds": 1.0,
        "machine": {"system": "none", "cores": 2, "load": [0.0, 0.1, 0.2], "others": 0.01},
        "server": {"version": "7", "save": ""},
        "rows": [*rows, row("mqredis", 0, "send", 4.0), row("mqredis", 0, "send_batch", 1.0)],
        "company": {
            "idle": [{"peer": "x", "waiters": 1, "commands": 1.0, "server": 0.01}],
            "wakes": wakes,
        },
        "peers": {UNIT: {}, "x": {"settings": "odd", "acknowledges": False}},
        "versions": {"peers": {"redis": "8"}},
        "failed": {"memory": "ValueError: no"},
    }


def growing(work: str, number: int, size: int, microseconds: float) -> report.Row:
    return {"axis": "backlog", "work": work, "round": number, "size": size, "seconds": microseconds / 1e6}


@pytest.mark.parametrize(
    "floor_takes_longer, figure, verdict",
    [
        (10.0, "1.10 (1.10-1.10): look-ups", "**no**"),
        (30.0, "1.30 (1.30-1.30): look-ups", "limit"),
        (None, "", "**no**"),
    ],
)
def test_growth_is_a_limit_only_where_the_look_ups_alone_grow_as_much(
    floor_takes_longer: float | None, figure: str, verdict: str
):
    sizes, rows = {1_000: 0.0, 1_000_000: 1.0}, []
    for number in range(3):
        for size, longest in sizes.items():
            rows += [growing("send", number, size, 50), growing("take", number, size, 100 + 25 * longest)]
            if floor_takes_longer is not None:
                floor = 40 + floor_takes_longer * longest
                rows.append(growing("floor: take", number, size, floor))
    shown = document()
    shown["company"]["growth"] = rows
    line = next(line for line in goals.table(shown).splitlines() if "| backlog" in line)
    assert verdict in line
    assert figure in line
    assert "1.25 (1.25-1.25)" in line, "the rounds of the worst operation"
    assert "take, the worst of 2, to 1,000,000; above 1.15: take 1.25 (1.25-1.25)" in line


def test_growth_is_no_limit_where_an_operation_has_no_floor():
    rows = [
        growing(work, 0, size, 1 + size / 1e6) for work in ("a", "b", "floor: a") for size in (1_000, 10**6)
    ]
    shown = document()
    shown["company"]["growth"] = rows
    line = next(line for line in goals.table(shown).splitlines() if "| backlog" in line)
    assert "**no**" in line
    assert "look-ups" not in line


def test_the_page_holds_every_table():
    text = report.report(document())
    assert all(title in text for title in report.TITLES.values())
    assert "- x: odd; no acknowledgement" in text
    assert "Readers that wait in vain" in text


def test_every_goal_has_a_row_and_says_whether_it_was_met():
    table = goals.table(document()).split("\n\n")[0].splitlines()
    assert len(table) == 2 + len(goals.GOALS)
    by_work = {line.split("|")[1].strip(): line for line in table}
    assert "0.25 (0.25-0.25)" in by_work["send, one at a time"]
    assert "**no**" in by_work["send, one at a time"]
    assert "| yes" in by_work["send, batches of 100"]
    assert "3.00 ms against 1.00 ms" in by_work["idle worker, p50"]
    assert "not measured" in by_work["asyncio, one task"]


def test_a_prefetch_is_told_beside_the_goal_and_decides_nothing():
    shown = document()
    shown["rows"] += [row("mqredis", 0, "receive", 2.0), row(PREFETCH, 0, "receive", 0.2)]
    line = next(line for line in goals.table(shown).splitlines() if "| receive and acknowledge, one" in line)
    cells = [cell.strip() for cell in line.split("|")]
    assert cells[4] == "0.50 (0.50-0.50)"
    assert cells[6:8] == ["**no**", "mqredis, prefetch: 5.00"]


@pytest.mark.parametrize(
    "floors, verdict",
    [
        ({FLOOR: 0.5}, "**no**"),
        ({FLOOR: 2.0}, "limit"),
        ({FLOOR: 0.5, PROMISES: 1.25}, "limit"),
        ({FLOOR: 0.5, PROMISES: 0.8}, "**no**"),
        ({}, "**no**"),
    ],
)
def test_a_goal_out_of_reach_is_a_limit_only_where_a_floor_misses_it_too(
    floors: dict[str, float], verdict: str
):
    shown = document()
    shown["rows"] += [row(floor, 0, "send", seconds) for floor, seconds in floors.items()]
    line = goals.table(shown).splitlines()[2]
    assert verdict in line
    for seconds in floors.values():
        assert f"{1 / seconds:.2f}" in line


def test_a_goal_that_is_met_needs_no_floor():
    shown = document()
    shown["rows"].append(row(FLOOR, 0, "send_batch", 100.0))
    line = next(line for line in goals.table(shown).splitlines() if "send, batches" in line)
    assert "| yes" in line


def test_every_floor_is_explained_below_the_table():
    text = goals.table(document())
    used = {name for goal in goals.GOALS for name in goal.floors}
    assert used == set(goals.FLOORS)
    assert all(f"- {name}: {goals.FLOORS[name]}" in text for name in used)


def test_every_goal_has_a_floor_or_says_why_not():
    text = goals.table(document())
    for goal in goals.GOALS:
        assert bool(goal.floors) is not bool(goal.boundless), goal.work
        assert f"none: {goal.boundless}" in text or not goal.boundless


def test_the_ladder_shares_out_what_lies_between_the_floor_and_us():
    shown = document()
    steps = {FLOOR: 1.0, PROMISES: 2.0, HANDLE: 4.0, SCRIPTS: 2.5, CLIENT: 1.5, "mqredis": 3.0}
    shown["rows"] += [row(peer, 0, "receive", seconds) for peer, seconds in steps.items()]
    cells = [cell.strip() for cell in ladder.table(shown).splitlines()[2].split("|")[1:-1]]
    assert cells == [
        "receive and acknowledge, one at a time", ">= 1.6", "1.00", "0.50", "0.25", "0.40", "0.67", "0.33", "75%", "25%"
    ]  # fmt: skip
    assert ladder.TEXT in page.page(shown, [], "bench")
    assert ladder.table(document()) == "", "nothing of it was measured"


def test_the_ladder_of_asyncio_takes_whole_lives():
    shown = document()
    names = {f"{FLOOR}, asyncio": 1.0, f"{CLIENT}, asyncio": 2.0, "mqredis asyncio": 4.0}
    shown["rows"] += [row(peer, 0, work, s) for peer, s in names.items() for work in ("send", "receive")]
    cells = [cell.strip() for cell in ladder.table(shown).splitlines()[2].split("|")[1:-1]]
    assert cells == ["asyncio, one task", ">= 0.7", "1.00", "", "", "", "0.50", "0.25", "", "33%"]


def crowd(peer: str, lives: float) -> report.Row:
    costs = {"server": 0.3, "shares": [0.3], "server_us": 100.0, "client_us": 500.0, "first_ms": 70.0}
    return {"peer": peer, "processes": 16, "servers": 1, "size": 1, "lives": lives, **costs}


@pytest.mark.parametrize("processes, verdict", [(20_000.0, "limit"), (26_000.0, "**no**"), (None, "**no**")])
def test_the_many_processes_are_held_against_what_such_processes_get_for_the_same_calls(
    processes: float | None, verdict: str
):
    shown = document()
    shot = {"size": 1, "pipeline": 1, "lives": 30_000.0}
    shown["company"]["shots"] = [shot, {**shot, "pipeline": 16, "lives": 40_000.0}]
    shown["company"]["crowd"] = [
        crowd("mqredis", 3_000.0),
        crowd(SCRIPTS, 6_000.0),
        *([] if processes is None else [crowd(FLOOR, processes)]),
    ]
    line = next(line for line in goals.table(shown).splitlines() if "whole lives a second, singly" in line)
    assert "30,000 (30,000-30,000): shots" in line
    assert ("processes" in line.split("|")[5]) is (processes is not None)
    assert f"| {verdict}" in line
    assert "Redis took 30% of a core, the processes 150%; with a whole one Redis would do 10,000" in line
    assert "our scripts with bare clients: 6,000" in line
    assert "shots 30,000.00 (pipelines of 1: 30,000; pipelines of 16: 40,000)" in "\n".join(goals.lost(shown))


def test_the_table_of_many_processes_tells_their_first_calls_apart():
    failed = {**crowd("x", 1.0), "error": "it broke"}
    del failed["lives"]
    lines = report.crowd([crowd("mqredis", 3_000.0), failed]).splitlines()
    assert [cell.strip() for cell in lines[2].split("|")[6:-1]] == ["30%", "100", "500", "70"]
    assert "it broke" in lines[3]
    assert len({line.count("|") for line in lines}) == 1


def test_the_written_page_tells_what_was_missed_and_what_failed():
    text = page.page(document(), ["send.svg"], "bench")
    assert "- send, one at a time: 0.25, aimed at >= 1" in text
    assert "- memory: ValueError: no" in text
    assert "![send](bench/send.svg)" in text


@pytest.mark.parametrize("others, told", [(0.05, False), (0.4, True)])
def test_the_page_says_that_other_work_disturbed_a_run(others: float, told: bool):
    disturbed = document()
    disturbed["machine"]["others"] = others
    assert ("busy with other work" in page.page(disturbed, [], "bench")) is told
