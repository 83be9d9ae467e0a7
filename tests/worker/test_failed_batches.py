"""A message that makes batches fail: the others of its batch are handled."""

from __future__ import annotations

from collections import Counter

import pytest

import mqredis
from mqredis.models import RetryPolicy
from mqredis.testing import drain
from mqredis.worker import Reject, Retry, RetryLater, Worker

pytestmark = pytest.mark.parametrize("transactional", [False, True], ids=["locks", "transactions"])
GOOD = [b"a", b"b", b"c", b"d"]


class Calls:
    """A batch handler, ``handle``, that fails if its batch has the message "bad"."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        self.batches: list[list[bytes]] = []

    def handle(self, bodies: list[bytes]) -> None:
        self.batches.append(bodies)
        if b"bad" in bodies:
            raise self.error


def fill(qm: mqredis.QueueManager, transactional: bool) -> None:
    qm.create_queue("q", transactional=transactional)
    with qm.open("q") as queue, qm.transaction() as tx:
        queue.send_many([*GOOD[:2], b"bad", *GOOD[2:]], transaction=tx if transactional else None)


@pytest.mark.parametrize("attempts", [1, 3])
@pytest.mark.parametrize("concurrency", [1, 2])
def test_message_that_fails_batches_becomes_poison_and_no_other(
    qm: mqredis.QueueManager,
    worker: Worker,
    transactional: bool,
    attempts: int,
    concurrency: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    fill(qm, transactional)
    calls = Calls(ValueError("no such item"))
    worker.consumer(
        "q", batch=5, concurrency=concurrency, retry=Retry(attempts=attempts, delay=0.0, jitter=0.0), name="h"
    )(calls.handle)
    assert worker.run(burst=True, manager=qm) == 4
    with qm.open("q;poison") as poison:
        (dead,) = drain(poison)
    assert (dead.body, dead.properties["failure_attempts"]) == (b"bad", attempts)
    assert calls.batches[0] == [*GOOD[:2], b"bad", *GOOD[2:]]
    assert Counter(body for bodies in calls.batches[1:] for body in bodies) == Counter(
        [*GOOD, *[b"bad"] * attempts]
    )
    assert worker.consumers[0].failed == attempts
    of_batch = [record.getMessage() for record in caplog.records if "a batch of 5 messages" in record.message]
    assert len(of_batch) == 1
    assert f"{dead.lookup_id:#018x}" in of_batch[0]
    assert of_batch[0].count("0x") == 5
    assert caplog.text.count("ValueError: no such item") == 1 + attempts


def test_batch_that_is_rejected_rejects_only_the_message_that_is_rejected_alone(
    qm: mqredis.QueueManager, worker: Worker, transactional: bool
) -> None:
    fill(qm, transactional)
    worker.consumer("q", batch=5)(Calls(Reject("no such item")).handle)
    assert worker.run(burst=True, manager=qm) == 4
    with qm.open("q;poison") as poison:
        assert [message.body for message in drain(poison)] == [b"bad"]
    assert worker.consumers[0].rejected == 1


def test_batch_that_is_to_come_later_comes_later_together(
    qm: mqredis.QueueManager, worker: Worker, transactional: bool
) -> None:
    fill(qm, transactional)
    calls = Calls(RetryLater(3600))
    worker.consumer("q", batch=5)(calls.handle)
    assert worker.run(burst=True, manager=qm) == 0
    assert len(calls.batches) == 1
    assert qm.statistics("q").retry_messages == 5


def test_batch_of_a_queue_whose_policy_does_not_isolate_fails_as_a_whole(
    qm: mqredis.QueueManager, worker: Worker, transactional: bool
) -> None:
    fill(qm, transactional)

    @worker.consumer("q", batch=5, retry=Retry(attempts=3))
    def handle(bodies: list[bytes]) -> None:
        qm.update_queue("q", retry=RetryPolicy(immediate=0, cycles=0))
        raise ValueError("no such item")

    assert worker.run(burst=True, manager=qm) == 0
    assert qm.statistics("q").poison_messages == 5
    assert worker.consumers[0].failed == 5
