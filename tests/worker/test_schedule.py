"""Schedules send one message per scheduled time, however many workers run."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest

import mqredis
from mqredis.codec.schedules import Definition
from mqredis.models.schedule import ScheduleInfo
from mqredis.operations import schedules as operations
from mqredis.operations.cron import next_time, zone_name, zone_of
from mqredis.testing import drain
from mqredis.worker import Worker
from mqredis.worker.schedule import Scheduler
from tests.support.until import until


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
def test_cron_computes_the_following_time(expression, now, following):
    assert next_time(expression, "UTC", at(now)) == at(following)


@pytest.mark.parametrize(
    "expression",
    ["", "* * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 8", "*/0 * * * *", "5-1 * * * *",
     "a * * * *", "-1 * * * *", "1- * * * *", "² * * * *"],
)  # fmt: skip
def test_invalid_cron_expression_is_refused(expression):
    with pytest.raises(mqredis.InvalidArgument):
        next_time(expression, "UTC", 0)


@pytest.mark.parametrize("expression", ["0 0 30 2 *", "0 0 31 2,4 *"])
def test_cron_expression_without_any_date_is_refused(expression):
    with pytest.raises(mqredis.InvalidArgument, match="Bad day-of-month"):
        next_time(expression, "UTC", 0)


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
def test_cron_respects_time_zones_and_clock_changes(expression, zone, now, following):
    assert next_time(expression, zone, at(now)) == at(following)
    assert next_time(expression, ZoneInfo(zone), at(now)) == at(following)


@pytest.mark.parametrize("zone", ["", "Europe/Nowhere", "../etc/passwd", "Europe", 5, None])
def test_unknown_time_zone_is_refused(zone):
    with pytest.raises(mqredis.InvalidArgument, match="there is no time zone"):
        next_time("0 3 * * *", zone, 0)


def test_schedules_and_cron_functions_take_a_time_zone(qm):
    worker = Worker()
    worker.schedule("morning", "0 3 * * *", "jobs", timezone=BERLIN)

    @worker.cron("0 3 * * *", timezone=BERLIN)
    def report(message): ...

    now = at("2026-07-01T00:00:00")
    times = [next_time(wanted.when, wanted.timezone, now) for wanted in worker.schedules]
    assert times == [at("2026-07-01T01:00:00")] * 2
    with pytest.raises(mqredis.InvalidArgument, match="there is no time zone 'Mars'"):
        worker.schedule("never", "0 3 * * *", "jobs", timezone="Mars")


def test_fixed_offset_zone_has_a_name():
    india = timezone(timedelta(hours=5, minutes=30))
    assert zone_name(india) == "UTC+05:30"
    assert zone_of("UTC+05:30") == india
    assert zone_of("UTC-03:00") == timezone(timedelta(hours=-3))
    assert next_time("0 0 * * *", "UTC+05:30", at("2026-01-01T00:00:00")) == at("2026-01-01T18:30:00")
    assert zone_name(ZoneInfo(BERLIN)) == BERLIN
    for name in ("UTC+25:00", "UTC+1"):
        with pytest.raises(mqredis.InvalidArgument, match="there is no time zone"):
            zone_of(name)


def test_every_computes_multiples_of_the_interval():
    assert next_time(90, "UTC", 0) == 90
    assert next_time(90, "UTC", 91) == 180
    with pytest.raises(mqredis.InvalidArgument):
        next_time(0.5, "UTC", 0)


def burst(worker: Worker, qm) -> int:
    return worker.run(burst=True, manager=qm, signals=False)


def scheduled() -> Worker:
    worker = Worker()
    worker.schedule("hourly", 3600.0, "jobs", b"go", label="l")
    return worker


@pytest.mark.parametrize("seconds", [1.1, 2.7, 10 / 3, 61.7, 3600.01])
def test_interval_served_when_it_is_due_is_followed_by_the_next_one(seconds: float) -> None:
    """A worker may serve it in the very ms in which it is due, where times of fractions of seconds are rounded."""
    schedule = Definition(0, "q", seconds, "UTC", declared=True)
    due_ms = operations._next(schedule, at("2026-01-01T00:00:00"))
    for _ in range(2000):
        following_ms = operations._next(schedule, due_ms / 1000)
        assert following_ms - due_ms == pytest.approx(seconds * 1000, abs=1.1)
        due_ms = following_ms
        assert next_time(seconds, "UTC", due_ms / 1000) > due_ms / 1000


def test_workers_starting_together_on_a_new_manager_all_run(redis_server):
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
            assert one(qm).name == "hourly"


def one(qm: mqredis.QueueManager) -> ScheduleInfo:
    (found,) = qm.schedules()
    return found


def shown_time(qm: mqredis.QueueManager) -> float:
    next_at = one(qm).next_at
    assert next_at is not None
    return next_at.timestamp()


def test_two_workers_send_each_scheduled_time_once(qm):
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
    assert one(qm).last_at is not None


def test_missed_times_are_sent_once(qm):
    qm.create_queue("jobs", transactional=True)
    worker = scheduled()
    burst(worker, qm)
    qm.advance_clock(10 * 3600 + 1)
    burst(worker, qm)
    burst(worker, qm)
    with qm.open("jobs") as jobs:
        assert len(drain(jobs)) == 1
    assert not one(qm).overdue


def test_cron_function_is_called_at_its_time(qm):
    worker = Worker()
    seen: list[Any] = []

    @worker.cron("0 * * * *", name="report")
    def report(message):
        seen.append(message.properties["scheduled_for"])

    burst(worker, qm)
    assert seen == []
    due = shown_time(qm)
    assert due % 3600 == 0
    qm.advance_clock(3600)
    burst(worker, qm)
    assert seen == [due]


# ---- stored in the broker ------------------------------------------------------------------------


def sent(qm: mqredis.QueueManager, name: str = "jobs") -> list[Any]:
    """The times for which messages were sent."""
    with qm.open(name) as queue:
        return [message.properties["scheduled_for"] for message in drain(queue)]


def test_declared_schedule_is_listed(qm):
    qm.create_queue("jobs")
    worker = Worker()
    worker.schedule("nightly", "0 3 * * *", "jobs", "go", timezone=BERLIN, label="l", priority=5)
    burst(worker, qm)
    found = one(qm)
    assert (found.name, found.queue, found.cron, found.interval) == ("nightly", "jobs", "0 3 * * *", None)
    assert (found.timezone, found.declared, found.paused, found.last_at) == (BERLIN, True, False, None)
    assert (found.message.text, found.message.label, found.message.priority) == ("go", "l", 5)
    assert found.next_at is not None
    assert found.next_at.astimezone(ZoneInfo(BERLIN)).hour == 3


@pytest.mark.parametrize("transactional", [False, True])
def test_scheduled_messages_have_the_declared_fields(qm, transactional):
    qm.create_queue("jobs", transactional=transactional)
    worker = Worker()
    fields: dict[str, Any] = {"label": "l", "correlation_id": "c", "properties": {"n": 1}, "app_tag": 7}
    worker.schedule("hourly", 3600.0, "jobs", b"go", time_to_be_received=60, **fields)
    burst(worker, qm)
    slot = shown_time(qm)
    qm.advance_clock(3600)
    burst(worker, qm)
    with qm.open("jobs") as jobs:
        (message,) = drain(jobs)
    assert (message.body, message.label, message.correlation_id, message.app_tag) == (b"go", "l", "c", 7)
    assert message.properties == {"n": 1, "scheduled_for": slot}
    assert (message.first_in_transaction, message.last_in_transaction) == (transactional, transactional)
    qm.advance_clock(3600)
    burst(worker, qm)
    qm.advance_clock(61)
    assert qm.queue_info("jobs").messages == 0  # it has expired


def test_delay_counts_from_the_scheduled_time(qm):
    qm.create_queue("jobs")
    worker = Worker()
    worker.schedule("hourly", 3600.0, "jobs", b"go", delay=60)
    burst(worker, qm)
    qm.advance_clock(3600)
    burst(worker, qm)
    assert qm.queue_info("jobs").delayed == 1
    qm.advance_clock(61)
    assert qm.queue_info("jobs").ready == 1


def test_changed_declaration_updates_the_stored_schedule(qm):
    qm.create_queue("jobs")
    burst(scheduled(), qm)
    before = one(qm)
    same = Worker()
    same.schedule("hourly", 3600.0, "jobs", b"other")
    burst(same, qm)
    assert (one(qm).message.body, one(qm).next_at) == (b"other", before.next_at)
    qm.operator("ada").pause_schedule("hourly")
    other = Worker()
    other.schedule("hourly", 600.0, "jobs", b"other")
    burst(other, qm)
    assert (one(qm).interval, one(qm).paused) == (600.0, True)
    qm.operator("ada").resume_schedule("hourly")
    daily = Worker()
    daily.schedule("hourly", 86_400.0, "jobs", b"other")
    burst(daily, qm)
    assert shown_time(qm) % 86_400 == 0


def test_declared_schedule_is_served_only_by_workers_that_declare_it(qm):
    qm.create_queue("jobs")
    burst(scheduled(), qm)
    qm.operator("ada").create_schedule("free", 3600, "jobs", b"free")
    other = Worker()
    other.schedule("another", 3600.0, "others")
    qm.advance_clock(3600)
    burst(other, qm)
    with qm.open("jobs") as jobs:
        assert [message.body for message in drain(jobs)] == [b"free"]
    assert {found.name: found.overdue for found in qm.schedules()} == {
        "another": False, "free": False, "hourly": True
    }  # fmt: skip
    burst(scheduled(), qm)
    with qm.open("jobs") as jobs:
        assert [message.body for message in drain(jobs)] == [b"go"]


def test_schedule_name_created_by_an_operator_cannot_be_declared(qm):
    qm.create_queue("jobs")
    qm.operator("ada").create_schedule("hourly", 60, "jobs")
    with pytest.raises(mqredis.ScheduleExists, match="created at run time: remove it"):
        burst(scheduled(), qm)
    worker = scheduled()
    with pytest.raises(mqredis.InvalidArgument, match="declares a schedule 'hourly' already"):
        worker.schedule("hourly", 60.0, "jobs")


def test_schedule_whose_queue_refuses_sends_is_served_later(qm, caplog):
    qm.create_queue("jobs", put_inhibited=True)
    worker = scheduled()
    burst(worker, qm)
    qm.advance_clock(3600)
    burst(worker, qm)
    assert "schedule hourly cannot be served" in caplog.text
    assert one(qm).overdue
    qm.update_queue("jobs", put_inhibited=False)
    qm.advance_clock(2 * 3600)
    burst(worker, qm)
    burst(worker, qm)
    assert len(sent(qm)) == 1


class Killed(BaseException):
    """Stands for the death of the worker."""


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", ["due", "fire"])
def test_worker_killed_at_any_step_neither_loses_nor_repeats_a_scheduled_time(qm, monkeypatch, step, after):
    """The first worker is killed before or after the broker has carried out each of its steps."""
    qm.create_queue("jobs", transactional=True)
    first, second = scheduled(), scheduled()
    burst(first, qm)
    slot = shown_time(qm)
    qm.advance_clock(3600)
    scheduler = Scheduler(qm, first.schedules)
    plain = qm.run

    def run(operation: Any) -> Any:
        if operation.name != step:
            return plain(operation)
        if after:
            plain(operation)
        raise Killed

    monkeypatch.setattr(qm, "run", run)
    with pytest.raises(Killed):
        scheduler.serve()
    monkeypatch.setattr(qm, "run", plain)
    for _ in range(2):
        burst(second, qm)
    assert sent(qm) == [slot]


def test_scheduled_time_found_due_by_two_workers_is_served_once(qm):
    qm.create_queue("jobs")
    burst(scheduled(), qm)
    qm.advance_clock(3600)
    found = qm.run(operations.due(qm.context))
    ((name, text, _),) = found.rows
    assert qm.run(operations.fire(qm.context, name, text, found.now_ms))
    assert not qm.run(operations.fire(qm.context, name, text, found.now_ms))
    assert len(sent(qm)) == 1


def test_schedule_changed_after_it_was_found_due_is_not_served(qm):
    qm.create_queue("jobs")
    burst(scheduled(), qm)
    qm.advance_clock(3600)
    found = qm.run(operations.due(qm.context))
    ((name, text, _),) = found.rows
    qm.operator("ada").pause_schedule("hourly")
    assert not qm.run(operations.fire(qm.context, name, text, found.now_ms))
    assert sent(qm) == []


def test_worker_serves_a_schedule_created_at_run_time(qm, started):
    qm.create_queue("jobs")
    worker = Worker(shutdown_seconds=5)
    seen = threading.Event()

    @worker.consumer("jobs")
    def handle(message):
        seen.set()

    qm.operator("ada").create_schedule("soon", 1, "jobs")
    started(worker)
    assert seen.wait(30)
    assert one(qm).last_at is not None


def test_starting_worker_logs_its_schedules(qm, caplog):
    qm.create_queue("jobs")
    worker = Worker(shutdown_seconds=5)
    worker.schedule("nightly", "0 3 * * *", "jobs", timezone=BERLIN)
    worker.schedule("hourly", 3600.0, "jobs")
    worker.schedule("monthly", 2_592_000.5, "jobs")
    with caplog.at_level("INFO", "mqredis.worker"), worker.background(qm):
        until(qm.workers)
    assert "schedule nightly sends to jobs: 0 3 * * * (Europe/Berlin)" in caplog.messages
    assert "schedule hourly sends to jobs: every 3600 s (UTC)" in caplog.messages
    assert "schedule monthly sends to jobs: every 2592000.5 s (UTC)" in caplog.messages


def test_unreadable_schedule_does_not_block_the_others(qm, caplog):
    qm.create_queue("jobs")
    burst(scheduled(), qm)
    definitions, _ = qm.context.keys.schedules
    qm.driver.command(
        "HSET", definitions, "broken", '1 {"queue": "jobs"}', "also", "1 x", "wide", '1 {"n": 1}'
    )
    qm.advance_clock(3600)
    burst(scheduled(), qm)
    assert len(sent(qm)) == 1
    assert caplog.text.count("the text of a schedule cannot be read") >= 3
    with pytest.raises(mqredis.InvariantBroken, match="the text of a schedule cannot be read"):
        qm.schedules()


def test_schedule_queues_of_release_0_1_0_are_removed(qm):
    """Release 0.1.0 kept a delayed message in a queue schedule.<name>."""
    qm.create_queue("jobs", transactional=True)
    for name in ("schedule.hourly", "schedule.mine"):
        qm.create_queue(name, transactional=True)
    with qm.open("schedule.hourly") as ticks, qm.open("schedule.mine") as mine, qm.transaction() as tx:
        ticks.send(
            b"", transaction=tx, properties={"slot": 3600.0}, delay=60, dedup_key="first", dedup_window=60
        )
        mine.send(b"", transaction=tx, properties={"slot": 1, "more": 2})
    worker = scheduled()
    worker.schedule("mine", 3600.0, "jobs")
    burst(worker, qm)
    assert [info.name for info in qm.queues("schedule.*")] == ["schedule.mine"]
