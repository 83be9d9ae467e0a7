"""Operators' actions on available and delayed messages."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

import mqredis
import mqredis.asyncio
from mqredis import (
    Acknowledge,
    InvalidArgument,
    Match,
    MessageClass,
    Operator,
    QueueManager,
    QueueNotAvailable,
    QueueNotFound,
)
from mqredis.commands import bulk as commands
from mqredis.commands.address import Address
from mqredis.keys import encode
from mqredis.models.operator import BulkResult
from mqredis.operations.actions import token_key
from mqredis.operations.queue_call import QueueCall
from tests.operator.conftest import SETTINGS
from tests.operator.kit import bodies, counts, send
from tests.support.backend import Backend

# ---- delayed messages ----------------------------------------------------------------------------


def test_cancel_removes_one_delayed_message(qm: QueueManager, operator: Operator) -> None:
    first, _ = send(qm, "a", "b", delay=60)
    assert operator.cancel("orders", lookup_ids=[first]).changed == 1
    assert operator.cancel("orders", lookup_ids=[first]) == BulkResult(changed=0, missing=1)
    qm.advance_clock(60)
    assert bodies(qm) == [b"b"]


def test_cancel_ignores_available_messages(qm: QueueManager, operator: Operator) -> None:
    (ready,) = send(qm, "ready")
    send(qm, "later", delay=60)
    assert operator.cancel("orders", lookup_ids=[ready]).missing == 1
    assert operator.cancel("orders").changed == 1
    assert bodies(qm) == [b"ready"]


def test_cancel_by_selector_and_by_match(qm: QueueManager, operator: Operator) -> None:
    send(qm, *"abc", delay=60)
    send(qm, "d", delay=60, correlation_id="x")
    assert operator.cancel("orders", selector="JMSType = 'z' OR $label IN ('a', 'b')").changed == 2
    assert operator.cancel("orders", match=Match(correlation_id="x")).changed == 1
    assert counts(qm) == (0, 1, 0)


def test_reschedule_to_a_time_and_by_seconds(qm: QueueManager, operator: Operator) -> None:
    first, second = send(qm, "a", "b", delay=60)
    arrived = qm.queue_info("orders").created_at
    assert operator.reschedule("orders", lookup_ids=[first], at=arrived + timedelta(seconds=600)).changed == 1
    assert operator.reschedule("orders", lookup_ids=[second], delay=5).changed == 1
    qm.advance_clock(10)
    assert bodies(qm) == [b"b"]
    qm.advance_clock(585)
    assert bodies(qm) == [b"b"]
    qm.advance_clock(10)
    assert bodies(qm) == [b"a", b"b"]


def test_reschedule_holds_back_available_messages_when_asked(qm: QueueManager, operator: Operator) -> None:
    send(qm, "a")
    assert operator.reschedule("orders", delay=60).changed == 0
    assert operator.reschedule("orders", delay=60, scheduled=False).changed == 1
    assert counts(qm) == (0, 1, 0)


@pytest.mark.parametrize("scheduled", [False, None])
def test_reschedule_to_now_leaves_available_messages_alone(
    qm: QueueManager, operator: Operator, scheduled: bool | None
) -> None:
    send(qm, "a")
    assert operator.reschedule("orders", delay=0, scheduled=scheduled).changed == 0
    send(qm, "b", delay=60)
    assert operator.reschedule("orders", delay=0, scheduled=scheduled).changed == (scheduled is None)


def test_reschedule_of_both_takes_available_and_delayed_messages(
    qm: QueueManager, operator: Operator
) -> None:
    send(qm, "a")
    send(qm, "b", delay=30)
    assert operator.reschedule("orders", delay=60, scheduled=None).changed == 2
    qm.advance_clock(59)
    assert counts(qm) == (0, 2, 0)
    qm.advance_clock(1)
    assert bodies(qm) == [b"a", b"b"]


def test_run_now_keeps_the_place_of_the_message(qm: QueueManager, operator: Operator) -> None:
    send(qm, "a", delay=60)
    send(qm, "b")
    assert operator.run_now("orders").changed == 1
    assert bodies(qm) == [b"a", b"b"]


def test_message_named_twice_counts_once(qm: QueueManager, operator: Operator) -> None:
    first, _ = send(qm, "1", "2")
    assert operator.delete("orders", lookup_ids=[first, first]).changed == 1
    assert counts(qm) == (1, 0, 0)
    assert qm.doctor().findings == ()


@pytest.mark.parametrize("name", ["inf", "-5"])
def test_move_to_a_queue_whose_name_is_a_number(qm: QueueManager, operator: Operator, name: str) -> None:
    qm.create_queue(name)
    with qm.open(name) as queue:
        queue.send_many([b"x"] * 260)
    operator.move(name, f"{name};side")
    assert operator.move(f"{name};side", name).changed == 260
    assert counts(qm, name) == (260, 0, 0)


def test_run_now_wakes_a_waiting_reader(qm: QueueManager, operator: Operator, backend: Backend) -> None:
    send(qm, "a", delay=3600)
    reader = mqredis.connect(backend.client(), settings=SETTINGS)
    with reader, reader.open("orders") as queue, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(queue.receive, 30)
        deadline = time.monotonic() + 30
        while not qm.queue_info("orders").waiters:
            assert time.monotonic() < deadline, "the reader does not wait"
        operator.run_now("orders")
        assert waiting.result(30).body == b"a"


def test_asyncio_cancel_removes_a_delayed_message(backend: Backend) -> None:
    async def main() -> int:
        async with mqredis.asyncio.connect(backend.async_client(), settings=SETTINGS) as qm:
            await qm.create_queue("orders")
            async with qm.open("orders") as queue:
                await queue.send(b"a", delay=60)
            return (await qm.operator("ada").cancel("orders")).changed

    assert asyncio.run(main()) == 1


def test_action_on_more_messages_than_one_call_changes(qm: QueueManager, operator: Operator) -> None:
    with qm.open("orders") as queue:
        queue.send_many([mqredis.Outgoing(b"x", delay=60, label=str(n % 2)) for n in range(700)])
    seen: list[BulkResult] = []
    assert operator.cancel("orders", selector="$label = '1'", progress=seen.append).changed == 350
    assert [result.changed for result in seen] == sorted(result.changed for result in seen)
    assert len(seen) > 1
    assert operator.reschedule("orders", delay=120).changed == 350
    assert operator.run_now("orders").changed == 350
    assert counts(qm) == (350, 0, 0)


def test_action_on_few_of_more_messages_than_one_call_tests(qm: QueueManager, operator: Operator) -> None:
    with qm.open("orders") as queue:
        queue.send_many([mqredis.Outgoing(b"x", label="b" if n % 100 == 0 else "a") for n in range(2500)])
    assert operator.delete("orders", selector="$label = 'b'").changed == 25


def test_action_that_one_call_completes_takes_one(qm: QueueManager, operator: Operator) -> None:
    send(qm, "a", "b", "b")
    seen: list[BulkResult] = []
    assert operator.delete("orders", selector="$label = 'b'", progress=seen.append).changed == 2
    assert [(result.changed, result.finished) for result in seen] == [(2, True)]


def test_action_continues_from_its_cursor(qm: QueueManager, operator: Operator) -> None:
    with qm.open("orders") as queue:
        queue.send_many([b"old"] * 600)
        first = operator.delete("orders", steps=1)
        assert (first.changed, first.finished) == (256, False)
        queue.send(b"new")
    last = operator.delete("orders", cursor=first.cursor)
    assert (last.changed, last.finished) == (600, True)
    assert bodies(qm) == [b"new"]


def test_action_on_delayed_messages_continues_from_its_cursor(qm: QueueManager, operator: Operator) -> None:
    with qm.open("orders") as queue:
        queue.send_many([mqredis.Outgoing(b"x", delay=3600.0)] * 600)
    first = operator.delete("orders", scheduled=True, steps=1)
    assert (first.changed, first.finished) == (256, False)
    last = operator.delete("orders", scheduled=True, cursor=first.cursor)
    assert (last.changed, last.finished) == (600, True)


def test_restore_continues_from_its_cursor(qm: QueueManager, operator: Operator) -> None:
    with qm.open("orders") as queue:
        queue.send_many([b"x"] * 1100)
    operator.delete("orders", trash=3600.0)
    result = operator.restore("orders", steps=1)  # it examines the timers of the trash first
    assert (result.changed, result.finished) == (0, False)
    while not result.finished:
        result = operator.restore("orders", steps=1, cursor=result.cursor)
    assert result.changed == 1100
    assert counts(qm) == (1100, 0, 0)


def test_limit_applies_over_several_calls(qm: QueueManager, operator: Operator) -> None:
    with qm.open("orders") as queue:
        queue.send_many([b"x"] * 600)
    calls: list[BulkResult] = []
    assert operator.delete("orders", limit=300, progress=calls.append).changed == 300
    # Each has deleted some.
    assert (calls[-1].cursor, len({call.changed for call in calls})) == (
        None,
        len(calls),
    )
    assert counts(qm) == (300, 0, 0)


# ---- delete, trash, restore ----------------------------------------------------------------------


def test_count_and_delete_agree(qm: QueueManager, operator: Operator) -> None:
    send(qm, *"aab")
    send(qm, "a", delay=60)
    assert operator.count("orders", selector="$label = 'a'").changed == 3
    assert operator.count("orders", selector="$label = 'a'", scheduled=False).changed == 2
    assert operator.delete("orders", selector="$label = 'a'").changed == 3
    assert bodies(qm) == [b"b"]


def test_message_whose_delay_has_ended_counts_as_available(qm: QueueManager, operator: Operator) -> None:
    send(qm, "a", delay=10)
    qm.advance_clock(10)
    assert operator.count("orders", scheduled=False).changed == 1


def test_deleted_message_is_acknowledged_as_purged(qm: QueueManager, operator: Operator) -> None:
    qm.create_queue("acks")
    send(qm, "a", acknowledge=Acknowledge.FULL_RECEIVE, administration_queue="acks")
    assert operator.delete("orders").changed == 1
    with qm.open("acks") as acks:
        assert acks.receive(0).message_class == MessageClass.NACK_QUEUE_PURGED


def test_delete_skips_locked_messages(qm: QueueManager, operator: Operator) -> None:
    held, free = send(qm, "a", "b")
    with qm.open("orders") as queue, queue.lock(0):
        assert operator.delete("orders", lookup_ids=[held, free]) == BulkResult(changed=1, locked=1)
    assert counts(qm) == (0, 0, 0)


def test_trash_that_was_deleted_between_two_calls_is_created_again(qm: QueueManager) -> None:
    """The client has created it, and then names it in its next call."""
    send(qm, "a")
    address = Address(qm.context.keys, "orders", beside=("orders;trash",))
    call = commands.bulk(address, b"", commands.Action("trash", "1000"), None, "", b"", [])
    assert qm.run(QueueCall(address, call)).changed == 1
    assert bodies(qm, "orders;trash") == [b"a"]


def test_restore_returns_available_and_delayed_messages(qm: QueueManager, operator: Operator) -> None:
    send(qm, *"abc")
    send(qm, "later", delay=60)
    assert operator.delete("orders", trash=3600, selector="$label <> 'b'").changed == 3
    assert bodies(qm) == [b"b"]
    assert counts(qm, "orders;trash") == (2, 1, 0)
    qm.advance_clock(30)
    assert operator.restore("orders").changed == 3
    assert bodies(qm) == [b"a", b"b", b"c"]
    assert counts(qm) == (3, 1, 0)
    qm.advance_clock(3600)
    assert bodies(qm) == [b"a", b"b", b"c", b"later"]


def test_restore_by_selector(qm: QueueManager, operator: Operator) -> None:
    send(qm, *"abc")
    operator.delete("orders", trash=3600)
    assert operator.restore("orders", selector="$label = 'b'").changed == 1
    assert bodies(qm) == [b"b"]


def test_message_in_the_trash_is_purged_after_its_time(qm: QueueManager, operator: Operator) -> None:
    qm.create_queue("acks")
    send(qm, "a", acknowledge=Acknowledge.NACK_RECEIVE, administration_queue="acks")
    operator.delete("orders", trash=60)
    qm.advance_clock(59)
    qm.maintain()
    assert counts(qm, "orders;trash") == (1, 0, 0)
    assert bodies(qm, "acks") == []
    qm.advance_clock(1)
    qm.maintain()
    assert counts(qm, "orders;trash") == (0, 0, 0)
    assert len(bodies(qm, "acks")) == 1


def test_messages_in_the_trash_count_in_the_quota(qm: QueueManager, operator: Operator) -> None:
    qm.update_queue("orders", quota_messages=2)
    send(qm, "a", "b")
    operator.delete("orders", trash=60)
    with pytest.raises(mqredis.QueueQuotaExceeded):
        send(qm, "c")
    operator.delete("orders;trash")
    send(qm, "c")


# ---- move and redrive ----------------------------------------------------------------------------


def test_move_to_a_subqueue_and_back(qm: QueueManager, operator: Operator) -> None:
    send(qm, *"abc")
    assert operator.move("orders", "orders;later", selector="$label <> 'b'").changed == 2
    assert bodies(qm, "orders;later") == [b"a", b"c"]
    assert operator.move("orders;later", "orders").changed == 2
    assert bodies(qm) == [b"a", b"b", b"c"]


def test_move_to_another_queue_is_refused(qm: QueueManager, operator: Operator) -> None:
    qm.create_queue("other")
    with pytest.raises(InvalidArgument, match="redrive"):
        operator.move("orders", "other")


def test_redrive_by_selector_target_and_limit(qm: QueueManager, operator: Operator) -> None:
    qm.create_queue("other")
    send(qm, *"abc", journal=mqredis.Journal.DEAD_LETTER)
    with qm.open("orders") as queue:
        for lock in queue.lock_many(3, 0):
            lock.reject("no such customer")
    assert operator.redrive(selector="$label = 'a'").changed == 1
    assert bodies(qm) == [b"a"]
    for redrive in (operator.redrive, qm.redrive):
        with pytest.raises(QueueNotFound, match="there is no queue 'nosuch'"):
            redrive(to="nosuch")
    assert operator.redrive(to="other", limit=1).changed == 1
    assert bodies(qm, "other") == [b"b"]
    assert bodies(qm, "system$;deadletter") == [b"c"]


def test_unfinished_action_goes_on_behind_a_dedup_key_of_any_form(
    qm: QueueManager, operator: Operator
) -> None:
    """A call looks at 1,000 timers of a queue, of which some hold dedup keys."""
    with qm.open("orders") as queue:
        keys = [f"\n{n:04d}é" + "k" * 400 for n in range(1000)]
        queue.send_many([mqredis.Outgoing(b"x", dedup_key=key, dedup_window=60.0) for key in keys])
        for _ in range(4):
            queue.receive_many(250, 0)
        queue.send(b"later", delay=3600)
    first = operator.run_now("orders", steps=1)
    assert (first.changed, first.finished) == (0, False)
    assert operator.run_now("orders", cursor=first.cursor).changed == 1


# ---- tokens ----------------------------------------------------------------------------------------


def test_action_with_a_token_is_done_once(qm: QueueManager, operator: Operator) -> None:
    send(qm, *"abc")
    assert operator.delete("orders", limit=1, token="t-1").changed == 1
    assert operator.delete("orders", limit=1, token="t-1").changed == 1
    assert bodies(qm) == [b"b", b"c"]
    assert operator.delete("orders", limit=1, token="t-2").changed == 1
    assert bodies(qm) == [b"c"]


def test_refused_action_is_carried_out_under_its_token_when_the_cause_is_gone(qm: QueueManager) -> None:
    """The target of a move can vanish between the call that opens it and the one that moves."""
    send(qm, "a")
    extra = token_key(qm.context.keys, "t", "move")
    address = Address(qm.context.keys, "orders", extra=extra)

    def move() -> BulkResult:
        action = commands.Action("move", encode("orders;late"))
        return qm.run(QueueCall(address, commands.bulk(address, b"", action, None, "", b"", [])))

    with pytest.raises(QueueNotAvailable, match="the target of an action on queue 'orders' of queue manager"):
        move()
    with qm.open("orders;late", mqredis.Access.MOVE):
        assert move().changed == 1
        qm.open("orders").send("b")
        assert move().changed == 1
    assert bodies(qm) == [b"b"]


def test_token_covers_an_action_of_several_calls(qm: QueueManager, operator: Operator) -> None:
    with qm.open("orders") as queue:
        queue.send_many([b"x"] * 600)
        assert not operator.delete("orders", token="t", steps=1).finished
        assert operator.delete("orders", token="t").changed == 600
        queue.send(b"later")
        assert operator.delete("orders", token="t").changed == 600
    assert bodies(qm) == [b"later"]


def test_invalid_arguments_and_unknown_queues_are_refused(qm: QueueManager, operator: Operator) -> None:
    with pytest.raises(InvalidArgument, match="colour"):
        operator.delete("orders", colour="red")  # type: ignore[call-arg]
    with pytest.raises(mqredis.QueueNotFound, match="nowhere"):
        operator.delete("nowhere")
    with pytest.raises(InvalidArgument, match="either"):
        operator.delete("orders", lookup_ids=[1], limit=5)
    with pytest.raises(InvalidArgument, match="either delay"):
        operator.reschedule("orders")


def test_redriven_dead_letter_has_the_delay_of_its_message(qm: QueueManager, operator: Operator) -> None:
    qm.create_queue("dead")
    dead = mqredis.Journal.DEAD_LETTER
    send(qm, "a", delay=60, time_to_be_received=70, journal=dead, dead_letter_queue="dead")
    for _ in range(2):
        qm.advance_clock(61)
        qm.maintain()
    assert operator.reschedule("dead", delay=5, scheduled=False).changed == 1
    qm.advance_clock(6)
    assert qm.redrive("dead") == 1
    qm.advance_clock(59)
    qm.maintain()
    assert counts(qm) == (0, 1, 0)
    qm.advance_clock(2)
    qm.maintain()
    assert bodies(qm) == [b"a"]
