"""Names of workers."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

import pytest

import mqredis
from mqredis import Message
from mqredis.worker import Unit, Worker
from tests.support.server import RedisServer

WAIT = 30.0


@pytest.mark.parametrize("chosen, shown", [("", "packer"), ("mine", "mine")])
def test_name_of_a_worker_is_that_of_its_client(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch, chosen: str, shown: str
) -> None:
    monkeypatch.setenv("MQREDIS_ALLOW_VOLATILE", "1")
    monkeypatch.setenv("MQREDIS_CLIENT_NAME", chosen)
    worker = Worker(redis_server.url, manager="names", name="packer")
    names: list[str] = []

    @worker.consumer("q", create={})
    def handle(message: Message, tx: Unit) -> None:
        names.extend(session.client.name for session in tx.manager.sessions())

    settings = mqredis.Settings(allow_volatile=True, client_name="sender")
    with mqredis.connect(redis_server.url, manager="names", settings=settings) as qm:
        qm.create_queue("q")
        with qm.open("q") as queue:
            queue.send(b"x")
        assert worker.run(burst=True, signals=False) == 1
    assert sorted(names) == sorted([shown, "sender"])


def test_worker_warns_of_another_one_with_its_name(
    qm: mqredis.QueueManager,
    started: Callable[[Worker], threading.Thread],
    caplog: pytest.LogCaptureFixture,
) -> None:
    qm.create_queue("q")
    begun = threading.Event()
    first, second, other = (Worker(name=name) for name in ("twin", "twin", "other"))
    first.consumer("q")(lambda _: begun.set())
    for worker in (second, other):
        worker.consumer("q")(lambda _: None)
    started(first)
    with qm.open("q") as queue:
        queue.send(b"x")
    assert begun.wait(WAIT)
    with other.background(qm):
        pass
    assert "other live workers have the name" not in caplog.text
    with second.background(qm):
        pass
    (said,) = [text for text in caplog.messages if "other live workers have the name" in text]
    assert said.startswith("other live workers have the name 'twin', too: ")
    assert f":{os.getpid()}; " in said
