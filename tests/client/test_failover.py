"""Clients that find their primary by Sentinel, when another server takes its place. The test itself is the Sentinel."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import mqredis
from mqredis import BrokerUnavailable, Settings
from mqredis.drivers.net import pool
from tests.drivers.kit import until
from tests.matching.kit import Broker, Loop
from tests.support.relay import Compass
from tests.support.server import RedisServer, server_version

Start = Callable[..., RedisServer]
QUICK: dict[str, Any] = {"retry_pause_seconds": 0.005, "retry_pause_max_seconds": 0.05}


class Pair:
    """A primary and its replica, both with a log, and the address that Sentinel names."""

    def __init__(self, start: Start, sentinel: Compass) -> None:
        # With "everysec" a killed server may have left out of its log what it has acknowledged.
        log = {"appendfsync": "always", "repl-diskless-sync-delay": "0"}
        self.old = start(aof=True, tcp=True, options=log)
        follow = {"replicaof": f"127.0.0.1 {self.old.port}"}
        self.new = start(aof=True, tcp=True, options=follow)
        self.sentinel = sentinel
        sentinel.primary = self.old.port
        self.url = f"redis+sentinel://127.0.0.1:{sentinel.port}/shop/0"

    def replicated(self) -> None:
        """Return when the replica has everything."""
        with self.old.client() as client:
            client.set("sign", "1")
            until(lambda: client.execute_command("WAIT", 1, 100) == 1)

    def promote(self) -> None:
        """Make the replica a primary of its own, without telling clients."""
        with self.new.client() as client:
            client.execute_command("REPLICAOF", "NO", "ONE")

    def announce(self) -> None:
        """Sentinel names the new primary from now on."""
        self.sentinel.primary = self.new.port

    def bodies(self, server: RedisServer) -> list[str]:
        """What is in the queue on one of the two servers."""
        with mqredis.connect(server.tcp_url, manager="m") as qm, qm.open("q") as queue:
            return [str(message.text) for message in queue.browse()]

    def refused(self) -> int:
        """How many calls the old primary has refused for want of replicas."""
        with self.old.client() as client:
            return int(client.info("errorstats").get("errorstat_NOREPLICAS", {}).get("count", 0))


needs_refusals = pytest.mark.skipif(
    server_version() < (7,), reason="Redis 6.2 does not refuse scripts for want of replicas"
)


@pytest.fixture
def pair(start_server: Start) -> Iterator[Pair]:
    with Compass() as sentinel:
        yield Pair(start_server, sentinel)


@pytest.fixture(params=["sync", "async"])
def broker(pair: Pair, request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A queue manager with queue ``q`` on the primary, and clients of either interface."""
    loop = Loop() if request.param == "async" else None
    made = Broker(pair.url, "m", loop)
    made.qm.create_queue("q")
    pair.replicated()
    yield made
    made.close()
    if loop is not None:
        loop.close()


def test_an_idle_client_does_not_return_to_the_restarted_old_primary(
    pair: Pair, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A blocking client looks whether an idle connection is still open after one second: here at once.
    monkeypatch.setattr(pool, "PROBE_AFTER_SECONDS", 0.0)
    idle, busy = broker.handle(**QUICK), broker.handle(**QUICK)
    idle.send("before")
    pair.replicated()
    pair.old.kill()
    pair.promote()
    pair.announce()
    busy.send("during")
    pair.old.start()  # and it takes writes, until Sentinel makes it a replica
    idle.send("idle client")
    busy.send("busy client")
    assert pair.bodies(pair.new) == ["before", "during", "idle client", "busy client"]
    assert pair.bodies(pair.old) == ["before"]


def test_every_new_connection_asks_sentinel(
    pair: Pair, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "PROBE_AFTER_SECONDS", 0.0)
    one = broker.handle(max_connections=1, **QUICK)
    one.send("before")
    pair.replicated()
    pair.promote()
    pair.announce()
    with pair.old.client() as client:
        client.client_kill_filter(_type="normal", skipme=True)
    one.send("after")
    assert pair.bodies(pair.new) == ["before", "after"]
    assert pair.bodies(pair.old) == ["before"]


@needs_refusals
def test_a_primary_without_replicas_is_left_when_sentinel_names_another(pair: Pair, broker: Broker) -> None:
    queue = broker.handle(retry_seconds=60, **QUICK)
    queue.send("before")
    pair.replicated()
    with pair.old.client() as client:
        client.config_set("min-replicas-to-write", "1")
    pair.promote()
    with ThreadPoolExecutor(1) as pool:
        sending = pool.submit(queue.send, "after")
        until(lambda: sending.done() or pair.refused() > 1)
        pair.announce()
        sending.result(30)
    with pair.old.client() as client:
        client.config_set("min-replicas-to-write", "0")
    assert pair.bodies(pair.new) == ["before", "after"]
    assert pair.bodies(pair.old) == ["before"]


@needs_refusals
def test_a_primary_without_replicas_is_waited_for_no_longer_than_retry_seconds(
    pair: Pair, broker: Broker
) -> None:
    queue = broker.handle(retry_seconds=0.3, **QUICK)
    with pair.old.client() as client:
        client.config_set("min-replicas-to-write", "2")
        with pytest.raises(BrokerUnavailable, match="NOREPLICAS"):
            queue.send("never")
        assert pair.refused() > 1
        client.config_set("min-replicas-to-write", "0")
    queue.send("once")
    assert pair.bodies(pair.old) == ["once"]


def test_a_waiting_reader_leaves_a_replaced_primary_whose_connections_live(
    pair: Pair, broker: Broker
) -> None:
    reader = broker.handle(recheck_seconds=0.1, **QUICK)
    waiting = broker.beside(lambda: reader.receive(30))
    pair.replicated()
    pair.promote()
    pair.announce()
    with mqredis.connect(pair.new.tcp_url, manager="m") as qm, qm.open("q") as queue:
        queue.send("on the new primary")
    assert waiting.result().text == "on the new primary"


def test_a_reader_that_moved_with_its_primary_is_woken_there(pair: Pair, broker: Broker) -> None:
    """It subscribes at the new primary, where each message that is sent wakes it at once."""
    reader = broker.handle(recheck_seconds=0.1, **QUICK)
    waiting = broker.beside(lambda: reader.receive(30))
    pair.replicated()
    pair.promote()
    pair.announce()
    with pair.new.client() as client:
        until(lambda: client.pubsub_channels("*:wake:*"))
        with mqredis.connect(pair.new.tcp_url, manager="m", settings=Settings(**QUICK)) as qm:
            qm.open("q").send("wake")
    assert waiting.result().text == "wake"


@pytest.fixture
def others(pair: Pair) -> Iterator[list[Compass]]:
    """Two more Sentinels, which are asked first and keep naming the old primary."""
    with Compass() as first, Compass() as second:
        for each in (first, second):
            each.primary = pair.old.port
        ports = [each.port for each in (first, second, pair.sentinel)]
        pair.url = f"redis+sentinel://{','.join(f'127.0.0.1:{port}' for port in ports)}/shop/0"
        yield [first, second]


def test_the_sentinel_with_the_newest_configuration_is_believed(
    pair: Pair, others: list[Compass], broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a failover the Sentinel that carried it out is for a moment the only one that names the new primary."""
    monkeypatch.setattr(pool, "PROBE_AFTER_SECONDS", 0.0)
    idle = broker.handle(**QUICK)
    idle.send("before")
    pair.replicated()
    pair.old.kill()
    pair.promote()
    pair.announce()
    pair.sentinel.epoch = 2
    pair.old.start()
    idle.send("after")
    broker.handle(**QUICK).send("a new client")
    assert pair.bodies(pair.new) == ["before", "after", "a new client"]
    assert pair.bodies(pair.old) == ["before"]


def test_sentinels_that_do_not_tell_or_do_not_answer_are_no_obstacle(
    pair: Pair, others: list[Compass], broker: Broker
) -> None:
    pair.sentinel.epoch, others[1].silent = None, True
    queue = broker.handle(connect_timeout_seconds=100, reply_timeout_seconds=100, **QUICK)
    with ThreadPoolExecutor(1) as sending:
        sending.submit(queue.send, "sent").result(50)
    assert pair.bodies(pair.old) == ["sent"]
