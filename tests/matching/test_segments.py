"""Published cases for IBM MQ, J: segments of messages."""

from __future__ import annotations

import pytest

from mqredis import LockLost, Match
from tests.matching.kit import ALL, COMPLETE, LOGICAL, SEGMENTS, bodies, put

ibm = pytest.mark.ibm
blocking = pytest.mark.parametrize("broker", ["real-sync", "fake-sync"], indirect=True)


def segments(queue, *offsets):
    """A message of 35 bytes in three segments; only those that begin at these offsets."""
    body = b"a" * 15 + b"b" * 15 + b"c" * 5
    for at in offsets:
        part = body[at : at + 15]
        last = at == 30
        queue.send(part, group_id="s", offset=at, segment=True, last_segment=last, last_in_group=last)


@ibm("J2", "J5")
def test_segments_are_joined_or_delivered_one_by_one(broker):
    q = broker.queue()
    segments(q, 30, 0, 15)
    seen = [q.receive(0, grouping=LOGICAL) for _ in range(3)]
    assert [(m.offset, m.segment, m.last_segment) for m in seen] == [
        (0, True, False),
        (15, True, False),
        (30, True, True),
    ]
    segments(q, 0, 15, 30)
    assert q.browser(grouping=COMPLETE).first().body == b"a" * 15 + b"b" * 15 + b"c" * 5
    whole = q.receive(0, grouping=COMPLETE)
    assert (len(whole.body), whole.segment, whole.last_in_group) == (35, False, True)
    assert broker.qm.queue_info("q").messages == 0


@ibm("J3", "J6")
def test_message_with_a_missing_segment_is_skipped(broker):
    q = broker.queue()
    segments(q, 0, 30)
    put(q, "A")
    assert q.peek(0).offset == 0
    for grouping in (COMPLETE, SEGMENTS, ALL):
        assert q.lock(0, grouping=grouping).message.body == b"A"
        broker.qm.advance_clock(31)
    waiting = broker.wait(lambda: q.receive(10, match=Match(group_id="s"), grouping=COMPLETE))
    segments(q, 15)
    assert len(waiting.result().body) == 35


def test_segmented_message_is_locked_and_settled_as_one(broker):
    q = broker.queue()
    sent = q.send_group([b"x" * 5000 + b"y" * 5000 + b"z", b"tail"], segment_bytes=5000)
    assert len(sent) == 4
    lock = q.lock(0, grouping=COMPLETE)
    assert len(lock.body) == 10001
    assert broker.qm.queue_info("q").locked == 3
    lock.extend(10)
    lock.abort()
    assert broker.qm.queue_info("q").locked == 0
    with q.lock(0, grouping=COMPLETE) as lock:
        assert lock.body[-1:] == b"z"
    assert bodies(q.browse()) == ["tail"]
    q.send_group([b"12345"], segment_bytes=2)
    with q.lock(0, match=Match(), grouping=COMPLETE | LOGICAL):
        pass
    first = q.lock(0, grouping=COMPLETE)
    q.send("last")
    assert q.lock_many(1, 0, settle=[first])[0].body == b"last"


def test_last_message_of_a_group_may_be_sent_in_parts(broker):
    q = broker.queue()
    with q.group() as group:
        group.send(b"a")
        group.send(b"b", last=True, segment=True)
        group.send(b"c")
    assert [(m.body, m.last_in_group) for m in q.browse()] == [(b"a", False), (b"b", True), (b"c", True)]


@blocking
def test_joined_messages_are_settled_on_the_way_in_several_calls(broker):
    q = broker.queue()
    for n in range(90):
        q.send_group([b"%03d" % n], segment_bytes=1)
    q.send("last")
    locks = [q.lock(0, grouping=COMPLETE) for _ in range(90)]
    assert broker.qm.queue_info(q.name).locked == 270
    (last,) = q.lock_many(1, 0, settle=locks)
    assert last.body == b"last"
    assert all(lock.settled for lock in locks)
    assert broker.qm.queue_info(q.name).messages == 1
    last.commit()


@blocking
@pytest.mark.parametrize("lost", [0, 1, 2])
def test_joined_message_with_a_lost_segment_is_not_settled(broker, lost):
    q = broker.queue()
    q.send_group([b"abc"], segment_bytes=1)
    lock = q.lock(0, grouping=COMPLETE)
    ids = sorted(info.lookup_id for info in broker.qm.locks(q.name).items)
    broker.qm.operator("o").release(q.name, lookup_ids=[ids[lost]])
    with pytest.raises(LockLost):
        q.commit_many([lock])
    assert not lock.settled
    assert [m.lookup_id for m in q.browse()] == [ids[lost]]


def test_locked_segments_that_came_out_of_order_are_all_listed(broker):
    q = broker.queue()
    segments(q, 30, 0, 15)
    lock = q.lock(0, grouping=COMPLETE)
    listed, after = [], None
    while True:
        page = broker.qm.locks(q.name, after=after, limit=1)
        listed += [info.lookup_id for info in page.items]
        after = page.next
        if after is None:
            break
    assert listed == sorted(listed)
    assert len(set(listed)) == 3
    lock.commit()
