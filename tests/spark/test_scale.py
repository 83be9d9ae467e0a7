"""Several processes and servers: Spark Connect, separate executors, a Redis Cluster."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyspark
import pytest
from redis.crc import key_slot

import mqredis
from mqredis.keys import ManagerKeys
from mqredis.spark.pipelines import command
from tests.spark.conftest import CHECKOUT, environment
from tests.spark.test_stream import Collected, drain, stream
from tests.support.server import RedisServer
from tests.support.until import until

pytestmark = pytest.mark.timeout(600)

NODES = 3
SLOTS = 16384


@pytest.mark.spark_sessions
@pytest.mark.parametrize("kind", ["connect", "local-cluster[2,1,1024]"])
def test_spark_connect_and_separate_executors(kind, qm, options, fill, tmp_path):
    """Source and sink where the driver's Python is not Spark's, and where executors share nothing with it."""
    fill("in", 1000)
    for name in ("out", "more"):
        qm.create_queue(name)
    plan = {"kind": kind, "folder": str(tmp_path), "options": options}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    with (tmp_path / "log").open("wb") as log:
        done = subprocess.run(
            [sys.executable, "-m", "tests.spark.elsewhere", str(tmp_path / "plan.json")],
            env=environment(), cwd=CHECKOUT, stdout=log, stderr=log, timeout=300, check=False,
        )  # fmt: skip
    assert done.returncode == 0, (tmp_path / "log").read_text()[-4000:]
    found: dict[str, Any] = json.loads((tmp_path / "found.json").read_text())
    assert found["read"] == 1000
    if kind != "connect":  # a client of Connect cannot ask a query that has ended
        assert found["batches"] == [400, 400, 200]
    assert "has no queue 'none'" in found["error"]
    assert (".connect." in found["kind"]) == (kind == "connect")
    assert sorted(int(m.text) for m in qm.open("out").browse()) == list(range(1000))
    assert qm.queue_info("more").messages == 100
    assert (qm.queue_info("in").messages, qm.queue_info("in").locked) == (0, 0)


@pytest.mark.spark_sessions
def test_pipelines_through_spark_submit(qm, options, fill, tmp_path):
    """Archive and replay through spark-submit."""
    fill(count=30, journaling=True).receive_many(20, 0)
    qm.create_queue("again")
    home, script = Path(pyspark.__file__).parent, Path(command.__file__)
    where = ["--url", options["url"], "--manager", qm.name]
    lake = str(tmp_path / "lake")
    for arguments, found in [
        (["archive", lake, *where], {"archived": 20}),
        (["replay", lake, "once", "--queue", "again", *where], {"sent": 20}),
    ]:
        done = subprocess.run(
            [str(home / "bin" / "spark-submit"), "--master", "local[1]", str(script), *arguments],
            env={**environment(), "SPARK_HOME": str(home)}, cwd=tmp_path, capture_output=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-4000:].decode()
        assert json.loads(done.stdout.splitlines()[-1]) == found
    assert sorted(int(m.text) for m in qm.open("again").browse()) == list(range(20))


class Cluster:
    """Three primaries, each with a third of the slots."""

    def __init__(self, start: Callable[..., RedisServer]) -> None:
        options = {"cluster-enabled": "yes", "cluster-node-timeout": "15000"}
        self.nodes = [start(tcp=True, options=options) for _ in range(NODES)]
        first, bounds = self.nodes[0].client(), [n * SLOTS // NODES for n in range(NODES + 1)]
        for n, node in enumerate(self.nodes):
            node.client().execute_command("CLUSTER", "ADDSLOTSRANGE", bounds[n], bounds[n + 1] - 1)
            first.execute_command("CLUSTER", "MEET", "127.0.0.1", node.port)
        until(lambda: all(node.client().cluster("info")["cluster_state"] == "ok" for node in self.nodes))
        until(lambda: all(len(n.client().execute_command("CLUSTER", "SLOTS")) == NODES for n in self.nodes))

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)


def node_of(manager: str) -> int:
    return int(key_slot(ManagerKeys(manager).own[0].encode()) * NODES // SLOTS)


@pytest.mark.spark
def test_managers_of_a_cluster_are_read_in_parallel(spark, start_server, tmp_path):
    """Two queue managers on each of three nodes: one batch read, one stream, each message once."""
    cluster = Cluster(start_server)
    names = [f"c{n}" for n in range(200)]
    managers = [name for node in range(NODES) for name in [n for n in names if node_of(n) == node][:2]]
    assert Counter(map(node_of, managers)) == {0: 2, 1: 2, 2: 2}
    clients = [mqredis.connect(cluster.url, manager=name) for name in managers]
    try:
        for client in clients:
            client.create_queue("orders")
            client.open("orders").send_many([f"{client.name} {n}" for n in range(200)])
        options = {"url": cluster.url, "queueManagers": ",".join(managers), "queue": "orders"}
        frame = spark.read.format("mqredis").options(**options).load()
        assert frame.rdd.getNumPartitions() == len(managers)
        counts = {row.manager: row["count"] for row in frame.groupBy("manager").count().collect()}
        assert counts == dict.fromkeys(managers, 200)
        sink = Collected()
        drain(stream(spark, options, maxMessagesPerTrigger="600"), tmp_path, sink)
        assert [len(batch) for batch in sink.batches.values()] == [600, 600]
        assert sorted(sink.all) == sorted(f"{name} {n}" for name in managers for n in range(200))
        assert [client.queue_info("orders").messages for client in clients] == [0] * len(clients)
        target = {"url": cluster.url, "queueManager": managers[0], "queue": "orders"}
        frame = spark.range(500).selectExpr("cast(id AS STRING) AS body")
        frame.write.format("mqredis").options(**target).mode("append").save()
        assert clients[0].queue_info("orders").messages == 500
    finally:
        for client in clients:
            client.close()
