"""Queues with exclusive groups: one active message per group, and fair turns between groups."""

from __future__ import annotations

import pytest

from mqredis import Grouping, InvalidArgument, IoTimeout, Match, MessageNotFound, Outgoing, RetryPolicy, Seek
from tests.matching.kit import bodies, drain, put
from tests.support.facade import Pending, Proxy

ibm = pytest.mark.ibm


def fill(queue, *texts, **how):
    for text in texts:
        queue.send(text, group_id=text[0] if text[0] != "-" else None, **how)


def assert_none(queue, **how):
    with pytest.raises(IoTimeout):
        queue.lock(0, **how)


def test_one_active_message_per_group(broker):
    q = broker.queue(group_exclusive=True)
    fill(q, "a1", "a2", "a3", "b1", "-1", "-2")
    locks = [q.lock(0) for _ in range(4)]
    assert [lock.body for lock in locks] == [b"-1", b"a1", b"b1", b"-2"]
    assert_none(q)
    assert_none(q, match=Match(group_id="a"))
    with pytest.raises(MessageNotFound):
        q.receive_by_lookup_id(q.peek(0).lookup_id)
    assert bodies(q.browse()) == ["a2", "a3"]
    locks[1].abort()
    assert q.lock(0, match=Match(group_id="a")).body == b"a1"
    assert_none(q)


def test_batch_takes_no_more_messages_than_it_asks_for_from_groups_of_several_priorities(broker):
    q = broker.queue(group_exclusive=True)
    fill(q, "a1", priority=7)
    fill(q, "b1", "c1", "d1", priority=0)
    assert [lock.body for lock in q.lock_many(2, timeout=0)] == [b"a1", b"b1"]
    assert [lock.body for lock in q.lock_many(2, timeout=0)] == [b"c1", b"d1"]


def test_search_takes_one_message_per_group(broker):
    q = broker.queue(group_exclusive=True)
    fill(q, "a1", "a2", "-1", "b1", "-2", "b2", properties={"k": 1})
    assert bodies(q.lock_many(6, timeout=0, selector="k = 1")) == ["a1", "-1", "b1", "-2"]


def test_reader_in_logical_order_gets_the_next_member_of_its_group_once_it_is_free(broker):
    q = broker.queue(group_exclusive=True)
    put(q, "Y1/3", "Y2/3", "Y3/3")
    assert q.receive(0, grouping=Grouping.LOGICAL_ORDER).body == b"Y1"
    assert q.receive(0, grouping=Grouping.LOGICAL_ORDER).body == b"Y2"
    held = broker.handle().lock(0)
    with pytest.raises(IoTimeout):
        q.receive(0, grouping=Grouping.LOGICAL_ORDER)
    held.abort()
    assert q.receive(0, grouping=Grouping.LOGICAL_ORDER).body == b"Y3"


def test_seek_passes_over_messages_of_busy_groups(broker):
    q = broker.queue(group_exclusive=True)
    fill(q, "a1", "a2", "b1", "a3")
    first = q.peek_by_lookup_id(0, seek=Seek.FIRST).lookup_id
    last = q.peek_by_lookup_id(0, seek=Seek.LAST).lookup_id
    held = q.lock(0)
    assert q.peek_by_lookup_id(first, seek=Seek.NEXT).body == b"a2"
    for seek, place in ((Seek.FIRST, 0), (Seek.LAST, 0), (Seek.NEXT, first), (Seek.PREVIOUS, last)):
        lock = q.lock_by_lookup_id(place, seek=seek)
        assert lock.body == b"b1"
        lock.abort()
    q.receive_by_lookup_id(0, seek=Seek.FIRST)
    for seek in (Seek.FIRST, Seek.LAST):
        with pytest.raises(MessageNotFound):
            q.receive_by_lookup_id(0, seek=seek)
    held.commit()
    assert q.receive_by_lookup_id(0, seek=Seek.LAST).body == b"a3"


def test_groups_are_served_in_turn(broker):
    q = broker.queue(group_exclusive=True)
    fill(q, *[f"a{n}" for n in range(6)], "b0", "b1", "c0")
    assert drain(q) == ["a0", "b0", "c0", "a1", "b1", "a2", "a3", "a4", "a5"]


def test_call_that_had_to_be_repeated_takes_one_turn(broker):
    q = broker.queue(group_exclusive=True, journaling=True)
    fill(q, "a1", "a2", "b1", "b2", "c1")
    assert drain(q) == ["a1", "b1", "c1", "a2", "b2"]


def test_groups_whose_messages_exceed_a_reply_keep_their_turn(broker):
    q = broker.queue(group_exclusive=True)
    names = ["a1", "a2", "b1", "b2", "c1"]
    q.send_many([Outgoing(name.encode() + b"x" * 700_000, group_id=name[0]) for name in names])
    found = [message.body[:2] for _ in names for message in q.receive_many(3, 0)]
    assert found == [b"a1", b"b1", b"c1", b"a2", b"b2"]


def test_groups_are_served_in_turn_within_each_priority(broker):
    q = broker.queue(group_exclusive=True)
    fill(q, "a0", "b0")
    fill(q, "b7", "a7", "b8", priority=7)
    assert drain(q) == ["a7", "b7", "b8", "a0", "b0"]


def test_commit_wakes_the_reader_of_the_next_message_of_the_group(broker):
    q = broker.queue(group_exclusive=True)
    fill(q, "a1", "a2")
    lock = q.lock(0)
    reader = broker.wait(lambda: q.receive(10))
    lock.commit()
    assert reader.result().body == b"a2"
    fill(q, "a3")
    lock = q.lock(0)
    reader = broker.wait(lambda: q.receive(10))
    fill(q, "a4")
    assert broker.qm.queue_info("q").waiters == 1
    fill(q, "b1")
    assert reader.result().body == b"b1"
    lock.abort()
    assert drain(q) == ["a3", "a4"]


def test_transaction_holds_its_groups_until_its_lease_ends(broker):
    t = broker.queue("t", transactional=True, group_exclusive=True)
    with broker.qm.transaction() as tx:
        fill(t, "a1", "a2", "b1", transaction=tx)
    tx = broker.qm.transaction(lease=5)
    assert bodies([t.receive(0, transaction=tx), t.receive(0, transaction=tx)]) == ["a1", "b1"]
    assert_none(t)
    broker.qm.advance_clock(6)
    with broker.qm.transaction() as tx:
        assert sorted(bodies(t.receive_many(5, 0, transaction=tx))) == ["a1", "b1"]
    with broker.qm.transaction() as tx:
        assert t.receive(0, transaction=tx).body == b"a2"


def test_lock_many_takes_one_message_per_group(broker):
    q = broker.queue(group_exclusive=True)
    fill(q, "a1", "a2", "b1", "b2", "c1")
    assert [lock.body for lock in q.lock_many(10, 0)] == [b"a1", b"b1", b"c1"]
    q.purge()
    assert broker.qm.queue_info("q").ready == 0


def test_group_exclusive_cannot_be_changed_after_creation(broker):
    broker.queue(group_exclusive=True)
    assert broker.qm.queue_info("q").group_exclusive
    with pytest.raises(InvalidArgument):
        broker.qm.update_queue("q", group_exclusive=False)


def test_expired_and_moved_messages_free_their_group(broker):
    q = broker.queue(group_exclusive=True)
    aside = broker.qm.open("q;aside")
    q.send("a1", group_id="a", time_to_be_received=5)
    fill(q, "a2", "b1", "b2")
    q.move(q.peek(0, match=Match(group_id="b")).lookup_id, aside)
    broker.qm.advance_clock(6)
    assert drain(q) == ["a2", "b2"]
    aside.move(aside.peek(0).lookup_id, q)
    put(q, "u")
    assert sorted(drain(q)) == ["b1", "u"]


def test_delayed_retry_frees_its_group(broker):
    q = broker.queue(group_exclusive=True, retry=RetryPolicy(immediate=0, cycles=1, delay=10))
    fill(q, "a1", "a2", "a3")
    q.lock(0).abort()
    lock = q.lock(0)
    assert lock.body == b"a2"
    assert_none(q)
    broker.qm.advance_clock(11)
    assert_none(q)  # a1 is back, but its group is busy
    lock.commit()
    assert drain(q) == ["a1", "a3"]


def test_immediate_retries_keep_the_order_of_a_group(broker):
    q = broker.queue(group_exclusive=True, retry=RetryPolicy(immediate=2))
    fill(q, "a1", "a2")
    for _ in range(3):
        lock = q.lock(0)
        assert lock.body == b"a1"
        assert_none(q)
        lock.abort()
    assert drain(q) == ["a2"]
    assert bodies(broker.qm.open("q;poison").browse()) == ["a1"]


@ibm("I27")
def test_ten_consumers_keep_the_order_of_every_group(broker):
    q = broker.queue(group_exclusive=True)
    q.send_many([Outgoing(body=b"%d" % n, group_id=f"g{n % 7}") for n in range(70)])
    done: list[int] = []

    def consume():
        while True:
            try:
                with q.lock(0.3) as lock:
                    done.append(int(lock.body))
            except IoTimeout:
                return

    for consumer in [Pending(consume) for _ in range(4 if isinstance(broker.qm, Proxy) else 10)]:
        consumer.result()
    assert sorted(done) == list(range(70))
    for group in range(7):
        mine = [n for n in done if n % 7 == group]
        assert mine == sorted(mine)
