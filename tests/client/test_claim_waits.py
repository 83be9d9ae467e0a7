"""Waits of data pipelines for messages that they could claim."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mqredis.commands import claims as commands
from mqredis.commands.waiting import Waiter
from mqredis.errors import QueueNotAvailable
from mqredis.operations import pipelines
from mqredis.operations.queue_call import QueueCall
from tests.support.backend import Backend
from tests.support.pipeline import Pipeline, new_manager


def waits(pipeline: Pipeline, waiter: Waiter) -> bool:
    """One call of a wait: does it go on?"""
    queue = pipeline.queue
    found = pipeline.qm.run(QueueCall(queue, commands.wait(queue, "", waiter)))
    waiter.ticket = found.ticket if found else ""
    return found is not None


@pytest.mark.parametrize("case", ["nothing", "found", "deleted"])
def test_wait_ends_its_registrations(pipeline: Pipeline, case: str) -> None:
    qm, first = pipeline.qm, (pipeline.queue, "")
    qm.create_queue("second")
    second = (replace(pipeline, path="second").queue, "")
    wait = pipelines.wait(qm.context, [first, second], 0)
    if case == "found":
        qm.open("second").send(b"x")
    if case == "deleted":
        qm.delete_queue("second")
        with pytest.raises(QueueNotAvailable):
            qm.run(wait)
    else:
        assert qm.run(wait) is (case == "found")
    assert [info.waiters for info in qm.queues()] == [0] * (2 - (case == "deleted"))


def test_wait_goes_on_while_there_is_no_message(pipeline: Pipeline) -> None:
    waiter = Waiter("P p0 -")
    assert waits(pipeline, waiter)
    assert waits(pipeline, waiter)
    pipeline.fill(1)
    assert not waits(pipeline, waiter)
    assert pipeline.qm.queue_info("orders").waiters == 0


def test_wait_does_not_count_what_an_earlier_wait_was_told(pipeline: Pipeline) -> None:
    assert waits(pipeline, Waiter("P p0 -"))
    with pipeline.qm.open("orders") as queue:
        queue.send(b"x")
        queue.receive(0)
    assert waits(pipeline, Waiter("P p0 -"))


def test_wait_serves_all_due_timers(backend: Backend) -> None:
    """More are due than one call serves (lua/core/timers.lua)."""
    with new_manager(backend, test_clock=True) as qm:
        qm.create_queue("orders")
        pipeline = Pipeline(qm, backend.client())
        pipeline.fill(600, time_to_be_received=60)
        pipeline.fill(1, delay=61)
        place = (pipeline.queue, "")  # found by a call that would serve timers
        qm.advance_clock(62)
        assert qm.run(pipelines.wait(qm.context, [place], 0))
