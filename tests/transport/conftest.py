"""Tests of the transport. They need kombu and Celery, which `make kombu` installs, and kombu's source distribution."""

from __future__ import annotations

import importlib.util
import os
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

#: Folder with the unpacked source distributions of kombu and Celery.
SOURCES = Path(os.environ.get("MQREDIS_TEST_KOMBU_SOURCES", "build/kombu"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.kombu)


@pytest.fixture(scope="session")
def tcp_server() -> Iterator[RedisServer]:
    """A server of these tests, reached over TCP as kombu's URLs do."""
    with RedisServer(tcp=True) as server:
        yield server


@pytest.fixture
def server(tcp_server: RedisServer) -> RedisServer:
    tcp_server.start()
    tcp_server.reset()
    return tcp_server


OPTIONS = {"settings": {"allow_volatile": True}}


@pytest.fixture
def connect(server: RedisServer) -> Iterator[Callable[..., Any]]:
    """Makes kombu connections to the server; they are released after the test."""
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


def sources(name: str) -> Path:
    """Where the sources of ``name`` are: a failure if they are not there, never a skip."""
    found = sorted(SOURCES.glob(f"{name}-*/t"))
    if not found:
        raise FileNotFoundError(f"no sources of {name} below {SOURCES}: run `make kombu`")
    return found[-1].parent


def load(name: str, path: Path) -> Any:
    """Import one file under a name of our own."""
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
