"""A server that keeps nothing takes only what may be lost, unless it is told that this is all right."""

from __future__ import annotations

from collections.abc import Callable

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


def test_what_must_be_kept_is_refused_before_anything_is_done(volatile: RedisServer) -> None:
    with mqredis.connect(volatile.url) as qm:
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


def test_express_messages_are_taken(volatile: RedisServer) -> None:
    with mqredis.connect(volatile.url) as qm:
        qm.create_queue("q")
        with qm.open("q") as q:
            q.send(b"x", recoverable=False)
            q.send_many([Outgoing(body=b"y", recoverable=False)])
            assert [message.body for message in q.receive_many(9, 0)] == [b"x", b"y"]


def test_whoever_accepts_the_loss_may_send(volatile: RedisServer) -> None:
    with mqredis.connect(volatile.url, settings=Settings(allow_volatile=True)) as qm:
        qm.create_queue("t", transactional=True)
        with qm.open("t") as t, qm.transaction() as unit:
            t.send(b"x", transaction=unit)
        assert qm.queue_info("t").messages == 1


async def test_the_asyncio_face_refuses_it_too(volatile: RedisServer) -> None:
    async with mqredis.asyncio.connect(volatile.url) as qm:
        await qm.create_queue("q")
        async with qm.open("q") as q:
            with pytest.raises(UnsafeServer, match="keeps nothing"):
                await q.send(b"x")
            await q.send(b"x", recoverable=False)


@pytest.mark.parametrize("options", [{"save": "3600 1"}, {"save": "", "appendonly": "yes"}])
def test_snapshots_or_a_log_will_do(start_server: Start, options: dict[str, str]) -> None:
    server = start_server(options=options)
    with mqredis.connect(server.url) as qm:
        qm.create_queue("t", transactional=True)
        qm.create_queue("q")
        with qm.open("q") as q:
            q.send(b"x")
        assert qm.queue_info("q").messages == 1


def test_a_server_that_does_not_tell_is_believed(
    volatile: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Managed services hide CONFIG and keep data in ways of their own."""
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


def test_a_log_on_disk_is_known_without_config(start_server: Start, caplog: pytest.LogCaptureFixture) -> None:
    server = start_server(tcp=True, aof=True)
    with server.client() as raw:
        raw.execute_command("ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all", "-config")
    mqredis.connect(server.tcp_url.replace("redis://", "redis://app:secret@")).close()
    assert "cannot check" not in caplog.text


@pytest.fixture
def kept(start_server: Start) -> RedisServer:
    return start_server(options={"save": "3600 1"})


def again(server: RedisServer, save: str) -> None:
    """Start another server process with other settings on the data, as after a failover."""
    with server.client() as raw:
        raw.save()
    server.options["save"] = save
    server.restart(kill=True)


def test_each_server_that_a_client_meets_is_asked(kept: RedisServer) -> None:
    with mqredis.connect(kept.url) as qm:
        qm.create_queue("q")
        with qm.open("q") as q:
            q.send(b"1")
            again(kept, "")
            assert q.peek(0).body == b"1"  # reconnects
            with pytest.raises(UnsafeServer, match="keeps nothing"):
                q.send(b"2")
            q.send(b"3", recoverable=False)
            again(kept, "3600 1")
            assert q.receive(0).body == b"1"
            q.send(b"4")
            with kept.client() as raw:
                kind = "cmdstat_config|get" if server_version() >= (7,) else "cmdstat_config"
                asked = raw.info("commandstats")[kind]["calls"]
                qm._driver.backend.drop_idle()  # new connections to the same server ask no more
                q.send(b"5")
                assert raw.info("commandstats")[kind]["calls"] == asked


async def test_the_asyncio_face_asks_each_server_too(kept: RedisServer) -> None:
    async with mqredis.asyncio.connect(kept.url) as qm:
        await qm.create_queue("q")
        async with qm.open("q") as q:
            await q.send(b"1")
            again(kept, "")
            assert (await q.peek(0)).body == b"1"
            with pytest.raises(UnsafeServer, match="keeps nothing"):
                await q.send(b"2")
            again(kept, "3600 1")
            assert (await q.peek(0)).body == b"1"
            await q.send(b"4")


def test_nobody_expects_a_fake_to_keep_anything() -> None:
    with mqredis.connect("memory://volatile") as qm:
        qm.create_queue("q")
        with qm.open("q") as q:
            q.send(b"x")
        assert qm.queue_info("q").messages == 1
    forget_store("volatile")
