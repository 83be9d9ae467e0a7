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
