"""Schedules that operators create, pause, trigger and remove."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta

import pytest

import mqredis
import mqredis.asyncio
from mqredis import InvalidArgument, Operator, Outgoing, QueueManager, ScheduleDamaged, Settings
from mqredis.keys import ACTIONS
from mqredis.models.schedule import ScheduleInfo
from mqredis.sealing import AesGcm
from mqredis.testing import drain
from mqredis.worker import Worker
from mqredis.worker.schedule import Scheduler
from tests.operator.conftest import SETTINGS
from tests.support.backend import Backend
from tests.support.standing_clock import StandingClock
from tests.support.until import until


def one(qm: QueueManager) -> ScheduleInfo:
    (found,) = qm.schedules()
    return found


def bodies(qm: QueueManager, name: str = "orders") -> list[bytes]:
    with qm.open(name) as queue:
        return [message.body for message in drain(queue)]


def handle(message: mqredis.Message) -> None:
    raise AssertionError(message)


def work(qm: QueueManager) -> None:
    """Run a worker once that declares no schedule."""
    worker = Worker()
    worker.consumer("none", create={})(handle)
    worker.run(burst=True, manager=qm, signals=False)


def log(qm: QueueManager) -> list[tuple[str, str, dict[str, object]]]:
    with qm.open(ACTIONS, mqredis.Access.PEEK) as queue:
        return [
            (entry.label, str(entry.properties["operator"]), json.loads(entry.body))
            for entry in queue.browse()
        ]


def test_schedule_is_created_listed_and_served(qm: QueueManager, operator: Operator) -> None:
    assert qm.schedules() == []
    operator.create_schedule(
        "report", "0 3 * * mon-fri", "orders", "go", timezone="Europe/Berlin", label="nightly", priority=6
    )
    found = one(qm)
    assert (found.name, found.queue, found.cron, found.interval) == (
        "report",
        "orders",
        "0 3 * * mon-fri",
        None,
    )
    assert (found.timezone, found.declared, found.paused, found.overdue) == (
        "Europe/Berlin",
        False,
        False,
        False,
    )
    assert (found.message.text, found.message.label, found.message.priority) == ("go", "nightly", 6)
    assert found.last_at is None
    assert found.next_at is not None
    qm.advance_clock(3 * 86_400)
    assert one(qm).overdue
    work(qm)
    with qm.open("orders") as queue:
        (message,) = drain(queue)
    assert (message.text, message.label, message.priority) == ("go", "nightly", 6)
    assert message.properties == {"scheduled_for": found.next_at.timestamp()}
    after = one(qm)
    assert after.last_at is not None
    assert after.next_at is not None
    assert found.next_at < after.last_at < after.next_at


def test_schedules_are_listed_by_name(qm: QueueManager, operator: Operator) -> None:
    for name in ("b", "a", "c"):
        operator.create_schedule(name, 60, "orders")
    assert [found.name for found in qm.schedules()] == ["a", "b", "c"]
    assert {found.interval for found in qm.schedules()} == {60.0}


def test_paused_schedule_sends_nothing_and_skips_missed_times(qm: QueueManager, operator: Operator) -> None:
    operator.create_schedule("hourly", 3600, "orders", b"go")
    assert operator.pause_schedule("hourly")
    assert not operator.pause_schedule("hourly")
    assert one(qm).paused
    assert one(qm).next_at is None
    qm.advance_clock(5 * 3600)
    work(qm)
    assert bodies(qm) == []
    assert operator.resume_schedule("hourly")
    assert not operator.resume_schedule("hourly")
    work(qm)
    assert bodies(qm) == []
    qm.advance_clock(3600)
    work(qm)
    assert bodies(qm) == [b"go"]


def test_schedule_can_be_created_paused(qm: QueueManager, operator: Operator) -> None:
    operator.create_schedule("hourly", 3600, "orders", paused=True)
    assert one(qm).paused


@pytest.mark.parametrize("paused", [False, True])
def test_trigger_sends_now_and_keeps_the_next_time(
    qm: QueueManager, operator: Operator, paused: bool
) -> None:
    operator.create_schedule("hourly", 3600, "orders", b"go", paused=paused)
    before = one(qm)
    operator.trigger_schedule("hourly")
    assert bodies(qm) == [b"go"]
    assert one(qm).next_at == before.next_at
    assert one(qm).last_at is not None


def test_removed_schedule_sends_nothing_and_can_be_created_again(
    qm: QueueManager, operator: Operator
) -> None:
    operator.create_schedule("hourly", 3600, "orders", b"old")
    operator.remove_schedule("hourly")
    assert qm.schedules() == []
    qm.advance_clock(3600)
    work(qm)
    assert bodies(qm) == []
    operator.create_schedule("hourly", 3600, "orders", b"new")
    qm.advance_clock(3600)
    work(qm)
    assert bodies(qm) == [b"new"]


def test_declared_schedule_can_be_removed_only_after_its_worker_stopped(
    qm: QueueManager, operator: Operator
) -> None:
    worker = Worker(name="shop", heartbeat_seconds=60, shutdown_seconds=5)
    worker.schedule("hourly", 3600.0, "orders")
    assert qm.workers() == []
    with worker.background(qm):
        until(qm.workers)
        with pytest.raises(mqredis.ScheduleDeclared, match="worker 'shop' declares schedule 'hourly': pause"):
            operator.remove_schedule("hourly")
        operator.pause_schedule("hourly")
    operator.remove_schedule("hourly")
    assert qm.schedules() == []


def test_declared_schedule_is_found_by_a_name_in_another_normal_form(
    qm: QueueManager, operator: Operator
) -> None:
    worker = Worker(heartbeat_seconds=60, shutdown_seconds=5)
    worker.schedule("caf\u00e9", 3600.0, "orders")
    with worker.background(qm):
        until(qm.workers)
        with pytest.raises(mqredis.ScheduleDeclared):
            operator.remove_schedule("cafe\u0301")


def test_schedule_actions_are_logged_with_their_operator(qm: QueueManager, operator: Operator) -> None:
    operator.create_schedule("hourly", 3600, "orders")
    operator.pause_schedule("hourly")
    operator.resume_schedule("hourly")
    operator.trigger_schedule("hourly")
    operator.remove_schedule("hourly")
    name = {"schedule": "hourly"}
    assert log(qm) == [
        ("create_schedule", "ada", {**name, "when": 3600, "timezone": "UTC", "paused": False}),
        *((f"{action}_schedule", "ada", name) for action in ("pause", "resume", "trigger", "remove")),
    ]
    with qm.open(ACTIONS, mqredis.Access.PEEK) as queue:
        assert {entry.properties["finished"] for entry in queue.browse()} == {True}


def test_schedule_action_with_a_token_is_done_once(qm: QueueManager, operator: Operator) -> None:
    for _ in range(2):
        operator.create_schedule("hourly", 3600, "orders", token="1")
    with pytest.raises(mqredis.ScheduleExists):  # not the same call
        operator.create_schedule("hourly", 3600, "orders", paused=True, token="1")
    for _ in range(3):
        operator.trigger_schedule("hourly", token="1")
    assert len(bodies(qm)) == 1
    assert operator.pause_schedule("hourly", token="1")
    operator.resume_schedule("hourly")
    assert operator.pause_schedule("hourly", token="1")
    assert not one(qm).paused
    for _ in range(2):
        operator.remove_schedule("hourly", token="1")
    with pytest.raises(mqredis.ScheduleNotFound):
        operator.remove_schedule("hourly", token="2")
    assert len(log(qm)) == 5


@pytest.mark.parametrize("action", ["pause", "resume", "trigger", "remove"])
def test_unknown_schedule_name_is_refused(qm: QueueManager, operator: Operator, action: str) -> None:
    operator.create_schedule("hourly", 3600, "orders")
    with pytest.raises(mqredis.ScheduleNotFound, match="there is no schedule 'daily'; schedules"):
        getattr(operator, f"{action}_schedule")("daily")
    with pytest.raises(mqredis.InvalidName):
        getattr(operator, f"{action}_schedule")("")


def test_existing_schedule_name_is_refused(qm: QueueManager, operator: Operator) -> None:
    operator.create_schedule("hourly", 3600, "orders", b"first")
    with pytest.raises(mqredis.ScheduleExists, match="there is a schedule 'hourly' already"):
        operator.create_schedule("hourly", 60, "orders")
    assert one(qm).message.body == b"first"


@pytest.mark.parametrize(
    "when, zone, match",
    [
        ("0 3 * *", "UTC", "has five fields"),
        ("61 3 * * *", "UTC", "the cron expression '61 3 \\* \\* \\*' is wrong"),
        ("0 3 * * *", "Mars", "there is no time zone 'Mars'"),
        (60, "Mars", "there is no time zone 'Mars'"),
        (0.5, "UTC", "after 1 second at least"),
        (float("nan"), "UTC", "after 1 second at least"),
        (True, "UTC", "a cron expression or a number of seconds"),
        (None, "UTC", "a cron expression or a number of seconds"),
    ],
)
def test_invalid_times_are_refused(
    qm: QueueManager, operator: Operator, when: str | float, zone: str, match: str
) -> None:
    with pytest.raises(InvalidArgument, match=match):
        operator.create_schedule("hourly", when, "orders", timezone=zone)
    assert qm.schedules() == []


def test_schedule_whose_message_cannot_be_sent_is_refused(qm: QueueManager, operator: Operator) -> None:
    qm.create_queue("news", topic=True)
    refused = {
        "create it first": lambda: operator.create_schedule("s", 60, "nowhere"),
        "is a topic": lambda: operator.create_schedule("s", 60, "news"),
        "queue of the system": lambda: operator.create_schedule("s", 60, "system$"),
        "at most 4096 bytes": lambda: operator.create_schedule("s", 60, "orders", b"x" * 4097),
        "has no field 'colour'": lambda: operator.create_schedule("s", 60, "orders", colour="red"),
        "scheduled_for": lambda: operator.create_schedule("s", 60, "orders", properties={"scheduled_for": 1}),
        "the property .scheduled_for": lambda: operator.create_schedule(
            "s", 60, "orders", Outgoing("x", properties={"scheduled_for": 1})
        ),
        "fields of a scheduled message take at most": lambda: operator.create_schedule(
            "s", 60, "orders", b"x", properties={f"p{n}": "x" * 1000 for n in range(20)}
        ),
        "paused must be": lambda: operator.create_schedule("s", 60, "orders", paused=1),  # type: ignore[arg-type]
        "token must be": lambda: operator.create_schedule("s", 60, "orders", token=""),
    }
    for match, call in refused.items():
        with pytest.raises(mqredis.MqError, match=match):
            call()
    assert qm.schedules() == []


def test_trigger_fails_if_the_queue_refuses_the_message(qm: QueueManager, operator: Operator) -> None:
    operator.create_schedule("hourly", 3600, "orders")
    qm.update_queue("orders", put_inhibited=True)
    with pytest.raises(mqredis.PutInhibited):
        operator.trigger_schedule("hourly")
    qm.update_queue("orders", put_inhibited=False, quota_messages=0)
    with pytest.raises(mqredis.QueueQuotaExceeded):
        operator.trigger_schedule("hourly")
    qm.delete_queue("orders")
    with pytest.raises(mqredis.QueueNotFound, match="for the message of the schedule"):
        operator.trigger_schedule("hourly")
    assert one(qm).last_at is None
    assert [label for label, _, _ in log(qm)] == ["create_schedule"]


def test_trigger_sends_a_message_of_the_largest_size_of_its_queue(standing_clock: StandingClock) -> None:
    qm = standing_clock.qm
    operator = qm.operator("ada")
    qm.create_queue("orders")
    operator.create_schedule("hourly", 3600, "orders", b"x" * 100)
    operator.trigger_schedule("hourly")
    size = qm.queue_info("orders").bytes
    qm.update_queue("orders", max_message_bytes=size)
    operator.trigger_schedule("hourly")
    qm.update_queue("orders", max_message_bytes=size - 1)
    with pytest.raises(mqredis.MessageTooLarge):
        operator.trigger_schedule("hourly")
    assert qm.queue_info("orders").bytes == 2 * size


def test_trigger_sends_acknowledgements_of_the_message(qm: QueueManager, operator: Operator) -> None:
    qm.create_queue("answers")
    operator.create_schedule(
        "hourly",
        3600,
        "orders",
        b"go",
        acknowledge=mqredis.Acknowledge.POSITIVE_ARRIVAL,
        administration_queue="answers",
    )
    operator.trigger_schedule("hourly")
    assert bodies(qm) == [b"go"]
    assert qm.queue_info("answers").messages == 1


def test_more_than_1000_schedules_are_refused(qm: QueueManager, operator: Operator) -> None:
    operator.create_schedule("s0", 60, "orders", paused=True)
    definitions, messages = qm.context.keys.schedules
    for key in (definitions, messages):
        text = qm.driver.command("HGET", key, "s0")
        qm.driver.command("HSET", key, *(part for n in range(1, 1000) for part in (f"s{n}", text)))
    with pytest.raises(InvalidArgument, match="at most 1000 schedules"):
        operator.create_schedule("more", 60, "orders")
    assert len(qm.schedules()) == 1000
    operator.resume_schedule("s999")


def test_read_only_client_lists_schedules(qm: QueueManager, operator: Operator, backend: Backend) -> None:
    operator.create_schedule("hourly", 3600, "orders", b"go")
    with mqredis.connect(backend.client(), settings=Settings(read_only=True, test_clock=True)) as reader:
        assert one(reader) == one(qm)
        with pytest.raises(mqredis.AccessDenied):
            reader.operator("eve").pause_schedule("hourly")


def test_body_of_a_schedule_is_sealed(backend: Backend) -> None:
    settings = Settings(test_clock=True, allow_volatile=True)
    sealer = AesGcm({"k": b"k" * 16}, "k")
    with mqredis.connect(backend.client(), manager="s", settings=settings, sealer=sealer) as qm:
        qm.create_queue("orders")
        qm.operator("ada").create_schedule("hourly", 3600, "orders", b"secret")
        assert one(qm).message.body == b"secret"
        qm.operator("ada").trigger_schedule("hourly")
        assert bodies(qm) == [b"secret"]
    with mqredis.connect(backend.client(), manager="s", settings=settings) as qm:
        assert b"secret" not in one(qm).message.body


def test_asyncio_schedule_actions(backend: Backend) -> None:
    async def main() -> None:
        settings = Settings(test_clock=True, allow_volatile=True)
        async with mqredis.asyncio.connect(backend.async_client(), settings=settings) as qm:
            await qm.create_queue("orders")
            operator = qm.operator("ada")
            await operator.create_schedule("hourly", 3600, "orders", b"go")
            (found,) = await qm.schedules()
            assert found.next_at is not None
            assert found.next_at.minute == 0
            assert await operator.pause_schedule("hourly")
            assert await operator.resume_schedule("hourly")
            await operator.trigger_schedule("hourly")
            await operator.remove_schedule("hourly")
            assert await qm.schedules() == []
            assert (await qm.queue_info("orders")).ready == 1

    asyncio.run(main())


def test_daylight_saving_time_changes_the_utc_time_of_a_schedule(
    qm: QueueManager, operator: Operator
) -> None:
    operator.create_schedule("berlin", "30 12 * * *", "orders", timezone="Europe/Berlin")
    times = []
    for _ in range(24):
        found = one(qm).next_at
        assert found is not None
        times.append((found.hour, found.minute))
        qm.advance_clock(16 * 86_400)
        work_now(qm)
    assert set(times) == {(11, 30), (10, 30)}


def work_now(qm: QueueManager) -> None:
    """Serve the schedule that is due."""
    sent, wait = Scheduler(qm, ()).serve()
    assert (sent, wait) == (1, 0.0)


def test_serve_returns_the_time_until_the_next_schedule_is_due(qm: QueueManager, operator: Operator) -> None:
    scheduler = Scheduler(qm, ())
    assert scheduler.serve() == (0, 5.0)
    operator.create_schedule("often", 2, "orders")
    sent, wait = scheduler.serve()
    assert sent == 0
    assert 0 < wait <= 2
    assert timedelta(seconds=wait) > timedelta()


@pytest.mark.parametrize("stored", [b"", b"30", b"x0\0go"], ids=["none", "half", "priority"])
def test_schedule_with_a_damaged_message_sends_nothing_and_is_reported(
    backend: Backend, caplog: pytest.LogCaptureFixture, stored: bytes
) -> None:
    with mqredis.connect(backend.client(), settings=SETTINGS) as qm:
        qm.create_queue("orders")
        operator, raw = qm.operator("ada"), backend.client()
        operator.create_schedule("hourly", 3600, "orders", b"go")
        (key,) = raw.keys("*:schedules:messages")
        raw.hset(key, "hourly", stored) if stored else raw.hdel(key, "hourly")
        raw.close()
        with pytest.raises(ScheduleDamaged, match="remove the schedule, and create it again"):
            operator.trigger_schedule("hourly")
        qm.advance_clock(2 * 3600)
        work(qm)
        assert "schedule hourly cannot be served: its stored message is missing or damaged" in caplog.text
        assert bodies(qm) == []
        assert (one(qm).damaged, one(qm).message.body) == (True, b"")
        assert [finding.code for finding in qm.doctor().findings if "schedule" in finding.code] == [
            "schedule.message"
        ]
        assert operator.pause_schedule("hourly")
        operator.remove_schedule("hourly")
        operator.create_schedule("hourly", 3600, "orders", b"go")
        operator.trigger_schedule("hourly")
        assert bodies(qm) == [b"go"]


def test_worker_start_restores_the_message_of_a_declared_schedule(backend: Backend) -> None:
    with mqredis.connect(backend.client(), settings=SETTINGS) as qm:
        qm.create_queue("orders")
        worker = Worker()
        worker.schedule("hourly", 3600.0, "orders", b"go")
        worker.consumer("none", create={})(handle)
        worker.run(burst=True, manager=qm, signals=False)
        raw = backend.client()
        (key,) = raw.keys("*:schedules:messages")
        raw.delete(key)
        raw.close()
        assert one(qm).damaged
        worker.run(burst=True, manager=qm, signals=False)
        assert (one(qm).damaged, one(qm).message.body) == (False, b"go")
