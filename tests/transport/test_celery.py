"""Celery workers on the transport, as processes, in each pool; one is killed in the middle of a task."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import celery.exceptions
import pytest

import mqredis
from tests.support.server import RedisServer

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
        open(wait, "w").close()  # whoever sees it kills this worker
        while True:
            pass
    return "again"
"""
WAIT = 60.0


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


@pytest.mark.parametrize("pool", ["prefork", "threads", "solo"])
def test_tasks_and_remote_control(app, worker, pool):
    process = worker("-P", pool)
    assert app.add.delay(1, 2).get(timeout=WAIT) == 3
    results = [app.add.delay(n, n) for n in range(50)]
    assert sum(result.get(timeout=WAIT) for result in results) == 2450
    start = time.monotonic()
    assert app.add.apply_async((1, 1), countdown=1).get(timeout=WAIT) == 2
    assert time.monotonic() - start >= 1
    (answer,) = app.app.control.ping(timeout=WAIT, limit=1)
    assert list(answer.values()) == [{"ok": "pong"}]
    process.terminate()
    assert process.wait(WAIT) == 0


def test_events_arrive(app, worker):
    worker("-E", "-P", "solo")
    assert app.add.delay(1, 2).get(timeout=WAIT) == 3
    with app.app.connection_for_read() as connection:
        receiver = app.app.events.Receiver(connection, handlers={})

        def succeeded(event: Any) -> None:
            seen.append(event["type"])

        seen: list[str] = []
        receiver.handlers["task-succeeded"] = succeeded
        with receiver.consumer_context() as (own, _, _):
            result = app.add.delay(3, 4)
            while not seen:
                own.drain_events(timeout=WAIT)
        assert result.get(timeout=WAIT) == 7
    assert seen == ["task-succeeded"]


def test_a_killed_worker_loses_no_task(app, worker, tmp_path, server):
    started = tmp_path / "started"
    first = worker()
    result = app.redelivered.delay(str(started))
    deadline = time.monotonic() + WAIT
    while not started.exists():
        assert time.monotonic() < deadline
        result.backend.client.ping()
    os.killpg(first.pid, 9)
    first.wait()
    worker()
    assert result.get(timeout=WAIT) == "again"
    # Its acknowledgement is on the way when the result is there.
    settings = mqredis.Settings(allow_volatile=True)
    with mqredis.connect(server.tcp_url, settings=settings) as qm:
        while qm.queue_info("celery").messages:
            assert time.monotonic() < deadline + WAIT


@pytest.fixture
def own(start_server: Callable[..., RedisServer], environment: dict[str, str], request: Any) -> RedisServer:
    """A broker that the test restarts; the results stay on the shared server."""
    server = start_server(aof=request.param, tcp=True)
    environment["TEST_BROKER"] = server.tcp_url.replace("redis://", "mqredis://")
    return server


@pytest.mark.parametrize("own", [True, False], ids=["durable", "everything-lost"], indirect=True)
@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_a_worker_is_not_deaf_after_a_restart(own, app, worker, pool):
    def add(x: int, y: int) -> Any:
        with app.app.connection_for_write() as connection:  # a new one: the sender begins anew too
            return app.add.apply_async((x, y), connection=connection)

    worker("-P", pool)
    assert add(1, 2).get(timeout=WAIT) == 3
    own.restart(kill=True)
    deadline = time.monotonic() + WAIT
    result = add(3, 4)
    while True:
        try:
            assert result.get(timeout=5) == 7
        except celery.exceptions.TimeoutError:
            # Where everything is lost, the task may have been sent before there was a queue again.
            assert time.monotonic() < deadline
            result = add(3, 4)
        else:
            break
