"""Calls at moments at which the client never makes them: repeated, or between two calls of an operation."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from types import SimpleNamespace
from typing import cast

import pytest

from mqredis import codec
from mqredis.commands import (
    bulk,
    claims,
    contents,
    inspection,
    manager,
    queues,
    read,
    send,
    settlement,
    stages,
    transactions,
    waiting,
)
from mqredis.commands.address import Address
from mqredis.commands.read import Found
from mqredis.commands.waiting import Waiter
from mqredis.models import Outgoing
from mqredis.models.lookup_ids import split_ids
from mqredis.operations import pipelines as operations
from mqredis.operations.context import Context
from mqredis.steps import Call
from tests.reliability.store import Reader
from tests.reliability.wire import Answer, Place, Shot, fire
from tests.support.server import RedisServer

BODY = codec.encode(Outgoing(body=b"x"), "")
# So large that it stands beside its record.
LARGE = codec.encode(Outgoing(body=b"x" * 500_000), "")


@pytest.fixture
def reader(redis_server: RedisServer) -> Iterator[Reader]:
    """A manager with a queue ``q``, in which the doctor must find nothing at the end."""
    made = Reader(redis_server)
    made.wire.open_session([made.keys])
    made.create("q")
    yield made
    assert made.faults() == []
    made.close()


def history(answer: Answer) -> int:
    return int(answer.raw[2])


def sent(reader: Reader, place: Place, *messages: tuple[bytes, bytes | None]) -> list[str]:
    found: list[str] = []
    for at in range(0, len(messages), send.BATCH):
        call = send.send(reader.address("q"), messages[at : at + send.BATCH])
        found += split_ids(reader.call(call, place).ids)
    return found


@pytest.mark.parametrize("by", ["id", "order"])
def test_repeated_lock_call_returns_the_same_message(reader: Reader, by: str) -> None:
    place, q = Place("1.1"), reader.address("q")
    [one] = sent(reader, place, BODY)
    if by == "id":
        shot = fire(read.lookup(q, "lock", "current", one, grant="60000"), place)
    else:
        shot = fire(read.receive(q, "lock", grant="60000"), place)
    [first, again] = reader.wire.volley([shot, shot])
    assert first.value == again.value
    assert again.value.messages[0][0].decode() == one


def test_repeated_lock_call_of_several_messages_returns_all_of_them(reader: Reader) -> None:
    place = Place("1.1")
    sent(reader, place, BODY, BODY)
    shot = fire(read.receive(reader.address("q"), "lock", 2, grant="60000"), place)
    [first, again] = reader.wire.volley([shot, shot])
    assert len(first.value.messages) == 2
    assert first.value == again.value


@pytest.mark.parametrize("by", ["id", "order"])
def test_repeated_lock_call_whose_message_was_removed_finds_nothing(reader: Reader, by: str) -> None:
    place, other, q = Place("1.1"), Place("1.2"), reader.address("q")
    [one] = sent(reader, place, BODY)
    if by == "id":
        shot = fire(read.lookup(q, "lock", "current", one, grant="1000"), place)
    else:
        shot = fire(read.receive(q, "lock", grant="1000"), place)
    reader.wire.volley([shot])
    reader.call(manager.update(reader.keys, "clock", "2000"), other)
    reader.call(read.receive(q, "take"), other)
    [again] = reader.wire.volley([shot])
    if by == "id":
        assert again.value.kind == "MessageNotFound"
    else:
        assert again.value.messages == []


def test_commit_of_a_lock_never_granted_is_lost_and_keeps_the_message(reader: Reader) -> None:
    place = Place("1.1")
    [one] = sent(reader, place, BODY)
    settled = reader.call(settlement.settle(reader.address("q"), [("c", "7", one)]), place)
    assert settled.lost == [(one, "a")]
    assert reader.ids("q") == {one}


def test_hint_of_an_earlier_wait_does_not_select_the_next_message(reader: Reader) -> None:
    reader.wire.listen()
    place, other = Place("1.1"), Place("1.2")
    start_waiting(reader, place)
    [hint] = sent(reader, other, BODY)
    assert notification_of(reader, place) == f"h {hint}"
    [first] = sent(reader, other, codec.encode(Outgoing(body=b"urgent", priority=7), ""))
    [(taken, _, _)] = start_waiting(reader, place).messages
    assert taken.decode() == first


def start_waiting(reader: Reader, place: Place) -> Found:
    """Register a waiting reader and return the reply."""
    found: Found = reader.call(read.receive(reader.address("q"), "take", waiter=Waiter("D p0 tag")), place)
    return found


def notification_of(reader: Reader, place: Place) -> str:
    """Return the notification stored for a waiting slot: "h" and the lookup id of its hint, or ""."""
    found = reader.wire.command("HGET", reader.keys.own[0], place.name + "!")
    return "" if found is None else str(found.decode())


@pytest.mark.parametrize("quota", [None, 100], ids=["plain queue", "queue with a quota"])
def test_two_notified_readers_take_the_messages_of_their_hints(reader: Reader, quota: int | None) -> None:
    reader.wire.listen()
    older, later, sender, q = Place("1.1"), Place("1.2"), Place("1.3"), reader.address("q")
    reader.call(queues.update(reader.keys, "q", {"quota_messages": quota}), sender)
    start_waiting(reader, older)
    ticket = start_waiting(reader, later).ticket
    one, two = sent(reader, sender, BODY, BODY)
    assert [notification_of(reader, older), notification_of(reader, later)] == [f"h {one}", f"h {two}"]
    looked = reader.call(read.receive(q, "take", waiter=Waiter("D p0 tag", ticket)), later)
    assert looked.messages[0][0].decode() == two


def test_notified_reader_of_several_messages_gets_all_of_them(reader: Reader) -> None:
    reader.wire.listen()
    place, q = Place("1.1"), reader.address("q")
    waits = read.receive(q, "take", 3, waiter=Waiter("D p0 tag"))
    ticket = reader.call(waits, place).ticket
    ids = sent(reader, Place("1.2"), BODY, BODY)
    assert notification_of(reader, place) == f"h {ids[0]}"
    found = reader.call(read.receive(q, "take", 3, waiter=Waiter("D p0 tag", ticket)), place)
    assert [message[0].decode() for message in found.messages] == ids


def three_waiters(reader: Reader) -> list[Place]:
    """Register three waiting readers, the first one longest."""
    reader.wire.listen()
    places = [Place(f"1.{n}") for n in range(1, 4)]
    for place in places:
        start_waiting(reader, place)
    return places


def test_notified_reader_that_leaves_passes_its_message_to_the_next(reader: Reader) -> None:
    _, later, last = three_waiters(reader)
    _, two = sent(reader, Place("1.4"), BODY, BODY)
    assert notification_of(reader, later) == f"h {two}"
    reader.call(waiting.leave(reader.address("q"), "D p0 tag"), later)
    assert [notification_of(reader, later), notification_of(reader, last)] == ["", f"h {two}"]


def test_leaving_reader_whose_message_was_taken_passes_on_the_next_one(reader: Reader) -> None:
    older, later, last = three_waiters(reader)
    sender = Place("1.4")
    sent(reader, sender, BODY)
    reader.call(read.receive(reader.address("q"), "take"), sender)
    [two] = sent(reader, sender, BODY)
    reader.call(waiting.leave(reader.address("q"), "D p0 tag"), older)
    assert [notification_of(reader, later), notification_of(reader, last)] == [f"h {two}", f"h {two}"]


def test_reader_that_leaves_before_a_notification_notifies_nobody(reader: Reader) -> None:
    _, later, last = three_waiters(reader)
    sent(reader, Place("1.4"), BODY)
    reader.call(waiting.leave(reader.address("q"), "D p0 tag"), later)
    assert [notification_of(reader, later), notification_of(reader, last)] == ["", ""]


def test_due_message_and_sent_message_notify_one_reader_each(reader: Reader) -> None:
    reader.wire.listen()
    older, later, sender = Place("1.1"), Place("1.2"), Place("1.3")
    [due] = sent(reader, sender, codec.encode(Outgoing(body=b"x", delay=1.0), ""))
    start_waiting(reader, older)
    start_waiting(reader, later)
    reader.call(manager.update(reader.keys, "clock", "2000"), sender)
    [new] = sent(reader, sender, BODY)
    assert [notification_of(reader, older), notification_of(reader, later)] == [f"h {due}", f"h {new}"]


def test_list_of_waiting_readers_counts_a_thousand_of_a_queue(reader: Reader) -> None:
    q, waits = reader.address("q"), Waiter("D p0 tag")
    calls = [fire(read.receive(q, "take", waiter=waits), Place(f"1.{n}")) for n in range(1000, 2001)]
    reader.wire.volley(calls)
    assert reader.call(inspection.waiters(reader.keys, ["q"]), Place("1.1")) == [{"1": 1000}]


def test_records_of_a_lapsed_transaction_are_removed_when_its_id_is_reused(reader: Reader) -> None:
    for path in ("a", "b"):
        reader.create(path, transactional=True)
    place, item = Place("1.1"), codec.encode(Outgoing(body=b"x"), "x")
    reader.call(send.send(reader.address("a"), [item] * 3, "x", "+1000"), place)
    reader.call(manager.update(reader.keys, "clock", "2000"), place)
    reader.call(send.send(reader.address("b"), [item], "x", "+1000"), place)
    assert sorted(reader.wire.command("HKEYS", reader.keys.own[1])) == [b"x", b"x:1"]


def test_message_locked_with_allow_peek_between_calls_of_a_purge_stays_visible(reader: Reader) -> None:
    place, q = Place("1.1"), reader.address("q")
    sent(reader, place, *[BODY] * 600)
    locks = [reader.call(read.receive(q, "lock", count, grant="60000"), place) for count in (200, 57)]
    removed, limit = reader.call(contents.purge(q), place)
    assert (removed, bool(limit)) == (256, True)
    for held in locks:
        ids = [raw[0].decode() for raw in held.messages]
        reader.call(settlement.settle(q, [("c", held.fence, lid) for lid in ids]), place)
    shown = reader.call(
        read.lookup(q, "lock", "first", "-", grant="60000", allow_peek=True), place
    ).messages[0][0]  # fmt: skip
    assert reader.call(contents.purge(q, limit), place) == (600 - 257 - 256 - 1, "")
    [answer] = reader.wire.volley([Shot(read.lookup(q, "peek", "first", "-"), "", 0)])
    assert answer.value.messages[0][0] == shown


def test_locked_large_message_is_purged_when_it_is_released(reader: Reader) -> None:
    place, q = Place("1.1"), reader.address("q")
    [large] = sent(reader, place, LARGE)
    held = reader.call(read.receive(q, "lock", grant="60000"), place)
    sent(reader, place, BODY, BODY)
    assert reader.call(contents.purge(q), place) == (2, "")
    assert reader.faults() == []
    assert reader.ids("q") == {large}
    reader.call(settlement.settle(q, [("a", held.fence, large)]), place)
    assert reader.ids("q") == set()


def test_locks_of_a_renewed_transaction_take_its_new_deadline(reader: Reader) -> None:
    reader.create("t", transactional=True)
    place, t = Place("1.1"), reader.address("t")
    fence = reader.call(transactions.begin(reader.keys, "x", 1000), place).fence
    item = codec.encode(Outgoing(body=b"x"), "x")
    one = reader.call(send.send(t, [item], "x", fence), place).ids
    reader.call(transactions.renew(reader.keys, "x", fence, 60_000), place)
    reader.call(manager.update(reader.keys, "clock", "2000"), place)
    reader.call(read.receive(t, "take"), place)
    deadline = reader.wire.command("HGET", reader.keys.own[1], "x").split()[0]
    assert reader.wire.command("ZSCORE", reader.store().queues["t"].keys["l"], one) == deadline


def test_purge_finds_a_delayed_message_behind_a_page_of_timers(reader: Reader) -> None:
    place, q = Place("1.1"), reader.address("q")
    [old] = sent(reader, place, codec.encode(Outgoing(body=b"x", delay=900.0), ""))
    sent(reader, place, *[codec.encode(Outgoing(body=b"x", time_to_be_received=500.0), "")] * 255)
    assert reader.call(contents.purge(q, old[2:]), place)[0] == 1
    assert old not in reader.ids("q")


def test_call_of_a_purge_removes_one_page_of_delayed_messages(reader: Reader) -> None:
    place, q = Place("1.1"), reader.address("q")
    sent(reader, place, *[codec.encode(Outgoing(body=b"x", delay=900.0), "")] * 600)
    removed, limit = reader.call(contents.purge(q), place)
    assert removed == 256
    assert [reader.call(contents.purge(q, limit), place)[0] for _ in range(3)] == [256, 600 - 512, 0]


def history_of_peek(reader: Reader) -> int:
    """Return the history number in the reply to a peek."""
    [answer] = reader.wire.volley([Shot(read.peek(reader.address("q")), "", 0)])
    return history(answer)


@pytest.mark.parametrize("family", [("q;s", "q"), ("q",)], ids=["new subqueue", "queue"])
def test_opening_and_closing_raise_the_history_number(reader: Reader, family: tuple[str, ...]) -> None:
    place, before = Place("1.1"), history_of_peek(reader)
    opened = fire(queues.open_handle(reader.keys, family, "5", "receive", "none"), place)
    closed = fire(queues.close_handle(reader.keys, family, "5"), place)
    [first, last] = reader.wire.volley([opened, closed])
    assert before < history(first) < history(last)


def test_empty_subqueue_stays_where_more_operations_are_open_than_are_searched(reader: Reader) -> None:
    place, family, open_ones = Place("1.1"), ("q;s", "q"), reader.keys.own[1]
    operations = {f"x:{n}": "S q 0000000000000000" for n in range(1, 4002)}
    reader.call(queues.open_handle(reader.keys, family, "5", "receive", "none"), place)
    reader.wire.command("HSET", open_ones, *itertools.chain(*operations.items()))
    reader.call(queues.close_handle(reader.keys, family, "5"), place)
    assert "q;s" in reader.store().queues
    reader.wire.command("DEL", open_ones)


def test_lapsed_lock_raises_the_history_number(reader: Reader) -> None:
    place = Place("1.1")
    sent(reader, place, BODY)
    reader.call(read.receive(reader.address("q"), "lock", grant="1000"), place)
    [later] = reader.wire.volley([fire(manager.update(reader.keys, "clock", "2000"), place)])
    assert history_of_peek(reader) > history(later)


def test_expired_dedup_key_raises_the_history_number(reader: Reader) -> None:
    place = Place("1.1")
    sent(reader, place, codec.encode(Outgoing(body=b"x", dedup_key="k", dedup_window=1.0), ""))
    reader.call(read.receive(reader.address("q"), "take"), place)
    [later] = reader.wire.volley([fire(manager.update(reader.keys, "clock", "2000"), place)])
    assert history_of_peek(reader) > history(later)


def test_purge_that_only_marks_a_locked_message_raises_the_history_number(reader: Reader) -> None:
    place, q = Place("1.1"), reader.address("q")
    sent(reader, place, BODY)
    reader.call(read.receive(q, "lock", grant="60000"), place)
    before = history_of_peek(reader)
    assert reader.call(contents.purge(q), place) == (0, "")
    assert history_of_peek(reader) > before


def test_claim_that_takes_nothing_raises_the_history_number(reader: Reader) -> None:
    q, before = reader.address("q"), history_of_peek(reader)
    reader.call(claims.claim(q, "lake", "first", 1, claims.Order(10), True), Place("1.1"))
    assert history_of_peek(reader) > before


def test_change_of_a_priority_that_is_not_logged_raises_the_history_number(reader: Reader) -> None:
    sent(reader, Place("1.1"), BODY)
    before, action = history_of_peek(reader), bulk.Action("priority", "5")
    reader.call(bulk.bulk(reader.address("q"), b"", action, None, "", b"", []), Place("1.2"))
    assert history_of_peek(reader) > before


def test_transaction_renewal_raises_the_history_number(reader: Reader) -> None:
    place = Place("1.1")
    fence = reader.call(transactions.begin(reader.keys, "x", 1000), place).fence
    before = history_of_peek(reader)
    reader.call(transactions.renew(reader.keys, "x", fence, 60_000), place)
    assert history_of_peek(reader) > before


def test_locks_that_follow_a_renewed_transaction_raise_the_history_number(reader: Reader) -> None:
    reader.create("t", transactional=True)
    place, t = Place("1.1"), reader.address("t")
    fence = reader.call(transactions.begin(reader.keys, "x", 1000), place).fence
    reader.call(send.send(t, [codec.encode(Outgoing(body=b"x"), "x")], "x", fence), place)
    reader.call(transactions.renew(reader.keys, "x", fence, 60_000), place)
    [later] = reader.wire.volley([fire(manager.update(reader.keys, "clock", "2000"), place)])
    [peeked] = reader.wire.volley([Shot(read.peek(t), "", 0)])
    assert history(peeked) > history(later)


def test_due_field_is_the_next_timer_after_a_lapsed_lock(reader: Reader) -> None:
    place = Place("1.1")
    [one] = sent(reader, place, codec.encode(Outgoing(body=b"x", time_to_be_received=100.0), ""))
    reader.call(read.receive(reader.address("q"), "lock", grant="1000"), place)
    reader.call(manager.update(reader.keys, "clock", "2000"), place)
    history_of_peek(reader)
    keys = reader.store().queues["q"].keys
    name, ends_at = reader.wire.command("ZRANGE", keys["t"], 0, -1, "WITHSCORES")
    due = int(reader.store().queues["q"].fields["due"])
    assert name == b"e" + one.encode()
    # The period of the statistics may end first (lua/core/statistics.lua).
    assert due == int(ends_at) or (due < int(ends_at) and due % 300_000 == 0)


def test_transaction_begun_by_a_lookup_has_its_own_fence(reader: Reader) -> None:
    reader.create("t", transactional=True)
    place, t, item = Place("1.1"), reader.address("t"), codec.encode(Outgoing(body=b"x"), "x")
    one, two = split_ids(reader.call(send.send(t, [item] * 2, "x", "+1000"), place).ids)
    reader.call(transactions.end(reader.keys, "x", reader.fence, "commit", ["t"]), place)
    fences = [
        reader.call(read.lookup(t, "tx", "current", lid, owner=owner, grant="+1000"), place).fence
        for owner, lid in (("y", one), ("z", two))
    ]
    assert reader.fence == fences[1] != fences[0]


def test_task_staging_during_the_removal_of_its_job_is_refused(reader: Reader) -> None:
    place, late = Place("1.1"), Place("1.2")

    def staged(name: str, by: Place) -> Answer:
        where = stages.Stage(name, "q")
        [answer] = reader.wire.volley(
            [fire(stages.stage(reader.keys, "job", 0, where, 60_000, 1, 60, False, ["0", "x"]), by)]
        )
        return answer

    assert not staged("0-early", place).refused
    context = cast("Context", SimpleNamespace(keys=reader.keys))
    sweep = iter(operations.sweep(context, "job", 0, 60_000))
    step, number, refused = next(sweep), 0, 0
    with contextlib.suppress(StopIteration):
        while True:  # a task of the job stages between any two calls of the driver
            assert isinstance(step, Call)
            [answer] = reader.wire.volley([fire(step, place)])
            number += 1
            refused += staged(f"0-late{number}", late).refused
            step = sweep.send((int(answer.raw[0]), answer.raw[3:]))
    assert refused == number > 0
    left = reader.wire.command("KEYS", reader.keys.tag + "stage:*")
    assert [reader.wire.command("HKEYS", key) for key in left] == [[b"closed"]]


def test_commit_without_the_target_queue_of_a_move_requests_it(reader: Reader) -> None:
    place = Place("1.1")
    reader.create("t", transactional=True)
    opened = reader.call(queues.open_handle(reader.keys, ("t;s", "t"), "handle", "all", "none"), place)
    sub = Address(reader.keys, "t;s", opened.generation)
    body = codec.encode(Outgoing(body=b"x"), "s")
    fence = reader.call(send.send(reader.address("t"), [body], "s", "+60000"), place).fence
    assert reader.call(transactions.end(reader.keys, "s", fence, "commit", ("t",)), place) == []
    [lid] = reader.ids("t")
    fence = reader.call(contents.move(reader.address("t"), sub, lid, "m", "+60000"), place)
    assert reader.call(transactions.end(reader.keys, "m", fence, "commit", ("t",)), place) == ["t;s"]
    assert reader.call(transactions.end(reader.keys, "m", fence, "commit", ("t", "t;s")), place) == []
    assert (reader.ids("t"), reader.ids("t;s")) == (set(), {lid})
