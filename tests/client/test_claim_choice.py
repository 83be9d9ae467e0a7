"""Which messages a claim takes: its limits, filters and groups, and what it knows of each message."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from mqredis import Acknowledge, Outgoing
from mqredis.commands import claims as commands
from mqredis.commands.address import Address
from mqredis.commands.claims import Order
from mqredis.commands.filters import Filter
from mqredis.commands.waiting import Waiter
from mqredis.errors import IoTimeout, MessageNotFound, QueueNotFound, TransactionUsage
from mqredis.operations import pipelines
from mqredis.operations.queue_call import QueueCall
from mqredis.selector import parse
from mqredis.steps import perform
from tests.support.backend import Backend
from tests.support.pipeline import PLAIN_PAGE, Pipeline, new_manager

RED = Filter(programs=[parse("colour = 'red'").program]).text()


@pytest.fixture
def turns(pipeline: Pipeline) -> Pipeline:
    """The pipeline on a queue with one active message for each group."""
    pipeline.qm.create_queue("turns", group_exclusive=True)
    return replace(pipeline, path="turns")


def test_claim_of_a_queue_that_begins_with_ids_without_records_ends(pipeline: Pipeline) -> None:
    pipeline.fill(5)
    available = f"mq:{{{pipeline.qm.name}}}:q:{pipeline.path}:a"
    ghosts = {f"{number:016x}": 0 for number in range(PLAIN_PAGE + 1)}
    pipeline.raw.zadd(available, ghosts)
    assert pipeline.claim(1, first=True).count == 0
    pipeline.raw.zrem(available, *ghosts)  # as the doctor does
    assert pipeline.commit(1) == 0
    assert pipeline.claim(2).count == 5


def test_claim_passes_over_an_id_without_a_record(pipeline: Pipeline) -> None:
    pipeline.fill(5)
    available, ghost = f"mq:{{{pipeline.qm.name}}}:q:{pipeline.path}:a", b"0" * 16
    pipeline.raw.zadd(available, {ghost: 0})
    assert pipeline.claim(1, first=True).count == 5
    assert pipeline.raw.zrange(available, 0, -1) == [ghost]


def test_matches_reports_whether_a_claim_would_find_a_message(pipeline: Pipeline) -> None:
    def matches(**order: Any) -> bool:
        return pipeline.qm.run(pipelines.matches(pipeline.queue, Order(10, match=RED, **order)))

    pipeline.fill(600, properties={"colour": "blue"})
    assert not matches()
    with pipeline.qm.open("orders") as queue:
        first, second = (
            f"{queue.send(b'x', properties={'colour': 'red'}).lookup_id:016x}"[2:] for _ in range(2)
        )
        assert matches()
        assert (matches(after=first), matches(after=second)) == (True, False)
        assert (matches(bound=first), matches(bound="0" * 14)) == (True, False)
        absent = pipeline.queue
        pipeline.holds(602, 0)
    pipeline.qm.delete_queue("orders")
    with pytest.raises(QueueNotFound):
        pipeline.qm.run(pipelines.matches(absent, Order(10, match=RED)))


def test_matches_serves_all_due_timers_first(backend: Backend) -> None:
    """More are due than one call serves (lua/core/timers.lua)."""
    with new_manager(backend, test_clock=True) as qm:
        qm.create_queue("orders")
        pipeline = Pipeline(qm, backend.client())
        pipeline.fill(600, properties={"colour": "blue"}, delay=60)
        pipeline.fill(1, properties={"colour": "red"}, delay=60)
        address = pipeline.queue  # found by a call that would serve timers
        qm.advance_clock(61)
        assert qm.run(pipelines.matches(address, Order(10, match=RED)))
        pipeline.holds(601, 0)


@pytest.mark.parametrize(
    "call",
    [
        lambda queue: pipelines.matches(queue, Order(10, match=RED)),
        lambda queue: QueueCall(queue, commands.wait(queue, "", Waiter())),
        lambda queue: QueueCall(queue, commands.backlog(queue)),
        lambda queue: QueueCall(queue, commands.claim(queue, "lake", "first", 1, Order(10), True)),
        lambda queue: QueueCall(queue, commands.commit(queue, "lake", "first", 0)),
    ],
    ids=["matches", "wait", "look", "claim", "commit"],
)
def test_expired_messages_of_a_subqueue_are_counted_out_of_its_family(
    backend: Backend, call: Callable[[Address], Any]
) -> None:
    with new_manager(backend, test_clock=True) as qm:
        qm.create_queue("orders", quota_messages=3)
        pipeline = Pipeline(qm, backend.client())
        pipeline.fill(2, time_to_be_received=60)
        pipeline.fill(1)
        qm.operator("ops").move("orders", "orders;later")
        later = replace(pipeline, path="orders;later")
        address = later.queue  # found by a call that would serve the timers
        qm.advance_clock(61)
        qm.run(call(address))
        assert qm.queue_info(later.path).messages == 1
        assert qm.doctor().findings == ()
        pipeline.fill(2)


def test_matches_passes_over_groups_that_are_busy(turns: Pipeline) -> None:
    with turns.qm.open("turns") as queue:
        for group in "aab":
            queue.send(group, group_id=group, properties={"colour": "red" if group == "a" else "blue"})
        with queue.lock(0):
            assert not turns.qm.run(pipelines.matches(turns.queue, Order(10, match=RED)))
        queue.send("a", group_id="a", properties={"colour": "red"})
        assert turns.qm.run(pipelines.matches(turns.queue, Order(10, match=RED)))


@pytest.mark.parametrize(
    "priorities, after, bound, left",
    [
        ("37375", 0, 3, "40"),
        ("37375", None, 2, "34"),
        ("37375", 2, None, "102"),
        ("33333", 0, None, "0"),
        ("33333", None, 2, "34"),
    ],
    ids=["both", "bound", "after", "after, one priority", "bound, one priority"],
)
def test_claim_within_limits_takes_messages_of_each_priority(
    pipeline: Pipeline, priorities: str, after: int | None, bound: int | None, left: str
) -> None:
    with pipeline.qm.open("orders") as queue:
        ids = [queue.send(str(n), priority=int(each)).lookup_id for n, each in enumerate(priorities)]
        place = {n: f"{id_:016x}"[2:] for n, id_ in enumerate(ids)} | {None: ""}
        claimed = pipeline.claim(1, 10, first=True, after=place[after], bound=place[bound])
        assert claimed.count == 5 - len(left)
        assert "".join(message.text for message in queue.browse()) == left


def test_look_counts_the_messages_within_its_limits(pipeline: Pipeline) -> None:
    with pipeline.qm.open("orders") as queue:
        ids = [queue.send(b"x", priority=priority).lookup_id for priority in (3, 7, 3, 5)]
    second, third = (f"{id_:016x}"[2:] for id_ in ids[1:3])

    def count(**limits: str) -> int:
        return pipeline.qm.run(pipelines.look(pipeline.qm.context, "orders", **limits)).available

    assert [count(), count(after=second), count(bound=second), count(after=second, bound=third)] == [
        4,
        2,
        2,
        1,
    ]


def test_claim_ends_before_the_message_that_exceeds_its_bytes(pipeline: Pipeline) -> None:
    pipeline.fill(10)
    one = pipeline.claim(1, 1, first=True).bytes
    for sequence, most_bytes in enumerate((3 * one - 1, 3 * one, one - 1), 2):
        pipeline.commit(sequence - 1)
        claimed = pipeline.claim(sequence, 10, most_bytes=most_bytes)
        count = max(1, most_bytes // one)
        assert (claimed.count, claimed.bytes, claimed.sealed) == (count, count * one, True)


@pytest.mark.parametrize("size", [1000, 100_000])
def test_claim_counts_the_bytes_of_messages_that_were_locked_before(pipeline: Pipeline, size: int) -> None:
    """All messages have states then, as many as the queue has messages. A large body is not in its message's record."""
    with pipeline.qm.open("orders") as queue:
        for body in (b"x" * size, b"y"):
            queue.send(body)
        for lock in queue.lock_many(2):
            lock.abort()
    assert pipeline.claim(1, first=True).bytes == pipeline.qm.queue_info("orders").bytes > size
    pipeline.commit(1)


def test_claim_with_a_filter_goes_on_behind_other_messages(pipeline: Pipeline) -> None:
    """There are more of them than one call searches."""
    for colour in ("blue", "red"):
        pipeline.fill(3000 if colour == "blue" else 3, properties={"colour": colour})
    claimed = pipeline.claim(1, first=True, match=RED)
    assert (claimed.count, claimed.sealed) == (3, True)


def test_claim_with_a_filter_takes_one_message_of_each_group(turns: Pipeline) -> None:
    with turns.qm.open("turns") as queue:
        for n, group in enumerate("abab"):
            queue.send(str(n), group_id=group, properties={"colour": "red"})
        assert turns.claim(1, first=True, match=RED).count == 2
        assert [message.text for message in queue.browse()] == ["2", "3"]
        with pytest.raises(IoTimeout):
            queue.lock(0)


def test_delayed_message_between_claimed_ones_is_not_claimed(pipeline: Pipeline) -> None:
    with pipeline.qm.open("orders") as queue:
        red, blue, _ = (
            queue.send(b"x", properties={"colour": colour}, delay=delay).lookup_id
            for colour, delay in (("red", None), ("blue", 3600), ("red", None))
        )
        assert pipeline.claim(1, first=True, match=RED).count == 2
        with pytest.raises(TransactionUsage):
            queue.peek_by_lookup_id(red)
        with pytest.raises(MessageNotFound):
            queue.peek_by_lookup_id(blue)


def test_claim_with_a_filter_passes_over_groups_that_are_busy(turns: Pipeline) -> None:
    with turns.qm.open("turns") as queue:
        for group in "aab":
            queue.send(group, group_id=group, properties={"colour": "red"})
        lock = queue.lock(0)
        assert turns.claim(1, 10, first=True, match=RED).count == 1
        assert [message.text for message in queue.browse()] == ["a"], "the message of group b was claimed"
        lock.commit()


def test_claim_takes_one_message_of_each_group_that_is_free(turns: Pipeline) -> None:
    with turns.qm.open("turns") as queue:
        for group in "aabbcc":
            queue.send(group, group_id=group)
        with queue.lock(0):
            assert turns.claim(1, first=True).count == 2
            assert [message.text for message in queue.browse()] == ["a", "b", "c"]


def test_claim_takes_a_message_of_each_of_more_groups_than_one_call_locks(turns: Pipeline) -> None:
    with turns.qm.open("turns") as queue:
        queue.send_many([Outgoing(body=b"x", group_id=str(n % 300)) for n in range(400)])
    assert turns.claim(1, 290, first=True).count == 290


@pytest.mark.parametrize("match", [b"", RED])
@pytest.mark.parametrize("lifetime", [None, 3600])
def test_claim_keeps_earlier_deliveries(pipeline: Pipeline, match: bytes, lifetime: int | None) -> None:
    pipeline.fill(2, properties={"colour": "red"}, time_to_be_received=lifetime)
    with pipeline.qm.open("orders") as queue:
        queue.lock(0).abort()
        assert pipeline.claim(1, 10, first=True, match=match).count == 2
        assert pipeline.release() == 2
        pipeline.holds(2, 0)
        assert [message.delivery_count for message in queue.browse()] == [2, 1]


def test_claim_deletes_expired_messages_that_it_meets(backend: Backend) -> None:
    """More timers are due than one call serves (lua/core/timers.lua)."""
    with new_manager(backend, test_clock=True) as qm:
        qm.create_queue("orders")
        pipeline = Pipeline(qm, backend.client())
        pipeline.fill(600, time_to_be_received=60)
        pipeline.fill(3)
        call = commands.claim(pipeline.queue, pipeline.owner, pipeline.lineage, 1, Order(10), True)
        qm.advance_clock(61)
        claimed = qm.run(perform(call))
        assert (claimed.count, claimed.sealed) == (0, False)
        assert pipeline.raw.zcard(f"mq:{{{qm.name}}}:q:orders:a") == 603 - 8 * 32 - 10
        assert pipeline.claim(1).count == 3


def test_acknowledgement_of_an_expired_message_comes_into_the_queue_of_the_claim(backend: Backend) -> None:
    """It arrives in front of the messages that the claim takes. More timers are due than one call serves."""
    with new_manager(backend, test_clock=True) as qm:
        qm.create_queue("orders")
        pipeline = Pipeline(qm, backend.client())
        pipeline.fill(8 * 32, time_to_be_received=60)
        asking = Acknowledge.NEGATIVE_RECEIVE
        pipeline.fill(1, time_to_be_received=61, acknowledge=asking, administration_queue="orders")
        pipeline.fill(2, priority=0)
        call = commands.claim(pipeline.queue, pipeline.owner, pipeline.lineage, 1, Order(10), True)
        qm.advance_clock(62)
        assert qm.run(perform(call)).count == 2
        pipeline.holds(3, 2)
        with qm.open("orders") as queue:
            assert queue.receive(0).priority == 3


@pytest.mark.parametrize("large", [0, 1, 5])
def test_claim_counts_the_bytes_of_its_messages(pipeline: Pipeline, large: int) -> None:
    bodies = [b"x" * 9000] * large + [b"y" * n for n in range(20)]
    with pipeline.qm.open("orders") as queue:
        queue.send_many(bodies)
    size = pipeline.qm.queue_info("orders").bytes
    assert pipeline.claim(1, 10, first=True).count == 10
    assert pipeline.claim(1).sealed
    before = pipeline.known.bytes
    pipeline.holds(20 + large, 10)
    assert pipeline.commit(1) == 10
    assert pipeline.qm.queue_info("orders").bytes == size - before
    assert pipeline.claim(2).bytes == size - before
    assert pipeline.commit(2) == 10 + large
    pipeline.holds(0, 0)


def test_claimed_message_keeps_its_earlier_deliveries(pipeline: Pipeline) -> None:
    with pipeline.qm.open("orders") as queue:
        queue.send(b"special", time_to_be_received=600)
        queue.send(b"plain")
        for locked in queue.lock_many(2, 0):
            locked.abort()
        assert [message.delivery_count for message in queue.browse()] == [1, 1]
        pipeline.claim(1, first=True)
        assert pipeline.release() == 2
        assert [message.delivery_count for message in queue.browse()] == [2, 2]


def test_look_of_an_owner_counts_one_message_per_group_in_an_exclusive_queue(
    backend: Backend,
) -> None:
    with new_manager(backend) as qm:
        qm.create_queue("turns", group_exclusive=True)
        with qm.open("turns") as queue:
            queue.send_many([Outgoing(body=b"x", group_id=group) for group in ("a", "a", "a", "b", "b")])
            first = queue.peek(0).lookup_id
        all_readers = qm.run(pipelines.look(qm.context, "turns"))
        owner = qm.run(pipelines.look(qm.context, "turns", "lake"))
        assert (all_readers.available, all_readers.turns) == (5, False)
        assert (owner.available, owner.turns) == (2, True)
        # The first three messages are of one group.
        for bound, available in (first - 1, 0), (first, 1), (first + 2, 1), (first + 3, 2):
            early = qm.run(pipelines.look(qm.context, "turns", "lake", bound=f"{bound % 2**56:014x}"))
            assert early.available == available


def test_doctor_knows_claims_with_messages_of_another_claim_between_theirs(pipeline: Pipeline) -> None:
    with pipeline.qm.open("orders") as queue:
        for colour in ("red", "blue", "red"):
            queue.send(b"x", properties={"colour": colour})
    assert pipeline.claim(1, 3, first=True, match=RED).count == 2
    assert replace(pipeline, owner="ocean").claim(1, first=True).count == 1
    pipeline.holds(3, 3)
