"""The benchmark report compares figures of the same round and lists where a peer is ahead."""

from __future__ import annotations

from typing import Any

import pytest

from bench import __main__ as bench
from bench import report
from bench.messages import check_envelope, envelope
from bench.peers import UNIT


def row(peer: str, work: str, number: int, rate: float, **more: Any) -> dict[str, Any]:
    figures = {"client_us": 1e6 / rate, "server_us": 0.0}
    return {
        "peer": peer,
        "work": work,
        "round": number,
        "rate": rate,
        "shape": "b",
        "bytes": 200,
        **figures,
        **more,
    }


def test_ratio_pairs_figures_of_the_same_round() -> None:
    rows = [row(UNIT, "send", 0, 100), row(UNIT, "send", 1, 1_000), row("mqredis", "send", 0, 50)]
    rows += [row("mqredis", "send", 1, 900), row("mqredis", "send", 2, 7)]
    assert report.ratio(rows, "send", {"peer": "mqredis"}, {"peer": UNIT}) == [0.5, 0.9]
    assert report.spread([0.5, 0.9]) == "0.70 (0.50-0.90)"


def test_missed_goals_are_reported() -> None:
    rows = [
        row(UNIT, "send", 0, 100),
        row("mqredis", "send", 0, 90, shape="a"),
        row("mqredis", "send", 0, 60),
    ]
    text = report.shapes(rows)
    assert "0.60 (0.60-0.60), goal 0.85 missed" in text
    assert "1.50 (1.50-1.50), at most 1.25: missed" in text


def test_rows_in_which_a_peer_is_ahead_are_listed() -> None:
    rows = [row(UNIT, "send", 0, 100), row("mqredis", "send", 0, 90), row("streams", "send", 0, 95)]
    assert report.ahead(rows) == "- streams is ahead in: send (0.95 against 0.90)"
    rows[2]["rate"] = 80
    assert report.ahead(rows) == "No peer is ahead."


def test_part_of_the_page_replaces_only_its_own_tables() -> None:
    page = "before\n<!-- sizes -->\nold\n<!-- end of sizes -->\nafter\n"
    assert (
        bench._replaced(page, "sizes", "new")
        == "before\n<!-- sizes -->\n\nnew\n<!-- end of sizes -->\nafter\n"
    )
    with pytest.raises(SystemExit, match="no place for peers"):
        bench._replaced(page, "peers", "new")


def test_page_has_markers_for_each_part() -> None:
    page = bench.PAGE.read_text()
    for part in bench.PARTS:
        assert bench._replaced(page, part, "text") != page


def test_wrong_message_is_detected() -> None:
    check_envelope(envelope(7, "text"), "text")
    with pytest.raises(AssertionError, match="another body"):
        check_envelope(envelope(7, "other"), "text")
