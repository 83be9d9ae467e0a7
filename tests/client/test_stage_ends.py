"""The end of batches that are not published: swept or withdrawn ones; and the list of open publications."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from mqredis.commands import stages as commands
from mqredis.commands.stages import Published
from mqredis.errors import ClaimLost
from mqredis.operations import publications as operations
from mqredis.steps import perform
from tests.support.sink_job import TTL_MS, SinkJob, numbers, texts


def test_sweep_discards_and_closes_batches_up_to_the_given_one(job: SinkJob) -> None:
    for batch in range(3):
        job.stage(batch, f"{batch}-a", numbers(0, 2))
    assert job.sweep(1) == 2
    assert [stage.name for stage in job.state.stages] == ["2-a"]
    assert job.raw.exists(*job.qm.context.keys.sink(job.name, stages=("0-a", "1-a")).keys[-2:]) == 0
    job.stage(1, "1-b", numbers(0, 1))
    assert job.sweep(1, TTL_MS) == 1
    for batch in (0, 1):
        with pytest.raises(ClaimLost) as refused:
            job.stage(batch, f"{batch}-late", numbers(0, 1))
        assert refused.value.details["why"] == "closed"
    job.stage(2, "2-b", numbers(0, 1))
    assert sorted(stage.name for stage in job.state.stages) == ["2-a", "2-b"]
    assert 0 < job.lifetimes()[0] <= TTL_MS


def test_sweep_keeps_the_stages_of_a_begun_batch(job: SinkJob) -> None:
    begun = job.stage(1, "1-a", numbers(0, 3))
    job.stage(1, "1-lost", numbers(9, 1))
    job.step(1, begun, limit=1)
    assert job.sweep(1, TTL_MS) == 1
    assert job.lifetimes() == [-1, -1]
    assert job.step(1, begun) == Published(2)
    assert job.bodies() == texts(3)


def test_withdrawn_batch_is_never_published(job: SinkJob) -> None:
    stages = job.stage(0, "0-a", numbers(0, 3)), job.stage(0, "0-b", numbers(3, 1))
    keys = job.qm.context.keys
    names = ["0-a", "0-b"]
    job.step(0, *stages, limit=1)
    assert job.qm.run(perform(commands.withdraw(keys, job.name, 0, names[:1], True))) is False
    assert job.qm.run(perform(commands.withdraw(keys, job.name, 0, ["0-x", "0-y"], True))) is False
    assert job.qm.run(perform(commands.withdraw(keys, job.name, 1, names, True))) is False
    assert job.state.publishing == 0
    assert job.qm.run(perform(commands.withdraw(keys, job.name, 0, names, True))) is True
    state = job.state
    assert (state.committed, state.publishing, state.stages) == (0, None, [])
    assert job.raw.exists(*keys.sink(job.name, stages=("0-a", "0-b")).keys[-2:]) == 0
    assert job.step(0, *stages) == Published(0)
    assert job.bodies() == texts(1)


def test_job_without_a_name_leaves_no_record(job: SinkJob) -> None:
    sinks = job.qm.context.keys.sink(job.name).keys[-2]
    assert job.step(0, job.stage(0, "0-a", numbers(0, 2)), keep=False) == Published(2)
    assert job.raw.hlen(sinks) == 0
    stage = job.stage(0, "0-b", numbers(2, 2))
    job.step(0, stage, limit=1)
    assert job.raw.hlen(sinks) == 1
    assert job.qm.run(perform(commands.withdraw(job.qm.context.keys, job.name, 0, ["0-b"], False)))
    assert job.raw.hlen(sinks) == 0


def test_open_publication_is_listed_and_can_be_finished(job: SinkJob) -> None:
    job.step(0, job.stage(0, "0-a", numbers(0, 5)), limit=2)
    (one,) = job.qm.run(operations.publications(job.qm.context))
    assert (one.name, one.version, one.queues, one.messages, one.left) == (job.name, 0, ("target",), 5, 3)
    assert (one.abandoned, one.expired, one.expires) == (False, False, None)
    assert job.qm.run(operations.finish(job.qm.context, job.name)) == 3
    assert job.bodies() == texts(5)
    assert job.qm.run(operations.publications(job.qm.context)) == []


def test_publication_shows_its_time_without_the_lead_of_broker_time(job: SinkJob) -> None:
    # As it is after the server's clock was set back by an hour (docs/decisions/time.md).
    meta = job.qm.context.keys.own[0]
    job.raw.hset(meta, "lead", 3_600_000)
    job.raw.hdel(meta, "config")
    job.step(0, job.stage(0, "0-a", numbers(0, 5)), limit=2)
    (one,) = job.qm.run(operations.publications(job.qm.context))
    assert abs((one.since - datetime.now(UTC)).total_seconds()) < 600
    assert not one.abandoned
