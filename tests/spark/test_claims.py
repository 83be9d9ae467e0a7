"""Which messages a claim takes, and when they are received."""

from __future__ import annotations

from collections.abc import Callable
from queue import Queue
from threading import Event
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

import mqredis
from mqredis.models import Outgoing
from mqredis.spark import claims, release
from mqredis.spark.browse import BrowseReader
from mqredis.spark.receive_reader import ReceiveReader
from mqredis.spark.threads import BackgroundWork
from tests.spark.calls import make, rows, take

pytestmark = pytest.mark.spark


def mixed(number: int) -> Outgoing:
    """Return a message of each kind that claims treat differently, by number."""
    body = b"%d" % number
    more: dict[str, Any] = {}
    if number % 11 == 3:
        more["correlation_id"] = f"c{number}"
    if number % 13 == 5:
        body = body.ljust(9000)
    if number % 17 == 7:
        more["time_to_be_received"] = 3600.0
    return Outgoing(body=body, priority=number % 5, **more)


@pytest.mark.parametrize("kinds", ["plain", "mixed"])
@pytest.mark.parametrize("bounded", [False, True])
def test_claims_of_all_kinds_of_messages(options, qm, kinds, bounded):
    qm.create_queue("orders")
    queue = qm.open("orders")
    build: Callable[[int], Outgoing] = mixed if kinds == "mixed" else lambda n: Outgoing(body=b"%d" % n)
    for at in range(0, 2500, 500):
        queue.send_many([build(n) for n in range(at, at + 500)])
    queue.lock(0).abort()  # one was delivered before
    before = {m.lookup_id: (m.body, m.delivery_count) for m in queue.browse()}
    assert sum(count for _, count in before.values()) == 1
    reader: ReceiveReader | BrowseReader = make(options, queue="orders", minPartitions="3")
    if bounded:
        reader.prepareForTriggerAvailableNow()
        queue.send_many([Outgoing(body=b"late", priority=7)] * 3)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadMaxRows(2200))
    ids = rows(reader, start, end, "lookup_id")
    assert ids == sorted(before)[:2200]
    assert rows(reader, start, end) == [before[lid][0] for lid in ids]
    assert rows(reader, start, end, "delivery_count") == [before[lid][1] + 1 for lid in ids]
    assert qm.doctor().findings == ()
    info = qm.queue_info("orders")
    assert info.locked == 2200
    start, end = end, reader.latestOffset(end, ReadMaxRows(2200))
    assert rows(reader, start, end, "lookup_id") == sorted(before)[2200:]
    reader.commit(end)
    assert qm.doctor().findings == ()
    assert qm.queue_info("orders").messages == (3 if bounded else 0)


@pytest.mark.parametrize("bounded", [False, True])
@pytest.mark.parametrize("count", [1000, 1001])
def test_byte_limit_reached_at_the_end_of_a_page_loses_no_message(options, qm, count, bounded):
    """The call after a full page has no bytes left for a message: it claims none and loses none."""
    qm.create_queue("orders")
    for _ in range(5):
        # 100 bytes with what stands before the body.
        qm.open("orders").send_many([Outgoing(body=b"x" * 85)] * 500)
    reader = make(options, queue="orders", maxBytesPerTrigger=str(count * 100 + 50))
    if bounded:
        reader.prepareForTriggerAvailableNow()
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert len(rows(reader, start, end)) == count
    info = qm.queue_info("orders")
    assert (info.locked, info.ready) == (count, 2500 - count)
    assert qm.doctor().findings == ()


def test_claim_notifies_nobody_but_its_release_does(options, qm, fill):
    queue = fill(count=1500)
    reader = make(options, queue="orders")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    reader.partitions(start, end)
    with pytest.raises(mqredis.IoTimeout):
        queue.receive(0)
    assert release(qm, "orders", claims(qm)[0].owner) == 1500
    assert queue.receive(0).body == b"0"
    assert qm.doctor().findings == ()


def test_exclusive_groups_cause_no_empty_batches(options, qm):
    qm.create_queue("orders", group_exclusive=True)
    queue = qm.open("orders")
    for n in range(9):
        queue.send(b"%d" % n, group_id="abc"[n % 3])
    held = queue.lock(0)  # a reader elsewhere has the group a
    reader = make(options, queue="orders")
    batches, end = [], reader.initialOffset()
    while (upto := reader.latestOffset(end, ReadAllAvailable())) != end:
        batches.append(rows(reader, end, upto))
        end = upto
    assert batches == [[b"1", b"2"], [b"4", b"5"], [b"7", b"8"]]
    assert reader.reportLatestOffset()["backlog"] == 0
    held.abort()
    end, bodies = take(reader, end)
    assert bodies == [b"0"]
    bounded = make(options, queue="orders")
    bounded.prepareForTriggerAvailableNow()
    assert bounded.latestOffset(end, ReadAllAvailable()) != end  # b"3" could come
    held = queue.lock(0)
    assert held.message.body == b"3"
    queue.send(b"later", group_id="b")
    # The message b"6" has to wait, b"later" is behind the end.
    assert bounded.latestOffset(end, ReadAllAvailable()) == end
    held.abort()
    assert qm.doctor().findings == ()


@pytest.fixture
def held(monkeypatch):
    """Return a function that blocks a reader's removal of received messages until the returned event is set."""

    def hold(reader: ReceiveReader) -> Event:
        let = Event()
        monkeypatch.setattr(reader.resources.commits.background, "pause", lambda: let.wait(60))
        return let

    return hold


def holds(qm, messages, locked):
    info = qm.queue_info("orders")
    assert (info.messages, info.locked) == (messages, locked)
    assert qm.doctor().findings == ()


def test_finished_messages_are_received_before_the_next_claim_and_removed_concurrently(
    options, qm, fill, held
):
    fill(count=6500)
    reader = make(options, queue="orders")
    end, _ = take(reader, reader.initialOffset(), ReadMaxRows(500))
    upto = reader.latestOffset(end, ReadMaxRows(2500))  # it is asked now what the queue is like
    let = held(reader)
    assert len(rows(reader, end, upto)) == 2500
    holds(qm, 6000, 2500)
    end, upto = upto, reader.latestOffset(upto, ReadMaxRows(1200))
    reader.commit(end)  # waits for nothing: Spark goes on meanwhile
    assert len(rows(reader, end, upto)) == 1200
    holds(qm, 5000, 1500 + 1200)
    assert claims(qm)[0].removing
    let.set()
    # What comes next waits until that is over.
    end, upto = upto, reader.latestOffset(upto, ReadMaxRows(1000))
    assert len(rows(reader, end, upto)) == 1000
    reader.stop()
    holds(qm, 2300, 1000)
    assert not claims(qm)[0].removing
    reader.commit(upto)
    holds(qm, 1300, 0)


def test_idle_query_leaves_nothing_behind(options, qm, fill):
    fill(count=3000)
    reader = make(options, queue="orders")
    end, _ = take(reader, reader.initialOffset(), ReadMaxRows(100))
    upto = reader.latestOffset(end, ReadAllAvailable())
    assert len(rows(reader, end, upto)) == 2900
    assert reader.latestOffset(upto, ReadAllAvailable()) == upto
    holds(qm, 0, 0)


@pytest.mark.parametrize("replanned", [False, True])
def test_restarted_query_removes_received_messages(options, qm, fill, held, replanned):
    fill(count=4000)
    reader = make(options, queue="orders")
    end, _ = take(reader, reader.initialOffset(), ReadMaxRows(100))
    upto = reader.latestOffset(end, ReadMaxRows(1900))
    let = held(reader)
    rows(reader, end, upto)
    end, upto = upto, reader.latestOffset(upto, ReadMaxRows(1500))
    ids = rows(reader, end, upto, "lookup_id")
    again = make(options, queue="orders")
    if replanned:
        assert again.latestOffset(end, ReadMaxRows(1500)) is not end
    else:
        assert rows(again, end, upto, "lookup_id") == ids
    holds(qm, 2000, 1500)
    let.set()
    reader.stop()
    again.commit(upto)
    holds(qm, 500, 0)


def test_new_checkpoint_removes_messages_received_by_the_lost_one(options, qm, fill, held):
    fill(count=1500)
    lost = make(options, queue="orders", consumerName="lake")
    end, _ = take(lost, lost.initialOffset(), ReadMaxRows(100))
    upto = lost.latestOffset(end, ReadAllAvailable())
    let = held(lost)
    rows(lost, end, upto)
    fill(count=3)
    assert lost.latestOffset(upto, ReadAllAvailable()) != upto
    lost.resources.commits.background.wait_for_first()
    holds(qm, 403, 400)
    new = make(options, queue="orders", consumerName="lake")
    assert new.initialOffset()
    with pytest.raises(Exception, match="is running"):
        new.latestOffset(new.initialOffset(), ReadAllAvailable())
    holds(qm, 3, 0)
    let.set()
    lost.stop()


def test_urgent_work_runs_first():
    background, steps, way = BackgroundWork(), Queue[str](), Event()

    def rest() -> None:
        steps.put("rest")
        way.wait()
        background.pause()
        steps.put("goes on")

    background.start(lambda: steps.put("first"), rest)
    background.wait_for_first()
    assert [steps.get(timeout=30) for _ in range(2)] == ["first", "rest"]
    with background.urgent():
        way.set()
        assert not background._parts[1].done()
        steps.put("urgent")
    assert background.finish()
    assert [steps.get(timeout=30) for _ in range(2)] == ["urgent", "goes on"]
    assert not background.finish()


def test_first_failure_ends_the_work():
    background, steps = BackgroundWork(), []

    def first() -> None:
        raise ValueError("not so")

    background.start(first, lambda: steps.append("rest"))
    with pytest.raises(ValueError, match="not so"):
        background.wait_for_first()
    with pytest.raises(ValueError, match="not so"):
        background.finish()
    assert not steps


def test_claim_that_cannot_be_received_ends_the_query(options, qm, fill):
    fill(count=3000)
    reader = make(options, queue="orders")
    end, _ = take(reader, reader.initialOffset(), ReadMaxRows(1000))
    release(qm, "orders", claims(qm)[0].owner)
    upto = reader.latestOffset(end, ReadMaxRows(1000))  # by another thread, which cannot say so here
    with pytest.raises(Exception, match="an operator released this claim"):
        reader.partitions(end, upto)
    assert qm.queue_info("orders").ready == 3000
