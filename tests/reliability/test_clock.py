"""Setting the clock of the server forward or back breaks no guarantee and delays no work (docs/decisions/time.md)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import mqredis
from mqredis import RetryPolicy, Settings
from tests.support.clock import ClockServer
from tests.support.preload import lacking

pytestmark = [
    pytest.mark.reliability,
    pytest.mark.skipif(bool(lacking()), reason=lacking()),
]
HOUR = 3600.0
# Seconds of a lease, a delay and a pause in these tests.
SHORT = 1.0
# Seconds in which due messages must arrive after a clock change: docs/decisions/time.md says about ten.
BOUND = 15.0


@pytest.fixture
def start_clock() -> Iterator[Callable[..., ClockServer]]:
    servers: list[ClockServer] = []

    def start(seconds: float = 0.0) -> ClockServer:
        servers.append(ClockServer(seconds))
        return servers[-1].start()

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def server(start_clock: Callable[..., ClockServer]) -> ClockServer:
    return start_clock()


def connect(server: ClockServer) -> mqredis.QueueManager:
    return mqredis.connect(server.url, settings=Settings(lease_seconds=SHORT))


def abandoned_lock(qm: mqredis.QueueManager) -> Any:
    qm.create_queue("locked")
    queue = qm.open("locked")
    queue.send("locked")
    return queue.lock(timeout=0)


def test_clock_of_the_server_can_be_shifted(server: ClockServer) -> None:
    with server.client() as raw:
        server.shift(-HOUR)
        assert raw.time()[0] - time.time() == pytest.approx(-HOUR, abs=5)


def test_selectors_compare_times_as_users_see_them_after_the_clock_is_set_back(server: ClockServer) -> None:
    with connect(server) as qm:
        qm.create_queue("orders")
        queue = qm.open("orders")
        server.shift(-HOUR)
        queue.send("sent")
        seen = round(queue.peek(0).arrived_at.timestamp() * 1000)
        assert seen / 1000 == pytest.approx(time.time() - HOUR, abs=60)
        for name in ("$arrived_at", "$sent_at", "JMSTimestamp"):
            assert [found.text for found in queue.browse(selector=f"{name} = {seen}")] == ["sent"]


@pytest.mark.parametrize("step", [-HOUR, -86_400.0, -5.0])
def test_due_messages_arrive_after_the_clock_is_set_back(server: ClockServer, step: float) -> None:
    with connect(server) as qm:
        lock = abandoned_lock(qm)
        qm.create_queue("delayed")
        qm.open("delayed").send("delayed", delay=SHORT)
        qm.create_queue("retried", retry=RetryPolicy(immediate=0, cycles=1, delay=SHORT))
        retried = qm.open("retried")
        retried.send("retried")
        retried.lock(timeout=0).abort()
        qm.create_queue("received", transactional=True)
        received = qm.open("received")
        with qm.transaction() as tx:
            received.send("received", transaction=tx)
        dead = qm.transaction()
        received.receive(0, transaction=dead)

        server.shift(step)

        for name in ("locked", "delayed", "retried"):
            assert qm.open(name).receive(timeout=BOUND).text == name
        with qm.transaction() as tx:
            assert received.receive(timeout=BOUND, transaction=tx).text == "received"
        with pytest.raises(mqredis.LockLost):
            lock.commit()


def test_peek_sees_a_lapsed_lease_after_the_clock_is_set_back(server: ClockServer) -> None:
    with connect(server) as qm:
        lock = abandoned_lock(qm)
        server.shift(-HOUR)
        assert qm.open("locked", mqredis.Access.PEEK).peek(timeout=BOUND).text == "locked"
        with pytest.raises(mqredis.LockLost):
            lock.commit()


def test_leases_and_delays_end_after_the_clock_is_set_forward_and_back(server: ClockServer) -> None:
    with connect(server) as qm:
        qm.create_queue("q")
        queue = qm.open("q")
        server.shift(HOUR)
        queue.send("after the step forward")
        server.shift(0)
        lock = queue.lock(timeout=0)
        assert queue.receive(timeout=BOUND).text == "after the step forward", "its lease has ended"
        with pytest.raises(mqredis.LockLost):
            lock.commit()
        queue.send("delayed", delay=SHORT)
        assert queue.receive(timeout=BOUND).text == "delayed"


def test_dedup_window_and_expiry_end_after_the_clock_is_set_back(server: ClockServer) -> None:
    with connect(server) as qm:
        qm.create_queue("q")
        queue = qm.open("q")
        queue.send("first", dedup_key="k", dedup_window=SHORT, time_to_be_received=SHORT)
        server.shift(-HOUR)
        with pytest.raises(mqredis.IoTimeout):
            queue.receive(timeout=SHORT * 3, selector="JMSType = 'never sent'")
        assert qm.queue_info("q").ready == 0, "it has expired"
        queue.send("second", dedup_key="k", dedup_window=SHORT)


def test_reported_times_follow_the_clock_of_the_server(server: ClockServer) -> None:
    with connect(server) as qm:
        qm.create_queue("q")
        queue = qm.open("q")
        queue.send("before")
        server.shift(-HOUR)
        queue.send("after")
        arrived = [queue.receive(timeout=0).arrived_at for _ in range(2)]
        servers = datetime.now(UTC) + timedelta(seconds=-HOUR)
        assert [(at - servers).total_seconds() for at in arrived] == pytest.approx([0.0, 0.0], abs=10)
        assert abs((qm.queue_info("q").created_at - servers).total_seconds()) < 10
        aside = qm.open("q;aside")
        queue.move(queue.send("moved").lookup_id, aside)
        moved = aside.receive(timeout=0).last_moved_at
        assert moved is not None
        assert abs((moved - servers).total_seconds()) < 10
        qm.create_queue("failing", retry=RetryPolicy(immediate=0, cycles=0))
        failing = qm.open("failing")
        failing.send("fails")
        failing.lock(timeout=0).abort()
        failed = qm.open("failing;poison").receive(timeout=0)
        assert failed.properties["failure_time"] == pytest.approx(servers.timestamp(), abs=10)


def test_listed_times_follow_the_clock_of_the_server(server: ClockServer) -> None:
    with mqredis.connect(server.url) as qm:
        qm.create_queue("q", trail=True)
        qm.create_queue("t", transactional=True)
        queue = qm.open("q")
        queue.send("before")
        server.shift(-HOUR)
        now = datetime.now(UTC) - timedelta(seconds=HOUR)
        sent = queue.send("after")
        delayed = queue.send("delayed", delay=60.0)
        queue.lock(timeout=0, lease=60)
        (lock,) = qm.locks("q")
        unit = qm.transaction()
        qm.open("t").send("x", transaction=unit)
        (transaction,), (session,), (held_back,) = qm.transactions(), qm.sessions(), qm.scheduled("q")
        assert not lock.overdue
        times = [lock.since, transaction.since, session.last_seen, qm.trail("q", sent.lookup_id)[0].time]
        stored = qm.message("q", delayed.lookup_id)
        assert qm.scheduled("q", since=now, until=now + timedelta(seconds=120)).items == (held_back,)
        assert not qm.scheduled("q", since=now + timedelta(seconds=120))
        times += [stored.message.arrived_at]
        assert [time and abs((time - now).total_seconds()) < 30 for time in times] == [True] * 5
        ends = [lock.lease_until, transaction.lease_until, held_back.due_at]
        assert [time and 0 < (time - now).total_seconds() < 120 for time in ends] == [True] * 3
        ages = {depth.name: depth.oldest_seconds for depth in qm.overview()}
        assert ages["q"] is not None
        assert ages["q"] < 30


def test_promoted_replica_with_a_slow_clock_serves_due_messages(
    start_clock: Callable[..., ClockServer],
) -> None:
    primary, replica = start_clock(), start_clock(-HOUR)
    with replica.client() as raw, primary.client() as first:
        raw.replicaof("127.0.0.1", primary.port)
        with connect(primary) as qm:
            lock = abandoned_lock(qm)
            queue = qm.open("locked")
            queue.send("delayed", delay=SHORT)
            while raw.info("replication")["master_link_status"] != "up":
                first.ping()
            assert first.wait(1, 10_000) == 1
            primary.kill()
            raw.replicaof("NO", "ONE")
            with connect(replica) as other:
                got = {other.open("locked").receive(timeout=BOUND).text for _ in range(2)}
            assert got == {"locked", "delayed"}
            del lock


def test_doctor_reports_a_changed_clock(server: ClockServer) -> None:
    with connect(server) as qm:
        qm.create_queue("q")
        assert "server.clock" not in {item.code for item in qm.doctor().advice}
        server.shift(HOUR)
        assert "server.clock" in {item.code for item in qm.doctor().advice}
        qm.open("q").send("x")
        server.shift(0)
        qm.open("q").send("y")
        report = qm.doctor()
        assert "manager.clock" in {item.code for item in report.advice}
        assert report.healthy
