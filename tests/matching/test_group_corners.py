"""Groups with two messages in one place, segments that are locked again one by one, and locks in a deleted queue."""

from __future__ import annotations

import pytest

from mqredis import Grouping, IoTimeout, Mark, Match, Outgoing, QueueNotAvailable
from tests.matching.kit import bodies


def member(name: str, last: bool, priority: int = 3) -> Outgoing:
    sequence = int(name[1])
    return Outgoing(
        body=name.encode(), group_id="g", sequence=sequence, last_in_group=last, priority=priority
    )


def test_reader_inside_a_group_gets_its_next_message_when_that_is_complete(broker):
    q, grouping = broker.queue(), Grouping.LOGICAL_ORDER | Grouping.COMPLETE_MESSAGE
    q.send(b"1", group_id="g", sequence=1)
    q.send(b"2a", group_id="g", sequence=2, segment=True)
    assert q.receive(0, grouping=grouping).body == b"1"
    with pytest.raises(IoTimeout):
        q.receive(0, grouping=grouping)
    q.send(b"2b", group_id="g", sequence=2, offset=2, last_segment=True, last_in_group=True)
    assert q.receive(0, grouping=grouping).body == b"2a2b"


def test_all_segments_available_counts_for_each_message_of_a_group_in_logical_order(broker):
    q, grouping = broker.queue(), Grouping.LOGICAL_ORDER | Grouping.ALL_SEGMENTS_AVAILABLE
    q.send(b"1", group_id="g", sequence=1)
    q.send(b"2a", group_id="g", sequence=2, segment=True)
    assert q.receive(0, grouping=grouping).body == b"1"
    with pytest.raises(IoTimeout):
        q.receive(0, grouping=grouping)
    reader = broker.wait(lambda: q.receive(10, grouping=grouping))
    last = Outgoing(b"2c", group_id="g", sequence=2, offset=4, last_segment=True, last_in_group=True)
    q.send(last)
    q.send(b"2b", group_id="g", sequence=2, offset=2, segment=True)
    assert reader.result().body == b"2a"
    broker.handle().receive(0, match=Match(offset=4))
    assert q.receive(0, grouping=grouping).body == b"2b"  # inside a message the option is not looked at
    with pytest.raises(IoTimeout):
        q.receive(0, grouping=grouping)


def test_browser_inside_a_group_passes_over_no_mark(broker):
    q = broker.queue()
    q.send_group([b"1", b"2"], group_id="g")
    asked = {"unmarked": True, "mark": Mark.CO_OP}
    with q.browser(grouping=Grouping.LOGICAL_ORDER, co_op=True) as logical, q.browser(co_op=True) as other:
        assert logical.next(**asked).body == b"1"
        marked = other.next(**asked)
        assert marked.body == b"2"
        with pytest.raises(IoTimeout):
            logical.next(**asked)
        other.unmark(marked, Mark.CO_OP)
        assert logical.next(**asked).body == b"2"


@pytest.mark.parametrize("a_is_last", [True, False])
def test_first_of_two_messages_in_the_last_place_tells_whether_the_group_is_complete(broker, a_is_last):
    q = broker.queue()
    q.send_many([member("a1", a_is_last), member("b2", False), member("c2", True)])
    with pytest.raises(IoTimeout):
        q.receive_group(0)
    with pytest.raises(IoTimeout):
        q.receive(0, grouping=Grouping.ALL_MESSAGES_AVAILABLE)
    assert bodies(q.browse()) == ["a1", "b2", "c2"]


def test_message_of_higher_priority_in_the_last_place_counts_as_the_first(broker):
    q = broker.queue()
    q.send_many([member("a1", True), member("b1", False, 7)])
    with pytest.raises(IoTimeout):
        q.receive(0, grouping=Grouping.ALL_MESSAGES_AVAILABLE)
    q.receive(0)
    assert q.receive(0, grouping=Grouping.ALL_MESSAGES_AVAILABLE).body == b"a1"


def test_first_of_two_segments_in_one_place_is_part_of_the_message(broker):
    q = broker.queue()
    q.send(b"ab", group_id="g", segment=True)
    q.send(b"AB", group_id="g", segment=True)
    q.send(b"c", group_id="g", offset=2, last_segment=True)
    assert q.receive(0, grouping=Grouping.COMPLETE_MESSAGE).body == b"abc"
    assert bodies(q.browse()) == ["AB"]


def test_read_in_logical_order_takes_a_segment_of_an_incomplete_message(broker):
    q = broker.queue()
    q.send(b"ab", group_id="g", segment=True)
    with pytest.raises(IoTimeout):
        q.receive(0, grouping=Grouping.LOGICAL_ORDER | Grouping.ALL_SEGMENTS_AVAILABLE)
    assert q.receive(0, grouping=Grouping.LOGICAL_ORDER).body == b"ab"


@pytest.mark.parametrize("end", ["abort", "commit"])
def test_segment_that_is_locked_alone_after_its_joined_lock_lapsed_is_settled_alone(broker, end):
    q = broker.queue()
    q.send_group([b"abc"], segment_bytes=1)
    joined = q.lock(0, grouping=Grouping.COMPLETE_MESSAGE, lease=10)
    broker.qm.advance_clock(11)
    first, second = q.lock(0), q.lock(0)
    getattr(first, end)()
    assert broker.qm.queue_info("q").locked == 1
    second.commit()
    assert bodies(q.browse()) == (["a", "c"] if end == "abort" else ["c"])
    assert joined.body == b"abc"


def test_unlock_and_browser_in_a_deleted_queue_are_refused(broker):
    q = broker.queue()
    q.send(b"a")
    browser = q.browser()
    browser.first(lock=True)
    broker.qm.delete_queue(q.name)
    for _ in range(2):
        with pytest.raises(QueueNotAvailable):
            browser.unlock()
    broker.queue(q.name)
    with pytest.raises(QueueNotAvailable):
        q.browser()
