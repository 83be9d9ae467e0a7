"""What may be registered."""

from __future__ import annotations

import pytest

import mqredis
from mqredis.worker import Retry, Worker
from mqredis.worker.consumer import rate_of


def handle(message):
    """A handler."""


def test_the_function_stays_what_it_is(worker: Worker):
    assert worker.consumer("q")(handle) is handle


@pytest.mark.parametrize(
    "options",
    [
        {"concurrency": 0},
        {"batch": 257},
        {"batch": 2},
        {"lease": 0},
        {"time_limit": -1},
        {"max_hold": 0},
        {"rate": "many"},
        {"rate": "0/s"},
    ],
    ids=str,
)
def test_options_that_make_no_sense(worker: Worker, options):
    with pytest.raises(mqredis.InvalidArgument):
        worker.consumer("q", **options)(handle)


def test_handlers_that_cannot_be_called(worker: Worker):
    with pytest.raises(mqredis.InvalidArgument, match="must take"):
        worker.consumer("q")(lambda: None)
    with pytest.raises(mqredis.InvalidArgument, match="must take"):
        worker.consumer("q")(lambda _a, _b, _c: None)
    with pytest.raises(mqredis.InvalidArgument, match="queue"):
        worker.consumer()(handle)
    with pytest.raises(mqredis.InvalidArgument, match="no consumers"):
        worker.run()


def test_mixed_queues_are_refused(qm, worker: Worker):
    qm.create_queue("plain")
    qm.create_queue("tx", transactional=True)
    worker.consumer("plain", "tx")(handle)
    with pytest.raises(mqredis.InvalidArgument, match="all transactional or none"):
        worker.run(burst=True, manager=qm, signals=False)


def test_a_queue_that_is_not_there(qm, worker: Worker):
    worker.consumer("nowhere")(handle)
    with pytest.raises(mqredis.QueueNotFound):
        worker.run(burst=True, manager=qm, signals=False)


def test_pauses_grow_up_to_a_limit():
    retry = Retry(delay=1, factor=3, max_delay=20, jitter=0)
    assert [retry.pause(n) for n in (1, 2, 3, 4, 10_000)] == [1, 3, 9, 20, 20]
    assert not Retry(deliveries=0).over(10**6)
    with pytest.raises(mqredis.InvalidArgument):
        Retry(factor=0.5)


def test_rates():
    assert [rate_of(text) for text in ("10/s", "120/m", "3600/h")] == [10, 2, 1]
