"""A server at its memory limit, also one without script flags (Redis 6)."""

from __future__ import annotations

import contextlib

import pytest
import redis

import mqredis
from mqredis import BrokerFull, Settings
from mqredis.drivers import greeting
from tests.support.server import RedisServer


@pytest.mark.parametrize("flags", [True, False], ids=["as it is", "without flags"])
def test_full_server_refuses_sends_and_can_be_drained(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch, flags: bool
) -> None:
    if not flags:
        monkeypatch.setattr(greeting, "FUNCTION_PROBE", ("NONESUCH",))
    with mqredis.connect(redis_server.url) as qm, redis_server.client() as raw:
        qm.create_queue("q", transactional=True)
        with qm.open("q") as queue, qm.transaction() as unit:
            queue.send_many([b"1", b"2", b"3"], transaction=unit)
        qm.create_queue("plain")
        qm.open("plain").send_many([b"x"] * 5)
        raw.script_flush()
        raw.config_set("maxmemory", 1)
        with mqredis.connect(redis_server.url) as late, late.open("q") as queue:
            with pytest.raises(BrokerFull, match="Receiving still works"):
                queue.send(b"4")
            assert queue.receive(0).body == b"1"
            with late.transaction() as unit:
                assert queue.receive(0, transaction=unit).body == b"2"
            with queue.lock(0) as locked:
                assert locked.message.body == b"3"
            assert late.queue_info("q").messages == 0
        with mqredis.connect(redis_server.url) as late, late.open("plain") as queue:
            held = queue.lock_many(2)  # packed into one lock, then unpacked by single commits
            held[1].commit()
            held[0].commit()
            assert len(queue.lock_many(1, settle=queue.lock_many(2))) == 1
        assert qm.queue_info("plain").messages == 1
        raw.config_set("maxmemory", 0)
        assert qm.doctor().healthy
        assert [key for key in raw.keys("*") if key.endswith(b":none")] == []


def test_client_that_connects_to_a_full_server_reads_without_retries(redis_server: RedisServer) -> None:
    """Functions cannot be loaded for want of memory. Falling back to scripts, and loading those, is not a retry."""
    at_once = Settings(retry_seconds=0)
    with mqredis.connect(redis_server.url, settings=at_once) as qm, redis_server.client() as raw:
        qm.create_queue("q")
        qm.open("q").send_many([b"x" * 1000] * 100)
        raw.config_set("maxmemory", 1)
        raw.script_flush()
        with contextlib.suppress(redis.ResponseError):  # before Redis 7
            raw.execute_command("FUNCTION", "FLUSH")
        with mqredis.connect(redis_server.url, settings=at_once) as late, late.open("q") as q:
            assert q.receive(0).body == b"x" * 1000
