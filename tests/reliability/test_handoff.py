"""A lock that is handed to a reader that waits (lua/waiting/handoff): what it may do next, and what others may."""

from __future__ import annotations

import itertools

import pytest

from mqredis import codec
from mqredis.commands import manager, queues, read, send
from mqredis.commands.read import Found, Waiter
from mqredis.models import Journal, Outgoing
from mqredis.status import Status
from tests.reliability.store import Reader
from tests.reliability.test_calls import BODY, LARGE, handed, reader, sent
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
    assert look(reader, place, "").messages == []
    return place


def look(
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
    """The message as another reader finds it: its id, and the counts of its state."""
    found: Found = reader.call(read.receive(reader.address("q"), "take"), fresh())
    return [(lookup_id.decode(), counts.decode()) for lookup_id, counts, _ in found.messages]


@pytest.mark.parametrize("message", [BODY, NAMED], ids=["plain", "with a correlation id"])
def test_it_is_nobody_elses_and_the_look_finds_it(
    reader: Reader, waits: Place, message: tuple[bytes, bytes | None]
) -> None:
    [one] = sent(reader, fresh(), message)
    assert take(reader) == []
    assert waiters(reader) == 0
    shot = fire(read.receive(reader.address("q"), "lock", grant=LEASE, waiter=Waiter(MEMBER, "1")), waits)
    first, again = reader.wire.volley([shot, shot])
    assert first.value == again.value
    [(lookup_id, counts, record)] = first.value.messages
    assert (lookup_id.decode(), counts) == (one, b"1 0 0 0")
    assert record.endswith(b"\0x")
    reader.call(read.settle(reader.address("q"), [("c", first.value.fence, one)]), waits)
    assert reader.ids("q") == set()


def test_the_last_look_of_a_reader_whose_time_is_over_finds_it(reader: Reader, waits: Place) -> None:
    [one] = sent(reader, fresh(), BODY)
    [(lookup_id, _, _)] = look(reader, waits, "leave").messages
    assert lookup_id.decode() == one


def test_who_gives_up_gives_it_back_as_if_it_had_never_been_his(reader: Reader, waits: Place) -> None:
    next_one = Place("1.3")
    [one] = sent(reader, fresh(), NAMED)
    member = "D p0 tag"
    assert look(reader, next_one, "", member).messages == []
    leave = fire(read.leave(reader.address("q"), MEMBER), waits)
    first, again = reader.wire.volley([leave, leave])
    assert first.value is again.value is None
    assert handed(reader, next_one) == f"h {one}"
    assert take(reader) == [(one, "")]


def test_who_gives_up_does_not_give_back_what_was_purged_meanwhile(reader: Reader, waits: Place) -> None:
    sent(reader, fresh(), BODY)
    reader.call(read.purge(reader.address("q")), fresh())
    reader.call(read.leave(reader.address("q"), MEMBER), waits)
    assert reader.ids("q") == set()


def test_who_gives_up_after_its_lease_takes_nothing_from_anybody(reader: Reader, waits: Place) -> None:
    [one] = sent(reader, fresh(), BODY)
    reader.call(manager.update(reader.keys, "clock", "31000"), fresh())
    third = Place("1.3")
    other = look(reader, third, "")
    assert [lookup_id.decode() for lookup_id, _, _ in other.messages] == [one]
    reader.call(read.leave(reader.address("q"), MEMBER), waits)
    settled = reader.call(read.settle(reader.address("q"), [("c", other.fence, one)]), third)
    assert settled.lost == []


def test_a_look_after_its_lease_finds_what_is_there(reader: Reader, waits: Place) -> None:
    [one] = sent(reader, fresh(), BODY)
    reader.call(manager.update(reader.keys, "clock", "31000"), fresh())
    [(lookup_id, counts, _)] = look(reader, waits).messages
    assert (lookup_id.decode(), counts) == (one, b"2 0 0 0")


def test_another_call_of_the_slot_is_not_answered_with_it(reader: Reader, waits: Place) -> None:
    """No client calls in a slot that is registered; if one did, it would lose time and not the message."""
    [one] = sent(reader, fresh(), BODY)
    [two] = sent(reader, waits, BODY)
    assert one != two
    assert take(reader) == [(two, "")]
    reader.call(manager.update(reader.keys, "clock", "31000"), fresh())
    assert take(reader) == [(one, "1 0 0 0")]


def test_a_look_at_another_queue_is_not_answered_with_it(reader: Reader, waits: Place) -> None:
    reader.create("other")
    [one] = sent(reader, fresh(), BODY)
    leaving = look(reader, waits, "leave", queue="other")
    assert leaving.messages == []
    assert reader.ids("q") == {one}


def test_nothing_is_handed_to_a_slot_that_was_used_since(reader: Reader, waits: Place) -> None:
    reader.call(read.purge(reader.address("q")), waits)
    [one] = sent(reader, fresh(), BODY)
    assert take(reader) == [(one, "")]


def test_nothing_is_handed_to_the_slot_that_sends(reader: Reader, waits: Place) -> None:
    [one] = sent(reader, waits, BODY)
    assert take(reader) == [(one, "")]


def test_nothing_is_handed_to_a_look_that_asked_for_more_queues(reader: Reader) -> None:
    """The next calls of its slot bring them."""
    reader.wire.listen([reader.keys.channel("1.1", 0)])
    waits, other = Place("1.1"), fresh()
    doomed = codec.encode(Outgoing(body=b"x", time_to_be_received=1.0, journal=Journal.DEAD_LETTER), "")
    look(reader, waits, "")
    sent(reader, other, doomed)  # it asks for something, so it is not handed over
    assert handed(reader, waits) != ""
    reader.call(read.peek(reader.address("q")), other)
    reader.wire.command("HDEL", reader.keys.own[0], "1.1!")
    look_again = read.receive(reader.address("q"), "lock", grant=LEASE, waiter=Waiter(MEMBER, "1"))
    reader.call(manager.update(reader.keys, "clock", "2000"), other)
    [answer] = reader.wire.volley([fire(look_again, waits)])
    assert answer.value.status == Status.KEYS_CHANGED
    assert waiters(reader) == 0


@pytest.mark.parametrize("batch", [[BODY, BODY], [LARGE]], ids=["two", "large"])
def test_what_is_not_one_plain_message_only_rings(
    reader: Reader, waits: Place, batch: list[tuple[bytes, bytes | None]]
) -> None:
    ids = sent(reader, fresh(), *batch)
    assert handed(reader, waits) == f"h {ids[0]}"
    assert [lookup_id for lookup_id, _ in take(reader)] == ids[:1]


def test_a_queue_that_asks_for_something_only_rings(reader: Reader, waits: Place) -> None:
    reader.call(queues.update(reader.keys, "q", {"journaling": True}), fresh())
    [one] = sent(reader, fresh(), BODY)
    assert handed(reader, waits) == f"h {one}"


def test_a_queue_with_a_quota_hands_over_too(reader: Reader, waits: Place) -> None:
    reader.call(queues.update(reader.keys, "q", {"quota_messages": 5}), fresh())
    [one] = sent(reader, fresh(), BODY)
    assert take(reader) == []
    [(lookup_id, _, _)] = look(reader, waits).messages
    assert lookup_id.decode() == one


def test_to_who_hears_more_than_his_bell_nothing_is_handed(reader: Reader) -> None:
    """What hears it by a pattern would not know what to do with it."""
    reader.wire.listen()
    deaf = fresh()  # others have listened to the bells of the first slots
    look(reader, deaf, "")
    [one] = sent(reader, fresh(), BODY)
    assert handed(reader, deaf) == f"h {one}"
    assert take(reader) == [(one, "")]


def test_the_outcome_of_the_look_can_be_asked_for(reader: Reader, waits: Place) -> None:
    [one] = sent(reader, fresh(), BODY)
    look(reader, waits)
    outcome = reader.call(manager.resolve(reader.keys, f"1.1:{waits.last}"), fresh())
    assert (outcome.outcome, outcome.lookup_ids) == ("done", (one,))


def test_a_look_that_never_came_never_will(reader: Reader, waits: Place) -> None:
    [one] = sent(reader, fresh(), BODY)
    outcome = reader.call(manager.resolve(reader.keys, f"1.1:{waits.last + 1}"), fresh())
    assert outcome.outcome == "never"
    call = read.receive(reader.address("q"), "lock", grant=LEASE, waiter=Waiter(MEMBER, "1"))
    [late] = reader.wire.volley([fire(call, waits)])
    assert late.value.status == Status.OPERATION_CANCELLED
    reader.call(manager.update(reader.keys, "clock", "31000"), fresh())
    assert take(reader) == [(one, "1 0 0 0")]


def test_a_look_whose_reply_was_lost_is_told_again_that_it_waits(reader: Reader) -> None:
    reader.wire.listen([reader.keys.channel("1.1", 0)])
    waits, call = Place("1.1"), read.receive(reader.address("q"), "lock", grant=LEASE, waiter=Waiter(MEMBER))
    shot = fire(call, waits)
    [first] = reader.wire.volley([shot])
    [one] = sent(reader, fresh(), BODY)
    [again] = reader.wire.volley([shot])
    assert again.value == first.value
    outcome = reader.call(manager.resolve(reader.keys, "1.1:1"), fresh())
    assert (outcome.outcome, outcome.status) == ("done", Status.WAITING)
    [(lookup_id, _, _)] = look(reader, waits).messages
    assert lookup_id.decode() == one


def test_a_repeated_send_hands_nothing_over_twice(reader: Reader, waits: Place) -> None:
    shot = fire(send.send(reader.address("q"), [BODY]), fresh())
    first, again = reader.wire.volley([shot, shot])
    assert first.value == again.value
    assert len(look(reader, waits).messages) == 1
    assert len(reader.ids("q")) == 1
