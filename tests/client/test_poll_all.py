"""``poll_all``: one call tells for all waiting readers of a process which queues may have a message for them."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator

import pytest

import mqredis
from mqredis.commands.manager import poll_all
from mqredis.steps import perform
from tests.support.backend import Backend

_numbers = itertools.count(1)


@pytest.fixture
def qm(backend: Backend) -> Iterator[mqredis.QueueManager]:
    settings = mqredis.Settings(manager=f"poll-{os.getpid()}-{next(_numbers)}", test_clock=True)
    with mqredis.connect(backend.client(), settings=settings) as manager:
        yield manager


def poll(qm: mqredis.QueueManager, *names: str) -> list[bool]:
    keys = qm.context.keys
    found, _, _ = qm.run(perform(poll_all(keys, [keys.call(name).keys[2:] for name in names])))
    return found


def test_poll_all_reports_queues_with_an_available_message(qm: mqredis.QueueManager) -> None:
    for name in ("empty", "full", "locked"):
        qm.create_queue(name)
    qm.open("full").send(b"x")
    locked = qm.open("locked")
    locked.send(b"x")
    lock = locked.lock(0)
    assert poll(qm, "empty", "full", "locked", "unknown") == [False, True, False, True]
    lock.abort()
    assert poll(qm, "locked", "empty") == [True, False]


def test_poll_all_reports_slots_with_a_later_call_than_the_last_known(qm: mqredis.QueueManager) -> None:
    qm.create_queue("q")
    session = qm._driver.core.session
    assert session is not None
    slot = session.free[-1]
    slots = [(slot.name, slot.last), (slot.name, slot.last - 1), (f"{session.number}.99", 0)]
    assert qm.run(perform(poll_all(qm.context.keys, [], slots))) == ([], [False, True, False], None)


def test_poll_all_reports_a_queue_whose_timer_is_due(qm: mqredis.QueueManager) -> None:
    qm.create_queue("q")
    qm.open("q").send(b"x", delay=60.0)
    assert poll(qm, "q") == [False]
    qm.advance_clock(59.0)
    assert poll(qm, "q") == [False]
    qm.advance_clock(2.0)
    assert poll(qm, "q") == [True]


def test_poll_all_returns_the_time_until_the_first_timer_of_the_queues(qm: mqredis.QueueManager) -> None:
    keys = qm.context.keys
    look = poll_all(keys, [keys.call(name).keys[2:] for name in ("none", "early", "late")])
    for name in ("none", "early", "late"):
        qm.create_queue(name)
    qm.open("early").send(b"x", delay=2.0)
    qm.open("late").send(b"x", delay=200.0)
    ms = qm.run(perform(look))[2]
    assert ms is not None
    assert 0 < ms <= 2000
