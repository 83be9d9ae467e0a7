"""The trail of a message: its events, limited in size, and none if trails are off."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import mqredis
from mqredis import Acknowledge, RetryPolicy
from mqredis.errors import AccessDenied, InvalidArgument, IoTimeout, QueueNotFound
from mqredis.models.inspection import TrailEntry
from tests.property.fixed_clock import START
from tests.support.backend import Backend
from tests.support.facade import unwrap
from tests.support.standing_clock import StandingClock

interfaces = pytest.mark.parametrize("connect", ["real-sync", "fake-async"], indirect=True)


def made(qm: Any, name: str = "q", **properties: Any) -> Any:
    qm.create_queue(name, **{"trail": True, **properties})
    return qm.open(name)


def trail(qm: Any, queue: str, message: object) -> list[TrailEntry]:
    found: list[TrailEntry] = unwrap(qm.trail(queue, message))
    return found


def events(entries: list[TrailEntry]) -> list[str]:
    """Event names with their targets: ``moved q;sub``."""
    return [" ".join(filter(None, (entry.event, entry.target))) for entry in entries]


# ---- one whole trail, with exact times ---------------------------------------------------------------


def test_trail_with_retries_poison_and_redrive(standing_clock: StandingClock) -> None:
    clock, qm = standing_clock, standing_clock.qm
    queue = made(qm, retry=RetryPolicy(immediate=0, cycles=1, delay=10))
    sent = queue.send(b"a", label="first")
    clock.move(1)
    queue.lock(0, lease=30)
    clock.move(31)  # the lease expires
    with pytest.raises(IoTimeout):
        queue.receive(0)
    clock.move(10)
    locked = queue.lock(0)
    clock.move(2)
    locked.abort()
    clock.move(3)
    assert qm.redrive("q;poison") == 1
    clock.move(4)
    queue.lock(0).commit()
    found = trail(qm, "q", sent.lookup_id)
    times = [
        (entry.time - datetime.fromtimestamp(START / 1000, UTC)) / timedelta(seconds=1) for entry in found
    ]
    me = {(entry.session, entry.client) for entry in found if entry.session}
    assert [(at, entry.event, entry.queue, entry.target) for at, entry in zip(times, found, strict=True)] == [
        (0, "sent", "q", None),
        (1, "locked", "q", None),
        (32, "lapsed", "q", None),
        (32, "resting", "q", "q;retry"),
        (42, "retried", "q;retry", "q"),
        (42, "locked", "q", None),
        (44, "aborted", "q", None),
        (44, "poisoned", "q", "q;poison"),
        (47, "redriven", "q;poison", "q"),
        (51, "locked", "q", None),
        (51, "committed", "q", None),
    ]
    assert [entry.event for entry in found if not entry.session] == ["resting", "retried", "poisoned"]
    assert [name for _, name in me] == ["works & co"]
    (again,) = (entry.lookup_id for entry in found if entry.lookup_id is not None)
    assert again != sent.lookup_id
    assert not any(entry.omitted or entry.detail for entry in found)
    assert trail(qm, "q", sent.message_id) == found


# ---- each event ---------------------------------------------------------------


@interfaces
def test_trail_of_a_received_message(qm: Any) -> None:
    queue = made(qm)
    sent = [queue.send(b"a"), *queue.send_many([b"b", b"c"])]
    assert queue.receive(0).body == b"a"
    assert [message.body for message in queue.receive_many(2)] == [b"b", b"c"]
    for each in sent:
        assert events(trail(qm, "q", each.lookup_id)) == ["sent", "received"]


@interfaces
def test_trail_has_the_reason_of_a_rejection_within_200_bytes(qm: Any) -> None:
    queue = made(qm)
    sent = queue.send(b"a")
    queue.lock(0).reject("no such\ncustomer " + "ö" * 300)
    (*_, last) = trail(qm, "q", sent.lookup_id)
    assert last.event == "rejected"
    assert last.detail.startswith("no such customer öö")
    assert 190 < len(last.detail.encode()) <= 200


@interfaces
def test_reason_of_200_bytes_is_kept_whole(qm: Any) -> None:
    queue = made(qm)
    for reason, detail in ("a" * 198 + "ö", "a" * 198 + "ö"), ("a" * 199 + "ö", "a" * 199):
        sent = queue.send(b"a")
        queue.lock(0).reject(reason)
        assert trail(qm, "q", sent.lookup_id)[-1].detail == detail


@interfaces
def test_trail_of_a_client_without_a_name(connect: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an interactive Python the program has no name, from which the client would take its own."""
    monkeypatch.setattr("sys.argv", [""])
    qm = connect()
    sent = made(qm).send(b"a")
    (entry,) = trail(qm, "q", sent.lookup_id)
    assert (entry.event, bool(entry.session), entry.client) == ("sent", True, "")


@interfaces
def test_trail_names_the_holder_of_a_lock_that_an_operator_ends(qm: Any, connect: Any) -> None:
    queue = made(qm)
    sent = queue.send(b"a")
    reader = connect(client_name="größer")
    reader.open("q").lock(0)
    qm.operator("me").release("q", [sent.lookup_id])
    sent_, locked, aborted = trail(qm, "q", sent.lookup_id)
    assert (locked.event, locked.client, aborted.event) == ("locked", "größer", "aborted")
    assert locked.session != aborted.session == sent_.session


@interfaces
def test_trail_of_messages_in_transactions(qm: Any) -> None:
    queue = made(qm, transactional=True)
    with qm.transaction() as tx:
        sent = queue.send(b"a", transaction=tx)
        assert not trail(qm, "q", sent.lookup_id)
    tx = qm.transaction()
    queue.receive(0, transaction=tx)
    tx.abort()
    with qm.transaction() as tx:
        queue.receive(0, transaction=tx)
    assert events(trail(qm, "q", sent.lookup_id)) == ["sent", "locked", "aborted", "locked", "committed"]


@interfaces
def test_aborted_send_leaves_no_trail(qm: Any) -> None:
    queue = made(qm, transactional=True)
    tx = qm.transaction()
    sent = queue.send(b"a", transaction=tx)
    tx.abort()
    assert not trail(qm, "q", sent.lookup_id)


@interfaces
def test_trail_of_moves_between_subqueues(qm: Any) -> None:
    queue = made(qm)
    sent = queue.send(b"a")
    aside = qm.open("q;aside")
    queue.move(sent.lookup_id, aside)
    assert trail(qm, "q;aside", sent.lookup_id) == trail(qm, "q", sent.lookup_id)
    aside.move(sent.lookup_id, queue)
    qm.operator("me").delete("q", trash=60)
    qm.operator("me").restore("q")
    queue.purge()
    wanted = ["sent", "moved q;aside", "moved q", "moved q;trash", "moved q", "purged"]
    assert events(trail(qm, "q", sent.lookup_id)) == wanted


@interfaces
def test_trail_of_a_dead_letter_and_its_redrive(qm: Any) -> None:
    policy = RetryPolicy(immediate=0, final="dead_letter")
    queue = made(qm, retry=policy)
    sent = queue.send(b"a", message_id="mine")
    queue.lock(0).abort()
    dead = "system$;deadletter"
    letter = qm.open(dead).peek(0)
    first = trail(qm, "q", sent.lookup_id)
    assert trail(qm, dead, letter.lookup_id) == trail(qm, dead, "mine") == first
    assert qm.redrive(dead) == 1
    again = queue.peek(0)
    found = trail(qm, "q", "mine")
    assert events(found) == ["sent", "locked", "aborted", f"dead_lettered {dead}", "redriven q"]
    assert [entry.lookup_id for entry in found[3:]] == [letter.lookup_id, again.lookup_id]
    assert found[3].detail == "poison"
    assert trail(qm, "q", again.lookup_id) == found
    queue.lock(0).commit()
    assert events(trail(qm, "q", sent.lookup_id))[-2:] == ["locked", "committed"]
    assert trail(qm, "q", "mine") == trail(qm, "q", sent.lookup_id)


@interfaces
def test_trail_of_an_expired_message_with_a_dead_letter(qm: Any) -> None:
    queue = made(qm)
    sent = queue.send(b"a", time_to_be_received=5, journal=mqredis.Journal.DEAD_LETTER)
    qm.advance_clock(6)
    with pytest.raises(IoTimeout):
        queue.receive(0)
    found = trail(qm, "q", sent.lookup_id)
    assert events(found) == ["sent", "expired", "dead_lettered system$;deadletter"]
    assert (found[1].session, found[2].session, found[2].detail) == ("", "", "receive_timeout")


@interfaces
def test_journal_copy_has_no_trail(qm: Any) -> None:
    queue = made(qm, journaling=True)
    sent = queue.send(b"a", acknowledge=Acknowledge.NONE)
    queue.lock(0).commit()
    journal = qm.open("q;journal")
    copy = journal.receive(0)
    assert events(trail(qm, "q", sent.lookup_id)) == ["sent", "locked", "committed"]
    assert not trail(qm, "q;journal", copy.lookup_id)


@interfaces
def test_trail_of_a_delayed_message_has_one_sent_event(qm: Any) -> None:
    queue = made(qm)
    sent = queue.send(b"a", delay=10)
    qm.operator("me").change_priority("q", 7)
    qm.advance_clock(11)
    queue.lock(0).commit()
    assert events(trail(qm, "q", sent.lookup_id)) == ["sent", "locked", "committed"]


@pytest.mark.parametrize("kept", [True, False])
@interfaces
def test_trail_of_a_publication_needs_the_property_of_topic_or_queue(qm: Any, kept: bool) -> None:
    topic = made(qm, "t", topic=True, trail=kept)
    made(qm, "a", trail=False)
    made(qm, "b", trail=True, group_exclusive=True)
    for name in "ab":
        qm.subscribe("t", name)
    topic.send(b"x", group_id="g")
    for name, expected in (("a", kept), ("b", True)):
        message = qm.open(name).receive(0)
        assert events(trail(qm, name, message.lookup_id)) == (["sent", "received"] if expected else [])


@interfaces
def test_trail_of_messages_deleted_with_their_queue(qm: Any) -> None:
    made(qm, "other")
    queue = made(qm)
    sent = queue.send(b"a")
    held = queue.send(b"b")
    queue.lock(0)
    qm.delete_queue("q")
    assert events(trail(qm, "other", sent.lookup_id)) == ["sent", "locked", "deleted"]
    assert events(trail(qm, "other", held.lookup_id)) == ["sent", "deleted"]


# ---- by the message id that the sender chose ---------------------------------------------------------


@interfaces
@pytest.mark.parametrize(
    "chosen", ["order 4711;ä\n", b"\x00\xff\x00", "x" * 255], ids=["text", "bytes", "long"]
)
def test_trail_is_found_by_a_chosen_message_id_in_any_state(qm: Any, chosen: str | bytes) -> None:
    queue = made(qm, retry=RetryPolicy(immediate=0, delay=60, cycles=1))
    other = made(qm, "other")
    other.send(b"a", message_id=chosen)
    sent = queue.send(b"a", message_id=chosen, delay=0)
    queue.send(b"b", message_id="another")
    wanted = ["sent", "locked"]
    lock = queue.lock(0)
    assert events(trail(qm, "q", chosen)) == wanted
    lock.abort()
    wanted += ["aborted", "resting q;retry"]
    for name in ("q", "q;retry"):
        assert events(trail(qm, name, chosen)) == wanted
    qm.operator("ada").delete("q;retry")
    assert events(trail(qm, "q", chosen)) == [*wanted, "purged"]
    assert trail(qm, "q", chosen) == trail(qm, "q", sent.lookup_id)
    assert events(trail(qm, "other", chosen)) == ["sent"]
    assert not trail(qm, "q", "a third")


@interfaces
def test_trail_by_a_duplicate_message_id_is_that_of_the_last_message(qm: Any) -> None:
    queue = made(qm)
    first, second = queue.send_many([mqredis.Outgoing(b"a", message_id="mine")] * 2)
    assert queue.receive(0).lookup_id == first.lookup_id
    assert events(trail(qm, "q", "mine")) == ["sent"]
    queue.receive(0)
    assert trail(qm, "q", "mine") == trail(qm, "q", second.lookup_id)
    qm.delete_queue("q")
    made(qm)
    assert trail(qm, "q", "mine") == trail(qm, "q", second.lookup_id)


@interfaces
def test_trail_of_a_transactional_or_published_message_is_found_by_its_id(qm: Any) -> None:
    queue = made(qm, transactional=True)
    with qm.transaction() as tx:
        queue.send(b"a", message_id="mine", transaction=tx)
        assert not trail(qm, "q", "mine")
    assert events(trail(qm, "q", "mine")) == ["sent"]
    topic = made(qm, "news", topic=True)
    qm.create_queue("reader")
    qm.subscribe("news", "reader")
    topic.send(b"a", message_id="mine")
    qm.open("reader").receive(0)
    assert events(trail(qm, "reader", "mine")) == ["sent", "received"]


def fields(raw: Any, name: str) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = raw.hgetall(f"mq:{{{name}}}:meta")
    return {field: value for field, value in found.items() if field.startswith(b"trail")}


def test_message_ids_are_removed_with_their_trails(backend: Backend) -> None:
    raw, name = backend.client(), f"ids-{os.getpid()}"
    with mqredis.connect(backend.client(), manager=name) as qm:
        queue = made(qm)
        for batch in range(6):
            queue.send_many(mqredis.Outgoing(b"x", message_id=f"m-{batch}-{n}") for n in range(250))
            assert len(queue.receive_many(250)) == 250
        kept = [bool(trail(qm, "q", f"m-{batch}-0")) for batch in range(6)]
        assert kept == [False] * 2 + [True] * 4
        assert len(fields(raw, name)) == 3 * 1000 + 1
        # An id that was used again belongs to the later message.
        for _ in range(4):
            queue.send_many(mqredis.Outgoing(b"x", message_id="same") for _ in range(250))
            assert len(queue.receive_many(250)) == 250
        queue.send(b"x", message_id="same")
        queue.receive_many(1)
        assert events(trail(qm, "q", "same")) == ["sent", "received"]
        assert len(fields(raw, name)) == 2 * 1000 + 2
        assert not qm.doctor().findings
    raw.close()


# ---- off, and shares ---------------------------------------------------------------


def test_disabled_trail_stores_nothing(backend: Backend) -> None:
    raw, name = backend.client(), f"off-{os.getpid()}"
    with mqredis.connect(backend.client(), manager=name) as qm:
        queue = made(qm, trail=0)
        before = set(raw.keys())
        sent = queue.send(b"a")
        stored: Any = raw.hgetall(f"mq:{{{name}}}:q:q:m")
        assert [record[13:] for record in stored.values()] == [b"0\0a"]
        queue.lock(0).commit()
        assert not trail(qm, "q", sent.lookup_id)
        assert set(raw.keys()) == before
        assert not fields(raw, name)
        assert b"trail" not in raw.hgetall(f"mq:{{{name}}}:meta")
    raw.close()


@interfaces
def test_trail_of_a_share_of_the_messages(qm: Any) -> None:
    queue = made(qm, trail=0.25)
    sent = queue.send_many([b"x"] * 400)
    followed = [bool(trail(qm, "q", each.lookup_id)) for each in sent]
    assert 90 <= sum(followed) <= 110
    qm.update_queue("q", trail=0)
    assert sum(len(queue.receive_many(200)) for _ in range(2)) == 400
    now = [events(trail(qm, "q", each.lookup_id)) for each in sent]
    assert now == [["sent", "received"] if each else [] for each in followed]
    assert not trail(qm, "q", queue.send(b"y").lookup_id)


@interfaces
def test_trail_property_is_stored_and_validated(qm: Any) -> None:
    made(qm, trail=0.5)
    assert qm.queue_info("q").trail == 0.5
    qm.update_queue("q", label="x")
    assert qm.queue_info("q").trail == 0.5
    qm.update_queue("q", trail=True)
    assert qm.queue_info("q").trail == 1
    for wrong in (-0.1, 1.5, "much"):
        with pytest.raises(InvalidArgument, match="trail"):
            qm.update_queue("q", trail=wrong)


# ---- reading ---------------------------------------------------------------


@interfaces
def test_read_only_client_reads_a_trail(qm: Any, connect: Any) -> None:
    sent = made(qm).send(b"a")
    reader = connect(read_only=True)
    assert events(trail(reader, "q", sent.lookup_id)) == ["sent"]
    with pytest.raises(AccessDenied):
        reader.open("q").send(b"b")


@interfaces
def test_trail_of_unknown_messages_is_empty_and_of_unknown_queues_refused(qm: Any) -> None:
    made(qm)
    assert trail(qm, "q", 1) == []
    assert trail(qm, "q", "nothing") == []
    with pytest.raises(QueueNotFound, match="no queue 'r'"):
        trail(qm, "r", 1)
    with pytest.raises(InvalidArgument, match="lookup_id must be an int, such as the lookup_id of a message"):
        trail(qm, "q", 1.5)
