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
from tests.property.clocked import Clocked
from tests.support.backend import Backend

SPAN = 1500
BEFORE_AND_AT = pytest.mark.parametrize("passed, over", [(SPAN - 1, False), (SPAN, True)])


@pytest.fixture
def walk(backend: Backend) -> Any:
    walk = Clocked(backend, 0)
    yield walk
    walk.close()


def put(walk: Clocked, **fields: Any) -> None:
    """A message in queue q."""
    message = codec.encode(Outgoing(body=b"x", **fields), "")
    assert walk.call(send.send(walk.address["q"], [message]), *walk.token())[0] == Status.OK


def take(walk: Clocked) -> int:
    """The reply of a peek at the moment."""
    return int(walk.call(read.receive(walk.address["q"], "take", 1), *walk.token())[0])


def records(walk: Clocked) -> int:
    """How many messages are in it."""
    return int(walk.store.client.hlen(walk.address["q"].call.keys[5]))


@BEFORE_AND_AT
def test_the_lease_of_a_transaction(walk: Clocked, passed: int, over: bool) -> None:
    message = codec.encode(Outgoing(body=b"x"), "")
    fence = walk.sent(message, "t", f"+{SPAN}")
    walk.pass_time(passed)
    assert walk.ended("commit", fence, "t") == (Status.TRANSACTION_SEQUENCE if over else Status.OK)
    fence = walk.sent(message, "t", f"+{SPAN}")
    walk.pass_time(passed)
    assert walk.sent(message, "u", fence) == ("" if over else fence)


@BEFORE_AND_AT
def test_the_lease_of_a_lock(walk: Clocked, passed: int, over: bool) -> None:
    put(walk)
    locking = read.receive(walk.address["q"], "lock", 1, grant=str(SPAN))
    (lock,) = walk.locks(walk.call(locking, *walk.token()))
    walk.pass_time(passed)
    reply = walk.call(read.settle(walk.address["q"], [("c", *lock)], 1000), *walk.token())
    assert reply[4:] == ([lock[1].encode(), b"a"] if over else [])
    assert records(walk) == int(over)


@pytest.mark.parametrize("count", [1, 2])
def test_a_waiting_reader_is_told_when_the_first_lease_ends(walk: Clocked, count: int) -> None:
    for lease in (9000, SPAN, 8000):
        for _ in range(count):
            put(walk)
        walk.call(read.receive(walk.address["q"], "lock", count, grant=str(lease)), *walk.token())
    walk.pass_time(500)
    reply = walk.call(read.receive(walk.address["q"], "take", 1, waiter=Waiter("D k0 ")), *walk.token())
    assert (reply[0], reply[4]) == (Status.WAITING, SPAN - 500)


@BEFORE_AND_AT
def test_the_lease_of_a_lock_that_is_handed_over(walk: Clocked, passed: int, over: bool) -> None:
    address, waiter = walk.address["q"], Waiter(f"D k0 -,{SPAN}")
    walk.listen(True)
    for again in (False, True):
        waiter.ticket = ""
        look = partial(read.receive, address, "lock", grant=str(SPAN), waiter=waiter)
        assert walk.call(look(), *walk.token("1.1"))[0] == Status.WAITING
        waiter.ticket = "2" if again else "1"
        message = codec.encode(Outgoing(body=b"x"), "")
        walk.call(send.send(address, [message]), *walk.token("1.2"))
        walk.pass_time(passed)
        if again:
            assert walk.call(read.leave(address, waiter.member), *walk.token("1.1"))[0] == Status.OK
            found = walk.call(read.receive(address, "lock", grant=str(SPAN)), *walk.token("1.2"))
        else:
            found = walk.call(look(), *walk.token("1.1"))
        # The delivery that its lease ended counts; one that was given back in time does not.
        assert found[8] == (b"2 0 0 0" if over else b"1 0 0 0")
        assert int(found[5]) == walk.now
        walk.call(read.settle(address, [("c", *walk.locks(found)[0])], 1000), *walk.token("1.2"))
    walk.listen(False)


@BEFORE_AND_AT
def test_the_life_of_a_message(walk: Clocked, passed: int, over: bool) -> None:
    put(walk, time_to_be_received=SPAN / 1000)
    put(walk)
    walk.pass_time(passed)
    assert take(walk) == Status.OK
    assert records(walk) == (0 if over else 1)  # it is gone; or it was taken, and the other is left


@BEFORE_AND_AT
def test_the_delay_of_a_message(walk: Clocked, passed: int, over: bool) -> None:
    put(walk, delay=SPAN / 1000)
    walk.pass_time(passed)
    take(walk)
    assert records(walk) == (0 if over else 1)


def test_a_dedup_key_whose_window_is_over_while_many_timers_are_due(walk: Clocked) -> None:
    for _ in range(300):  # more than one call serves
        put(walk, delay=1)
    put(walk, dedup_key="k", dedup_window=SPAN / 1000)
    assert take(walk) == Status.OK
    walk.pass_time(SPAN)
    put(walk, dedup_key="k")
