"""Which waiting reader is notified of a message in queues with exclusive groups.

The clients here do not recheck the queue within the time of a test.
"""

from __future__ import annotations

import pytest

from mqredis import Grouping, Match, Outgoing
from mqredis.commands import claims
from mqredis.commands.filters import Filter
from mqredis.commands.waiting import Waiter
from mqredis.selector import parse
from mqredis.steps import perform
from tests.matching.kit import ALL
from tests.matching.waiting_reader import WaitingReaders

TWO = Filter(programs=[parse("n = 2").program]).text()


def test_message_of_a_busy_group_wakes_peeks_and_not_takes(broker):
    readers = WaitingReaders(broker, group_exclusive=True)
    readers.send("1", "g")
    lock = readers.queue.lock(0)
    takes = [
        readers.waits(),
        readers.waits(match=Match(group_id="g")),
        readers.waits("lock", selector="n = 2"),
    ]
    shown = [
        readers.waits("peek"),
        readers.waits("peek", selector="n = 2"),
        readers.waits("peek", match=Match(group_id="g")),
    ]
    with readers.handle().browser() as browser:
        shown.append(broker.wait(lambda: browser.next(timeout=None), "r"))
        readers.send("2", "g", properties={"n": 2})
        assert [reader.result().body for reader in shown] == [b"2"] * 4
    assert readers.waiters == len(takes)
    lock.commit()
    anybody, named, chosen = takes
    assert named.result().body == b"2"
    readers.send("3", "h", properties={"n": 2})
    assert chosen.result().body == b"3"
    readers.send("4", "g")
    assert anybody.result().body == b"4"


def test_taking_reader_is_not_notified_of_a_busy_group(notifications):
    qm, reader = notifications
    queue = qm.open("x")
    queue.send(b"1", group_id="g")
    lock = queue.lock(0)
    plain, chosen, shown = reader(queue="x"), reader(TWO, queue="x"), reader(kind="P", queue="x")
    queue.send(b"2", group_id="g", properties={"n": 2})
    assert [r.notified for r in (plain, chosen, shown)] == [False, False, True]
    shown.leave()
    assert [r.notified for r in (plain, chosen)] == [False, False]
    lock.commit()
    assert [r.notified for r in (plain, chosen)] == [False, True]
    assert chosen.poll() == ["2"]


@pytest.mark.parametrize("end", ["commit", "abort", "reject"])
def test_free_group_wakes_readers_of_its_later_messages(broker, end):
    readers = WaitingReaders(broker, group_exclusive=True)
    for body in ("1", "2", "3", "4"):
        readers.send(body, "g", correlation_id=f"c{body}", properties={"n": int(body)})
    lock = readers.queue.lock(0, lease=1000)  # so long that its end wakes nobody
    named = readers.waits(match=Match(correlation_id="c3"))
    chosen = readers.waits(selector="n = 4")
    assert readers.waiters == 2
    getattr(lock, end)()
    assert [named.result().body, chosen.result().body] == [b"3", b"4"]


def test_free_group_wakes_a_reader_of_its_messages_that_came_before_the_one_that_returns(broker):
    readers = WaitingReaders(broker, group_exclusive=True)
    readers.send("1", "g", 1)
    readers.send("2", "g", 2, last=True)
    lock = readers.queue.lock(0, match=Match(sequence=2), lease=1000)
    reader = readers.waits(grouping=Grouping.LOGICAL_ORDER)
    lock.abort()
    assert reader.result().body == b"1"


def test_waiting_cursor_does_not_go_back_when_an_earlier_message_of_the_group_leaves(broker):
    """The next message of the group was available all the time, so nothing arrives."""
    readers = WaitingReaders(broker, group_exclusive=True)
    for body in ("1", "2"):
        readers.send(body, "g")
    with readers.handle().cursor() as cursor:
        assert [cursor.peek(0).body, cursor.peek_next(0).body] == [b"1", b"2"]
        waiting = readers.on(cursor, "peek_next")
        assert readers.queue.receive(0).body == b"1"
        readers.send("3", "g")
        assert waiting.result().body == b"3"


def test_notified_reader_does_not_get_a_message_whose_group_is_busy_by_then(notifications):
    """Another message of the group is locked between the notification and the next call of the reader."""
    qm, reader = notifications
    queue = qm.open("x")
    queue.send(b"1", group_id="g")
    chosen = reader(TWO, queue="x")
    queue.send(b"2", group_id="g", properties={"n": 2})
    assert chosen.notified
    lock = queue.lock(0)
    assert chosen.poll() == []
    lock.commit()
    assert chosen.poll() == ["2"]


def test_message_of_a_free_group_is_offered_to_the_next_reader_when_one_leaves(notifications):
    qm, reader = notifications
    first, second = reader(queue="x"), reader(queue="x")
    qm.open("x").send(b"1", group_id="g")
    assert (first.notified, second.notified) == (True, False)
    first.leave()
    assert second.notified
    assert second.poll() == ["1"]


def test_reader_of_a_group_is_not_notified_of_another_group_with_its_correlation_id(notifications):
    qm, reader = notifications
    chosen = reader(Filter(Match(correlation_id="c", group_id="g"), grouping=ALL).text())
    for body, group in ((b"1", "h"), (b"2", "g")):
        member = Outgoing(body, group_id=group, sequence=1, last_in_group=True, correlation_id="c")
        qm.open("q").send(member)
        assert chosen.notified is (group == "g")
    assert chosen.poll() == ["2"]


def test_waiting_pipeline_is_not_ended_by_a_busy_group(notifications):
    """The pipeline is notified like a peek, but continues to wait until there is a message that it could claim."""
    qm, _ = notifications
    queue = qm.open("x")
    queue.send(b"1", group_id="g")
    lock = queue.lock(0)
    waiter = Waiter("P p0 -")

    def waits():
        found = qm.run(perform(claims.wait(queue._handle.address, "", waiter)))
        if found is not None:
            waiter.ticket = found.ticket
        return found is not None

    assert waits()
    queue.send(b"2", group_id="g")
    assert waits()
    lock.commit()
    assert not waits()
