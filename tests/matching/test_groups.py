"""Published cases for IBM MQ, H to J: sending and receiving groups."""

from __future__ import annotations

from contextlib import suppress

import pytest

from mqredis import (
    GroupIncomplete,
    GroupInconsistent,
    InvalidArgument,
    IoTimeout,
    LockLost,
    Match,
    MatchOptionsError,
    Outgoing,
)
from tests.matching.kit import ALL, COMPLETE, LOGICAL, bodies, drain, in_group, put
from tests.support.facade import Pending

ibm = pytest.mark.ibm
blocking = pytest.mark.parametrize("broker", ["real-sync", "fake-sync"], indirect=True)
W = ("A", "Y1/3", "Z2/2", "Y2/3", "Y3/3", "Z1/2", "B")


def assert_none(queue, **how):
    with pytest.raises(IoTimeout):
        queue.receive(0, **how)


# ---- sending -------------------------------------------------------------------------------------------------


nones = pytest.mark.parametrize("none", [bytes(24), b"", ""], ids=repr)


@ibm("H9")
@nones
def test_null_group_id_with_a_group_flag_is_generated(broker, none):
    """MQGI_NONE and a flag: as if no group id were given; without a flag there is no group."""
    q = broker.queue()
    ids = [q.send(b"g", group_id=none, last_in_group=True).group_id for _ in range(2)]
    ids += [q.send_many([Outgoing(body=b"h", group_id=none, last_in_group=True)])[0].group_id]
    ids += [q.send_group([b"i", b"j"], group_id=none)[0].group_id]
    with q.group(none) as group:
        ids += [group.send(b"k", last=True).group_id]
    assert len(set(ids)) == 5
    assert all(str(group).startswith("mqg-") for group in ids)
    assert [m.group_id for m in q.browse()] == [*ids[:4], ids[3], ids[4]]
    q.purge()
    assert q.send(b"l", group_id=none).group_id is None
    assert q.receive(0).group_id is None


@ibm("J3")
@nones
def test_segment_with_a_null_group_id_is_an_incomplete_message(broker, none):
    q = broker.queue()
    q.send(b"ab", group_id=none, segment=True)
    assert_none(q, grouping=COMPLETE)


def test_browsed_message_has_all_segments_however_large(broker):
    q = broker.queue()
    q.send(b"a" * 700_000, group_id="g", segment=True)
    q.send(b"b" * 700_000, group_id="g", offset=700_000, last_segment=True)
    with q.browser(grouping=COMPLETE) as browser:
        assert browser.next().body == b"a" * 700_000 + b"b" * 700_000
    assert q.receive(0, grouping=COMPLETE).body == b"a" * 700_000 + b"b" * 700_000


@ibm("H2", "H12", "I26")
def test_group_writer_numbers_the_messages(broker):
    q = broker.queue()
    with q.group() as first:
        first.send("1")
        first.send("2", last=True)
    with q.group() as second:
        second.send("3", last=True)
    seen = [(m.group_id, m.sequence, m.last_in_group) for m in q.browse()]
    assert seen == [(first.group_id, 1, False), (first.group_id, 2, True), (second.group_id, 1, True)]
    assert first.group_id != second.group_id


@ibm("H5", "H6")
def test_close_of_an_open_group_is_refused(broker):
    q = broker.queue()
    group = q.group("g")
    group.send("1")
    with pytest.raises(GroupIncomplete) as caught:
        group.close()
    assert caught.value.mqrc == 2241
    group.send("part", segment=True)
    with pytest.raises(GroupIncomplete) as caught:
        group.close()
    assert caught.value.mqrc == 2242
    assert bodies(q.browse()) == ["1", "part"]
    group.send("rest", last=True)
    group.close()
    with pytest.raises(GroupInconsistent):
        group.send("more")
    q.group().close()
    with pytest.raises(InvalidArgument):
        q.group("h").send("1", sequence=4)
    with pytest.raises(InvalidArgument):
        q.group("h").send("", segment=True)


@pytest.mark.parametrize("first", [True, False])
def test_group_members_must_agree_in_recoverable(broker, first):
    q = broker.queue()
    group = q.group("g")
    group.send("1", recoverable=first)
    with pytest.raises(GroupInconsistent, match="all recoverable or all not") as caught:
        group.send("2", recoverable=not first)
    assert caught.value.mqrc == 2185
    group.send("2", last=True, recoverable=first)  # the group is still open, at its second place
    with pytest.raises(GroupInconsistent) as caught:
        q.send_group([Outgoing(b"1", recoverable=first), Outgoing(b"2", recoverable=not first)])
    assert caught.value.mqrc == 2185
    assert [(m.body, m.sequence) for m in q.browse()] == [(b"1", 1), (b"2", 2)]


def test_group_members_in_a_transaction_are_recoverable(broker):
    t = broker.queue("t", transactional=True)
    with broker.qm.transaction() as tx, t.group("g") as group:
        group.send("1", transaction=tx, recoverable=False)
        group.send("2", transaction=tx, last=True)
        t.send_group([Outgoing(b"1", recoverable=False), "2"], transaction=tx)
    assert [m.recoverable for m in t.browse()] == [True] * 4


@pytest.mark.parametrize(
    "field, value, mqrc",
    [
        ("sequence", 0, 2250),
        ("sequence", 1_000_000_000, 2250),
        ("offset", -1, 2251),
        ("offset", 1_000_000_000, 2251),
        ("priority", 8, None),
    ],
)
def test_out_of_range_position_is_refused(broker, field, value, mqrc):
    q = broker.queue()
    with pytest.raises(InvalidArgument, match=f"{field}: must be from") as caught:
        q.send("x", group_id="g", **{field: value})
    assert caught.value.mqrc == mqrc
    assert bodies(q.browse()) == []


@ibm("H8", "H15")
def test_group_begun_in_a_transaction_must_stay_in_it(broker):
    t = broker.queue("t", transactional=True)
    tx = broker.qm.transaction()
    group = t.group("g")
    group.send("1", transaction=tx)
    with pytest.raises(GroupInconsistent) as caught:
        group.send("2")
    assert caught.value.mqrc == 2245
    group.send("2", last=True, transaction=tx)
    tx.abort()
    assert broker.qm.queue_info("t").messages == 0
    with broker.qm.transaction() as tx:
        group.send("1", transaction=tx)
        group.send("2", last=True, transaction=tx)
    assert [(m.sequence, m.last_in_group) for m in t.browse()] == [(1, False), (2, True)]


@ibm("H9", "H11")
def test_group_sent_by_explicit_sequences_in_any_order_is_received(broker):
    q = broker.queue()
    sent = q.send("1", last_in_group=False, segment=False, sequence=1, group_id="g")
    assert sent.group_id == "g"
    for sequence, last in ((3, True), (2, False)):
        q.send(str(sequence), group_id="g", sequence=sequence, last_in_group=last)
    found = q.receive_group(0)
    assert bodies(found) == ["1", "2", "3"]
    assert [message.delivery_count for message in found] == [1, 1, 1]
    sent = q.send("only", last_in_group=True)
    found = q.receive(0)
    assert found.group_id == sent.group_id is not None
    assert found.last_in_group


@ibm("H17")
def test_duplicate_sequence_in_a_group_is_accepted_and_left_over(broker):
    q = broker.queue()
    put(q, "G1", "G2/2")
    q.send("again", group_id="g", sequence=2, last_in_group=True)
    assert q.peek(0, match=Match(group_id="g", sequence=2)).body == b"G2"
    assert bodies(q.receive_group(0)) == ["G1", "G2"]
    assert_none(q, grouping=ALL)


@ibm("H18")
def test_group_is_visible_after_its_commit(broker):
    t = broker.queue("t", transactional=True)
    other = broker.handle("t")
    tx = broker.qm.transaction()
    t.send_group(["1", "2"], transaction=tx)
    assert_none(other, grouping=ALL)
    waiting = broker.wait(lambda: other.peek(10, selector="JMSXGroupSeq = 2"), "t")
    tx.commit()
    assert waiting.result().body == b"2"
    with broker.qm.transaction() as tx:
        found = other.receive_group(0, transaction=tx)
        assert bodies(found) == ["1", "2"]
        assert [message.delivery_count for message in found] == [1, 1]


# ---- getting -------------------------------------------------------------------------------------------------


@ibm("I2")
def test_browse_and_receive_in_physical_and_logical_order(broker):
    q = broker.queue()
    put(q, *W)
    assert bodies(q.browse()) == ["A", "Y1", "Z2", "Y2", "Y3", "Z1", "B"]
    assert bodies(q.browser(grouping=LOGICAL)) == ["A", "Y1", "Y2", "Y3", "Z1", "Z2", "B"]
    assert drain(q, grouping=LOGICAL) == ["A", "Y1", "Y2", "Y3", "Z1", "Z2", "B"]


@ibm("I3")
def test_logical_order_begins_a_group_at_its_first_message(broker):
    q = broker.queue()
    put(q, "Z2/2", "A", "Z1/2")
    assert drain(q, grouping=LOGICAL) == ["A", "Z1", "Z2"]
    put(q, "Z2/2")
    assert_none(q, grouping=LOGICAL)


@ibm("I5", "I6", "I8", "I9")
def test_reader_inside_a_group_gets_only_the_next_member(broker):
    q = broker.queue()
    put(q, "Y1", "A", "Y3/3", "Z1/1")
    assert q.receive(0, grouping=LOGICAL).body == b"Y1"
    assert_none(q, grouping=LOGICAL)
    assert q.receive(0).body == b"A"
    waiting = broker.wait(lambda: q.receive(10, grouping=LOGICAL))
    put(q, "B", "Y2")
    assert waiting.result().body == b"Y2"
    token = q.peek(0, match=Match(group_id="z")).message_id
    for match in (Match(message_id=token), Match(group_id="z")):
        with pytest.raises(MatchOptionsError) as caught:
            q.receive(0, match=match, grouping=LOGICAL)
        assert caught.value.mqrc == 2247
    assert q.receive(0, match=Match(group_id="y", sequence=3), grouping=LOGICAL).body == b"Y3"
    assert drain(q, grouping=LOGICAL) == ["Z1", "B"]


@ibm("I11", "I12")
def test_abort_restores_the_position_in_the_group(broker):
    t = broker.queue("t", transactional=True)
    with broker.qm.transaction() as tx:
        put(t, "Y1/3", "Y2/3", "Y3/3", transaction=tx)
    tx = broker.qm.transaction()
    assert t.receive(0, transaction=tx, grouping=LOGICAL).body == b"Y1"
    with pytest.raises(GroupInconsistent) as caught:
        t.receive(0, grouping=LOGICAL)
    assert caught.value.mqrc == 2245
    assert t.receive(0, transaction=tx, grouping=LOGICAL).body == b"Y2"
    tx.abort()
    with broker.qm.transaction() as tx:
        assert t.receive(0, transaction=tx, grouping=LOGICAL).body == b"Y1"
    with broker.qm.transaction() as tx:
        assert t.receive(0, transaction=tx, grouping=LOGICAL).body == b"Y2"


@pytest.mark.parametrize("ended_by", ["commit", "commit_many", "lock_many", "abort", "reject", "extend"])
def test_lapsed_lock_restores_the_position_in_the_group(broker, ended_by):
    q = broker.queue()
    q.send_group([b"1", b"2", b"3"])
    lock = q.lock(0, grouping=LOGICAL, lease=5)
    broker.qm.advance_clock(6)
    with suppress(LockLost, IoTimeout):
        if ended_by == "commit_many":
            q.commit_many([lock])
        elif ended_by == "lock_many":
            q.lock_many(1, 0, settle=[lock], match=Match(message_id="none"))
        else:
            getattr(lock, ended_by)()
    assert q.receive(0, grouping=LOGICAL).body == b"1"
    assert q.receive(0, grouping=LOGICAL).body == b"2"


def test_aborted_lock_restores_the_position_in_the_group(broker):
    q = broker.queue()
    put(q, "Y1", "Y2/2")
    q.lock(0, grouping=LOGICAL).abort()
    q.lock(0, grouping=LOGICAL).commit()
    assert q.receive(0, grouping=LOGICAL).body == b"Y2"


@ibm("I14", "I17", "I18")
def test_all_messages_available_waits_for_the_complete_group(broker):
    q = broker.queue()
    put(q, "Y1", "Y2")
    assert_none(q, grouping=ALL)
    waiting = broker.wait(lambda: q.receive(10, grouping=ALL | LOGICAL))
    put(q, "Y3/3")
    assert waiting.result().body == b"Y1"
    assert broker.handle().receive(0, match=Match(sequence=3)).body == b"Y3"
    assert q.receive(0, grouping=ALL | LOGICAL).body == b"Y2"
    assert_none(q, grouping=ALL | LOGICAL)
    put(q, "A")
    assert broker.handle().receive(0, grouping=ALL).body == b"A"


@ibm("I15")
def test_incomplete_groups_are_skipped(broker):
    q = broker.queue()
    put(q, "A1", "B1", "B2/2")
    with q.browser(grouping=ALL | LOGICAL) as browser:
        assert bodies(browser) == ["B1", "B2"]
        put(q, "A2/2")
        with pytest.raises(IoTimeout):
            browser.next()
        assert browser.first().body == b"A1"


@ibm("I20", "I21")
def test_reading_a_group_does_not_reserve_it(broker):
    q = broker.queue()
    put(q, "Y1/2", "Z1/2", "Z2/2", "Y2/2")
    with q.browser(grouping=LOGICAL) as browser:
        assert browser.first().body == b"Y1"
        assert q.receive(0, match=Match(group_id="z"), grouping=LOGICAL).body == b"Z1"
        assert browser.next().body == b"Y2"
        assert q.receive(0, grouping=LOGICAL).body == b"Z2"
    assert q.receive(0, grouping=LOGICAL).body == b"Y1"
    broker.handle().receive(0, match=Match(sequence=2))
    assert_none(q, grouping=LOGICAL)


@ibm("I23")
def test_expired_member_leaves_the_group_incomplete(broker):
    q = broker.queue()
    put(q, "Y1")
    q.send(in_group("Y2").replace(time_to_be_received=5))
    put(q, "Y3/3")
    assert q.peek(0).body == b"Y1"
    broker.qm.advance_clock(6)
    assert_none(q, grouping=ALL)
    assert broker.qm.queue_info("q").messages == 2


@ibm("I24", "M14")
def test_group_of_a_reader_whose_lease_ended_begins_again(broker):
    t = broker.queue("t", transactional=True)
    with broker.qm.transaction() as tx:
        put(t, "Y1/2", "Y2/2", transaction=tx)
    dead = broker.client()
    assert dead.open("t").receive(0, transaction=dead.transaction(lease=5), grouping=LOGICAL).body == b"Y1"
    assert_none(t, grouping=LOGICAL)
    broker.qm.advance_clock(6)
    with broker.qm.transaction() as tx:
        found = t.receive(0, transaction=tx, grouping=LOGICAL)
        assert (found.body, found.delivery_count, found.abort_count) == (b"Y1", 2, 1)


def test_groups_yields_whole_groups(broker):
    q = broker.queue()
    put(q, *W, "X1")
    assert [bodies(group) for group in q.groups()] == [["A"], ["Y1", "Y2", "Y3"], ["Z1", "Z2"], ["B"]]
    waiting = broker.wait(lambda: q.receive_group(10, match=Match(group_id="x")))
    put(q, "C", "X2/2")
    assert bodies(waiting.result()) == ["X1", "X2"]


def test_ten_readers_receive_each_group_whole_and_once(broker):
    q = broker.queue()
    for group in range(20):
        q.send_group([f"{group}-{n}" for n in range(3)])
    readers = [Pending(lambda: [bodies(group) for group in q.groups()]) for _ in range(10)]
    found = [group for reader in readers for group in reader.result()]
    assert sorted(found) == sorted([f"{group}-{n}" for n in range(3)] for group in range(20))


@ibm("Q11")
def test_selector_applies_to_the_first_message_of_a_group(broker):
    q = broker.queue()
    q.send("Y1", group_id="y", properties={"k": 1})
    put(q, "Y2/2", "A")
    chosen = broker.qm.open("q", selector="k = 1")
    assert [chosen.receive(0, grouping=LOGICAL).body for _ in range(2)] == [b"Y1", b"Y2"]
    assert_none(chosen, grouping=LOGICAL)


def test_invalid_group_arguments_are_refused(broker):
    q = broker.queue()
    for call in (
        lambda: q.send_group([]),
        lambda: q.send_group(["x"], segment_bytes=0),
        lambda: q.receive(0, grouping=1),
    ):
        with pytest.raises(InvalidArgument):
            call()
    assert broker.qm.queue_info("q").messages == 0


def test_group_of_700_messages_is_received_whole(broker):
    q = broker.queue()
    q.send_group([str(n) for n in range(700)])
    assert len(q.receive_group(0)) == 700
