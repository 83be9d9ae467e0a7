"""Deployments of several servers: a cluster whose slots move, Sentinel with a failover."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
import redis
from redis.crc import key_slot

from mqredis.drivers import deploy
from mqredis.drivers.sync import Driver
from mqredis.errors import BrokerRefused, BrokerUnavailable
from mqredis.steps import plain_command, procedure
from tests.drivers.kit import FAST, Connect, add, put, read, take
from tests.support.cluster import Cluster
from tests.support.server import RedisServer, free_port, server_version
from tests.support.until import until


def waiting(driver: Driver) -> bool:
    return len(driver._waiters.table.waits) == 1


pytestmark = pytest.mark.reliability
LONG_RETRY = FAST.model_copy(update={"retry_seconds": 20.0, "recheck_seconds": 60.0})


@pytest.fixture
def cluster(start_server: Callable[..., RedisServer]) -> Cluster:
    return Cluster(start_server)


def test_cluster_redirections_are_followed(cluster: Cluster, connect_either: Connect) -> None:
    managers = [next(f"m{n}" for n in range(100) if cluster.owner(f"m{n}") == node) for node in range(2)]
    for manager in managers:
        driver, other = (connect_either(cluster.url, LONG_RETRY, manager) for _ in range(2))
        keys, slot = driver.core.keys, key_slot(driver.core.keys.own[0].encode())
        assert driver.run(add(keys)) == "1"
        source = cluster.owner(manager)
        assert driver.backend.plan.node == ("127.0.0.1", cluster.nodes[source].port)
        cluster.move(slot, source, 1 - source, finish=False)
        assert driver.run(add(keys)) == "2"  # ASK
        cluster.finish(slot, 1 - source)
        assert driver.run(add(keys)) == "3"  # MOVED
        assert driver.backend.plan.node == ("127.0.0.1", cluster.nodes[1 - source].port)
        for _ in range(3):
            driver.run(take(keys))
        with ThreadPoolExecutor(1) as pool:
            future = pool.submit(driver.run, take(keys))
            until(partial(waiting, driver))
            other.run(put(keys))
            assert future.result(30) == "taken"


def test_plain_command_follows_its_slot_to_another_node(
    cluster: Cluster, connect: Callable[..., Driver]
) -> None:
    driver, source = connect(cluster.url, LONG_RETRY, "m"), cluster.owner("m")
    driver.run(add(driver.core.keys))
    cluster.move(cluster.slot("m"), source, 1 - source)
    found = driver.run(procedure(plain_command)("HGET", driver.core.keys.own[0], "incarnation"))
    assert found.decode() == driver.core.incarnation


def test_cluster_node_given_as_a_single_server_is_refused(
    cluster: Cluster, connect: Callable[..., Driver]
) -> None:
    wrong = cluster.nodes[1 - cluster.owner("m")]
    with pytest.raises(BrokerRefused, match=r"redis\+cluster"):
        connect(wrong.tcp_url, FAST, "m").open()


def test_driver_uses_a_given_cluster_client(cluster: Cluster, connect: Callable[..., Driver]) -> None:
    client = redis.RedisCluster(host="127.0.0.1", port=cluster.nodes[0].port)
    driver = connect(client, LONG_RETRY, "m")
    assert driver.run(add(driver.core.keys)) == "1"
    client.close()


@pytest.mark.skipif(server_version() < (7, 0), reason="a cluster names hosts before Redis 7")
def test_deploy_step_finds_the_nodes_of_a_cluster_that_names_no_hosts(cluster: Cluster) -> None:
    for node in cluster.nodes:
        with node.client() as client:
            client.config_set("cluster-preferred-endpoint-type", "unknown-endpoint")
    assert [each.server for each in deploy.load(cluster.url, FAST)] == [
        f"127.0.0.1:{node.port}" for node in cluster.nodes
    ]


class Sentinel:
    """A sentinel process with a quorum of one."""

    def __init__(self, primary: int, directory: Path) -> None:
        self.port = free_port()
        config = directory / "sentinel.conf"
        config.write_text(
            f"port {self.port}\ndir {directory}\nsentinel monitor shop 127.0.0.1 {primary} 1\n"
            "sentinel down-after-milliseconds shop 300\nsentinel failover-timeout shop 2000\n"
        )
        self.process = subprocess.Popen(
            ["redis-server", str(config), "--sentinel"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        until(lambda: self.client().sentinel_slaves("shop"))

    def client(self) -> redis.Redis:
        return redis.Redis(port=self.port)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def primary_with_sentinel(
    start_server: Callable[..., RedisServer], tmp_path: Path
) -> Iterator[tuple[RedisServer, Sentinel]]:
    primary = start_server(tcp=True, options={"repl-diskless-sync-delay": "0"})
    replica = start_server(tcp=True, options={"replicaof": f"127.0.0.1 {primary.port}"})
    until(lambda: replica.client().info("replication")["master_link_status"] == "up")
    sentinel = Sentinel(primary.port, tmp_path)
    yield primary, sentinel
    sentinel.close()


def test_waiting_call_survives_a_sentinel_failover(
    primary_with_sentinel: tuple[RedisServer, Sentinel], connect: Callable[..., Driver]
) -> None:
    primary, sentinel = primary_with_sentinel
    url = f"redis+sentinel://127.0.0.1:{sentinel.port}/shop/0"
    driver, other = connect(url, LONG_RETRY), connect(url, LONG_RETRY)
    client = redis.Redis(port=primary.port)
    keys = driver.core.keys
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(driver.run, take(keys))
        until(partial(waiting, driver))
        run_id = driver.core.run_id
        assert client.wait(1, 5000) == 1
        until(
            lambda: (
                client.info("replication")["slave0"]["offset"]
                == client.info("replication")["master_repl_offset"]
            )
        )
        primary.kill()
        assert other.run(put(keys)) == "put"
        assert future.result(30) == "taken"
    assert driver.core.run_id != run_id


def test_service_name_unknown_to_sentinel_is_an_error(
    primary_with_sentinel: tuple[RedisServer, Sentinel], connect: Callable[..., Driver]
) -> None:
    driver = connect(
        f"redis+sentinel://127.0.0.1:{primary_with_sentinel[1].port}/other",
        FAST.model_copy(update={"retry_seconds": 0.5}),
    )
    with pytest.raises(BrokerUnavailable, match="other"):
        driver.open()


def test_driver_uses_a_given_sentinel_client(
    primary_with_sentinel: tuple[RedisServer, Sentinel], connect: Callable[..., Driver]
) -> None:
    client = redis.Sentinel([("127.0.0.1", primary_with_sentinel[1].port)]).master_for("shop")
    driver = connect(client, LONG_RETRY)
    assert driver.run(add(driver.core.keys)) == "1"
    assert driver.run(read(driver.core.keys)) == "1"
