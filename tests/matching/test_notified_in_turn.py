"""Which waiting reader of a queue with exclusive groups is notified of a message that another one did not take."""

from __future__ import annotations

import pytest

from mqredis.commands.filters import Filter
from mqredis.selector import parse

RED = Filter(programs=[parse("colour = 'red'").program]).text()


@pytest.mark.parametrize("gives_up", ["polls", "leaves"])
def test_free_message_behind_one_of_a_busy_group_is_passed_to_the_next_reader(notifications, gives_up):
    """A reader without a match takes the message by turn of which another one was notified, and leaves its own."""
    qm, reader = notifications
    queue = qm.open("x")
    for body in (b"1", b"2"):
        queue.send(body, group_id="g")
    lock = queue.lock(0)
    red, plain, behind = reader(RED, queue="x"), reader(queue="x"), reader(queue="x")
    queue.send(b"3", properties={"colour": "red"})
    queue.send(b"4")
    assert [r.notified for r in (red, plain, behind)] == [True, True, False]
    assert plain.poll() == ["3"]
    if gives_up == "polls":
        assert red.poll() == []
    else:
        red.leave()
    assert behind.notified
    assert behind.poll() == ["4"]
    lock.commit()


@pytest.mark.parametrize("end, bodies", [("commit", ["2", "3"]), ("abort", ["1", "2"])])
def test_reader_that_takes_a_message_passes_the_turn_of_a_free_group_on(notifications, end, bodies):
    """The others of the group arrived while it was busy, so no reader was notified of them. They do not arrive now: a
    peek that waits is not told.
    """
    qm, reader = notifications
    queue = qm.open("x")
    queue.send(b"1", group_id="g")
    lock = queue.lock(0)
    for body in (b"2", b"3"):
        queue.send(body, group_id="g")
    first, shown, second, third = (reader(kind=kind, queue="x") for kind in "DPDD")
    getattr(lock, end)()
    assert [r.notified for r in (first, shown, second, third)] == [True, False, False, False]
    assert first.poll() == bodies[:1]
    assert [r.notified for r in (shown, second, third)] == [False, True, False]
    assert second.poll() == bodies[1:]
    assert third.notified is (end == "abort")
    queue.purge()
