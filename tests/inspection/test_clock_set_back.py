"""Times of locks: after the server's clock was set back, shown ones are less than stored ones by the lead."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

import mqredis
from mqredis import QueueManager, Settings
from mqredis.commands.claims import Order
from mqredis.operations import pipelines
from tests.support.backend import Backend
from tests.support.standing_clock import StandingClock

_numbers = itertools.count(1)


@pytest.fixture
def qm(backend: Backend) -> Iterator[QueueManager]:
    """A queue manager with a lead of a minute, and a queue ``q``."""
    name = f"clock-{os.getpid()}-{next(_numbers)}"
    raw: Any = backend.client()
    with mqredis.connect(backend.client(), manager=name, settings=Settings(allow_volatile=True)) as qm:
        meta = f"mq:{{{name}}}:meta"
        config: bytes = raw.hget(meta, "config")
        raw.hset(meta, mapping={"lead": 60_000, "config": config.rpartition(b" ")[0] + b" 60000"})
        qm.create_queue("q")
        yield qm
    raw.close()


def test_pages_of_locks_end_after_the_clock_was_set_back(qm: QueueManager) -> None:
    with qm.open("q") as queue:
        queue.send_many([b"x"] * 5)
        held = [queue.lock(0, lease=100).message.lookup_id for _ in range(5)]
        listed, after = [], None
        for _ in range(5):
            page = qm.locks("q", after=after, limit=2)
            listed += [lock.lookup_id for lock in page.items]
            after = page.next
            if after is None:
                break
    assert listed == held
    assert after is None


def test_locks_whose_leases_end_together_are_listed_in_the_order_of_their_ids(
    standing_clock: StandingClock,
) -> None:
    qm = standing_clock.qm
    qm.create_queue("q")
    with qm.open("q") as queue:
        ids = [sent.lookup_id for sent in queue.send_many([b"x"] * 4)]
        for n in (0, 2, 1, 3):
            queue.lock_by_lookup_id(ids[n], lease=100)
        assert [lock.lookup_id for lock in qm.locks("q").items] == ids


def test_a_peek_that_waited_shows_the_times_of_other_peeks(qm: QueueManager) -> None:
    aside = qm.open("q;aside")
    with qm.open("q") as queue, ThreadPoolExecutor(1) as pool:
        moved = queue.send(b"x").lookup_id
        queue.move(moved, aside)
        waiting = pool.submit(queue.peek, 20)
        while not qm.queue_info("q").waiters:
            assert not waiting.done(), waiting.result()
        aside.move(moved, queue)
        copy, message = waiting.result(20), queue.peek(0)
    assert copy.last_moved_at is not None
    assert (copy.arrived_at, copy.last_moved_at) == (message.arrived_at, message.last_moved_at)


def test_a_claim_began_at_the_time_that_users_are_shown(qm: QueueManager) -> None:
    with qm.open("q") as queue:
        queue.send(b"x")
        sent, address = queue.peek(0), queue.handle.address
        qm.run(pipelines.claim(address, "lake", "first", 1, Order(10), True))
        (claim,) = qm.claims("q")
        assert abs((claim.since - sent.arrived_at).total_seconds()) < 30


def test_a_message_is_rescheduled_to_the_time_that_users_are_shown(qm: QueueManager) -> None:
    with qm.open("q") as queue:
        queue.send(b"x", delay=60)
    (before,) = qm.scheduled("q").items
    at = before.message.arrived_at + timedelta(seconds=300)
    assert qm.operator("ada").reschedule("q", at=at).changed == 1
    assert [stored.due_at for stored in qm.scheduled("q").items] == [at]


def test_doctor_compares_the_clock_of_the_server_without_the_steps_back(qm: QueueManager) -> None:
    assert {item.code for item in qm.doctor().advice if "clock" in item.code} == {"manager.clock"}
