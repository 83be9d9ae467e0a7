"""Statistics of queues over time."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

import mqredis
from mqredis import InvalidArgument, Outgoing, QueueNotFound, RetryPolicy, Settings
from mqredis.codec.history import KEPT, History
from mqredis.commands import history as commands
from mqredis.keys import ManagerKeys
from mqredis.models import QueueHistory
from mqredis.steps import perform
from tests.property.dump import raw as stored
from tests.support.backend import Backend
from tests.support.buckets import BUCKET, begin_bucket

connections = pytest.mark.parametrize("connect", ["real-sync", "fake-async"], indirect=True)
FIGURES = ("messages_in", "messages_out", "failed", "retried")


def figures(history: QueueHistory) -> list[tuple[int, ...]]:
    return [tuple(getattr(period, name) for name in FIGURES) for period in history]


@connections
def test_each_period_has_the_counts_of_its_bucket(qm: Any) -> None:
    begin_bucket(qm)
    qm.create_queue("q", retry=RetryPolicy(immediate=1, cycles=0))
    queue = qm.open("q")
    queue.send_many([b"x"] * 5)
    queue.receive(0)
    qm.advance_clock(BUCKET)
    queue.lock(0).abort()
    qm.advance_clock(3 * BUCKET)
    queue.lock(0).abort()
    queue.lock(0).reject("no")
    history = qm.history("q")
    assert (history.name, history.step, len(history)) == ("q", 300, 5)
    assert figures(history) == [(5, 1, 0, 0), (0, 0, 0, 1), (0, 0, 0, 0), (0, 0, 0, 0), (0, 2, 2, 0)]
    assert [period.messages for period in history] == [4, 4, 4, 4, 2]
    assert [period.complete for period in history] == [True] * 4 + [False]
    ages = [period.oldest_seconds for period in history]
    assert [age // 10 for age in ages] == [29, 59, 89, 119, 120]  # at the end of a period, and now
    starts = [period.start for period in history]
    assert {after - before for before, after in pairwise(starts)} == {timedelta(minutes=5)}


@connections
def test_periods_of_several_buckets(qm: Any) -> None:
    begin_bucket(qm)
    qm.create_queue("q")
    queue = qm.open("q")
    for _ in range(7):
        queue.send_many([b"x"] * 3)
        queue.receive(0)
        qm.advance_clock(BUCKET)
    history = qm.history("q", step=900)
    assert history.step == 900
    assert all(period.start.timestamp() % 900 == 0 for period in history)
    assert sum(period.messages_in for period in history) == 21
    assert history.periods[-1].messages == 14
    assert max(period.messages_in for period in history) == 9
    recent = qm.history("q", since=timedelta(minutes=9))
    assert figures(recent) == [(3, 1, 0, 0), (3, 1, 0, 0), (0, 0, 0, 0)]
    assert [period.messages for period in recent] == [12, 14, 14]
    assert qm.history("q", since=recent.periods[1].start).periods == recent.periods[1:]
    assert len(qm.history("q", since=datetime(2100, 1, 1, tzinfo=UTC))) == 0


@connections
def test_history_covers_one_day(qm: Any) -> None:
    begin_bucket(qm)
    qm.create_queue("q")
    queue = qm.open("q")
    queue.send(b"x")
    qm.advance_clock(KEPT * BUCKET)
    assert len(qm.history("q")) == KEPT + 1
    queue.send(b"x")
    assert figures(qm.history("q"))[0] == (1, 0, 0, 0)
    qm.advance_clock(BUCKET)
    queue.send(b"x")
    history = qm.history("q")
    assert len(history) == KEPT + 1
    assert [counts[0] for counts in figures(history)] == [0] * (KEPT - 1) + [1, 1]
    assert history.periods[0].messages == 1
    assert history.periods[0].oldest_seconds // 10 == 59
    qm.advance_clock(40 * KEPT * BUCKET)
    queue.receive(0)
    assert figures(qm.history("q")) == [(0, 0, 0, 0)] * KEPT + [(0, 1, 0, 0)]


@connections
def test_expired_leases_count_when_handled_and_subqueues_have_their_own_history(qm: Any) -> None:
    begin_bucket(qm)
    policy = RetryPolicy(immediate=0, cycles=1, delay=10, final="poison")
    qm.create_queue("q", retry=policy, journaling=True)
    queue = qm.open("q")
    queue.send_many([b"x"] * 2)
    queue.receive(0)
    queue.lock(0).abort()
    qm.advance_clock(BUCKET)
    queue.lock(0).abort()
    qm.advance_clock(BUCKET)
    queue.send(b"x")
    queue.lock(0, lease=20)
    qm.advance_clock(BUCKET)
    qm.maintain()
    found = qm.histories(["q", "q;poison", "q;retry", "q;journal", "none"])
    assert list(found) == ["q", "q;poison", "q;retry", "q;journal"]
    assert figures(found["q"]) == [(2, 2, 0, 1), (1, 1, 1, 0), (1, 0, 0, 0), (0, 1, 0, 1)]
    assert figures(found["q;journal"]) == [(1, 0, 0, 0), (0, 0, 0, 0), (0, 0, 0, 0), (0, 0, 0, 0)]
    assert [counts[:2] for counts in figures(found["q;poison"])][-3:] == [(1, 0), (0, 0), (0, 0)]
    assert [counts[:2] for counts in figures(found["q;retry"])] == [(1, 0), (0, 1), (0, 0), (1, 0)]


@connections
def test_aborted_send_is_subtracted_from_messages_in(qm: Any) -> None:
    begin_bucket(qm)
    qm.create_queue("q", transactional=True)
    queue = qm.open("q")
    unit = qm.transaction(lease=1000)
    queue.send(b"x", transaction=unit)
    qm.advance_clock(BUCKET)
    unit.abort()
    assert figures(qm.history("q")) == [(1, 0, 0, 0), (-1, 0, 0, 0)]
    qm.advance_clock(BUCKET)
    with qm.transaction() as unit:
        queue.send(b"x", transaction=unit)
    with qm.transaction() as unit:
        queue.receive(0, transaction=unit)
        unit.abort()
    assert figures(qm.history("q")) == [(1, 0, 0, 0), (-1, 0, 0, 0), (1, 0, 0, 1)]


@connections
def test_queue_created_again_has_a_new_history(qm: Any) -> None:
    begin_bucket(qm)
    qm.create_queue("q")
    qm.open("q").send_many([b"x"] * 3)
    qm.advance_clock(BUCKET)
    qm.delete_queue("q")
    with pytest.raises(QueueNotFound, match="there is no queue 'q'"):
        qm.history("q")
    qm.create_queue("q")
    assert figures(qm.history("q")) == [(0, 0, 0, 0)]
    assert len(qm.history("system$;deadletter")) == 0


@connections
def test_invalid_arguments_are_refused(qm: Any) -> None:
    qm.create_queue("q")
    for step in (0, 299, 450, 86_700, "300", 300.0, True):
        with pytest.raises(InvalidArgument, match="step must be"):
            qm.history("q", step=step)
    for since in (datetime(2026, 1, 1), "yesterday", 3600, timedelta(0), timedelta(-1)):  # noqa: DTZ001 - it is refused
        with pytest.raises(InvalidArgument, match="since must be"):
            qm.history("q", since=since)
    with pytest.raises(InvalidArgument, match="queues must be"):
        qm.histories("q")
    assert qm.histories([]) == {}


@connections
def test_histories_of_300_queues(qm: Any) -> None:
    names = [f"q{n}" for n in range(300)]
    for name in names:
        qm.create_queue(name)
    qm.open("q299").send(b"x")
    found = qm.histories(names, since=timedelta(hours=1))
    assert list(found) == names
    assert found["q299"].periods[-1].messages == 1


@connections
def test_call_for_histories_covers_fewer_queues_with_messages_of_many_priorities(qm: Any) -> None:
    """In each of them it looks for the oldest message of every priority."""
    qm.create_queue("q")
    names = ["q"] * commands.QUEUES

    def covered() -> int:
        return len(qm.run(perform(commands.history(qm.context.keys, names, 12))).rows)

    assert covered() == len(names)
    qm.open("q").send_many([Outgoing(body=b"x", priority=n) for n in range(8)])
    assert 0 < covered() < len(names)


@pytest.fixture
def raw(backend: Backend) -> Any:
    client = backend.client()
    yield client
    client.close()


@pytest.fixture
def manager(backend: Backend) -> Any:
    with mqredis.connect(backend.client(), manager="past", settings=Settings(test_clock=True)) as qm:
        begin_bucket(qm)
        yield qm


FIELD = ManagerKeys("past").queue("q")[0], "statistics"


def test_reading_a_history_writes_nothing(manager: Any, backend: Backend, raw: Any) -> None:
    manager.create_queue("q")
    manager.open("q").send(b"x")
    settings = Settings(read_only=True, test_clock=True)
    with mqredis.connect(backend.client(), manager="past", settings=settings) as reader:
        manager.advance_clock(2 * BUCKET)
        before = stored(raw)
        assert figures(reader.history("q")) == [(1, 0, 0, 0), (0, 0, 0, 0), (0, 0, 0, 0)]
        assert not reader.statistics("q").overdue
        assert not reader.queue_info("q").overdue
        assert not reader.overview("q")[0].overdue
        assert stored(raw) == before


def test_queue_of_the_system_that_is_not_there_yet_is_not_found_by_a_reader(
    manager: Any, backend: Backend, raw: Any
) -> None:
    before = stored(raw)
    with mqredis.connect(backend.client(), manager="past", settings=Settings(read_only=True)) as reader:
        for read in (reader.queue_info, reader.statistics):
            with pytest.raises(mqredis.QueueNotFound):
                read(mqredis.DEAD_LETTER)
    assert stored(raw) == before


def test_history_takes_at_most_8_kb(manager: Any, raw: Any) -> None:
    manager.create_queue("q")
    queue = manager.open("q")
    queue.send(b"x")
    busy = History.parse(raw.hget(*FIELD).decode())
    raw.hset(*FIELD, f"{busy.bucket} 0 0 0 0 " + "-zzzzzzz,zzzzzzz,zzzzzz,zzzzzz,zzzzzz;" * KEPT)
    for _ in range(3):
        manager.advance_clock(BUCKET)
        queue.send(b"x")
        assert raw.hstrlen(*FIELD) <= 8192
    kept = History.parse(raw.hget(*FIELD).decode())
    assert KEPT * 0.7 < len(kept.items) < KEPT
    assert [item.counted.came for item in kept.items[-3:]] == [1, 1, 1]


def test_history_of_a_busy_queue_keeps_a_whole_day(manager: Any, raw: Any) -> None:
    manager.create_queue("q")
    queue = manager.open("q")
    bucket = History.parse(raw.hget(*FIELD).decode()).bucket
    # In 5 minutes 200,000 messages a second, of which 5,000 fail and 5,000 come back; the oldest is two weeks old.
    raw.hset(*FIELD, f"{bucket} 0 0 0 0 " + "zq0hs,zq0hs,w5c0,w5c0,px00;" * KEPT)
    manager.advance_clock(BUCKET)
    queue.send(b"x")
    assert len(History.parse(raw.hget(*FIELD).decode()).items) == KEPT
    assert raw.hstrlen(*FIELD) <= 8192


@pytest.mark.parametrize("text", [None, "once upon a time", "1 2 3 4"])
def test_queue_without_a_history_starts_one(manager: Any, raw: Any, text: str | None) -> None:
    manager.create_queue("q")
    queue = manager.open("q")
    queue.send_many([b"x"] * 9)
    raw.hset(*FIELD, text) if text else raw.hdel(*FIELD)
    header = raw.hget("mq:{past}:meta", FIELD[0]).split(b" ")
    header[4] = b"0"  # the next call looks at the timers
    raw.hset("mq:{past}:meta", FIELD[0], b" ".join(header))
    if text is None:
        assert len(manager.history("q")) == 0
    queue.send(b"x")
    manager.advance_clock(BUCKET)
    queue.receive(0)
    assert figures(manager.history("q")) == [(1, 0, 0, 0), (0, 1, 0, 0)]


@pytest.mark.parametrize("steps", [80])
def test_history_agrees_with_the_counters_in_random_runs(manager: Any, steps: int) -> None:
    """In a random run the history of each bucket equals the change of the counters in it."""
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    rng = random.Random(seed)
    policy = RetryPolicy(immediate=1, cycles=1, delay=40, final=rng.choice(("poison", "reject", "drop")))
    manager.create_queue("q", retry=policy, journaling=True)
    manager.create_queue("tx", transactional=True)
    paths = ("q", "q;retry", "q;poison", "q;journal", "tx")
    queue, tx = manager.open("q"), manager.open("tx")
    wanted: dict[str, dict[int, Counter[str]]] = {path: {} for path in paths}
    totals = {path: Counter(dict.fromkeys(FIGURES, 0)) for path in paths}
    held: list[Any] = []
    units: list[Any] = []

    def lock() -> None:
        held.extend(queue.lock_many(rng.randrange(1, 4), 0, lease=rng.choice((60, 400))))

    def end() -> None:
        chosen = held.pop(rng.randrange(len(held)))
        getattr(chosen, rng.choice(("commit", "abort", "abort", "reject")))()

    def unit() -> None:
        begun = manager.transaction(lease=rng.choice((60, 700)))
        tx.send_many([b"x"] * 3, transaction=begun)
        tx.receive_many(2, 0, transaction=begun)
        units.append(begun)

    def close() -> None:
        getattr(units.pop(), rng.choice(("commit", "abort")))()

    def send() -> None:
        queue.send_many(
            [Outgoing(body=b"x", time_to_be_received=rng.choice((None, 500)))] * rng.randrange(1, 6)
        )

    actions = (
        send,
        send,
        lock,
        lock,
        end,
        unit,
        close,
        lambda: queue.receive(0),
        queue.purge,
        manager.maintain,
    )
    bucket = 0
    for _ in range(steps):
        bucket += (by := rng.choice((0, 0, 0, 1, 1, 2, 5)))
        manager.advance_clock(by * BUCKET)
        with suppress(mqredis.MqError, IndexError, ValueError):
            rng.choice(actions)()
        for path in paths:
            try:
                told = manager.statistics(path)
            except QueueNotFound:
                continue
            failed = told.poisoned + told.rejected + told.dropped
            now = Counter(
                dict(zip(FIGURES, (told.total_in, told.total_out, failed, told.retried), strict=True))
            )
            change = wanted[path].setdefault(bucket, Counter())
            for name in FIGURES:
                change[name] += now[name] - totals[path][name]
            totals[path] = now
    for path, history in manager.histories(paths).items():
        first = bucket + 1 - len(history)
        for number, period in enumerate(history, first):
            changes = wanted[path].get(number, Counter())
            assert {name: getattr(period, name) for name in FIGURES} == {n: changes[n] for n in FIGURES}, (
                number
            )
        if len(history) <= KEPT:
            for name in FIGURES:
                assert sum(getattr(period, name) for period in history) == totals[path][name]
        assert history.periods[-1].messages == manager.statistics(path).messages
    assert not [finding for finding in manager.doctor().findings if finding.severity != "notice"]
