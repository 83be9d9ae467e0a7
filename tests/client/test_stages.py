"""Sinks of data pipelines, call by call: stage, and publish once."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from mqredis import Acknowledge, Outgoing
from mqredis.codec.encode import encode
from mqredis.commands import stages as commands
from mqredis.commands.stages import Published, Stage
from mqredis.errors import (
    ClaimLost,
    DuplicateMessage,
    InvalidArgument,
    ManagerQuotaExceeded,
    PutInhibited,
    QueueNotAvailable,
    QueueQuotaExceeded,
    TransactionUsage,
)
from mqredis.steps import perform
from tests.support.sink_job import TTL_MS, SinkJob, numbers, texts


@pytest.mark.parametrize("name", ["0-a,b", "0-a b", "0-a\n", "0-", "a", "closed", "", "-1-a", "0-é"])
def test_name_that_no_stage_can_have_is_refused(job: SinkJob, name: str) -> None:
    with pytest.raises(InvalidArgument, match="the name of a stage is"):
        job.stage(0, name, numbers(0, 3))
    assert job.state.stages == []


def test_staged_messages_are_not_visible(job: SinkJob) -> None:
    job.stage(0, "0-a", numbers(0, 3))
    assert job.published_before is False
    job.stage(0, "0-a", numbers(3, 2))
    (stage,) = job.state.stages
    assert (stage.name, stage.queue, stage.messages) == ("0-a", "target", 5)
    assert stage.bytes == sum(len(encode(message)[0]) + 12 for message in numbers(0, 5))
    assert job.bodies() == []
    assert job.qm.queue_info("target").messages == 0
    assert all(0 < each <= TTL_MS for each in job.lifetimes())
    assert len(job.lifetimes()) == 2


def test_registry_never_expires_before_the_stages(job: SinkJob) -> None:
    """So nothing is left without a time to live, and a stage that has expired is missed when its batch is published."""
    first = job.stage(0, "0-a", numbers(0, 1))
    *_, registry, messages = job.qm.context.keys.sink(job.name, stages=("0-a",)).keys
    for key in (registry, messages):
        job.raw.pexpire(key, TTL_MS // 2)  # time passes
    second = job.stage(0, "0-b", numbers(1, 1))
    left, *stages = job.lifetimes()
    assert left >= max(stages) > TTL_MS // 2 >= min(stages)
    job.raw.delete(messages)  # it expires
    with pytest.raises(ClaimLost, match="stageTtlSeconds") as refused:
        job.step(0, first, second)
    assert (refused.value.details["why"], job.bodies()) == ("stage", [])


def test_batch_is_published_once_in_the_order_of_its_stages(job: SinkJob) -> None:
    job.qm.create_queue("other")
    first, second = job.stage(0, "0-a", numbers(0, 3)), job.stage(0, "0-b", numbers(3, 2))
    beside = job.stage(0, "0-c", numbers(10, 2), "other")
    assert job.step(0, second, beside, first) == Published(7)
    assert job.bodies() == [b"3", b"4", b"0", b"1", b"2"]
    assert job.bodies("other") == [b"10", b"11"]
    assert job.step(0, second, beside, first) == Published(0)
    assert len(job.bodies()) == 5
    state = job.state
    assert (state.identity, state.committed, state.publishing, state.manifest) == ("query", 0, None, ())
    assert state.stages == []
    assert job.qm.queue_info("target").bytes == sum(len(encode(m)[0]) + 12 for m in numbers(0, 5))
    found = job.qm.open("target").browse()
    assert not any(message.first_in_transaction or message.last_in_transaction for message in found)


def test_late_task_of_a_published_batch_stores_nothing(job: SinkJob) -> None:
    job.publish(3, job.stage(3, "3-a", numbers(0, 1)))
    for batch in (2, 3):
        job.stage(batch, f"{batch}-late", numbers(0, 1))
        assert job.published_before is True
    assert job.state.stages == []
    job.stage(4, "4-a", numbers(0, 1))
    assert job.published_before is False
    assert [stage.name for stage in job.state.stages] == ["4-a"]


def test_batch_above_the_limit_is_published_in_steps(job: SinkJob) -> None:
    first, second = job.stage(0, "0-a", numbers(0, 5)), job.stage(0, "0-b", numbers(5, 3))
    assert job.step(0, first, second, limit=3) == Published(3, more=True)
    assert job.bodies() == texts(3)
    state = job.state
    assert (state.publishing, state.manifest, state.committed) == (0, ("0-a", "0-b"), -1)
    assert job.lifetimes() == [-1, -1, -1]
    job.stage(0, "0-late", numbers(0, 1))
    assert job.published_before is True
    assert job.step(0, first, second, limit=3) == Published(3, more=True)
    assert job.step(0, first, second, limit=3) == Published(2)
    assert job.bodies() == texts(8)
    assert job.state.stages == []
    assert job.step(0, first, second, limit=3) == Published(0)


def test_batch_equal_to_the_limit_takes_one_step(job: SinkJob) -> None:
    assert job.step(0, job.stage(0, "0-a", numbers(0, 4)), limit=4) == Published(4)
    assert job.state.committed == 0


def test_stage_emptied_exactly_at_the_limit_is_followed_by_the_next(job: SinkJob) -> None:
    first, second = job.stage(0, "0-a", numbers(0, 2)), job.stage(0, "0-b", numbers(2, 2))
    assert job.step(0, first, second, limit=2) == Published(2, more=True)
    assert job.step(0, first, second, limit=2) == Published(2)
    assert job.bodies() == texts(4)


def test_begun_batch_of_a_job_without_identity_expires_with_its_registry(job: SinkJob) -> None:
    job.identity = "-"
    stages = job.stage(0, "0-a", numbers(0, 4), ttl_ms=TTL_MS // 10), job.stage(0, "0-b", numbers(4, 1))
    assert job.step(0, *stages, limit=1) == Published(1, more=True)
    registry, *lists = job.lifetimes()
    assert TTL_MS // 10 < registry <= TTL_MS
    assert len(lists) == 2
    assert all(abs(registry - list_) < 1000 for list_ in lists)
    job.stage(1, "1-a", numbers(9, 1), ttl_ms=10 * TTL_MS)
    assert job.lifetimes()[0] <= TTL_MS


def test_begun_batch_is_finished_before_the_next(job: SinkJob) -> None:
    begun = job.stage(0, "0-a", numbers(0, 3))
    job.step(0, begun, limit=2)
    following = job.stage(1, "1-a", numbers(3, 2))
    found = job.step(1, following)
    assert (found.pending_batch, found.pending) == (0, (Stage("0-a", "target"),))
    assert job.bodies() == texts(2)
    assert job.publish(1, following) == 2
    assert job.bodies() == texts(5)
    assert job.state.committed == 1


def test_begun_batch_is_finished_by_its_own_manifest(job: SinkJob) -> None:
    begun = job.stage(1, "1-a", numbers(0, 3))
    again = Stage("1-b", "target", 3)
    job.step(1, begun, limit=2)
    assert job.step(1, again).pending == (Stage("1-a", "target"),)
    assert job.publish(1, again) == 1
    assert job.bodies() == texts(3)


def test_batch_before_the_begun_one_is_fenced(job: SinkJob) -> None:
    job.step(1, job.stage(1, "1-a", numbers(0, 3)), limit=2)
    with pytest.raises(ClaimLost) as refused:
        job.step(0, Stage("0-a", "target"))
    assert refused.value.details["why"] == "fenced"
    assert job.bodies() == texts(2)


def test_publication_of_another_query_is_refused(job: SinkJob) -> None:
    job.publish(0, job.stage(0, "0-a", numbers(0, 1)))
    stage = job.stage(1, "1-a", numbers(1, 1))
    with pytest.raises(ClaimLost) as refused:
        job.step(1, stage, identity="another query")
    assert refused.value.details["why"] == "identity"
    assert job.step(1, stage, identity="-") == Published(1)
    assert job.state.identity == "query"


@pytest.mark.parametrize("lost", ["stage", "messages"])
def test_incomplete_stage_is_not_published(job: SinkJob, lost: str) -> None:
    stage = job.stage(0, "0-a", numbers(0, 3))
    *_, registry, messages = job.qm.context.keys.sink(job.name, stages=("0-a",)).keys
    if lost == "stage":
        job.raw.delete(registry, messages)
    else:
        job.raw.lpop(messages)
    with pytest.raises(ClaimLost) as refused:
        job.step(0, stage)
    assert refused.value.details["why"] == "stage"
    assert job.bodies() == []
    job.raw.delete(registry, messages)


def test_begun_batch_with_expired_stages_is_reported_as_lost(job: SinkJob) -> None:
    stage = job.stage(0, "0-a", numbers(0, 3))
    job.step(0, stage, limit=1)
    *_, registry, messages = job.qm.context.keys.sink(job.name, stages=("0-a",)).keys
    job.raw.delete(registry, messages)
    for call in (lambda: job.step(0, stage), lambda: job.step(1, Stage("1-a", "target"))):
        with pytest.raises(ClaimLost) as refused:
            call()
        assert refused.value.details["why"] == "expired"
    assert job.bodies() == texts(1)
    assert job.qm.run(perform(commands.withdraw(job.qm.context.keys, job.name, 0, ["0-a"], False)))


def test_queues_refuse_a_whole_batch_or_nothing(job: SinkJob) -> None:
    quota = 3 * sum(len(encode(m)[0]) + 12 for m in numbers(0, 1))
    job.qm.create_queue("narrow", quota_bytes=quota)
    job.qm.create_queue("closed", put_inhibited=True)
    free = job.stage(0, "0-a", numbers(0, 2))
    inhibited = job.stage(0, "0-b", numbers(0, 2), "closed")
    large = job.stage(0, "0-c", numbers(0, 3), "narrow"), job.stage(0, "0-d", numbers(3, 1), "narrow")
    with pytest.raises(PutInhibited):
        job.step(0, free, inhibited)
    with pytest.raises(QueueQuotaExceeded):
        job.step(0, free, *large)
    with pytest.raises(QueueNotAvailable):
        job.step(0, free, job.stage(0, "0-e", numbers(0, 1), "nowhere"))
    job.qm.create_queue("news", topic=True)
    with pytest.raises(TransactionUsage):
        job.step(0, free, job.stage(0, "0-f", numbers(0, 1), "news"))
    assert job.bodies() == []
    assert job.step(0, free, large[0]) == Published(5)
    assert job.bodies("narrow") == texts(3)


def test_refusal_of_a_batch_does_not_depend_on_the_order_of_its_queues(job: SinkJob) -> None:
    """As with a send: an inhibited queue comes before the manager's quota, and that before the quotas of queues."""
    quota = len(encode(numbers(0, 1)[0])[0]) + 12
    full, closed = [f"full{n}" for n in range(4)], [f"closed{n}" for n in range(4)]
    for name in full:
        job.qm.create_queue(name, quota_bytes=quota)
    for name in closed:
        job.qm.create_queue(name, put_inhibited=True)
    over = [job.stage(0, f"0-{name}", numbers(0, 2), name) for name in full]
    inhibited = [job.stage(0, f"0-{name}", numbers(0, 2), name) for name in closed]
    for pair in zip(over, inhibited, strict=True):
        for stages in (pair, pair[::-1]):
            with pytest.raises(PutInhibited):
                job.step(0, *stages)
    job.qm.set_quota(messages=3)
    for permuted in itertools.permutations(over[:2]):
        with pytest.raises(ManagerQuotaExceeded):
            job.step(0, *permuted)
    with pytest.raises(PutInhibited):
        job.step(0, *over, *inhibited)
    with pytest.raises(QueueQuotaExceeded):
        job.step(0, over[0])


def test_every_way_to_send_refuses_in_the_same_order(job: SinkJob) -> None:
    qm = job.qm
    qm.create_queue("news", topic=True)
    qm.subscribe("news", "target")
    qm.operator("ann").create_schedule("hourly", 3600, "target", b"x")
    staged = job.stage(0, "0-a", numbers(0, 1))
    ways: list[Callable[[], object]] = [
        lambda: qm.open("target").send(b"x"),
        lambda: qm.open("news").send(b"x"),
        lambda: job.step(0, staged),
        lambda: qm.operator("ann").trigger_schedule("hourly"),
    ]
    qm.update_queue("target", quota_messages=0)
    for error, refuse in {
        QueueQuotaExceeded: lambda: None,
        ManagerQuotaExceeded: lambda: qm.set_quota(messages=0),
        PutInhibited: lambda: qm.update_queue("target", put_inhibited=True),
    }.items():
        refuse()  # in addition to what refuses already
        for way in ways:
            with pytest.raises(error):
                way()


def test_begun_batch_is_finished_although_the_queue_refuses_sends(job: SinkJob) -> None:
    stage = job.stage(0, "0-a", numbers(0, 3))
    job.step(0, stage, limit=1)
    job.qm.update_queue("target", put_inhibited=True)
    assert job.step(0, stage) == Published(2)
    assert job.bodies() == texts(3)


def test_manager_quota_counts_the_batch_over_all_queues(job: SinkJob) -> None:
    job.qm.create_queue("other")
    one = job.stage(0, "0-a", numbers(0, 2))
    two = job.stage(0, "0-b", numbers(0, 2), "other")
    job.qm.set_quota(bytes=one.bytes + two.bytes - 1)
    with pytest.raises(ManagerQuotaExceeded):
        job.step(0, one, two)
    assert job.bodies() == []
    job.qm.set_quota(bytes=one.bytes + two.bytes)
    assert job.step(0, one, two) == Published(4)


def test_dedup_key_is_accepted_once_within_and_across_batches(job: SinkJob) -> None:
    twice = job.stage(0, "0-a", [*numbers(0, 1, dedup_key="k"), *numbers(1, 1, dedup_key="k")])
    with pytest.raises(DuplicateMessage):
        job.step(0, twice)
    assert job.bodies() == []
    once = job.stage(0, "0-b", [*numbers(0, 1, dedup_key="k"), *numbers(1, 1, dedup_key="l")])
    assert job.step(0, once) == Published(2)
    later = job.stage(1, "1-a", numbers(2, 1, dedup_key="k"))
    with pytest.raises(DuplicateMessage):
        job.step(1, later)
    with pytest.raises(DuplicateMessage):
        job.qm.open("target").send("again", dedup_key="l")
    assert job.bodies() == texts(2)


def test_dedup_keys_belong_to_a_queue(job: SinkJob) -> None:
    job.qm.create_queue("other")
    one = job.stage(0, "0-a", numbers(0, 1, dedup_key="k"))
    two = job.stage(0, "0-b", numbers(1, 1, dedup_key="k"), "other")
    assert job.step(0, one, two) == Published(2)
    twice = (
        job.stage(1, "1-a", numbers(2, 1, dedup_key="l")),
        job.stage(1, "1-b", numbers(3, 1, dedup_key="l")),
    )
    with pytest.raises(DuplicateMessage):
        job.step(1, *twice)
    assert (job.bodies(), job.bodies("other")) == ([b"0"], [b"1"])


@pytest.mark.parametrize("limit", [1, 2, 100])
def test_begun_batch_is_finished_without_a_message_that_was_sent_in_between(job: SinkJob, limit: int) -> None:
    keyed = [Outgoing(body=b"%d" % n, dedup_key=f"k{n}") for n in range(4)]
    stage = job.stage(0, "0-a", [*keyed, *numbers(4, 1)])
    assert job.step(0, stage, limit=1) == Published(1, more=True)
    for sent in (1, 3):
        job.qm.open("target").send(b"sent in between", dedup_key=f"k{sent}")
    assert job.publish(0, stage, limit=limit) == 2
    assert (job.state.publishing, job.state.committed) == (None, 0)
    assert job.bodies() == [b"0", b"sent in between", b"sent in between", b"2", b"4"]
    assert job.step(0, stage) == Published(0)


def test_begun_batch_whose_other_messages_were_all_sent_in_between_is_finished(job: SinkJob) -> None:
    large = Outgoing(body=b"x" * 70_000, dedup_key="large")
    stage = job.stage(0, "0-a", [*numbers(0, 1, dedup_key="a"), large])
    assert job.step(0, stage, limit=1) == Published(1, more=True)
    job.qm.open("target").send(b"sent in between", dedup_key="large")
    assert job.step(0, stage, limit=1) == Published(0)
    assert (job.state.publishing, job.state.committed, job.state.stages) == (None, 0, [])
    assert job.bodies() == [b"0", b"sent in between"]


def test_more_messages_with_features_than_one_page_keep_their_order(job: SinkJob) -> None:
    count = 600  # above two pages of 256 (lua/claims/publish.lua)
    keyed = [Outgoing(body=b"%d" % n, dedup_key=str(n)) for n in range(count)]
    assert job.step(0, job.stage(0, "0-a", keyed)) == Published(count)
    assert job.bodies() == texts(count)
    again = [*numbers(0, count - 1), Outgoing(body=b"x", dedup_key=str(count - 1))]
    with pytest.raises(DuplicateMessage):
        job.step(1, job.stage(1, "1-a", again))
    assert job.qm.queue_info("target").messages == count


def test_large_body_stays_with_its_message_across_steps(job: SinkJob) -> None:
    large = [Outgoing(body=bytes([65 + n]) * 70_000) for n in range(4)]
    mixed = [large[0], *numbers(0, 1), *large[1:], *numbers(1, 1)]
    stage = job.stage(0, "0-a", mixed)
    for step in range(5):
        assert job.step(0, stage, limit=1) == Published(1, more=True), step
    assert job.step(0, stage, limit=1) == Published(1)
    assert job.bodies() == [message.body for message in mixed]


def test_published_messages_are_acknowledged(job: SinkJob) -> None:
    job.qm.create_queue("acks")
    asking = numbers(0, 2, acknowledge=Acknowledge.POSITIVE_ARRIVAL, administration_queue="acks", delay=60)
    job.publish(0, job.stage(0, "0-a", asking))
    assert len(job.bodies("acks")) == 2


def test_transactional_queue_gets_one_unit_of_work(job: SinkJob) -> None:
    job.qm.create_queue("units", transactional=True)
    job.qm.create_queue("others", transactional=True)
    unit = "app-load.0"
    one = job.stage(0, "0-a", numbers(0, 2), "units", unit)
    two = job.stage(0, "0-b", numbers(0, 1), "others", unit)
    three = job.stage(0, "0-c", numbers(2, 2), "units", unit)
    assert job.step(0, one, two, three) == Published(5)
    found = [(m.body, m.first_in_transaction, m.last_in_transaction) for m in job.qm.open("units").browse()]
    assert found == [(b"0", True, False), (b"1", False, False), (b"2", False, False), (b"3", False, True)]
    (only,) = job.qm.open("others").browse()
    assert (only.first_in_transaction, only.last_in_transaction) == (True, True)


@pytest.mark.parametrize("key", [None, "key"])
def test_unit_of_work_in_steps_has_one_first_and_one_last_message(job: SinkJob, key: str | None) -> None:
    job.qm.create_queue("units", transactional=True)
    messages = [Outgoing(body=b"x", dedup_key=key and f"{key} {n}") for n in range(4)]
    stages = [job.stage(0, f"0-{n}", messages[2 * n : 2 * n + 2], "units", "app-load.0") for n in range(2)]
    while job.step(0, *stages, limit=1).more:
        pass
    found = [(m.first_in_transaction, m.last_in_transaction) for m in job.qm.open("units").browse()]
    assert found == [(True, False), (False, False), (False, False), (False, True)]


def test_each_transactional_queue_of_a_batch_in_steps_gets_one_first_and_one_last_message(
    job: SinkJob,
) -> None:
    names, unit = ("units", "others"), "app-load.0"
    for name in names:
        job.qm.create_queue(name, transactional=True)
    stages = [job.stage(0, f"0-{n}", numbers(2 * n, 2), names[n // 2], unit) for n in range(4)]
    assert job.step(0, *stages, limit=3) == Published(3, more=True)
    assert job.step(0, *stages, limit=2) == Published(2, more=True)
    assert job.step(0, *stages, limit=3) == Published(3)
    for name in names:
        found = [(m.first_in_transaction, m.last_in_transaction) for m in job.qm.open(name).browse()]
        assert found == [(True, False), (False, False), (False, False), (False, True)], name
