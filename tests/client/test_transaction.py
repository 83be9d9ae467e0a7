"""Calls on a transaction that has ended."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from typing import Any

import pytest

import mqredis
from tests.support.backend import Backend
from tests.support.facade import Pending
from tests.support.server import RedisServer
from tests.support.until import until


@pytest.mark.parametrize("used", [True, False], ids=["used", "empty"])
@pytest.mark.parametrize("end, what", [("commit", "committed"), ("abort", "aborted")])
def test_call_on_an_ended_transaction_names_how_it_ended(
    backend: Backend, used: bool, end: str, what: str
) -> None:
    with mqredis.connect(backend.client(), settings=mqredis.Settings(allow_volatile=True)) as qm:
        qm.create_queue("t", transactional=True)
        unit = qm.transaction()
        if used:
            qm.open("t").send(b"A", transaction=unit)
        unit.prepare()
        getattr(unit, end)()
        for more in (unit.prepare, unit.commit, unit.abort, unit.extend):
            with pytest.raises(mqredis.TransactionSequence, match=f"is {what} already"):
                more()


def test_chosen_id_that_is_in_use_is_named(backend: Backend) -> None:
    with mqredis.connect(backend.client(), settings=mqredis.Settings(allow_volatile=True)) as qm:
        unit = qm.transaction(id="pay 7")
        with pytest.raises(mqredis.TransactionSequence, match="the id 'pay 7' is open"):
            qm.transaction(id="pay 7")
        unit.commit()
        qm.transaction(id="pay 7").commit()


def test_lock_in_a_transaction_ends_with_the_lease_of_the_transaction(backend: Backend) -> None:
    with mqredis.connect(backend.client(), settings=mqredis.Settings(allow_volatile=True)) as qm:
        qm.create_queue("t", transactional=True)
        queue = qm.open("t")
        with qm.transaction() as sending:
            queue.send_many([b"A", b"B"], transaction=sending)
        with qm.transaction(lease=60) as unit:
            locks = [queue.lock(0, transaction=unit) for _ in range(2)]
            assert {lock.expires_at for lock in locks} == {unit.unit.lapses}
            for extend in (unit.extend, locks[1].extend):
                extend(90)
                assert {lock.expires_at for lock in locks} == {unit.unit.lapses}


def test_id_of_a_lapsed_transaction_can_be_used_again(backend: Backend) -> None:
    settings = mqredis.Settings(allow_volatile=True, test_clock=True)
    with mqredis.connect(backend.client(), settings=settings) as qm:
        qm.create_queue("t", transactional=True)
        lapsed = qm.transaction(id="day 1", lease=10)
        qm.open("t").send_many([b"A", b"B", b"C"], transaction=lapsed)
        qm.advance_clock(11)
        with qm.transaction(id="day 1"):
            pass
        assert qm.doctor().findings == ()
        assert qm.queue_info("t").messages == 0


def test_maintain_forgets_all_lapsed_transactions_in_one_scan(backend: Backend) -> None:
    raw: Any = backend.client()
    with mqredis.connect(raw, manager="m", settings=mqredis.Settings(allow_volatile=True)) as qm:
        qm.maintain()
        # Deadline, fence, operations, session, beginning.
        lapsed = {f"lapsed{n}": "1 1 0 1 1" for n in range(1000)}
        still_open = {f"open{n}": f"{2**52} 1 0 1 1" for n in range(500)}
        raw.hset("mq:{m}:txs", mapping=lapsed | still_open)
        calls = qm.maintain()
        assert {name.decode() for name in raw.hkeys("mq:{m}:txs")} == set(still_open)
        assert calls < 10  # and not one for every few of them, each of which looks at all


def test_new_sessions_forget_all_lapsed_transactions_a_few_at_a_time(backend: Backend) -> None:
    raw: Any = backend.client()
    settings = mqredis.Settings(allow_volatile=True)
    with mqredis.connect(raw, manager="m", settings=settings) as qm:
        qm.maintain()
        raw.hset("mq:{m}:txs", mapping={f"lapsed{n}": "1 1 0 1 1" for n in range(1000)})
        for _ in range(60):
            with mqredis.connect(raw, manager="m", settings=settings) as client:
                client.queues()
        assert raw.hlen("mq:{m}:txs") == 0


def _receive_at_cursor(queue: mqredis.Queue, unit: mqredis.Transaction) -> object:
    return queue.cursor().receive(60, transaction=unit)


def _receive_group(queue: mqredis.Queue, unit: mqredis.Transaction) -> object:
    return queue.receive(60, transaction=unit, grouping=mqredis.Grouping.LOGICAL_ORDER)


@pytest.mark.parametrize(
    "read",
    [
        lambda queue, unit: queue.receive(60, transaction=unit),
        lambda queue, unit: queue.receive(60, transaction=unit, match=mqredis.Match(correlation_id="c")),
        _receive_at_cursor,
        _receive_group,
    ],
    ids=["receive", "match", "cursor", "group"],
)
def test_wait_ends_with_the_lease_of_its_transaction(
    backend: Backend, read: Callable[[mqredis.Queue, mqredis.Transaction], object]
) -> None:
    with mqredis.connect(backend.client(), settings=mqredis.Settings(allow_volatile=True)) as qm:
        qm.create_queue("t", transactional=True)
        qm.create_queue("empty", transactional=True)
        unit = qm.transaction(lease=0.3)
        qm.open("t").send(b"A", transaction=unit)
        begin = time.monotonic()
        with pytest.raises(mqredis.TransactionSequence):
            read(qm.open("empty"), unit)
        assert time.monotonic() - begin < 30


def _outlive(qm: mqredis.QueueManager, then: Callable[[mqredis.Queue, mqredis.Transaction], object]) -> None:
    """A block that goes on after the lease of its transaction."""
    queue = qm.open("t")
    with qm.transaction(lease=5) as unit:
        queue.send(b"A", transaction=unit)
        qm.advance_clock(6)
        then(queue, unit)


def _fail(queue: mqredis.Queue, unit: mqredis.Transaction) -> None:
    raise ZeroDivisionError


def test_block_that_was_told_of_the_end_of_its_transaction_logs_nothing(
    backend: Backend, caplog: pytest.LogCaptureFixture
) -> None:
    settings = mqredis.Settings(allow_volatile=True, test_clock=True)
    with mqredis.connect(backend.client(), settings=settings) as qm:
        qm.create_queue("t", transactional=True)
        with pytest.raises(mqredis.TransactionSequence):
            _outlive(qm, lambda queue, unit: queue.send(b"B", transaction=unit))
        assert caplog.messages == []
        with pytest.raises(ZeroDivisionError):
            _outlive(qm, _fail)
        assert "could not be aborted" in caplog.text


def test_abort_notifies_readers_in_the_order_of_delivery(backend: Backend) -> None:
    """Messages with a time to live are given back after plain ones."""
    settings = mqredis.Settings(allow_volatile=True, recheck_seconds=60)
    with (
        mqredis.connect(backend.client(), settings=settings) as qm,
        mqredis.connect(backend.client(), settings=settings) as other,
    ):
        qm.create_queue("t", transactional=True)
        queue = qm.open("t")
        with qm.transaction() as unit:
            queue.send(b"first", transaction=unit, time_to_be_received=600)
            queue.send(b"second", transaction=unit)
        unit = qm.transaction()
        assert [m.body for m in queue.receive_many(2, 0, transaction=unit)] == [b"first", b"second"]
        reader = Pending(lambda: other.open("t").receive(60))
        until(lambda: qm.queue_info("t").waiters == 1)
        unit.abort()
        assert reader.result().body == b"first"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_forked_processes_give_their_transactions_and_browsers_names_of_their_own(
    redis_server: RedisServer,
) -> None:
    """A child has no session before its first call, and its counts begin with those of its parent."""
    with mqredis.connect(redis_server.url) as qm:
        qm.create_queue("q")
        queue = qm.open("q")
        reading, writing = os.pipe()
        for make in (lambda: qm.transaction().id, lambda: queue.browser()._browsing.name):
            for _ in range(2):
                child = os.fork()
                if child == 0:
                    try:
                        os.write(writing, f"{make()}\n".encode())
                    finally:
                        os._exit(0)
                os.waitpid(child, 0)
        names = os.read(reading, 1000).decode().split()
        os.close(reading)
        os.close(writing)
        assert len({*names, qm.transaction().id, queue.browser()._browsing.name}) == 6
        assert all(re.fullmatch(r"t?[1-9]\d*[.-]\d+", name) for name in names)
