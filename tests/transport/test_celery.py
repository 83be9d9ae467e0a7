"""Celery worker processes on the transport: each pool, killed workers, restarted servers, Flower."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import celery.exceptions
import pytest

import mqredis
from tests.support.server import RedisServer, free_port
from tests.transport.kit import WAIT

TUTORIAL = Path(__file__).parents[2] / "docs" / "learn" / "celery.md"


def test_programs_of_the_tutorial_run(start_server, environment, worker, tmp_path):
    server = start_server(aof=True, tcp=True)
    address = server.tcp_url.removeprefix("redis://").removesuffix("/0")
    tasks, caller = re.findall(r"```{ \.python }\n(.*?)```", TUTORIAL.read_text(), re.DOTALL)
    assert tasks.count("localhost:6379") == 2
    (tmp_path / "tasks.py").write_text(tasks.replace("localhost:6379", address))
    (tmp_path / "celery_app.py").write_text("from tasks import app")
    worker("-P", "solo")
    caller = caller.replace("timeout=10", f"timeout={WAIT}")
    printed = subprocess.check_output([sys.executable, "-c", caller], cwd=tmp_path, env=environment)
    assert printed == b"5\n"
    with mqredis.connect(server.tcp_url) as qm:
        (delayed,) = qm.scheduled("celery")
        assert delayed.state == "delayed"


@pytest.mark.parametrize("pool", ["prefork", "threads", "solo", "gevent"])
def test_worker_runs_tasks_and_answers_remote_control(app, worker, pool):
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


def test_expired_task_is_revoked(app, worker):
    """The worker revokes it, also after an ETA, as with Celery's Redis transport."""
    expired = [app.add.apply_async((1, 2), expires=1e-3) for _ in range(3)]
    expired.append(app.add.apply_async((1, 2), countdown=0.5, expires=0.4))
    in_time = app.add.apply_async((1, 2), expires=WAIT)
    worker("-P", "solo")
    for result in expired:
        with pytest.raises(celery.exceptions.TaskRevokedError):
            result.get(timeout=WAIT)
        assert result.state == "REVOKED"
    assert in_time.get(timeout=WAIT) == 3


def test_events_arrive(app, worker):
    worker("-E", "-P", "solo")
    assert app.add.delay(1, 2).get(timeout=WAIT) == 3
    with app.app.connection_for_read() as connection:
        receiver = app.app.events.Receiver(connection, handlers={})

        def succeeded(event: Any) -> None:
            seen.append(event["type"])

        seen: list[str] = []
        receiver.handlers["task-succeeded"] = succeeded
        with receiver.consumer_context() as (broker_server, _, _):
            result = app.add.delay(3, 4)
            while not seen:
                broker_server.drain_events(timeout=WAIT)
        assert result.get(timeout=WAIT) == 7
    assert seen == ["task-succeeded"]


def test_task_of_a_killed_worker_is_redelivered(app, worker, tmp_path, server):
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
    # The acknowledgement may arrive after the result.
    settings = mqredis.Settings(allow_volatile=True)
    with mqredis.connect(server.tcp_url, settings=settings) as qm:
        while qm.queue_info("celery").messages:
            assert time.monotonic() < deadline + WAIT


@pytest.fixture
def broker_server(
    start_server: Callable[..., RedisServer], environment: dict[str, str], request: Any
) -> RedisServer:
    """A broker that the test restarts; the results stay on the shared server."""
    server = start_server(aof=request.param, tcp=True)
    environment["TEST_BROKER"] = server.tcp_url.replace("redis://", "mqredis://")
    return server


@pytest.mark.parametrize("broker_server", [True, False], ids=["durable", "everything-lost"], indirect=True)
@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_worker_consumes_again_after_a_server_restart(broker_server, app, worker, pool):
    def add(x: int, y: int) -> Any:
        with app.app.connection_for_write() as connection:  # a new connection: the sender starts afresh too
            return app.add.apply_async((x, y), connection=connection)

    worker("-P", pool)
    assert add(1, 2).get(timeout=WAIT) == 3
    broker_server.restart(kill=True)
    deadline = time.monotonic() + WAIT
    result = add(3, 4)
    while True:
        try:
            assert result.get(timeout=5) == 7
        except celery.exceptions.TimeoutError:
            # If the server lost its data, the task may have been sent before the queue existed again.
            assert time.monotonic() < deadline
            result = add(3, 4)
        else:
            break


def test_flower_shows_the_worker_and_its_tasks(app, worker, environment, tmp_path):
    """The JSON of Flower's pages of workers and tasks, whose data come through the broker."""
    worker("-E", "-P", "solo", "-n", "shown@here")
    port = free_port()
    command = [
        sys.executable,
        "-m",
        "celery",
        "-A",
        "celery_app",
        "flower",
        f"--port={port}",
        "--address=127.0.0.1",
    ]
    unlocked = {**environment, "FLOWER_UNAUTHENTICATED_API": "true"}
    with (tmp_path / "flower.log").open("wb") as log:
        flower = subprocess.Popen(command, cwd=tmp_path, env=unlocked, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + WAIT

        def get_json(path: str) -> Any:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/{path}", timeout=WAIT) as answer:
                    return json.load(answer)
            except (urllib.error.URLError, ConnectionError):
                assert flower.poll() is None, (tmp_path / "flower.log").read_text()
                return {}

        # A worker is listed at its first event; Flower requests the other data by remote control.
        shown: dict[str, Any] = {}
        while not {"registered", "active_queues"} <= shown.keys():
            assert time.monotonic() < deadline
            shown = get_json("workers?refresh=1").get("shown@here", {})
        # Flower's broker page supports other brokers only (docs/celery.md).
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/broker", timeout=WAIT)
        assert refused.value.code == 404
        refused.value.close()
        assert "celery_app.add" in shown["registered"]
        assert [queue["name"] for queue in shown["active_queues"]] == ["celery"]
        result = app.add.delay(1, 2)
        assert result.get(timeout=WAIT) == 3
        while get_json("tasks").get(result.id, {}).get("state") != "SUCCESS":
            assert time.monotonic() < deadline
    finally:
        flower.send_signal(signal.SIGINT)
        flower.wait(WAIT)
