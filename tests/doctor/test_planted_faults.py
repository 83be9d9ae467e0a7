"""The doctor finds planted faults, and repairs those whose repair loses no data."""

from __future__ import annotations

import re

import pytest

import mqredis
from tests.doctor.conftest import GHOST, Store
from tests.doctor.faults import FAULTS, TIMES, Fault, count, forget, head, put, schedule, state, tx_id
from tests.support.buckets import BUCKET, begin_bucket


@pytest.mark.parametrize("fault,code,repairable", [row[1:] for row in FAULTS], ids=[row[0] for row in FAULTS])
def test_planted_fault_is_found_and_repaired_if_possible(
    full: Store, fault: Fault, code: str, repairable: bool
) -> None:
    messages = full.qm.doctor().messages
    fault(full)
    found = full.qm.doctor()
    assert code in {finding.code for finding in found.findings}
    assert not found.healthy
    assert not any(finding.repaired for finding in found.findings)
    if code == "meta.missing":
        return
    report = full.qm.doctor(repair=True)
    assert {finding.code for finding in report.findings if finding.repaired} or not repairable
    if repairable:
        assert report.healthy
        assert full.codes() == set()
        assert full.qm.doctor().messages == messages
    else:
        assert code in {finding.code for finding in report.findings if not finding.repaired}


def test_queue_with_messages_but_without_properties_is_not_called_repairable(full: Store) -> None:
    full.raw.delete(full.key("tx.q"))
    full.qm.doctor(repair=True)
    found = [finding for finding in full.qm.doctor().findings if finding.code == "queue.missing"]
    assert [(finding.where, finding.repairable) for finding in found] == [("tx", False)]


def test_repaired_message_can_be_received(full: Store) -> None:
    lid = full.id("orders", b"a")
    full.raw.zrem(full.key("orders.a"), lid)
    assert full.codes(repair=True) == {"position.lost"}
    assert full.qm.open("orders").receive_by_lookup_id(int(lid, 16)).body == b"a"


@pytest.mark.parametrize("queue", ["orders", "tx"])
def test_unreadable_message_is_given_up_as_its_finding_says(full: Store, queue: str) -> None:
    records = full.key(f"{queue}.m")
    messages = full.qm.doctor().messages
    lids = [field for field in full.raw.hkeys(records) if field[:1] != b"^"]
    for lid in lids:
        full.raw.hset(records, lid, "hello")
    with pytest.raises(mqredis.InvariantBroken, match="`mqredis doctor` shows"):
        full.qm.open(queue).peek(0)
    found = [finding.text for finding in full.qm.doctor().findings if finding.code == "record.malformed"]
    assert len(found) == len(lids)
    for text in found:
        command = re.search(r"To give it up: (.*), and then mqredis doctor --repair$", text)
        assert command is not None
        full.raw.execute_command(*command[1].split(" "))
    full.qm.doctor(repair=True)
    assert full.codes() <= {"tx.message"}  # an open transaction has received a message that is gone
    assert full.qm.doctor().messages == messages - len(lids)
    with pytest.raises(mqredis.IoTimeout):
        full.qm.open(queue).peek(0)


def test_timer_of_a_message_whose_time_limit_is_damaged_is_kept(full: Store) -> None:
    head(b"brief", lambda record: record.replace(b"\x03e60000", b"\x03e6x"))(full)
    before = full.raw.zscore(full.key("orders.t"), "e" + full.id("orders", b"brief"))
    assert "timer.expiry" not in full.codes(repair=True)
    assert full.raw.zscore(full.key("orders.t"), "e" + full.id("orders", b"brief")) == before


def test_queue_with_a_lapsed_lock_that_has_no_state_can_be_used(full: Store) -> None:
    lid = full.id("tx", b"1")
    full.raw.hdel(full.key("tx.s"), lid)
    full.raw.zadd(full.key("tx.l"), {lid: 1})
    count("tx.q", "due", 0)(full)
    assert full.qm.open("tx").peek(0).body == b"2"


def test_lock_of_an_unknown_transaction_is_released(full: Store) -> None:
    state(b"1", r"\S+ (\d+)$", r"nobody \1", "tx")(full)
    assert full.codes() == {"lock.owner", "tx.message"}
    full.qm.doctor(repair=True)
    full.units[0].abort()
    assert full.qm.open("tx").peek(0).body == b"1"
    assert full.codes() == set()


@pytest.mark.parametrize("uncounted", [b"", b" 1"], ids=["attempt", "no attempt"])
def test_lock_that_its_open_transaction_does_not_name_is_released(full: Store, uncounted: bytes) -> None:
    full.raw.hset(full.key("txs"), f"{tx_id(full)}:1", f"R tx {GHOST}")
    lid = full.id("tx", b"1")
    full.raw.hset(full.key("tx.s"), lid, full.raw.hget(full.key("tx.s"), lid) + uncounted)
    assert full.codes(repair=True) == {"lock.owner", "queue.due"}
    assert full.qm.open("tx").peek(0).body == b"1"
    full.units[0].commit()
    assert full.codes() == set()


def test_queues_are_listed_after_the_clock_field_was_lost(full: Store) -> None:
    full.raw.hdel(full.key("meta"), "clock")
    assert full.codes(repair=True) >= {"meta.field"}
    assert len(full.qm.queues()) == 3


@pytest.mark.parametrize("name", ["timers never looked at", "header with a damaged lock"])
def test_repair_sets_the_timer_for_the_end_of_the_statistics_bucket(
    store: Store, request: pytest.FixtureRequest, name: str
) -> None:
    begin_bucket(store.qm)
    store.qm.advance_clock(BUCKET - 5)  # the timers of ``full`` end in the next bucket
    full: Store = request.getfixturevalue("full")
    fault = next(row[1] for row in FAULTS if row[0] == name)
    fault(full)
    assert full.qm.doctor(repair=True).healthy
    assert full.codes() == set()
    full.qm.advance_clock(5)
    full.qm.maintain()
    assert full.codes() == set()


def test_valid_schedules_are_no_finding_and_survive_a_repair(full: Store) -> None:
    full.qm.operator("ann").create_schedule("nightly", 3600.0, "orders", "go", paused=True)
    full.qm.operator("ann").create_schedule("daily", "0 3 * * *", "orders", "go", timezone="Europe/Berlin")
    schedule("once upon a time", name="bad")(full)
    assert full.codes() == {"schedule.malformed"}
    report = full.qm.doctor(repair=True)
    assert [(finding.code, finding.where, finding.repaired) for finding in report.findings] == [
        ("schedule.malformed", "bad", True)
    ]
    assert full.codes() == set()
    assert [schedule.name for schedule in full.qm.schedules()] == ["daily", "nightly", "well"]


def test_workers_and_pauses_are_no_finding(full: Store) -> None:
    full.qm.operator("ann").pause(queue="orders", reason="why")
    full.qm.operator("ann").pause(consumer="a:b")
    put("workers", "o:1f", "stop\ncancel 0400000000000001")(full)
    assert full.codes() == set()


def test_schedule_of_a_missing_queue_is_reported_as_advice(full: Store) -> None:
    schedule(TIMES.replace("orders", "gone"))(full)
    report = full.qm.doctor(repair=True)
    assert report.healthy
    advice = [(finding.where, finding.text) for finding in report.advice if finding.code == "schedule.queue"]
    assert advice == [
        ("nightly", "sends to queue 'gone', which does not exist: create it, or remove the schedule")
    ]


@pytest.mark.parametrize(
    "fault",
    [
        put("meta", "quota_messages", "many"),
        put("meta", "lead", "abc"),
        put("orders.q", "max_bytes", "many"),
        put("orders.q", "generation", "x"),
        put("orders.q", "flags", "z"),
        forget("orders", "queues"),
    ],
    ids=["quota of the manager", "lead", "size of messages", "generation", "flags", "entry of the list"],
)
def test_repair_keeps_what_works_beside_a_damaged_property(full: Store, fault: Fault) -> None:
    """Scripts go by the header of a queue, whose config repeats the properties."""
    fault(full)
    full.qm.doctor(repair=True)
    with mqredis.connect(full.raw, manager=full.qm.name) as client:
        orders = client.open("orders")
        orders.send(b"x", priority=7)
        assert orders.receive(0).body == b"x"
