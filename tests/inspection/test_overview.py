"""``overview``: counters of all queues."""

from __future__ import annotations

from typing import Any

import pytest

from mqredis import RetryPolicy
from mqredis.commands import inspection
from mqredis.commands.address import Address
from mqredis.commands.claims import Order
from mqredis.operations import pipelines
from mqredis.steps import perform

pytestmark = pytest.mark.parametrize("connect", ["real-sync", "fake-async"], indirect=True)


def test_overview_counts_messages_by_state(qm: Any) -> None:
    qm.create_queue("q", retry=RetryPolicy(immediate=0, cycles=0), journaling=True)
    queue = qm.open("q")
    for n in range(6):
        queue.send(b"x" * 10, priority=n)
    queue.send(b"later", delay=60)
    qm.advance_clock(5)
    queue.receive(0)
    queue.lock(0)
    queue.lock_many(2, 0)
    queue.lock(0).abort()  # its only attempt, so it becomes poison
    (depth,) = qm.overview("q")
    assert (depth.name, depth.ready, depth.delayed, depth.locked, depth.claimed) == ("q", 1, 1, 3, 0)
    assert (depth.poison, depth.journal, depth.poisoned, depth.waiters) == (1, 1, 1, 0)
    assert (depth.total_in, depth.total_out, depth.messages) == (7, 2, 5)
    assert 5 <= depth.oldest_seconds < 60
    assert not depth.overdue
    qm.advance_clock(60)
    assert qm.overview("q")[0].overdue
    qm.maintain()
    assert qm.overview("q")[0].delayed == 0


@pytest.mark.parametrize("purged", [False, True])
def test_overview_counts_claimed_messages_in_both_forms(qm: Any, purged: bool) -> None:
    """A purge gives each claimed message a state of its own."""
    qm.create_queue("q")
    queue = qm.open("q")
    queue.send_many([b"x"] * 3)
    address = Address(qm.context.keys, "q", qm.run(pipelines.look(qm.context, "q")).generation)
    qm.run(pipelines.claim(address, "lake", "first", 1, Order(2), True))
    if purged:
        queue.purge()
    queue.send(b"y")
    queue.lock(0)
    (depth,) = qm.overview("q")
    assert (depth.locked, depth.claimed) == (3, 2)


def test_overview_shows_the_properties_of_its_queue_for_a_subqueue(qm: Any) -> None:
    qm.create_queue("q", transactional=True)
    qm.open("q;s")
    qm.update_queue("q", put_inhibited=True)
    (depth,) = qm.overview("*;s")
    assert (depth.name, depth.put_inhibited, depth.get_inhibited, depth.transactional) == (
        "q;s",
        True,
        False,
        True,
    )


def test_overview_agrees_with_queue_info(qm: Any) -> None:
    for name in ("a", "b", "c"):
        qm.create_queue(name, quota_messages=100)
        queue = qm.open(name)
        queue.send_many([b"x"] * 9)
        queue.receive_many(2, 0)
        queue.lock_many(3, 0)
        queue.lock(0)
        queue.send(b"later", delay=9)
    infos = {info.name: info for info in qm.queues()}
    for depth in qm.overview():
        info = infos[depth.name]
        for figure in ("ready", "delayed", "locked", "messages", "bytes", "waiters"):
            assert getattr(depth, figure) == getattr(info, figure), (depth.name, figure)


def test_overview_counts_the_bytes_of_messages_that_rest(qm: Any) -> None:
    qm.create_queue("q", retry=RetryPolicy(immediate=0, cycles=1, delay=60))
    queue = qm.open("q")
    queue.send_many([b"x" * 100, b"stays"])
    queue.lock(0).abort()
    (depth,) = qm.overview("q")
    info = qm.queue_info("q")
    assert (depth.messages, depth.delayed, depth.ready) == (2, 1, 1)
    assert (depth.messages, depth.bytes) == (info.messages, info.bytes)


def test_overview_counts_the_bytes_of_messages_whose_lease_ended(qm: Any) -> None:
    """They are available, in a subqueue of their own."""
    qm.create_queue("q", retry=RetryPolicy(immediate=0, cycles=1, delay=10, isolate=True))
    queue = qm.open("q")
    queue.send_many([b"x" * 100, b"stays"])
    queue.lock(0, lease=5)
    for seconds in (6, 11):
        qm.advance_clock(seconds)
        qm.maintain()
    assert qm.open("q;lapsed").peek(0).body == b"x" * 100
    (depth,) = qm.overview("q")
    assert depth.bytes == qm.queue_info("q").bytes


def test_system_subqueues_are_not_listed_on_their_own(qm: Any) -> None:
    qm.create_queue("q", journaling=True)
    queue = qm.open("q")
    queue.send(b"x")
    queue.receive(0)
    qm.open("q;own").close()
    qm.open("q;mine")
    names = [depth.name for depth in qm.overview()]
    assert "q" in names
    assert "q;mine" in names
    assert "q;journal" not in names
    assert [depth.name for depth in qm.overview("q")] == ["q"]


def test_overview_shows_inhibited_queues(qm: Any) -> None:
    qm.create_queue("q", put_inhibited=True, transactional=True)
    (depth,) = qm.overview()
    assert (depth.put_inhibited, depth.get_inhibited, depth.transactional) == (True, False, True)


def test_overview_leaves_out_a_queue_that_was_deleted_after_the_names_were_listed(qm: Any) -> None:
    qm.create_queue("q")
    found = qm.run(perform(inspection.overview(qm.context.keys, ["gone", "q"])))
    assert (found.done, [depth.name for depth in found.queues]) == (2, ["q"])


def test_call_of_the_overview_covers_fewer_queues_with_many_locks(qm: Any) -> None:
    names = [f"q{n}" for n in range(5)]
    for name in names:
        qm.create_queue(name)
        queue = qm.open(name)
        queue.send_many([b"x"] * 64)
        for _ in range(32):
            queue.lock_many(2, 0)
    found = qm.run(perform(inspection.overview(qm.context.keys, names)))
    assert 0 < found.done < len(names)
    assert [(depth.name, depth.locked) for depth in qm.overview()] == [(name, 64) for name in names]
