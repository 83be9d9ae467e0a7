"""What is over at a millisecond is over in that very millisecond, and not before: with a clock that stands still."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from mqredis import codec
from mqredis.commands import read, send
from mqredis.commands.read import Waiter
from mqredis.models import Outgoing
from mqredis.status import Status
from tests.property.test_straight import Walk
from tests.support.backend import Backend

SPAN = 1500
BEFORE_AND_AT = pytest.mark.parametrize("passed, over", [(SPAN - 1, False), (SPAN, True)])


@pytest.fixture
def walk(backend: Backend) -> Any:
    walk = Walk(backend, 0)
    yield walk
    walk.close()


def put(walk: Walk, **fields: Any) -> None:
    """A message in queue q."""
    message = codec.encode(Outgoing(body=b"x", **fields), "")
    assert walk.both(send.send(walk.address["q"], [message]), *walk.token())[0] == Status.OK


def take(walk: Walk) -> int:
    """What a look at it answers."""
    return int(walk.both(read.receive(walk.address["q"], "take", 1), *walk.token())[0])


def records(walk: Walk) -> list[int]:
    """How many messages each of the two stores keeps in it."""
    place = walk.address["q"].call.keys[5]
    return [store.client.hlen(place) for store in walk.stores]


@BEFORE_AND_AT
def test_the_lease_of_a_transaction(walk: Walk, passed: int, over: bool) -> None:
    message = codec.encode(Outgoing(body=b"x"), "")
    fence = walk.sent(message, "t", f"+{SPAN}")
    walk.pass_time(passed)
    assert walk.ended("commit", fence, "t") == (Status.TRANSACTION_SEQUENCE if over else Status.OK)
    fence = walk.sent(message, "t", f"+{SPAN}")
    walk.pass_time(passed)
    assert walk.sent(message, "u", fence) == ("" if over else fence)
    walk.same()


@BEFORE_AND_AT
def test_the_lease_of_a_lock(walk: Walk, passed: int, over: bool) -> None:
    put(walk)
    locking = read.receive(walk.address["q"], "lock", 1, grant=str(SPAN))
    (lock,) = walk.locks(walk.both(locking, *walk.token()))
    walk.pass_time(passed)
    reply = walk.both(read.settle(walk.address["q"], [("c", *lock)], 1000), *walk.token())
    assert reply[4:] == ([lock[1].encode(), b"a"] if over else [])
    assert records(walk) == [int(over)] * 2


@BEFORE_AND_AT
def test_the_lease_of_a_lock_that_is_handed_over(walk: Walk, passed: int, over: bool) -> None:
    address, waiter = walk.address["q"], Waiter(f"D k0 -,{SPAN}")
    walk.listen(True)
    for again in (False, True):
        waiter.ticket = ""
        look = partial(read.receive, address, "lock", grant=str(SPAN), waiter=waiter)
        assert walk.both(look(), *walk.token("1.1"))[0] == Status.WAITING
        waiter.ticket = "2" if again else "1"
        message = codec.encode(Outgoing(body=b"x"), "")
        walk.both(send.send(address, [message]), *walk.token("1.2"))
        walk.pass_time(passed)
        if again:
            assert walk.both(read.leave(address, waiter.member), *walk.token("1.1"))[0] == Status.OK
            found = walk.both(read.receive(address, "lock", grant=str(SPAN)), *walk.token("1.2"))
        else:
            found = walk.both(look(), *walk.token("1.1"))
        # The delivery that its lease ended counts; one that was given back in time does not.
        assert found[8] == (b"2 0 0 0" if over else b"1 0 0 0")
        assert int(found[5]) == walk.now
        walk.both(read.settle(address, [("c", *walk.locks(found)[0])], 1000), *walk.token("1.2"))
    walk.listen(False)
    walk.same()


@BEFORE_AND_AT
def test_the_life_of_a_message(walk: Walk, passed: int, over: bool) -> None:
    put(walk, time_to_be_received=SPAN / 1000)
    put(walk)
    walk.pass_time(passed)
    assert take(walk) == Status.OK
    assert records(walk) == [0 if over else 1] * 2  # it is gone; or it was taken, and the other is left
    walk.same()


@BEFORE_AND_AT
def test_the_delay_of_a_message(walk: Walk, passed: int, over: bool) -> None:
    put(walk, delay=SPAN / 1000)
    walk.pass_time(passed)
    take(walk)
    assert records(walk) == [0 if over else 1] * 2
    walk.same()
