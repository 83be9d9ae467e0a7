"""Servers that refuse the client or would lose messages: connecting fails and writes nothing."""

from __future__ import annotations

import asyncio
import traceback
from typing import Any

import pytest

import mqredis
import mqredis.asyncio
from mqredis.errors import BrokerRefused, BrokerUnavailable, InvalidArgument, MqError, UnsafeServer
from mqredis.settings import Settings

QUICK = Settings(allow_volatile=True, retry_seconds=0.2, connect_timeout_seconds=0.5, reply_timeout_seconds=1)


def errors_of_both_interfaces(url, settings=QUICK):
    """Return the errors of the sync and the asyncio interface when they connect and create a queue."""
    found = []
    try:
        with mqredis.connect(url, settings=settings) as qm:
            qm.create_queue("q")
    except MqError as error:
        found.append(error)

    async def connect_async():
        async with await mqredis.asyncio.connect(url, settings=settings) as qm:
            await qm.create_queue("q")

    try:
        asyncio.run(connect_async())
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
def test_user_without_permission_is_broker_refused(server, rules):
    url = user(server, "weak", *rules)
    errors = errors_of_both_interfaces(url)
    assert [type(e) for e in errors] == [BrokerRefused, BrokerRefused]
    assert all("secret" not in str(e) for e in errors)
    assert size(server) == 0


def test_plain_command_on_a_damaged_key_is_broker_refused(server):
    with mqredis.connect(server.url) as qm, server.client() as client:
        client.set(qm.context.keys.sinks, "hello")
        with pytest.raises(BrokerRefused, match=r"refused HGETALL: .*wrong kind of value"):
            qm.publications()


def test_wrong_password_is_broker_refused(server):
    with server.client() as client:
        client.config_set("requirepass", "right")
    wrong = server.tcp_url.replace("redis://", "redis://:wrong@")
    none = server.tcp_url
    for url in (wrong, none):
        errors = errors_of_both_interfaces(url)
        assert [type(e) for e in errors] == [BrokerRefused, BrokerRefused]
        assert all("wrong@" not in str(e) for e in errors)
        shown = "".join("".join(traceback.format_exception(e)) for e in errors)
        assert "During handling" not in shown
    with server.client(password="right") as client:
        assert client.dbsize() == 0


@pytest.mark.parametrize("policy", ["allkeys-lru", "allkeys-lfu", "allkeys-random"])
def test_eviction_policy_that_loses_messages_is_refused(server, policy):
    with server.client() as client:
        client.config_set("maxmemory-policy", policy)
    errors = errors_of_both_interfaces(server.tcp_url)
    assert [type(e) for e in errors] == [UnsafeServer, UnsafeServer]
    assert all("maxmemory-policy" in str(e) for e in errors)
    assert size(server) == 0
    assert (
        errors_of_both_interfaces(server.tcp_url, QUICK.model_copy(update={"allow_eviction": True}))[1:] == []
    )


def test_doctor_reports_a_server_without_persistence(server):
    with mqredis.connect(server.tcp_url, settings=QUICK) as qm:
        assert any("appendonly" in found.text for found in qm.doctor().advice)


def test_unreachable_server_is_broker_unavailable(start_server):
    server = start_server(tcp=True)
    server.kill()
    assert [type(e) for e in errors_of_both_interfaces(server.tcp_url)] == [
        BrokerUnavailable,
        BrokerUnavailable,
    ]


@pytest.mark.parametrize(
    "url",
    ["http://localhost", "redis://localhost:port/0", "localhost:6379", "redis://h:1/x", "", 5, "ftp://x"],
)
def test_invalid_url_is_an_invalid_argument(url):
    errors = errors_of_both_interfaces(url)
    assert [type(e) for e in errors] == [InvalidArgument, InvalidArgument]


@pytest.mark.parametrize(
    "url, reason",
    [
        ("redis://localhost:99999/0", "port must be a number up to 65535"),
        ("redis://localhost:port/0", "port must be a number up to 65535"),
        ("redis+cluster://a:1,b:x", "port must be a number up to 65535"),
        ("redis://localhost/-1", "database must be a number, 0 or more"),
        ("redis://localhost?db=-1", "database must be a number, 0 or more"),
    ],
)
def test_error_of_an_invalid_url_names_the_part_that_is_wrong(url: str, reason: str) -> None:
    errors = errors_of_both_interfaces(url)
    assert [reason in str(error) for error in errors] == [True, True]


def test_setting_that_is_given_to_connect_is_named_in_the_error() -> None:
    options: dict[str, Any] = {"lease_seconds": 3}
    with pytest.raises(
        InvalidArgument, match=r"it is a setting, so give settings=Settings\(lease_seconds=\.\.\.\)"
    ):
        mqredis.connect(**options)


def test_foreign_data_under_the_key_of_the_manager_is_kept(server):
    with server.client() as client:
        client.set("mq:{default}:meta", "mine")
    errors = errors_of_both_interfaces(server.tcp_url)
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
def test_newer_or_older_schema_is_refused(server, schema, error):
    with mqredis.connect(server.tcp_url, settings=QUICK) as qm:
        qm.create_queue("q")
    with server.client() as client:
        client.hset("mq:{default}:meta", "schema", schema)
        before = client.dump("mq:{default}:queues")
        errors = errors_of_both_interfaces(server.tcp_url)
        assert [type(e) for e in errors] == [error, error]
        assert client.dump("mq:{default}:queues") == before
