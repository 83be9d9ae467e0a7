"""Leases, delays and expiry end exactly at their millisecond, not before it; the clock of these tests is fixed."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from mqredis import codec
from mqredis.commands import read, send, settlement, waiting
from mqredis.commands.waiting import Waiter
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
    """Send a message to queue q."""
    message = codec.encode(Outgoing(body=b"x", **fields), "")
    assert walk.call(send.send(walk.address["q"], [message]), *walk.token())[0] == Status.OK


def take(walk: Clocked) -> int:
    """Receive a message without waiting; return the status."""
    return int(walk.call(read.receive(walk.address["q"], "take", 1), *walk.token())[0])


def records(walk: Clocked) -> int:
    """Return the number of messages in queue q."""
    return int(walk.store.client.hlen(walk.address["q"].call.keys[5]))


@BEFORE_AND_AT
def test_transaction_lease_expires_exactly_at_its_deadline(walk: Clocked, passed: int, over: bool) -> None:
    message = codec.encode(Outgoing(body=b"x"), "")
    fence = walk.sent(message, "t", f"+{SPAN}")
    walk.pass_time(passed)
    assert walk.ended("commit", fence, "t") == (Status.TRANSACTION_SEQUENCE if over else Status.OK)
    fence = walk.sent(message, "t", f"+{SPAN}")
    walk.pass_time(passed)
    assert walk.sent(message, "u", fence) == ("" if over else fence)


@BEFORE_AND_AT
def test_lock_lease_expires_exactly_at_its_deadline(walk: Clocked, passed: int, over: bool) -> None:
    put(walk)
    locking = read.receive(walk.address["q"], "lock", 1, grant=str(SPAN))
    (lock,) = walk.locks(walk.call(locking, *walk.token()))
    walk.pass_time(passed)
    reply = walk.call(settlement.settle(walk.address["q"], [("c", *lock)], 1000), *walk.token())
    assert reply[4:] == ([lock[1].encode(), b"a"] if over else [])
    assert records(walk) == int(over)


@pytest.mark.parametrize("count", [1, 2])
def test_reply_to_a_waiting_reader_has_the_time_until_the_first_lease_expiry(
    walk: Clocked, count: int
) -> None:
    for lease in (9000, SPAN, 8000):
        for _ in range(count):
            put(walk)
        walk.call(read.receive(walk.address["q"], "lock", count, grant=str(lease)), *walk.token())
    walk.pass_time(500)
    reply = walk.call(read.receive(walk.address["q"], "take", 1, waiter=Waiter("D k0 ")), *walk.token())
    assert (reply[0], reply[4]) == (Status.WAITING, SPAN - 500)


@BEFORE_AND_AT
def test_handed_off_lock_expires_exactly_at_its_deadline(walk: Clocked, passed: int, over: bool) -> None:
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
            assert walk.call(waiting.leave(address, waiter.member), *walk.token("1.1"))[0] == Status.OK
            found = walk.call(read.receive(address, "lock", grant=str(SPAN)), *walk.token("1.2"))
        else:
            found = walk.call(look(), *walk.token("1.1"))
        # A delivery whose lease expired is counted; a delivery that was released in time is not.
        assert found[8] == (b"2 0 0 0" if over else b"1 0 0 0")
        assert int(found[5]) == walk.now
        walk.call(settlement.settle(address, [("c", *walk.locks(found)[0])], 1000), *walk.token("1.2"))
    walk.listen(False)


@BEFORE_AND_AT
def test_message_expires_exactly_at_its_time_to_be_received(walk: Clocked, passed: int, over: bool) -> None:
    put(walk, time_to_be_received=SPAN / 1000)
    put(walk)
    walk.pass_time(passed)
    assert take(walk) == Status.OK
    assert records(walk) == (
        0 if over else 1
    )  # the first expired and the second was taken, or the first was taken


@BEFORE_AND_AT
def test_delayed_message_is_available_exactly_at_the_end_of_its_delay(
    walk: Clocked, passed: int, over: bool
) -> None:
    put(walk, delay=SPAN / 1000)
    walk.pass_time(passed)
    take(walk)
    assert records(walk) == (0 if over else 1)


def test_expired_dedup_key_is_accepted_while_many_timers_are_due(walk: Clocked) -> None:
    for _ in range(300):  # more than one call processes
        put(walk, delay=1)
    put(walk, dedup_key="k", dedup_window=SPAN / 1000)
    assert take(walk) == Status.OK
    walk.pass_time(SPAN)
    put(walk, dedup_key="k")
