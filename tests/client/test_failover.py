"""Failover of clients that find their primary through Sentinel. The tests play the Sentinel."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

import mqredis
from mqredis import BrokerUnavailable, Settings
from mqredis.drivers.net import pool
from tests.support.facade import Broker
from tests.support.relay import FakeSentinel
from tests.support.server import RedisServer, server_version
from tests.support.until import until

Start = Callable[..., RedisServer]
QUICK: dict[str, Any] = {"retry_pause_seconds": 0.005, "retry_pause_max_seconds": 0.05}


class Pair:
    """A primary and its replica, both with an append-only file, and the address that Sentinel reports."""

    def __init__(self, start: Start, sentinel: FakeSentinel) -> None:
        # With "everysec" the log of a killed server may lack acknowledged changes.
        log = {"appendfsync": "always", "repl-diskless-sync-delay": "0"}
        self.old = start(aof=True, tcp=True, options=log)
        follow = {"replicaof": f"127.0.0.1 {self.old.port}"}
        self.new = start(aof=True, tcp=True, options=follow)
        self.sentinel = sentinel
        sentinel.primary = self.old.port
        self.url = f"redis+sentinel://127.0.0.1:{sentinel.port}/shop/0"

    def replicated(self) -> None:
        """Wait until the replica has everything."""
        with self.old.client() as client:
            client.set("sign", "1")
            until(lambda: client.execute_command("WAIT", 1, 100) == 1)

    def promote(self) -> None:
        """Make the replica a primary; Sentinel does not report it yet."""
        with self.new.client() as client:
            client.execute_command("REPLICAOF", "NO", "ONE")

    def announce(self) -> None:
        """Let Sentinel report the new primary."""
        self.sentinel.primary = self.new.port

    def bodies(self, server: RedisServer) -> list[str]:
        """Bodies of the messages in the queue on one of the two servers."""
        with mqredis.connect(server.tcp_url, manager="m") as qm, qm.open("q") as queue:
            return [str(message.text) for message in queue.browse()]

    def refused(self) -> int:
        """Number of calls that the old primary has refused because it has too few replicas."""
        with self.old.client() as client:
            return int(client.info("errorstats").get("errorstat_NOREPLICAS", {}).get("count", 0))


needs_refusals = pytest.mark.skipif(
    server_version() < (7,), reason="Redis 6.2 does not refuse scripts when replicas are missing"
)


@pytest.fixture
def pair(start_server: Start) -> Iterator[Pair]:
    with FakeSentinel() as sentinel:
        yield Pair(start_server, sentinel)


@pytest.fixture
def broker(pair: Pair, connect_either: Callable[..., Any]) -> Iterator[Broker]:
    """A queue manager with queue ``q`` on the primary, and clients of either interface."""
    made = Broker(partial(connect_either, pair.url), "m")
    made.qm.create_queue("q")
    pair.replicated()
    yield made
    made.close()


def test_idle_client_does_not_return_to_the_restarted_old_primary(
    pair: Pair, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A blocking client tests a connection that was idle for one second; here it tests at once.
    monkeypatch.setattr(pool, "PROBE_AFTER_SECONDS", 0.0)
    idle, busy = broker.handle(**QUICK), broker.handle(**QUICK)
    idle.send("before")
    pair.replicated()
    pair.old.kill()
    pair.promote()
    pair.announce()
    busy.send("during")
    pair.old.start()  # it accepts writes until Sentinel makes it a replica
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
def test_client_leaves_a_primary_without_replicas_when_sentinel_reports_another(
    pair: Pair, broker: Broker
) -> None:
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
def test_call_to_a_primary_without_replicas_fails_after_retry_seconds(pair: Pair, broker: Broker) -> None:
    queue = broker.handle(retry_seconds=0.3, **QUICK)
    with pair.old.client() as client:
        client.config_set("min-replicas-to-write", "2")
        with pytest.raises(BrokerUnavailable, match="NOREPLICAS"):
            queue.send("never")
        assert pair.refused() > 1
        client.config_set("min-replicas-to-write", "0")
    queue.send("once")
    assert pair.bodies(pair.old) == ["once"]


def test_waiting_reader_moves_to_the_new_primary_while_old_connections_live(
    pair: Pair, broker: Broker
) -> None:
    reader = broker.handle(recheck_seconds=0.1, **QUICK)
    waiting = broker.wait(lambda: reader.receive(30))
    pair.replicated()
    pair.promote()
    pair.announce()
    with mqredis.connect(pair.new.tcp_url, manager="m") as qm, qm.open("q") as queue:
        queue.send("on the new primary")
    assert waiting.result().text == "on the new primary"


def test_reader_that_moved_to_the_new_primary_is_woken_there(pair: Pair, broker: Broker) -> None:
    """It subscribes at the new primary, where each send wakes it at once."""
    reader = broker.handle(recheck_seconds=0.1, **QUICK)
    waiting = broker.wait(lambda: reader.receive(30))
    pair.replicated()
    pair.promote()
    pair.announce()
    with pair.new.client() as client:
        until(lambda: client.pubsub_channels("*:wake:*"))
        with mqredis.connect(pair.new.tcp_url, manager="m", settings=Settings(**QUICK)) as qm:
            qm.open("q").send("wake")
    assert waiting.result().text == "wake"


@pytest.fixture
def others(pair: Pair) -> Iterator[list[FakeSentinel]]:
    """Two more Sentinels, queried first, which keep reporting the old primary."""
    with FakeSentinel() as first, FakeSentinel() as second:
        for each in (first, second):
            each.primary = pair.old.port
        ports = [each.port for each in (first, second, pair.sentinel)]
        pair.url = f"redis+sentinel://{','.join(f'127.0.0.1:{port}' for port in ports)}/shop/0"
        yield [first, second]


def test_client_follows_the_sentinel_with_the_newest_epoch(
    pair: Pair, others: list[FakeSentinel], broker: Broker, monkeypatch: pytest.MonkeyPatch
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


def test_sentinels_without_an_epoch_or_a_reply_do_not_block_a_call(
    pair: Pair, others: list[FakeSentinel], broker: Broker
) -> None:
    pair.sentinel.epoch, others[1].silent = None, True
    queue = broker.handle(connect_timeout_seconds=100, reply_timeout_seconds=100, **QUICK)
    with ThreadPoolExecutor(1) as sending:
        sending.submit(queue.send, "sent").result(50)
    assert pair.bodies(pair.old) == ["sent"]
