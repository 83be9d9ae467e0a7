"""Which waiting reader is notified of a message; one that a reader cannot use is passed to the next at once.

The clients here do not recheck the queue within the time of a test.
"""

from __future__ import annotations

from typing import Any

import pytest

from mqredis import Match, MatchOptionsError, Outgoing
from mqredis.commands import claims
from mqredis.commands.filters import Filter, Member
from mqredis.commands.waiting import Waiter
from mqredis.keys import QUEUE_PARTS
from mqredis.selector import parse
from mqredis.steps import perform
from tests.matching.kit import ALL, COMPLETE, LOGICAL, SEGMENTS, bodies
from tests.matching.waiting_reader import WaitingReaders

WHOLE = Filter(grouping=ALL).text()
RED = Filter(programs=[parse("colour = 'red'").program]).text()
TWO = Filter(programs=[parse("n = 2").program]).text()
FIRST_IN_WHOLE = Filter(Match(group_id="g"), [parse("n = 1").program], grouping=ALL).text()
NOBODY_IN_WHOLE = Filter(grouping=ALL, programs=[parse("colour = 'red'").program]).text()


@pytest.fixture
def readers(broker):
    return WaitingReaders(broker)


# ---- readers whose match excludes the message ----------------------------------------------------------------


@pytest.mark.parametrize("grouping", [LOGICAL, LOGICAL | COMPLETE, LOGICAL | SEGMENTS])
def test_middle_of_a_group_does_not_wake_a_reader_in_logical_order(readers, grouping):
    logical = readers.waits(grouping=grouping)
    chosen = readers.waits(selector="n = 1")
    readers.send("2", "g", 2, properties={"n": 1})
    assert chosen.result().body == b"2"
    assert readers.waiters == 1
    readers.send("1", "h", 1)
    assert logical.result().body == b"1"


def test_readers_in_logical_order_are_woken_by_their_match(readers):
    one = readers.waits(grouping=LOGICAL, match=Match(correlation_id="one"))
    two = readers.waits(grouping=LOGICAL, match=Match(correlation_id="two"))
    readers.send("B", "g", 1, correlation_id="two")
    assert two.result().body == b"B"
    readers.send("A", "h", 1, correlation_id="one")
    assert one.result().body == b"A"


def test_selector_of_a_reader_of_whole_groups_is_evaluated(readers):
    red = readers.waits(grouping=ALL, selector="colour = 'red'")
    blue = readers.waits(grouping=ALL, selector="colour = 'blue'")
    readers.send("1", "g", 1, last=True, properties={"colour": "blue"})
    assert blue.result().body == b"1"
    readers.send("1", "h", 1, properties={"colour": "red"})
    readers.send("2", "h", 2, last=True, properties={"colour": "green"})
    assert red.result().body == b"1"


def test_later_segment_does_not_wake_a_reader_of_complete_messages(readers):
    joined = readers.waits(grouping=COMPLETE)
    anybody = readers.waits()
    readers.send("de", "g", 1, offset=3, segment=True, last_segment=True)
    assert anybody.result().body == b"de"
    readers.send("abc", "h", 1, segment=True)
    readers.send("de", "h", 1, offset=3, segment=True, last_segment=True)
    assert joined.result().body == b"abcde"


@pytest.mark.parametrize("grouping", [SEGMENTS, COMPLETE, LOGICAL | SEGMENTS, ALL])
def test_completing_segment_wakes_the_reader_whose_selector_matches_the_first(readers, grouping):
    reader = readers.waits(grouping=grouping, selector="first = TRUE")
    readers.send("de", "g", 1, True, offset=3, segment=True, last_segment=True)
    readers.send("abc", "g", 1, segment=True, properties={"first": True})
    assert reader.result().body == (b"abcde" if grouping is COMPLETE else b"abc")
    readers.queue.purge()
    reader = readers.waits(grouping=grouping, selector="first = TRUE")
    readers.send("abc", "h", 1, segment=True, properties={"first": True})
    readers.send("de", "h", 1, True, offset=3, segment=True, last_segment=True)
    assert reader.result().body == (b"abcde" if grouping is COMPLETE else b"abc")


def test_waiting_browser_begins_a_group_that_became_complete_with_its_first_message(broker, readers):
    with readers.handle().browser(grouping=ALL) as browser:
        reader = broker.wait(lambda: browser.first(timeout=None), "r")
        readers.send("1", "g", 1)
        readers.send("2", "g", 2, last=True)
        assert reader.result().body == b"1"


def test_peek_by_group_and_whole_group_reader_are_both_woken(readers):
    shown = readers.waits("peek", match=Match(group_id="g"))
    whole = readers.waits("receive_group")
    readers.send("2", "g", 2, last=True)
    assert shown.result().body == b"2"
    readers.send("1", "g", 1)
    assert bodies(whole.result()) == ["1", "2"]


def test_only_the_next_member_ends_a_wait_inside_a_group(readers):
    handle = readers.handle()
    readers.send("1", "g", 1)
    assert handle.receive(0, grouping=LOGICAL).body == b"1"
    inside = readers.on(handle, grouping=LOGICAL)
    anybody = readers.waits()
    readers.send("3", "g", 3)
    assert anybody.result().body == b"3"
    readers.send("2", "g", 2)
    assert inside.result().body == b"2"


def test_browser_inside_a_group_raises_if_the_next_member_does_not_match(broker, readers):
    with readers.handle().browser(match=Match(correlation_id="one"), grouping=LOGICAL) as browser:
        readers.send("1", "g", 1, correlation_id="one")
        assert browser.next().body == b"1"
        reader = broker.wait(lambda: browser.next(timeout=None), "r")
        readers.send("2", "g", 2, correlation_id="two")
        assert isinstance(reader.error(), MatchOptionsError)


@pytest.mark.parametrize("call", ["receive", "lock"])
def test_reader_refused_for_a_mismatching_member_takes_no_message(readers, call):
    handle = readers.handle()
    readers.send("1", "g", 1)
    assert handle.receive(0, grouping=LOGICAL).body == b"1"
    inside = readers.on(handle, call, grouping=LOGICAL, match=Match(correlation_id="one"))
    anybody = readers.waits()
    readers.send("2", "g", 2, correlation_id="two")
    assert anybody.result().body == b"2"
    readers.send("2", "g", 2, correlation_id="two")  # the other reader may have taken the first
    assert isinstance(inside.error(), MatchOptionsError)


# ---- readers that may be notified in vain ---------------------------------------------------------------------


def test_group_member_left_by_one_reader_wakes_the_next(readers):
    """The last member lets the first reader take another one; the last one itself is for the reader that matches it."""
    first = readers.waits(grouping=ALL)
    last = readers.waits(selector="last = TRUE")
    readers.send("1", "g", 1)
    readers.send("2", "g", 2, True, properties={"last": True})
    assert first.result().body == b"1"
    assert last.result().body == b"2"


def test_message_left_by_receive_many_wakes_the_next_reader(readers):
    several = readers.waits("receive_many", 2, selector="n < 9")
    chosen = readers.waits(selector="n = 8")
    readers.queue.send_many(
        [
            Outgoing(body=b"%d" % n, properties={"n": n}, priority=priority)
            for n, priority in ((8, 0), (1, 7), (2, 7))
        ]
    )
    assert bodies(several.result()) == ["1", "2"]
    assert chosen.result().body == b"8"


def test_each_message_of_a_batch_notifies_another_reader(notifications):
    qm, reader = notifications
    first, second = reader(RED), reader(RED)
    qm.open("q").send_many([Outgoing(body=body, properties={"colour": "red"}) for body in (b"1", b"2")])
    assert (first.notified, second.notified) == (True, True)
    assert (first.poll(), second.poll()) == (["1"], ["2"])


def test_reader_is_told_of_an_extended_lease_that_ends_before_all_others(notifications):
    """It waits until the first end that it knows, so a later one is nothing new to it."""
    qm, reader = notifications
    queue = qm.open("q")
    queue.send_many([b"a", b"b"])
    queue.lock(0, lease=10)
    lock, waiting = queue.lock(0, lease=10), reader()
    lock.extend(60)
    assert not waiting.was_woken
    lock.extend(5)
    assert waiting.was_woken


def test_purge_keeps_the_index_entries_of_all_waiting_readers(notifications):
    qm, reader = notifications
    wanted = reader(Filter(match=Match(correlation_id="z")).text())
    index = wanted.keys.queue("q")[QUEUE_PARTS.index("i")]
    others = {f"wcsa{n:04d}\0reader": 0 for n in range(1500)}
    wanted.raw.zadd(index, others)
    queue = qm.open("q")
    queue.send(b"a")
    assert queue.purge() == 1
    assert wanted.raw.zlexcount(index, "[w", "(x") == len(others) + 1
    wanted.raw.zrem(index, *others)
    queue.send(b"b", correlation_id="z")
    assert wanted.notified
    assert wanted.poll() == ["b"]


def two_of_a_group(queue):
    """The second message makes the group complete, and another reader takes the first one before the notified one
    fetches."""
    queue.send(b"1", group_id="g", sequence=1, properties={"n": 1})
    queue.send(b"2", group_id="g", sequence=2, last_in_group=True, properties={"n": 2})
    assert queue.receive(0, match=Match(sequence=1)).body == b"1"


def test_unused_notification_is_passed_to_the_next_matching_reader(notifications):
    qm, reader = notifications
    first, red, second = reader(WHOLE), reader(RED), reader(WHOLE)
    chosen, behind = reader(TWO), reader(TWO)
    two_of_a_group(qm.open("q"))
    assert [r.notified for r in (first, red, second, chosen, behind)] == [True, False, False, False, False]
    assert first.poll() == []
    # The group is not complete any more, so the second reader of whole groups is not notified.
    assert [r.notified for r in (first, red, second, chosen, behind)] == [False, False, False, True, False]
    assert chosen.poll() == ["2"]
    assert not behind.notified
    assert qm.queue_info("q").waiters == 4


def test_unused_notification_is_passed_to_a_reader_without_a_match(notifications):
    qm, reader = notifications
    whole, red, one, other = reader(WHOLE), reader(RED), reader(), reader()
    qm.open("q").send_group([b"1", b"2"], group_id="g")
    assert [r.notified for r in (whole, red, one, other)] == [True, False, True, False]
    assert one.poll() == ["2"]
    assert whole.poll() == []
    assert [r.notified for r in (whole, red, other)] == [False, False, True]
    assert other.poll() == ["1"]


def test_unused_notifications_are_passed_on_once_per_reader(notifications):
    """There are too many messages to evaluate, so every reader is notified; each passes its notification on once."""
    qm, reader = notifications
    readers = [reader(NOBODY_IN_WHOLE) for _ in range(3)]
    queue = qm.open("q")
    queue.send_group([b"%d" % n for n in range(100)], group_id="g")
    polls = 0
    while any(r.notified for r in readers):
        for r in readers:
            if r.notified:
                assert r.poll() == []
                polls += 1
    assert polls == 3
    assert queue.purge() == 100


def test_reader_that_leaves_before_polling_passes_its_notification_on(notifications):
    qm, reader = notifications
    whole, chosen = reader(WHOLE), reader(TWO)
    two_of_a_group(qm.open("q"))
    assert (whole.notified, chosen.notified) == (True, False)
    whole.leave()
    assert chosen.poll() == ["2"]


def test_reader_inside_a_group_is_notified_of_the_next_member_alone(notifications):
    qm, reader = notifications
    inside = reader(Filter(grouping=LOGICAL, member=Member("sg", 2, 0)).text())
    queue = qm.open("q")
    for group, sequence in (("h", 2), ("g", 3), ("g", 2)):
        queue.send(b"x", group_id=group, sequence=sequence)
        assert inside.notified is ((group, sequence) == ("g", 2))
    assert inside.poll() == ["x"]


@pytest.mark.parametrize(
    "text", [FIRST_IN_WHOLE, Filter(grouping=LOGICAL | ALL).text()], ids=["selector", "logical order"]
)
def test_message_that_completes_a_group_notifies_a_reader_of_its_first_member(notifications, text):
    qm, reader = notifications
    first = reader(text)
    for number in (1, 2):
        assert not first.notified
        end: dict[str, Any] = {"sequence": number, "last_in_group": number == 2, "properties": {"n": number}}
        qm.open("q").send(f"{number}", group_id="g", **end)
    assert first.notified
    assert first.poll() == ["1"]


def test_reader_is_not_notified_of_a_group_that_the_same_call_locks_again(notifications):
    """The lease ends in the call that takes the message next, so the group has no available member at its end."""
    qm, reader = notifications
    queue = qm.open("q")
    queue.send(b"1", group_id="g", last_in_group=True)
    queue.lock(0, lease=5)
    whole = reader(WHOLE)
    qm.advance_clock(6)
    assert queue.lock(0).body == b"1"
    assert not whole.notified


def test_complete_message_does_not_notify_readers_that_may_not_begin_with_it(notifications):
    qm, reader = notifications
    red = reader(Filter(grouping=COMPLETE, programs=[parse("colour = 'red'").program]).text())
    ordered = reader(Filter(grouping=LOGICAL | SEGMENTS).text())
    part: dict[str, Any] = {"group_id": "g", "sequence": 2, "segment": True}
    qm.open("q").send_many([Outgoing(b"x", offset=n, last_segment=n == 65, **part) for n in range(66)])
    assert (red.notified, ordered.notified) == (False, False)


@pytest.mark.parametrize(
    "grouping, size, told", [(ALL, 2, False), (ALL, 64, False), (ALL, 65, True), (LOGICAL | ALL, 65, False)]
)
def test_reader_is_not_notified_of_a_group_without_a_matching_member(notifications, grouping, size, told):
    """A reader has to look at a large group by itself, unless the first member alone decides."""
    qm, reader = notifications
    red = reader(Filter(grouping=grouping, programs=[parse("colour = 'red'").program]).text())
    qm.open("q").send_group([b"x"] * size, group_id="g")
    assert red.notified is told
    if told:
        assert red.poll() == []


def test_message_wakes_a_reader_that_waits_behind_many_whose_clients_are_gone(notifications):
    qm, reader = notifications
    behind = reader()
    gone = {f"99.{n} D p0 -": 0 for n in range(64)}
    behind.raw.zadd(behind.keys.queue("q")[QUEUE_PARTS.index("w")], gone)
    qm.open("q").send(b"x")
    assert behind.notified
    assert behind.poll() == ["x"]


def test_completing_segment_notifies_a_reader_inside_the_group(notifications):
    qm, reader = notifications
    inside = reader(Filter(grouping=LOGICAL | COMPLETE, member=Member("sg", 2, 0)).text())
    queue = qm.open("q")
    queue.send(b"abc", group_id="g", sequence=2, segment=True)
    assert not inside.notified
    queue.send(b"de", group_id="g", sequence=2, offset=3, segment=True, last_segment=True)
    assert inside.notified
    assert inside.poll() == ["abc", "de"]


def test_waiting_pipeline_is_ended_by_an_older_message_that_comes_back(notifications):
    """It has seen all messages that there are, so only the notification tells it that one of them is free again."""
    qm, _ = notifications
    queue = qm.open("x")
    queue.send(b"1")
    lock = queue.lock(0)
    waiter, seen = Waiter("P p0 -"), "f" * 14
    waiting = qm.run(perform(claims.wait(queue._handle.address, seen, waiter)))
    assert waiting is not None
    waiter.ticket = waiting.ticket
    lock.abort()
    assert qm.run(perform(claims.wait(queue._handle.address, seen, waiter))) is None


def test_commit_and_abort_notify_readers_in_the_order_of_delivery(notifications):
    """The script makes plain messages available apart from those that ask for something."""
    qm, reader = notifications
    qm.create_queue("units", transactional=True)

    def send():
        with qm.transaction() as unit:
            queue.send(b"1", properties={"colour": "red"}, time_to_be_received=60, transaction=unit)
            queue.send(b"2", properties={"colour": "red"}, transaction=unit)

    def check():
        assert (first.notified, second.notified) == (True, True)
        assert second.poll() == ["2"]
        assert first.poll() == ["1"]

    queue = qm.open("units")
    first, second = reader(RED, queue="units"), reader(RED, queue="units")
    send()
    check()
    send()
    unit = qm.transaction()
    assert len(queue.receive_many(2, 0, transaction=unit)) == 2
    first, second = reader(RED, queue="units"), reader(RED, queue="units")
    unit.abort()
    check()
