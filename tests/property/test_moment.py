"""Leases, delays and expiry end exactly at their millisecond, not before it; the clock of these tests is fixed."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from mqredis import codec
from mqredis.codec.history import BUCKET_MS, Counters
from mqredis.commands import manager, read, schedules, send, settlement, waiting, workers
from mqredis.commands.filters import MARK_COOPERATIVE, UNMARKED, Filter
from mqredis.commands.history import history
from mqredis.commands.waiting import Waiter
from mqredis.models import Outgoing
from mqredis.status import Status
from mqredis.steps import Call
from tests.property.clocked import FixedClockCalls
from tests.property.fixed_clock import KEYS
from tests.support.backend import Backend

SPAN = 1500
BEFORE_AND_AT = pytest.mark.parametrize("passed, over", [(SPAN - 1, False), (SPAN, True)])


@pytest.fixture
def calls(backend: Backend) -> Any:
    calls = FixedClockCalls(backend, 0)
    yield calls
    calls.close()


def sent(calls: FixedClockCalls, count: int, slot: str, **fields: Any) -> int:
    """Send messages to queue q; return the status."""
    message = codec.encode(Outgoing(body=b"x", **fields), "")
    return int(calls.call(send.send(calls.address["q"], [message] * count), *calls.token(slot))[0])


def put(calls: FixedClockCalls, count: int = 1, **fields: Any) -> None:
    """Send messages to queue q."""
    assert sent(calls, count, "", **fields) == Status.OK


def lock(calls: FixedClockCalls, lease: int, count: int = 1) -> tuple[str, str]:
    """Lock messages of queue q; return the first lock."""
    locking = read.receive(calls.address["q"], "lock", count, grant=str(lease))
    return calls.locks(calls.call(locking, *calls.token()))[0]


def is_lost(calls: FixedClockCalls, held: tuple[str, str]) -> bool:
    """Commit the lock; return whether it was lost."""
    reply = calls.call(settlement.settle(calls.address["q"], [("c", *held)], 1000), *calls.token())
    assert reply[4:] in ([], [held[1].encode(), b"a"])
    return len(reply) > 4


def open_session(calls: FixedClockCalls, ttl: int) -> str:
    """Open a session, which ends others that are over; return its number."""
    opening = manager.session_arguments(ttl, "run", True, "0" * 16)
    return str(calls.call(Call("session_open", KEYS.admin(), opening, lambda *_: None), "", "")[3].decode())


def take(calls: FixedClockCalls) -> int:
    """Receive a message without waiting; return the status."""
    return int(calls.call(read.receive(calls.address["q"], "take", 1), *calls.token())[0])


def records(calls: FixedClockCalls) -> int:
    """Return the number of messages in queue q."""
    return int(calls.store.client.hlen(calls.address["q"].call.keys[5]))


def periods(calls: FixedClockCalls, path: str) -> list[Counters]:
    """Return what the history of a queue has counted in each period that has ended."""
    call = history(KEYS, [path], 10)
    status, _, _, *payload = calls.call(call, "", "")
    (row,) = call.parse(status, payload).rows
    assert row is not None
    assert row.history is not None
    return [item.counted for item in row.history.items]


@BEFORE_AND_AT
def test_transaction_lease_expires_exactly_at_its_deadline(
    calls: FixedClockCalls, passed: int, over: bool
) -> None:
    message = codec.encode(Outgoing(body=b"x"), "")
    fence = calls.sent(message, "t", f"+{SPAN}")
    calls.pass_time(passed)
    assert calls.ended("commit", fence, "t") == (Status.TRANSACTION_SEQUENCE if over else Status.OK)
    fence = calls.sent(message, "t", f"+{SPAN}")
    calls.pass_time(passed)
    assert calls.sent(message, "u", fence) == ("" if over else fence)


@BEFORE_AND_AT
def test_lock_lease_expires_exactly_at_its_deadline(calls: FixedClockCalls, passed: int, over: bool) -> None:
    put(calls)
    held = lock(calls, SPAN)
    calls.pass_time(passed)
    assert is_lost(calls, held) is over
    assert records(calls) == int(over)


@BEFORE_AND_AT
def test_locked_message_is_available_again_exactly_at_the_deadline(
    calls: FixedClockCalls, passed: int, over: bool
) -> None:
    """The call of that millisecond takes it."""
    put(calls)
    lock(calls, SPAN)
    calls.pass_time(passed)
    assert take(calls) == (Status.OK if over else Status.WAITING)


@BEFORE_AND_AT
def test_lock_lease_expires_exactly_at_its_deadline_while_many_others_are_over(
    calls: FixedClockCalls, passed: int, over: bool
) -> None:
    put(calls, 300)  # more than one call processes
    lock(calls, 1, 300)
    put(calls)
    held = lock(calls, SPAN)
    calls.pass_time(passed)
    assert is_lost(calls, held) is over
    assert records(calls) == 300 + int(over)


@pytest.mark.parametrize("count", [1, 1100])  # the reply that the slot keeps may be long
@BEFORE_AND_AT
def test_session_expires_exactly_when_it_was_idle_for_its_time_to_live(
    calls: FixedClockCalls, count: int, passed: int, over: bool
) -> None:
    slot = f"{open_session(calls, SPAN)}.1"
    calls.pass_time(SPAN // 2)
    assert sent(calls, count, slot) == Status.OK
    calls.pass_time(passed)
    open_session(calls, SPAN)
    assert sent(calls, 1, slot) == (Status.SESSION_EXPIRED if over else Status.OK)


@pytest.mark.parametrize("back, goes_on", [(1, False), (1000, False), (1001, True)])
def test_broker_time_goes_on_at_once_if_the_clock_is_set_back_by_more_than_a_second(
    calls: FixedClockCalls, back: int, goes_on: bool
) -> None:
    put(calls)
    held = lock(calls, SPAN)
    calls.pass_time(-back)
    take(calls)
    calls.pass_time(SPAN)
    assert is_lost(calls, held) is goes_on


@pytest.mark.parametrize("passed, is_stored", [(5000, False), (5001, True)])
def test_call_that_changes_nothing_stores_a_time_more_than_five_seconds_later(
    calls: FixedClockCalls, passed: int, is_stored: bool
) -> None:
    put(calls)
    held = lock(calls, 6000)
    for ms in (passed, -passed):
        calls.pass_time(ms)
        take(calls)
    calls.pass_time(6000 - passed)  # from then on, if the time was stored; else from the beginning
    assert is_lost(calls, held) is is_stored


@pytest.mark.parametrize("passed, ended", [(BUCKET_MS - 1, []), (BUCKET_MS, [1])])
def test_period_of_the_history_ends_exactly_after_five_minutes(
    calls: FixedClockCalls, passed: int, ended: list[int]
) -> None:
    put(calls)
    calls.pass_time(passed)
    put(calls)
    assert [counted.came for counted in periods(calls, "q")] == ended


def test_commit_at_the_end_of_a_period_is_counted_in_the_next_one(calls: FixedClockCalls) -> None:
    message, grant = codec.encode(Outgoing(body=b"x"), ""), f"+{2 * BUCKET_MS}"
    assert calls.ended("commit", calls.sent(message, "t", grant), "t") == Status.OK
    fence = calls.taken("t", grant)
    calls.pass_time(BUCKET_MS)
    assert calls.ended("commit", fence, "t") == Status.OK
    assert [(counted.came, counted.left) for counted in periods(calls, "t")] == [(1, 0)]


@pytest.mark.parametrize("count", [1, 2])
def test_reply_to_a_waiting_reader_has_the_time_until_the_first_lease_expiry(
    calls: FixedClockCalls, count: int
) -> None:
    for lease in (9000, SPAN, 8000):
        for _ in range(count):
            put(calls)
        calls.call(read.receive(calls.address["q"], "lock", count, grant=str(lease)), *calls.token())
    calls.pass_time(500)
    reply = calls.call(read.receive(calls.address["q"], "take", 1, waiter=Waiter("D k0 ")), *calls.token())
    assert (reply[0], reply[4]) == (Status.WAITING, SPAN - 500)


@BEFORE_AND_AT
def test_handed_off_lock_expires_exactly_at_its_deadline(
    calls: FixedClockCalls, passed: int, over: bool
) -> None:
    address, waiter = calls.address["q"], Waiter(f"D k0 -,{SPAN}")
    calls.listen(True)
    for again in (False, True):
        waiter.ticket = ""
        look = partial(read.receive, address, "lock", grant=str(SPAN), waiter=waiter)
        assert calls.call(look(), *calls.token("1.1"))[0] == Status.WAITING
        waiter.ticket = "2" if again else "1"
        message = codec.encode(Outgoing(body=b"x"), "")
        calls.call(send.send(address, [message]), *calls.token("1.2"))
        calls.pass_time(passed)
        if again:
            assert (
                calls.call(waiting.leave(address, waiter.registration), *calls.token("1.1"))[0] == Status.OK
            )
            found = calls.call(read.receive(address, "lock", grant=str(SPAN)), *calls.token("1.2"))
        else:
            found = calls.call(look(), *calls.token("1.1"))
        # A delivery whose lease expired is counted; a delivery that was released in time is not.
        assert found[8] == (b"2 0 0 0" if over else b"1 0 0 0")
        assert int(found[5]) == calls.now
        calls.call(settlement.settle(address, [("c", *calls.locks(found)[0])], 1000), *calls.token("1.2"))
    calls.listen(False)


@BEFORE_AND_AT
def test_message_expires_exactly_at_its_time_to_be_received(
    calls: FixedClockCalls, passed: int, over: bool
) -> None:
    put(calls, time_to_be_received=SPAN / 1000)
    put(calls)
    calls.pass_time(passed)
    assert take(calls) == Status.OK
    # The first expired and the second was taken, or the first was taken.
    assert records(calls) == (0 if over else 1)


@BEFORE_AND_AT
def test_co_operative_mark_ends_exactly_at_its_moment(
    calls: FixedClockCalls, passed: int, over: bool
) -> None:
    put(calls)
    marking, looking = (
        Filter(options=option, browser=f"1-{n}", interval=str(SPAN)).text()
        for n, option in enumerate((MARK_COOPERATIVE, UNMARKED))
    )
    calls.call(read.peek(calls.address["q"], match=marking, marks=True), *calls.token())
    calls.pass_time(passed)
    found = calls.call(read.peek(calls.address["q"], match=looking), *calls.token())
    assert found[0] == (Status.OK if over else Status.WAITING)


@BEFORE_AND_AT
def test_delayed_message_is_available_exactly_at_the_end_of_its_delay(
    calls: FixedClockCalls, passed: int, over: bool
) -> None:
    put(calls, delay=SPAN / 1000)
    calls.pass_time(passed)
    take(calls)
    assert records(calls) == (0 if over else 1)


def test_expired_dedup_key_is_accepted_while_many_timers_are_due(calls: FixedClockCalls) -> None:
    for _ in range(300):  # more than one call processes
        put(calls, delay=1)
    put(calls, dedup_key="k", dedup_window=SPAN / 1000)
    assert take(calls) == Status.OK
    calls.pass_time(SPAN)
    put(calls, dedup_key="k")


@BEFORE_AND_AT
def test_worker_is_gone_exactly_at_the_end_of_its_lease(
    calls: FixedClockCalls, passed: int, over: bool
) -> None:
    calls.call(workers.beat(KEYS, "a", SPAN, True, "{}", ()), *calls.token())
    calls.pass_time(passed)
    listed = calls.call(workers.listing(KEYS), "", "")
    assert (b"w:a" in listed) is not over


@BEFORE_AND_AT
def test_schedule_is_due_exactly_at_its_time(calls: FixedClockCalls, passed: int, over: bool) -> None:
    first, second = calls.now + SPAN, calls.now + 2 * SPAN
    calls.store.client.hset(KEYS.schedules[0], mapping={"first": f"{first} {{}}", "second": f"{second} {{}}"})
    calls.pass_time(passed)
    listing = schedules.listing(KEYS, due=True)
    found = listing.parse(Status.OK, calls.call(listing, "", "")[3:])
    assert [name for name, _, _ in found.rows] == (["first"] if over else [])
    assert found.first_ms == (second if over else first)
