"""Servers that refuse us or would lose messages: said at once, with nothing written."""

from __future__ import annotations

import asyncio

import pytest

import mqredis
import mqredis.asyncio
from mqredis.errors import BrokerRefused, BrokerUnavailable, InvalidArgument, MqError, UnsafeServer
from mqredis.settings import Settings

QUICK = Settings(allow_volatile=True, retry_seconds=0.2, connect_timeout_seconds=0.5, reply_timeout_seconds=1)


def both_faces(url, settings=QUICK):
    """What the sync and the asyncio face raise when they connect and create a queue."""
    found = []
    try:
        with mqredis.connect(url, settings=settings) as qm:
            qm.create_queue("q")
    except MqError as error:
        found.append(error)

    async def twin():
        async with await mqredis.asyncio.connect(url, settings=settings) as qm:
            await qm.create_queue("q")

    try:
        asyncio.run(twin())
    except MqError as error:
        found.append(error)
    return found


def user(server, name, *rules):
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", name, "reset", "on", ">secret", *rules)
    return server.tcp_url.replace("redis://", f"redis://{name}:secret@")


@pytest.fixture
def server(start_server):
    return start_server(tcp=True)


def size(server):
    with server.client() as client:
        return client.dbsize()


@pytest.mark.parametrize(
    "rules",
    [
        ["~*", "+@read"],
        ["~*", "+@all", "-@scripting"],
        ["~*", "+@all", "-evalsha"],
        ["~mq:{other}:*", "+@all"],
        ["%R~mq:*", "+@all"],
        [],
    ],
    ids=["read-only", "no-scripts", "no-evalsha", "other-keys", "keys-read-only", "nothing"],
)
def test_a_user_without_permission(server, rules):
    url = user(server, "weak", *rules)
    errors = both_faces(url)
    assert [type(e) for e in errors] == [BrokerRefused, BrokerRefused]
    assert all("secret" not in str(e) for e in errors)
    assert size(server) == 0


def test_a_wrong_password(server):
    with server.client() as client:
        client.config_set("requirepass", "right")
    wrong = server.tcp_url.replace("redis://", "redis://:wrong@")
    none = server.tcp_url
    for url in (wrong, none):
        errors = both_faces(url)
        assert [type(e) for e in errors] == [BrokerRefused, BrokerRefused]
        assert all("wrong@" not in str(e) for e in errors)
    with server.client(password="right") as client:
        assert client.dbsize() == 0


@pytest.mark.parametrize("policy", ["allkeys-lru", "allkeys-lfu", "allkeys-random"])
def test_an_eviction_policy_that_loses_messages(server, policy):
    with server.client() as client:
        client.config_set("maxmemory-policy", policy)
    errors = both_faces(server.tcp_url)
    assert [type(e) for e in errors] == [UnsafeServer, UnsafeServer]
    assert all("maxmemory-policy" in str(e) for e in errors)
    assert size(server) == 0
    assert both_faces(server.tcp_url, QUICK.model_copy(update={"allow_eviction": True}))[1:] == []


def test_a_server_that_keeps_nothing_is_told_by_the_doctor(server):
    with mqredis.connect(server.tcp_url, settings=QUICK) as qm:
        assert any("appendonly" in found.text for found in qm.doctor().advice)


def test_nobody_there(start_server):
    server = start_server(tcp=True)
    server.kill()
    assert [type(e) for e in both_faces(server.tcp_url)] == [BrokerUnavailable, BrokerUnavailable]


@pytest.mark.parametrize(
    "url",
    ["http://localhost", "redis://localhost:port/0", "localhost:6379", "redis://h:1/x", "", 5, "ftp://x"],
)
def test_an_address_that_is_none(url):
    errors = both_faces(url)
    assert [type(e) for e in errors] == [InvalidArgument, InvalidArgument]


def test_another_kind_of_data_under_our_name(server):
    with server.client() as client:
        client.set("mq:{default}:meta", "mine")
    errors = both_faces(server.tcp_url)
    assert len(errors) == 2
    with server.client() as client:
        assert client.get("mq:{default}:meta") == b"mine"
        assert client.dbsize() == 1


@pytest.mark.parametrize(
    "schema, error",
    [
        (7, mqredis.SchemaTooNew),
        (99, mqredis.SchemaTooNew),
        (5, mqredis.SchemaTooOld),
        (1, mqredis.SchemaTooOld),
    ],
)
def test_another_schema(server, schema, error):
    with mqredis.connect(server.tcp_url, settings=QUICK) as qm:
        qm.create_queue("q")
    with server.client() as client:
        client.hset("mq:{default}:meta", "schema", schema)
        before = client.dump("mq:{default}:queues")
        errors = both_faces(server.tcp_url)
        assert [type(e) for e in errors] == [error, error]
        assert client.dump("mq:{default}:queues") == before
