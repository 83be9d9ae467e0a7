"""How long trails become, and how long they are kept."""

from __future__ import annotations

import os
from typing import Any

import mqredis
from mqredis import RetryPolicy
from mqredis.models.inspection import TrailEntry
from tests.inspection.test_trail import events, fields, interfaces, made, trail
from tests.support.backend import Backend


@interfaces
def test_long_trail_keeps_its_first_and_its_last_events(qm: Any) -> None:
    queue = made(qm)
    sent = queue.send(b"a")
    for _ in range(40):
        queue.lock(0).abort()
    found = trail(qm, "q", sent.lookup_id)
    assert len(found) == 32
    assert events(found[:1]) == ["sent"]
    assert events(found[1:]) == ["aborted", *["locked", "aborted"] * 15]
    assert [entry.omitted for entry in found] == [0, 49, *[0] * 30]


@interfaces
def test_trail_with_long_names_is_limited_in_bytes(qm: Any) -> None:
    queue = made(qm, "ü" * 124, retry=RetryPolicy(immediate=0, cycles=50, delay=0))
    sent = queue.send(b"a")
    for _ in range(20):
        queue.lock(0).abort()
    found = trail(qm, queue.name, sent.lookup_id)
    assert found[0].event == "sent"
    assert 1 < len(found) < 8
    assert found[1].omitted == 20 * 4 - len(found)  # the last retry delay has not ended


@interfaces
def test_trail_of_4096_bytes_is_whole(connect: Any) -> None:
    qm = connect(client_name="c")
    queue = made(qm, "q" * 120)

    def ended(detail: str) -> list[TrailEntry]:
        sent = queue.send(b"a")
        for _ in range(12):
            queue.lock(0).abort()
        queue.lock(0).reject(detail)
        return trail(qm, queue.name, sent.lookup_id)

    def text(entry: TrailEntry) -> str:
        return f"\n1764000000000 {entry.event} {entry.queue} {entry.session} c - - {entry.detail}"

    rest = 4096 - len("".join(map(text, ended(""))))
    assert [(len(found), found[1].omitted) for found in (ended("x" * rest), ended("x" * (rest + 1)))] == [
        (27, 0),
        (26, 1),
    ]


@interfaces
def test_trail_keeps_the_first_and_the_last_event_whatever_their_bytes(qm: Any) -> None:
    queue = made(qm, "𝄞" * 124)
    sent = queue.send(b"a")
    queue.move(sent.lookup_id, qm.open(f"{queue.name};{'𝄞' * 32}"))
    assert [entry.event for entry in trail(qm, queue.name, sent.lookup_id)] == ["sent", "moved"]


@interfaces
def test_long_event_takes_the_place_of_several(qm: Any, connect: Any) -> None:
    queue = made(qm, "𝄞" * 75)
    sent = queue.send(b"a")
    queue.lock(0).abort()
    other = connect(client_name="𝄞" * 64)
    other.open(queue.name).move(sent.lookup_id, other.open(f"{queue.name};{'𝄞' * 32}"))
    first, last = trail(qm, queue.name, sent.lookup_id)
    assert (first.event, last.event, last.omitted) == ("sent", "moved", 2)


def test_trails_of_the_last_1000_removed_messages_are_kept(backend: Backend) -> None:
    raw, name = backend.client(), f"kept-{os.getpid()}"
    with mqredis.connect(backend.client(), manager=name) as qm:
        queue = made(qm)
        stays = queue.send(b"stays")
        queue.move(stays.lookup_id, qm.open("q;aside"))
        sent = []
        for _ in range(3):
            sent += queue.send_many([b"x"] * 400)
            assert sum(len(queue.receive_many(200)) for _ in range(2)) == 400
        assert events(trail(qm, "q", stays.lookup_id)) == ["sent", "moved q;aside"]
        kept = [bool(trail(qm, "q", each.lookup_id)) for each in sent]
        assert kept == [False] * 200 + [True] * 1000
        assert len(fields(raw, name)) == 1 + 2 * 1000 + 1
        assert not qm.doctor().findings
    raw.close()


def test_trail_that_goes_on_after_its_end_is_kept_as_long_as_others(backend: Backend) -> None:
    with mqredis.connect(backend.client(), manager=f"goes-on-{os.getpid()}") as qm:
        queue = made(qm, retry=RetryPolicy(immediate=0, final="dead_letter"))
        ends, stays = (queue.send(body).lookup_id for body in (b"ends", b"stays"))
        for lock in queue.lock_many(2, 0):
            lock.abort()
        assert qm.redrive("system$;deadletter") == 2
        assert queue.receive(0).body == b"ends"
        # The third trail that has ended: the places of the first two are taken by the 1001st and the 1002nd.
        other = made(qm, "other")
        for count, is_kept in (249, True), *[(250, True)] * 3, (1, False):
            other.send_many([b"x"] * count)
            assert len(other.receive_many(count)) == count
            assert bool(trail(qm, "q", ends)) is is_kept
            assert [entry.event for entry in trail(qm, "q", stays)][-1] == "redriven"
        assert not qm.doctor().findings
