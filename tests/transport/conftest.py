"""Tests of the transport. They need kombu and Celery, which `make kombu` installs, and kombu's source distribution."""

from __future__ import annotations

import gc
import importlib
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.server import RedisServer

try:
    import celery  # noqa: F401
except ImportError:
    collect_ignore_glob = ["test_*.py"]

# Folder with the unpacked source distributions of kombu and Celery.
SOURCES = Path(os.environ.get("MQREDIS_TEST_KOMBU_SOURCES", "build/kombu"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.kombu)


@pytest.fixture(scope="session")
def tcp_server() -> Iterator[RedisServer]:
    """A server for these tests, with a TCP port, which kombu's URLs need."""
    with RedisServer(tcp=True) as server:
        yield server


@pytest.fixture
def server(tcp_server: RedisServer) -> RedisServer:
    tcp_server.start()
    tcp_server.reset()
    return tcp_server


APP = """
import os
import mqredis.kombu
from celery import Celery

app = Celery("app", broker=os.environ["TEST_BROKER"], backend=os.environ["TEST_BACKEND"])
app.conf.broker_transport_options = {"settings": {"allow_volatile": True}, "lease": 3}
app.conf.task_acks_late = True
app.conf.worker_prefetch_multiplier = 1
app.conf.worker_hijack_root_logger = False
app.conf.broker_connection_retry_on_startup = True

@app.task
def add(x, y):
    return x + y

@app.task(bind=True)
def redelivered(self, wait):
    if not self.request.delivery_info.get("redelivered"):
        open(wait, "w").close()  # the test that sees the file kills this worker
        while True:
            pass
    return "again"
"""


@pytest.fixture
def environment(server: RedisServer, tmp_path: Path) -> dict[str, str]:
    (tmp_path / "celery_app.py").write_text(APP)
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), str(tmp_path)]),
        "TEST_BROKER": server.tcp_url.replace("redis://", "mqredis://"),
        "TEST_BACKEND": server.tcp_url.removesuffix("/0") + "/1",
    }


@pytest.fixture
def app(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    for name in ("TEST_BROKER", "TEST_BACKEND"):
        monkeypatch.setenv(name, environment[name])
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("celery_app", None)
    celery_app = importlib.import_module("celery_app")
    yield celery_app
    gc.collect()  # finalizers of results call the server, so they run while it is up
    celery_app.app.close()


@pytest.fixture
def worker(environment: dict[str, str], tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []

    def start(*options: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "celery", "-A", "celery_app", "worker", "-c", "2", *options]
        log = (tmp_path / f"worker{len(started)}.log").open("wb")
        process = subprocess.Popen(
            command, cwd=tmp_path, env=environment, stdout=log, stderr=log, start_new_session=True
        )
        log.close()
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, 9)
        process.wait()


OPTIONS = {"settings": {"allow_volatile": True}}


@pytest.fixture
def connect(server: RedisServer) -> Iterator[Callable[..., Any]]:
    """Return a factory of kombu connections, which are released after the test."""
    import kombu

    import mqredis.kombu  # noqa: F401 - for its effect

    made = []

    def make(**options: Any) -> Any:
        connection = kombu.Connection(
            server.tcp_url.replace("redis://", "mqredis://"), transport_options={**OPTIONS, **options}
        )
        made.append(connection)
        return connection

    yield make
    for connection in made:
        connection.release()


@pytest.fixture
def connection(connect: Callable[..., Any]) -> Any:
    return connect()


@pytest.fixture
def queue() -> Any:
    import kombu

    return kombu.Queue("q", routing_key="q")


def sources(name: str) -> Path:
    """Return the folder of the sources of ``name``. If they are missing, the test fails, it is not skipped."""
    found = sorted(SOURCES.glob(f"{name}-*/t"))
    if not found:
        raise FileNotFoundError(f"no sources of {name} below {SOURCES}: run `make kombu`")
    return found[-1].parent


def load(name: str, path: Path) -> Any:
    """Import a file under the given module name."""
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
