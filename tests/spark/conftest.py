"""One Spark session and one server for the tests of the data source."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import mqredis
from tests.spark.config import CONFIG, LAUNCHER, SMALL, spark_home
from tests.support.server import RedisServer

# `make test` runs without PySpark, and then these files cannot even be read; `make test-spark` brings it.
collect_ignore_glob = [] if find_spec("pyspark") else ["test_*.py"]

CHECKOUT = Path(__file__).resolve().parents[2]


def environment() -> dict[str, str]:
    """What drivers and workers need to find this checkout."""
    path = os.pathsep.join(filter(None, [str(CHECKOUT), os.environ.get("PYTHONPATH", "")]))
    return {
        **os.environ,
        "PYTHONPATH": path,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LAUNCHER_OPTS": LAUNCHER,
    }


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from pyspark.sql import SparkSession

    os.environ.update(environment(), SPARK_HOME=spark_home())
    builder = SparkSession.builder.master("local[2]").appName("mqredis tests")
    for name, value in {**CONFIG, **SMALL}.items():
        builder = builder.config(name, value)
    session = builder.config(
        "spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse"))
    ).getOrCreate()
    yield session
    session.stop()


@pytest.fixture
def qm(redis_server: RedisServer) -> Iterator[mqredis.QueueManager]:
    """A client of the manager that the tests use."""
    name = f"m{next(_numbers)}"
    with mqredis.connect(redis_server.url, manager=name) as manager:
        yield manager


@pytest.fixture
def clocked(redis_server: RedisServer) -> Iterator[mqredis.QueueManager]:
    """A client of a manager whose clock the test moves."""
    name = f"clocked{next(_numbers)}"  # a process keeps its clients, and a flushed manager's is of no use
    with mqredis.connect(
        redis_server.url, manager=name, settings=mqredis.Settings(test_clock=True)
    ) as manager:
        yield manager


@pytest.fixture(params=["receive", "browse"])
def mode(request: pytest.FixtureRequest) -> str:
    """How a streaming read reads."""
    return str(request.param)


_numbers = iter(range(1, 1_000_000))


@pytest.fixture
def options(redis_server: RedisServer, qm: mqredis.QueueManager) -> dict[str, str]:
    return {"url": redis_server.url, "queueManager": qm.name}


@pytest.fixture
def fill(qm: mqredis.QueueManager) -> Callable[..., mqredis.Queue]:
    """Creates a queue with numbered messages."""

    def make(name: str = "orders", count: int = 100, **properties: Any) -> mqredis.Queue:
        if name not in {info.name for info in qm.queues()}:
            qm.create_queue(name, **properties)
        queue = qm.open(name)
        queue.send_many([b"%d" % n for n in range(count)])
        return queue

    return make
