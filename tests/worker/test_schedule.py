"""Schedules fire once a time, however many workers run."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest

import mqredis
from mqredis.testing import drain
from mqredis.worker import Worker
from mqredis.worker.cron import Cron, Every
from mqredis.worker.schedule import clock


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    "expression, now, following",
    [
        ("* * * * *", "2026-01-01T00:00:00", "2026-01-01T00:01:00"),
        ("* * * * *", "2026-01-01T00:00:59", "2026-01-01T00:01:00"),
        ("*/15 * * * *", "2026-01-01T00:46:00", "2026-01-01T01:00:00"),
        ("30 3 * * *", "2026-01-01T03:30:00", "2026-01-02T03:30:00"),
        ("0 0 29 2 *", "2026-01-01T00:00:00", "2028-02-29T00:00:00"),
        ("0 9 * * mon-fri", "2026-01-02T10:00:00", "2026-01-05T09:00:00"),
        ("0 9 * * 7", "2026-01-01T00:00:00", "2026-01-04T09:00:00"),
        ("0 9 * * sun", "2026-01-01T00:00:00", "2026-01-04T09:00:00"),
        ("0 0 13 * fri", "2026-01-10T00:00:00", "2026-01-13T00:00:00"),
        ("5,10-12,50/5 1 1 jan,dec *", "2026-01-01T01:12:00", "2026-01-01T01:50:00"),
        ("59 23 31 12 *", "2026-12-31T23:59:00", "2027-12-31T23:59:00"),
    ],
)
def test_times_of_cron(expression, now, following):
    assert Cron(expression).after(at(now)) == at(following)


@pytest.mark.parametrize(
    "expression",
    ["", "* * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 8", "*/0 * * * *", "5-1 * * * *",
     "a * * * *", "-1 * * * *", "1- * * * *", "² * * * *"],
)  # fmt: skip
def test_expressions_that_make_no_sense(expression):
    with pytest.raises(mqredis.InvalidArgument):
        Cron(expression)


@pytest.mark.parametrize("expression", ["0 0 30 2 *", "0 0 31 2,4 *"])
def test_a_time_that_never_comes(expression):
    with pytest.raises(mqredis.InvalidArgument, match="Bad day-of-month"):
        Cron(expression)


BERLIN = "Europe/Berlin"  # an hour ahead of UTC, in summer two; the clocks change at 01:00 UTC


@pytest.mark.parametrize(
    "expression, zone, now, following",
    [
        ("0 3 * * *", BERLIN, "2026-01-01T00:00:00", "2026-01-01T02:00:00"),
        ("0 3 * * *", BERLIN, "2026-07-01T00:00:00", "2026-07-01T01:00:00"),
        ("0 9 * * mon-fri", "America/New_York", "2026-01-02T23:00:00", "2026-01-05T14:00:00"),
        ("0 0 1 * *", "Asia/Kolkata", "2026-01-15T00:00:00", "2026-01-31T18:30:00"),
        # 29 March 2026: 02:00 to 03:00 does not exist in Berlin.
        ("30 2 * * *", BERLIN, "2026-03-28T12:00:00", "2026-03-29T01:00:00"),
        ("30 2 * * *", BERLIN, "2026-03-29T01:00:00", "2026-03-30T00:30:00"),
        ("*/30 * * * *", BERLIN, "2026-03-29T00:30:00", "2026-03-29T01:00:00"),
        # 25 October 2026: 02:00 to 03:00 occurs twice.
        ("30 2 * * *", BERLIN, "2026-10-24T12:00:00", "2026-10-25T00:30:00"),
        ("30 2 * * *", BERLIN, "2026-10-25T00:30:00", "2026-10-26T01:30:00"),
        ("30 2 * * *", BERLIN, "2026-10-25T01:10:00", "2026-10-26T01:30:00"),
        ("*/30 * * * *", BERLIN, "2026-10-25T00:30:00", "2026-10-25T01:00:00"),
    ],
)
def test_time_zones(expression, zone, now, following):
    assert Cron(expression, zone).after(at(now)) == at(following)
    assert Cron(expression, ZoneInfo(zone)).after(at(now)) == at(following)


@pytest.mark.parametrize("zone", ["", "Europe/Nowhere", "../etc/passwd", "Europe", 5, None])
def test_time_zones_that_do_not_exist(zone):
    with pytest.raises(mqredis.InvalidArgument, match="there is no time zone"):
        Cron("0 3 * * *", zone)


def test_a_schedule_and_a_function_take_a_time_zone(qm):
    worker = Worker()
    worker.schedule("morning", "0 3 * * *", "jobs", timezone=BERLIN)

    @worker.cron("0 3 * * *", timezone=BERLIN)
    def report(message): ...

    now = at("2026-07-01T00:00:00")
    assert [schedule._times.after(now) for schedule in worker.schedules] == [at("2026-07-01T01:00:00")] * 2
    with pytest.raises(mqredis.InvalidArgument, match="there is no time zone 'Mars'"):
        worker.schedule("never", "0 3 * * *", "jobs", timezone="Mars")


def test_every():
    assert Every(90).after(0) == 90
    assert Every(90).after(91) == 180
    with pytest.raises(mqredis.InvalidArgument):
        Every(0.5)


def burst(worker: Worker, qm) -> int:
    return worker.run(burst=True, manager=qm, signals=False)


def scheduled() -> Worker:
    worker = Worker()
    worker.schedule("hourly", 3600.0, "jobs", b"go", label="l")
    return worker


def test_workers_that_start_at_once_on_a_new_manager_all_run(redis_server):
    settings = mqredis.Settings(allow_volatile=True)
    together, failed = threading.Barrier(4), []

    def start(name: str) -> None:
        worker = Worker(redis_server.url, manager=name, settings=settings)
        worker.schedule("hourly", 3600.0, "jobs", b"go")
        together.wait(30)
        try:
            worker.run(burst=True, signals=False)
        except mqredis.MqError as error:
            failed.append(error)

    for n in range(5):
        threads = [threading.Thread(target=start, args=(f"new{n}",)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert failed == []
        with mqredis.connect(redis_server.url, manager=f"new{n}", settings=settings) as qm:
            assert qm.queue_info("schedule.hourly").messages == 1


def test_two_workers_fire_once(qm):
    qm.create_queue("jobs", transactional=True)
    first, second = scheduled(), scheduled()
    for _ in range(5):
        burst(first, qm)
        burst(second, qm)
        qm.advance_clock(3600)
    burst(second, qm)
    with qm.open("jobs") as jobs:
        messages = drain(jobs)
    slots: list[Any] = [message.properties["scheduled_for"] for message in messages]
    assert len(slots) == len(set(slots)) == 5
    assert {b - a for a, b in pairwise(slots)} == {3600.0}
    assert messages[0].label == "l"
    assert qm.queue_info("schedule.hourly").messages == 1


def test_what_was_missed_is_made_up_for_once(qm):
    qm.create_queue("jobs", transactional=True)
    worker = scheduled()
    burst(worker, qm)
    qm.advance_clock(10 * 3600 + 1)
    burst(worker, qm)
    burst(worker, qm)
    with qm.open("jobs") as jobs:
        assert len(drain(jobs)) == 1
    assert qm.queue_info("schedule.hourly").delayed == 1


def test_functions(qm):
    worker = Worker()
    seen: list[Any] = []

    @worker.cron("0 * * * *", name="report")
    def report(message):
        seen.append(message.properties["scheduled_for"])

    burst(worker, qm)
    assert seen == []
    due = Cron("0 * * * *").after(clock(qm))
    qm.advance_clock(3600)
    burst(worker, qm)
    assert seen == [due]
