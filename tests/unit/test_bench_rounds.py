"""The benchmark's turns: who begins, what counts of a turn of many processes, the same work for each size."""

from __future__ import annotations

import itertools
from functools import partial
from typing import ClassVar

import pytest

import mqredis
from bench import child, company, goals, report, runner
from bench.adapters import FLOOR
from bench.adapters.base import Peer
from bench.adapters.mqredis_growth import FILLING, LAPS, Line, MqredisGrowth, Operation
from bench.server import Wire


def test_each_round_begins_with_another_one():
    assert [runner.turned("abc", number) for number in (0, 1, 4)] == [
        ("a", "b", "c"),
        ("b", "c", "a"),
        ("b", "c", "a"),
    ]


class Clock:
    """Moves when somebody sleeps or works."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now

    process_time = monotonic

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(child, "time", found)
    return found


class Worker(Peer):
    """Takes a second for each portion that it sends, and as long to receive it."""

    works: ClassVar[tuple[str, ...]] = ("send", "receive")
    settings = ""

    def __init__(self, clock: Clock) -> None:
        super().__init__("")
        self.clock = clock
        self.calls: list[str] = []

    def open(self) -> None:
        self.calls.append("open")

    def close(self) -> None:
        self.calls.append("close")

    def send(self, first: int, count: int) -> None:
        self.calls.append(f"send {count}")
        self.clock.sleep(1)

    def receive(self, count: int) -> None:
        self.calls.append(f"receive {count}")
        self.clock.sleep(1)


def test_a_process_works_from_one_moment_to_another_and_what_lies_behind_does_not_count(clock: Clock):
    peer = Worker(clock)
    assert child.ready(peer, {"count": 3, "size": 1}) == {"client_cpu": 2.0}
    answer = child.lives(peer, {"count": 100, "size": 1, "at": 110.0, "until": 115.0})
    assert peer.calls[:3] == ["open", "send 3", "receive 3"], "the first calls are not counted"
    assert peer.calls[3:-1] == ["send 100", "receive 100"] * 3
    assert peer.calls[-1] == "close", "whoever waits for the next turn has no connection"
    assert answer == {"lives": 250.0, "all": 300, "late": 0.0, "client_cpu": 6.0}


def test_a_process_that_comes_late_has_done_less_and_says_so(clock: Clock):
    answer = child.lives(Worker(clock), {"count": 100, "size": 1, "at": 99.0, "until": 104.0})
    assert answer == {"lives": 200.0, "all": 200, "late": 1.0, "client_cpu": 4.0}


def test_a_process_that_comes_when_the_turn_is_over_fails(clock: Clock):
    peer = Worker(clock)
    with pytest.raises(TimeoutError, match="late"):
        child.lives(peer, {"count": 1, "size": 1, "at": 90.0, "until": 95.0})
    assert peer.calls == ["close"]


def test_the_shares_of_a_turn_are_those_of_the_lives_within():
    answers = [{"lives": 150.0, "all": 200, "client_cpu": 0.2, "late": late} for late in (0.001, 0.003)]
    found = company.tally(answers, 2.0, [0.4, 0.2])
    assert found["lives"] == 150.0, "150 of each of the two in two seconds"
    assert found["server_us"] == pytest.approx(1500.0), "the server counted all 400"
    assert found["shares"] == pytest.approx([0.15, 0.075])
    assert found["server"] == pytest.approx(0.225)
    assert found["client_us"] == pytest.approx(1000.0)
    assert found["late_ms"] == pytest.approx(3.0)


def turn(peer: str, number: int, lives: float) -> report.Row:
    kind = {"peer": peer, "round": number, "processes": 16, "servers": 1, "size": 1}
    costs = {"server": lives / 1e4, "shares": [lives / 1e4], "server_us": 100.0, "client_us": 500.0}
    return {**kind, **costs, "lives": lives, "first_ms": 1.0 if number else 150.0, "late_ms": 1.0}


def test_many_processes_are_told_with_all_their_rounds():
    rows = [turn("mqredis", number, lives) for number, lives in enumerate((4_000.0, 3_000.0, 8_000.0))]
    cells = [cell.strip() for cell in report.crowd(rows).splitlines()[2].split("|")[1:-1]]
    assert cells[4:6] == ["4,000 (3,000-8,000)", "40%"]
    assert cells[-1] == "150", "what a process does once it does in its first turn"
    measured = goals._crowd(1)({"company": {"crowd": rows}})
    assert measured is not None
    assert goals._figures(measured) == "4,000 (3,000-8,000)"
    assert measured.note.startswith("Redis took 40% of a core, the processes 200%")
    assert goals._crowd(1, FLOOR)({"company": {"crowd": rows}}) is None


def test_shots_are_told_with_all_their_rounds():
    rows = [
        {"round": number, "size": 1, "pipeline": pipeline, "lives": lives * pipeline}
        for number, lives in enumerate((10.0, 40.0, 20.0))
        for pipeline in (16, 1)
    ]
    measured = goals._shots(1)({"company": {"shots": rows}})
    assert measured is not None
    assert goals._figures(measured) == "20.00 (10.00-40.00)"
    assert measured.note == "pipelines of 1: 20; pipelines of 16: 320"


class Counting(Wire):
    """A server that counts nothing; and operations that say at which size they were made."""

    def __init__(self) -> None:
        self.made: list[tuple[str, int]] = []

    def ask(self, *words: str) -> str:
        return words[0]

    def script_seconds(self) -> float:
        return 0.5

    def operations(self, size: int) -> dict[str, Operation]:
        names = ("send", "send 100", FILLING)
        return {name: partial(self.made.append, (name, size)) for name in names}


def test_every_size_does_the_same_in_each_round_and_in_each_turn(monkeypatch: pytest.MonkeyPatch):
    wire, sizes, count = Counting(), [1, 2, 3], 20 * LAPS
    monkeypatch.setattr(MqredisGrowth, "_backlog", lambda _, size: wire.operations(size))
    rows = MqredisGrowth("").grow(wire, axis="backlog", sizes=sizes, rounds=2, count=count, seconds=60)
    kinds = [(row["work"], row["size"], row["round"]) for row in rows]
    assert sorted(kinds) == sorted(itertools.product(("send", "send 100"), sizes, (1, 2)))
    assert {row["server"] for row in rows if row["work"] == "send"} == {LAPS * 0.5 / count}
    made = 3 * count  # the first round warms up
    assert [wire.made.count(("send", size)) for size in sizes] == [made] * 3
    assert [wire.made.count(("send 100", size)) for size in sizes] == [made // 20] * 3
    turns = [set(wire.made[start : start + 20]) for start in (0, 20, 40)]
    assert sorted(turns, key=str) == [{("send", size)} for size in sizes], "one size after the other"


def test_whom_a_backlog_chooses_has_another_before_and_behind(url: str):
    with mqredis.connect(url, manager="bench") as manager:
        manager.create_queue("line")
        line = Line(manager.open("line"), 5)
        line.receive(1)
        taken = line.queue.receive_by_lookup_id(line.ids[1])  # as from the middle; and so it is not the first
        line.ids[1] = 0
        for _ in range(20):
            chosen = line.ids[line.choose()]
            for where in (mqredis.Seek.PREVIOUS, mqredis.Seek.NEXT):
                other = line.queue.peek_by_lookup_id(chosen, seek=where).lookup_id
                assert other in line.ids
                assert other != taken.lookup_id
