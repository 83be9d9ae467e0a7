"""The transport over TLS, Sentinel and Cluster, on live servers; a Celery worker on each; a failover."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import kombu
import pytest

import mqredis.kombu  # noqa: F401 - for its effect
from tests.drivers.test_discovery import Sentinel
from tests.support.cluster import Cluster
from tests.support.server import RedisServer
from tests.support.tls import serve_tls
from tests.support.until import until
from tests.transport.conftest import OPTIONS
from tests.transport.kit import WAIT

Start = Callable[..., RedisServer]


def _tls(start_server: Start, folder: Path) -> str:
    address, authority = serve_tls(start_server, folder, "127.0.0.1")
    return f"mqredis+rediss://{address}/0?ssl_ca_certs={authority}"


class SentinelDeployment:
    """A primary, its replica, and a sentinel."""

    def __init__(self, start_server: Start, folder: Path) -> None:
        self.primary = start_server(tcp=True, options={"repl-diskless-sync-delay": "0"})
        replica = start_server(tcp=True, options={"replicaof": f"127.0.0.1 {self.primary.port}"})
        until(lambda: replica.client().info("replication")["master_link_status"] == "up")
        self.sentinel = Sentinel(self.primary.port, folder)
        self.url = f"mqredis+redis+sentinel://127.0.0.1:{self.sentinel.port}/shop/0"


@pytest.fixture(params=["tls", "sentinel", "cluster"])
def url(request: pytest.FixtureRequest, start_server: Start, tmp_path: Path) -> Iterator[str]:
    if request.param == "tls":
        yield _tls(start_server, tmp_path)
    elif request.param == "cluster":
        yield "mqredis+" + Cluster(start_server).url
    else:
        deployment = SentinelDeployment(start_server, tmp_path)
        yield deployment.url
        deployment.sentinel.close()


@pytest.fixture
def open_connection() -> Iterator[Callable[[str], Any]]:
    made: list[Any] = []

    def make(url: str) -> Any:
        made.append(kombu.Connection(url, transport_options=OPTIONS))
        return made[-1]

    yield make
    for connection in made:
        connection.release()


def consume(connection: Any, queue: kombu.Queue, seen: list[Any], count: int) -> threading.Thread:
    """Start a thread that consumes until ``seen`` has ``count`` messages."""

    def run() -> None:
        def on(body: Any, message: Any) -> None:
            message.ack()
            seen.append(body)

        with connection.Consumer([queue], callbacks=[on]):
            while len(seen) < count:
                connection.drain_events(timeout=WAIT)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def test_messages_reach_a_waiting_consumer(url, open_connection):
    queue = kombu.Queue("q", kombu.Exchange("e", type="direct"), routing_key="q")
    seen: list[Any] = []
    sender = open_connection(url)
    producer = kombu.Producer(sender.default_channel, exchange=queue.exchange, routing_key="q")
    producer.maybe_declare(queue)
    thread = consume(open_connection(url), queue, seen, 20)
    for n in range(20):
        producer.publish(n)
    thread.join(WAIT)
    assert seen == list(range(20))


def test_fanout_and_priorities(url, open_connection):
    connection = open_connection(url)
    channel = connection.default_channel
    news = kombu.Exchange("news", type="fanout")
    for name in ("one", "two"):
        kombu.Queue(name, exchange=news)(channel).declare()
    for priority in (0, 9, 5):
        kombu.Producer(channel, exchange=news).publish(priority, priority=priority)
    for name in ("one", "two"):
        assert [channel.basic_get(name).payload for _ in range(3)] == [9, 5, 0]


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_celery_worker_runs_tasks(url, environment, monkeypatch, request, pool):
    environment["TEST_BROKER"] = url
    app, worker = request.getfixturevalue("app"), request.getfixturevalue("worker")
    worker("-P", pool)
    results = [app.add.delay(n, n) for n in range(10)]
    assert sum(result.get(timeout=WAIT) for result in results) == 90
    (answer,) = app.app.control.ping(timeout=WAIT, limit=1)
    assert list(answer.values()) == [{"ok": "pong"}]


def test_producer_and_consumer_survive_a_failover(start_server, tmp_path, open_connection):
    deployment = SentinelDeployment(start_server, tmp_path)
    try:
        queue = kombu.Queue("q", kombu.Exchange("e", type="direct"), routing_key="q")
        sender = open_connection(deployment.url)
        producer = kombu.Producer(sender, exchange=queue.exchange, routing_key="q")
        producer.publish("before", declare=[queue])
        client = deployment.primary.client()
        until(
            lambda: (
                client.info("replication")["slave0"]["offset"]
                == client.info("replication")["master_repl_offset"]
            )
        )
        client.close()
        deployment.primary.kill()
        producer.publish("after", retry=True, retry_policy={"max_retries": 100})
        seen: list[Any] = []
        consume(open_connection(deployment.url), queue, seen, 2).join(WAIT)
        assert seen == ["before", "after"]
    finally:
        deployment.sentinel.close()
