"""A worker whose durability settings are not reached in time handles each message once all the same."""

from __future__ import annotations

import pytest

import mqredis
from mqredis import Durability, Settings
from mqredis.worker import Unit, Worker
from tests.support.server import RedisServer

# There is no replica, so every lasting change falls short.
SETTINGS = Settings(durability=Durability.REPLICA, durability_seconds=0.01)


@pytest.mark.parametrize("transactional", [False, True])
def test_durability_not_reached_in_time_does_not_repeat_messages(
    redis_server: RedisServer, transactional: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with mqredis.connect(redis_server.url) as qm:
        for name in ("in", "out"):
            qm.create_queue(name, transactional=transactional)
        with qm.open("in") as source, qm.transaction() as unit:
            source.send_many([b"1", b"2", b"3"], transaction=unit if transactional else None)
        worker = Worker(url=redis_server.url, settings=SETTINGS)
        seen: list[bytes] = []

        @worker.consumer("in")
        def handle(body: bytes, tx: Unit) -> None:
            seen.append(body)
            tx.send("out", body)

        worker.run(burst=True)
        assert seen == [b"1", b"2", b"3"]
        with qm.open("out") as out:
            assert [message.body for message in out.browse()] == seen
        assert qm.queue_info("in").messages == 0
    assert "not to be repeated" in caplog.text
