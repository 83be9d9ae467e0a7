"""A server without persistence accepts only express messages, unless ``allow_volatile`` is set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import mqredis
import mqredis.asyncio
import mqredis.drivers
from mqredis import Outgoing, Settings, UnsafeServer
from mqredis.drivers.connect import forget_store
from tests.support.server import RedisServer, server_version

Start = Callable[..., RedisServer]


@pytest.fixture
def volatile(start_server: Start) -> RedisServer:
    return start_server(tcp=True, options={"save": ""})


def test_recoverable_messages_are_refused_before_anything_is_done(
    connect_either: Callable[..., Any], volatile: RedisServer
) -> None:
    with connect_either(volatile.url) as qm:
        with pytest.raises(
            UnsafeServer, match=r"keeps nothing.*appendonly yes.*recoverable=False.*allow_volatile"
        ):
            qm.create_queue("t", transactional=True)
        qm.create_queue("q")
        with qm.open("q") as q:
            for send in (lambda: q.send(b"x"), lambda: q.send_many([b"x"]), lambda: q.send_group([b"x"])):
                with pytest.raises(UnsafeServer, match="message to queue 'q' is not sent"):
                    send()
        assert [queue.name for queue in qm.queues()] == ["q"]
        assert qm.info().messages == 0


def test_express_messages_are_accepted(volatile: RedisServer) -> None:
    with mqredis.connect(volatile.url) as qm:
        qm.create_queue("q")
        with qm.open("q") as q:
            q.send(b"x", recoverable=False)
            q.send_many([Outgoing(body=b"y", recoverable=False)])
            assert [message.body for message in q.receive_many(9, 0)] == [b"x", b"y"]


def test_allow_volatile_accepts_recoverable_messages(volatile: RedisServer) -> None:
    with mqredis.connect(volatile.url, settings=Settings(allow_volatile=True)) as qm:
        qm.create_queue("t", transactional=True)
        with qm.open("t") as t, qm.transaction() as unit:
            t.send(b"x", transaction=unit)
        assert qm.queue_info("t").messages == 1


@pytest.mark.parametrize("options", [{"save": "3600 1"}, {"save": "", "appendonly": "yes"}])
def test_server_with_snapshots_or_a_log_accepts_recoverable_messages(
    start_server: Start, options: dict[str, str]
) -> None:
    server = start_server(options=options)
    with mqredis.connect(server.url) as qm:
        qm.create_queue("t", transactional=True)
        qm.create_queue("q")
        with qm.open("q") as q:
            q.send(b"x")
        assert qm.queue_info("q").messages == 1


def test_server_that_hides_its_persistence_is_accepted_with_a_warning(
    volatile: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Managed services hide CONFIG and have their own persistence."""
    with volatile.client() as raw:
        raw.execute_command("ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all", "-config")
    with mqredis.connect(volatile.tcp_url.replace("redis://", "redis://app:secret@")) as qm:
        qm.create_queue("q")
        with qm.open("q") as q:
            q.send(b"x")
        assert qm.queue_info("q").messages == 1
        advice = {item.code: item.text for item in qm.doctor().advice}
    assert "cannot check whether this server keeps anything on disk" in caplog.text
    assert "may not read" in advice["server.unchecked"]
    assert "save" in advice["server.unchecked"]


def test_append_only_file_is_detected_without_config(
    start_server: Start, caplog: pytest.LogCaptureFixture
) -> None:
    server = start_server(tcp=True, aof=True)
    with server.client() as raw:
        raw.execute_command("ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all", "-config")
    mqredis.connect(server.tcp_url.replace("redis://", "redis://app:secret@")).close()
    assert "cannot check" not in caplog.text


@pytest.fixture
def persistent(start_server: Start) -> RedisServer:
    return start_server(options={"save": "3600 1"})


def restart_with(server: RedisServer, save: str) -> None:
    """Start another server process with other settings on the data, as after a failover."""
    with server.client() as raw:
        raw.save()
    server.options["save"] = save
    server.restart(kill=True)


def test_persistence_is_checked_at_every_server_process(
    connect_either: Callable[..., Any], persistent: RedisServer
) -> None:
    with connect_either(persistent.url) as qm:
        qm.create_queue("q")
        with qm.open("q") as q:
            q.send(b"1")
            restart_with(persistent, "")
            assert q.peek(0).body == b"1"  # reconnects
            with pytest.raises(UnsafeServer, match="keeps nothing"):
                q.send(b"2")
            q.send(b"3", recoverable=False)
            restart_with(persistent, "3600 1")
            assert q.receive(0).body == b"1"
            q.send(b"4")
            with persistent.client() as raw:
                kind = "cmdstat_config|get" if server_version() >= (7,) else "cmdstat_config"
                asked = raw.info("commandstats")[kind]["calls"]
                qm._driver.backend.drop_idle()  # new connections to the same server do not check again
                q.send(b"5")
                assert raw.info("commandstats")[kind]["calls"] == asked


def test_fake_server_is_not_checked_for_persistence() -> None:
    with mqredis.connect("memory://volatile") as qm:
        qm.create_queue("q")
        with qm.open("q") as q:
            q.send(b"x")
        assert qm.queue_info("q").messages == 1
    forget_store("volatile")
