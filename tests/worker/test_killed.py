"""Messages whose worker processes are killed or terminated."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import mqredis
from mqredis.testing import drain
from tests.support.server import RedisServer

APP = """
import os, time
from mqredis import Message
from mqredis.worker import Retry, Unit, Worker

worker = Worker(manager="m", shutdown_seconds=0.1)

@worker.consumer("in", lease=1, retry=Retry({retry}), {options})
def handle({argument}, tx: Unit):
    for message in {each}:
        if message.body == b"bomb":
            os._exit(9)
        if message.body == b"slow" and os.environ.get("SLOW"):
            tx.manager.open("begun").send(b"x")
            while True:
                time.sleep(0.01)
    for message in {each}:
        tx.send("out", message.body)
"""
WAIT = 60.0
ONE, SEVERAL = ("message", "[message]"), ("messages: list[Message]", "messages")


@pytest.fixture
def qm(redis_server: RedisServer) -> Iterator[mqredis.QueueManager]:
    settings = mqredis.Settings(allow_volatile=True)
    with mqredis.connect(redis_server.url, manager="m", settings=settings) as manager:
        yield manager


@pytest.fixture
def start(tmp_path: Path, redis_server: RedisServer) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []

    def run(
        options: str,
        handler: tuple[str, str],
        retry: str,
        *arguments: str,
        slow: bool = False,
        app: str = APP,
    ) -> subprocess.Popen[bytes]:
        argument, each = handler
        app = app.format(options=options, argument=argument, each=each, retry=retry)
        (tmp_path / "app.py").write_text(app)
        environment = {
            **os.environ,
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "MQREDIS_URL": redis_server.url,
            "MQREDIS_ALLOW_VOLATILE": "1",
            "SLOW": "1" if slow else "",
        }
        command = [sys.executable, "-m", "mqredis", "worker", "app:worker", *arguments]
        started.append(subprocess.Popen(command, cwd=tmp_path, env=environment))
        return started[-1]

    yield run
    for process in started:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(WAIT)
        process.kill()


def fill(qm: mqredis.QueueManager, transactional: bool, bodies: list[bytes]) -> None:
    for name in ("in", "out"):
        qm.create_queue(name, transactional=transactional)
    with qm.open("in") as queue, qm.transaction() as tx:
        queue.send_many(bodies, transaction=tx if transactional else None)


@pytest.mark.parametrize(
    "transactional, options, handler",
    [
        (False, "concurrency=8", ONE),
        (True, "concurrency=8", ONE),
        (False, "prefetch=32", ONE),
        (False, "batch=20", SEVERAL),
    ],
    ids=["concurrency", "transactions", "prefetch", "batch"],
)
def test_message_that_kills_its_process_becomes_poison_and_no_other(
    qm, start, transactional, options, handler
):
    good = [b"%d" % n for n in range(40)]
    fill(qm, transactional, [*good[:20], b"bomb", *good[20:]])
    start(options, handler, "attempts=3, delay=0.1", "--processes", "2")
    with qm.open("out") as out:
        seen: set[bytes] = set()
        while len(seen) < len(good):
            if transactional:
                with qm.transaction() as tx:
                    seen.add(out.receive(timeout=WAIT, transaction=tx).body)
            else:
                seen.add(out.receive(timeout=WAIT).body)
    with qm.open("in;poison") as poison:
        dead = poison.peek(WAIT)
    assert (dead.body, dead.properties["failure_attempts"]) == (b"bomb", 3)
    assert seen == set(good)
    assert qm.statistics("in").poison_messages == 1


def test_group_keeps_its_order_when_a_worker_is_killed_if_its_policy_retries_in_place(qm, start):
    qm.create_queue("in", group_exclusive=True, retry=mqredis.RetryPolicy(immediate=4))
    for name in ("out", "begun"):
        qm.create_queue(name)
    bodies = [b"slow", b"1", b"2"]
    with qm.open("in") as queue:
        queue.send_many([mqredis.Outgoing(body, group_id="ann") for body in bodies])
    app = APP.replace("retry=Retry({retry}), ", "")
    process = start("concurrency=2", ONE, "", slow=True, app=app)
    with qm.open("begun") as begun:
        begun.receive(timeout=WAIT)
    process.kill()
    process.wait(WAIT)
    start("concurrency=2", ONE, "", app=app)
    with qm.open("out") as out:
        assert [out.receive(timeout=WAIT).body for _ in bodies] == bodies


@pytest.mark.parametrize("transactional", [False, True], ids=["locks", "transactions"])
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "ended"])
def test_restarts_of_a_worker_do_not_exhaust_the_attempts(qm, start, transactional, end):
    bodies = [b"slow" if n < 8 else b"%d" % n for n in range(16)]
    fill(qm, transactional, bodies)
    qm.create_queue("begun")
    with qm.open("begun") as begun:
        for _ in range(5):
            process = start("concurrency=4", ONE, "attempts=4, delay=1", slow=True)
            begun.receive(timeout=WAIT)
            process.send_signal(end)
            process.wait(WAIT)
            begun.purge()
    assert qm.statistics("in").poison_messages == 0
    start("concurrency=4", ONE, "attempts=4, delay=1")
    found: Counter[bytes] = Counter()
    with qm.open("out") as out, qm.transaction() as tx:
        while not found >= Counter(bodies):
            found[out.receive(timeout=WAIT, transaction=tx if transactional else None).body] += 1
    if transactional or end == signal.SIGTERM:
        assert found == Counter(bodies)
    else:  # a process that was killed between the sends of a handler and its commit leaves a second delivery
        assert found.keys() == set(bodies)


SCHEDULED = """
from mqredis.worker import Worker

worker = Worker(manager="m", shutdown_seconds=0.1)
worker.schedule("every second", 1.0, "out")
"""


def test_killed_workers_send_each_scheduled_time_once(
    qm: mqredis.QueueManager, start: Callable[..., subprocess.Popen[bytes]]
) -> None:
    """Three workers declare a schedule. After each message the oldest is killed and another one starts."""
    qm.create_queue("out")
    running = [start("", ONE, "", app=SCHEDULED) for _ in range(3)]
    slots: list[Any] = []
    with qm.open("out") as queue:
        for _ in range(5):
            message = queue.receive(WAIT)
            slots.append(message.properties["scheduled_for"])
            running.pop(0).kill()
            running.append(start("", ONE, "", app=SCHEDULED))
        for process in running:
            process.kill()
            process.wait(WAIT)
        slots += [message.properties["scheduled_for"] for message in drain(queue)]
    assert slots == sorted(set(slots))
    (schedule,) = qm.schedules()
    assert schedule.next_at is not None
    assert schedule.next_at.timestamp() > slots[-1]
