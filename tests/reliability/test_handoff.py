"""Direct handoff of a lock to a waiting reader (lua/waiting/handoff): what the reader and others may do next."""

from __future__ import annotations

import itertools

import pytest

from mqredis import codec
from mqredis.commands import contents, manager, queues, read, send, settlement, waiting
from mqredis.commands.read import Found
from mqredis.commands.waiting import Waiter
from mqredis.models import Journal, Outgoing
from mqredis.status import Status
from tests.reliability.store import Reader
from tests.reliability.test_calls import BODY, LARGE, notification_of, reader, sent
from tests.reliability.wire import Place, fire

__all__ = ["reader"]  # a fixture

NAMED = codec.encode(Outgoing(body=b"x", correlation_id="c"), "")
MEMBER = "D p0 -,30000"
LEASE = "30000"
_slots = itertools.count(100)


def fresh() -> Place:
    """A slot that was not used yet."""
    return Place(f"1.{next(_slots)}")


@pytest.fixture
def waits(reader: Reader) -> Place:
    """A slot that waits for a lock, and hears its bell."""
    reader.wire.listen([reader.keys.channel("1.1", 0)])
    place = Place("1.1")
    assert fetch(reader, place, "").messages == []
    return place


def fetch(
    reader: Reader,
    place: Place,
    ticket: str = "1",
    member: str = MEMBER,
    queue: str = "q",
    lease: str = LEASE,
) -> Found:
    call = read.receive(reader.address(queue), "lock", grant=lease, waiter=Waiter(member, ticket))
    found: Found = reader.call(call, place)
    return found


def waiters(reader: Reader, path: str = "q") -> int:
    count: int = reader.wire.command("ZCARD", reader.keys.queue(path)[6])
    return count


def take(reader: Reader) -> list[tuple[str, str]]:
    """Receive as another reader. Return the id and the state counters of each message."""
    found: Found = reader.call(read.receive(reader.address("q"), "take"), fresh())
    return [(lookup_id.decode(), counts.decode()) for lookup_id, counts, _ in found.messages]


@pytest.mark.parametrize("message", [BODY, NAMED], ids=["plain", "with a correlation id"])
def test_handed_off_message_is_received_only_by_its_waiter(
    reader: Reader, waits: Place, message: tuple[bytes, bytes | None]
) -> None:
    [first_id] = sent(reader, fresh(), message)
    assert take(reader) == []
    assert waiters(reader) == 0
    shot = fire(read.receive(reader.address("q"), "lock", grant=LEASE, waiter=Waiter(MEMBER, "1")), waits)
    first, repeated = reader.wire.volley([shot, shot])
    assert first.value == repeated.value
    [(lookup_id, counts, record)] = first.value.messages
    assert (lookup_id.decode(), counts) == (first_id, b"1 0 0 0")
    assert record.endswith(b"\0x")
    reader.call(settlement.settle(reader.address("q"), [("c", first.value.fence, first_id)]), waits)
    assert reader.ids("q") == set()


def test_last_fetch_of_a_timed_out_waiter_receives_the_handoff(reader: Reader, waits: Place) -> None:
    [first_id] = sent(reader, fresh(), BODY)
    [(lookup_id, _, _)] = fetch(reader, waits, "leave").messages
    assert lookup_id.decode() == first_id


def test_abandoned_handoff_is_released_without_counting_a_delivery(reader: Reader, waits: Place) -> None:
    next_one = Place("1.3")
    [first_id] = sent(reader, fresh(), NAMED)
    member = "D p0 tag"
    assert fetch(reader, next_one, "", member).messages == []
    leave = fire(waiting.leave(reader.address("q"), MEMBER), waits)
    first, repeated = reader.wire.volley([leave, leave])
    assert first.value is repeated.value is None
    assert notification_of(reader, next_one) == f"h {first_id}"
    assert take(reader) == [(first_id, "")]


def test_abandoned_handoff_that_was_purged_is_not_released(reader: Reader, waits: Place) -> None:
    sent(reader, fresh(), BODY)
    reader.call(contents.purge(reader.address("q")), fresh())
    reader.call(waiting.leave(reader.address("q"), MEMBER), waits)
    assert reader.ids("q") == set()


def test_handoff_abandoned_after_its_lease_keeps_the_lock_of_another_reader(
    reader: Reader, waits: Place
) -> None:
    [first_id] = sent(reader, fresh(), BODY)
    reader.call(manager.update(reader.keys, "clock", "31000"), fresh())
    third = Place("1.3")
    other = fetch(reader, third, "")
    assert [lookup_id.decode() for lookup_id, _, _ in other.messages] == [first_id]
    reader.call(waiting.leave(reader.address("q"), MEMBER), waits)
    settled = reader.call(settlement.settle(reader.address("q"), [("c", other.fence, first_id)]), third)
    assert settled.lost == []


def test_fetch_after_the_lease_of_the_handoff_locks_the_message_again(reader: Reader, waits: Place) -> None:
    [first_id] = sent(reader, fresh(), BODY)
    reader.call(manager.update(reader.keys, "clock", "31000"), fresh())
    [(lookup_id, counts, _)] = fetch(reader, waits).messages
    assert (lookup_id.decode(), counts) == (first_id, b"2 0 0 0")


def test_other_call_in_the_slot_does_not_receive_the_handoff(reader: Reader, waits: Place) -> None:
    """A call in a slot that waits, which no client makes, delays the message until its lease ends but loses nothing."""
    [first_id] = sent(reader, fresh(), BODY)
    [second_id] = sent(reader, waits, BODY)
    assert first_id != second_id
    assert take(reader) == [(second_id, "")]
    reader.call(manager.update(reader.keys, "clock", "31000"), fresh())
    assert take(reader) == [(first_id, "1 0 0 0")]


def test_fetch_from_another_queue_does_not_receive_the_handoff(reader: Reader, waits: Place) -> None:
    reader.create("other")
    [first_id] = sent(reader, fresh(), BODY)
    leaving = fetch(reader, waits, "leave", queue="other")
    assert leaving.messages == []
    assert reader.ids("q") == {first_id}


def test_slot_used_after_registration_gets_no_handoff(reader: Reader, waits: Place) -> None:
    reader.call(contents.purge(reader.address("q")), waits)
    [first_id] = sent(reader, fresh(), BODY)
    assert take(reader) == [(first_id, "")]


def test_sending_slot_gets_no_handoff(reader: Reader, waits: Place) -> None:
    [first_id] = sent(reader, waits, BODY)
    assert take(reader) == [(first_id, "")]


def test_fetch_answered_with_keys_changed_gets_no_handoff(reader: Reader) -> None:
    """The slot then calls again with the requested queues."""
    reader.wire.listen([reader.keys.channel("1.1", 0)])
    waits, other = Place("1.1"), fresh()
    expiring = codec.encode(Outgoing(body=b"x", time_to_be_received=1.0, journal=Journal.DEAD_LETTER), "")
    fetch(reader, waits, "")
    sent(reader, other, expiring)  # a message with a journal is not handed off
    assert notification_of(reader, waits) != ""
    reader.call(read.peek(reader.address("q")), other)
    reader.wire.command("HDEL", reader.keys.own[0], "1.1!")
    next_fetch = read.receive(reader.address("q"), "lock", grant=LEASE, waiter=Waiter(MEMBER, "1"))
    reader.call(manager.update(reader.keys, "clock", "2000"), other)
    [answer] = reader.wire.volley([fire(next_fetch, waits)])
    assert answer.value.status == Status.KEYS_CHANGED
    assert waiters(reader) == 0


@pytest.mark.parametrize("batch", [[BODY, BODY], [LARGE]], ids=["two", "large"])
def test_batch_or_large_message_only_notifies_the_waiter(
    reader: Reader, waits: Place, batch: list[tuple[bytes, bytes | None]]
) -> None:
    ids = sent(reader, fresh(), *batch)
    assert notification_of(reader, waits) == f"h {ids[0]}"
    assert [lookup_id for lookup_id, _ in take(reader)] == ids[:1]


def test_send_to_a_journaling_queue_only_notifies_the_waiter(reader: Reader, waits: Place) -> None:
    reader.call(queues.update(reader.keys, "q", {"journaling": True}), fresh())
    [first_id] = sent(reader, fresh(), BODY)
    assert notification_of(reader, waits) == f"h {first_id}"


def test_queue_with_a_quota_hands_messages_off(reader: Reader, waits: Place) -> None:
    reader.call(queues.update(reader.keys, "q", {"quota_messages": 5}), fresh())
    [first_id] = sent(reader, fresh(), BODY)
    assert take(reader) == []
    [(lookup_id, _, _)] = fetch(reader, waits).messages
    assert lookup_id.decode() == first_id


def test_waiter_subscribed_by_a_pattern_gets_no_handoff(reader: Reader) -> None:
    """A subscriber by pattern cannot interpret the notification of a handoff."""
    reader.wire.listen()
    pattern_waiter = fresh()  # earlier tests subscribed to the channels of the first slots
    fetch(reader, pattern_waiter, "")
    [first_id] = sent(reader, fresh(), BODY)
    assert notification_of(reader, pattern_waiter) == f"h {first_id}"
    assert take(reader) == [(first_id, "")]


def test_outcome_of_a_fetch_with_a_handoff_can_be_resolved(reader: Reader, waits: Place) -> None:
    [first_id] = sent(reader, fresh(), BODY)
    fetch(reader, waits)
    outcome = reader.call(manager.resolve(reader.keys, f"1.1:{waits.last}"), fresh())
    assert (outcome.outcome, outcome.lookup_ids) == ("done", (first_id,))


def test_fetch_resolved_as_never_executed_is_refused_later(reader: Reader, waits: Place) -> None:
    [first_id] = sent(reader, fresh(), BODY)
    outcome = reader.call(manager.resolve(reader.keys, f"1.1:{waits.last + 1}"), fresh())
    assert outcome.outcome == "never"
    call = read.receive(reader.address("q"), "lock", grant=LEASE, waiter=Waiter(MEMBER, "1"))
    [late] = reader.wire.volley([fire(call, waits)])
    assert late.value.status == Status.OPERATION_CANCELLED
    reader.call(manager.update(reader.keys, "clock", "31000"), fresh())
    assert take(reader) == [(first_id, "1 0 0 0")]


def test_repeated_registration_gets_the_same_reply_after_a_handoff(reader: Reader) -> None:
    reader.wire.listen([reader.keys.channel("1.1", 0)])
    waits, call = Place("1.1"), read.receive(reader.address("q"), "lock", grant=LEASE, waiter=Waiter(MEMBER))
    shot = fire(call, waits)
    [first] = reader.wire.volley([shot])
    [first_id] = sent(reader, fresh(), BODY)
    [repeated] = reader.wire.volley([shot])
    assert repeated.value == first.value
    outcome = reader.call(manager.resolve(reader.keys, "1.1:1"), fresh())
    assert (outcome.outcome, outcome.status) == ("done", Status.WAITING)
    [(lookup_id, _, _)] = fetch(reader, waits).messages
    assert lookup_id.decode() == first_id


def test_repeated_send_hands_off_once(reader: Reader, waits: Place) -> None:
    shot = fire(send.send(reader.address("q"), [BODY]), fresh())
    first, repeated = reader.wire.volley([shot, shot])
    assert first.value == repeated.value
    assert len(fetch(reader, waits).messages) == 1
    assert len(reader.ids("q")) == 1
