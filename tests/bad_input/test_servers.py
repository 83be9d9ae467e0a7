"""Servers that refuse us or would lose messages: said at once, with nothing written."""

from __future__ import annotations

import asyncio

import pytest

import mqredis
import mqredis.asyncio
from mqredis.errors import BrokerRefused, BrokerUnavailable, InvalidArgument, MqError, UnsafeServer
from mqredis.settings import Settings
from tests.support.counts import before_schema_5, count, counts, packed_locks, set_reach

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


META, QUEUE = "mq:{default}:meta", "mq:{default}:q:q:q"


def make_older(client, schema, index):
    """What a build of an earlier schema has left: the line of the queue, with all locks, stands in its own hash."""
    if schema < 4:
        set_reach(client, QUEUE, None if index is None else index.encode())
        client.hdel(QUEUE, "index") if index is None else client.hset(QUEUE, "index", index)
    before_schema_5(client, QUEUE)
    client.hset(META, mapping={"schema": schema, "brief": b"%d" % schema + client.hget(META, "brief")[1:]})
    assert not client.hexists(META, QUEUE)


def is_of_this_schema(client):
    assert (client.hget(META, "schema"), client.hget(META, "brief")[:2]) == (b"5", b"5 ")
    assert not [f for f in client.hkeys(QUEUE) if f in (b"brief", b"counts") or f.startswith(b"lock:")]
    assert client.hexists(META, QUEUE)


@pytest.mark.parametrize(
    "schema, index, entries",
    [(2, None, [b"csc"]), (3, "all", [b"csc"]), (3, "part", [b"csc"]), (3, "none", []), (4, "0", [])],
)
def test_a_store_of_a_schema_before(server, schema, index, entries):
    """A session brings it to the present one, which builds before this one refuse. Its queues keep their index, their
    messages and what they count."""
    with mqredis.connect(server.tcp_url, settings=QUICK) as qm:
        qm.create_queue("q")
        with qm.open("q") as orders:
            orders.send_many([b"1", b"2", b"3"])
            orders.receive(0)
    with server.client() as client:
        was = counts(client, QUEUE)
        make_older(client, schema, index)
        with mqredis.connect(server.tcp_url, settings=QUICK) as qm:
            assert client.hget(META, "schema") == b"5"
            assert qm.doctor().healthy
            assert qm.queue_info("q").messages == 2
            assert counts(client, QUEUE) == was
            with qm.open("q") as orders:
                orders.send(b"x", correlation_id="c")
                assert [
                    name.partition(b"\0")[0] for name in client.zrange(QUEUE[:-1] + "i", 0, -1)
                ] == entries
                assert orders.receive(0, match=mqredis.Match(correlation_id="c")).body == b"x"
                assert [message.body for message in orders.receive_many(9, 0)] == [b"2", b"3"]
            assert qm.info().schema_version == 5
            assert qm.queue_info("q").messages == 0
            assert qm.doctor().healthy
        is_of_this_schema(client)
        assert count(client, QUEUE, "gone") == 4


#: Who comes first, and how many messages nobody holds then.
FIRST = {
    "commit": 3,
    "commit of a single one": 3,
    "the next lock": 2,
    "receive": 2,
    "send": 4,
    "info": 3,
    "doctor": 3,
    "doctor who repairs": 3,
}


def come(first, qm, orders, locks):
    if first == "commit":
        locks.pop(0).commit()
    elif first == "commit of a single one":
        locks.pop(3).commit()
    elif first == "the next lock":
        locks += orders.lock_many(1, settle=[locks.pop()])
    elif first == "receive":
        orders.receive(0)
    elif first == "send":
        orders.send(b"x")
    elif first == "info":
        qm.queue_info("q")
    else:
        assert qm.doctor(repair=first == "doctor who repairs").findings == ()


@pytest.mark.parametrize("first, left", FIRST.items())
def test_locks_of_a_schema_before(server, first, left):
    """They are held, whoever comes first, and may be committed."""
    with mqredis.connect(server.tcp_url, settings=QUICK) as qm, server.client() as client:
        qm.create_queue("q")
        orders = qm.open("q")
        orders.send_many([b"%d" % n for n in range(9)])
        orders.receive(0)
        locks = [*orders.lock_many(3), orders.lock(0), orders.lock(0)]
        assert [len(lock.ids) for lock in packed_locks(client, QUEUE)] == [3, 1, 1]
        was = counts(client, QUEUE)
        make_older(client, 4, None)
        assert client.hget(QUEUE, "counts").split(b" ") == [*was[:5], b"6"]
        assert sum(field.startswith(b"lock:") for field in client.hkeys(QUEUE)) == 3
        mqredis.connect(server.tcp_url, settings=QUICK).close()
        assert client.hget(META, "schema") == b"5"
        come(first, qm, orders, locks)
        assert qm.doctor().findings == ()
        for lock in locks:
            lock.commit()
        is_of_this_schema(client)
        assert not client.exists(QUEUE[:-1] + "l", QUEUE[:-1] + "s")
        assert len(orders.receive_many(9, 0)) == left
        assert qm.queue_info("q").messages == 0
        assert qm.doctor().findings == ()


def test_a_schema_of_the_future(server):
    with mqredis.connect(server.tcp_url, settings=QUICK) as qm:
        qm.create_queue("q")
    with server.client() as client:
        client.hset("mq:{default}:meta", "schema", 99)
        before = client.dump("mq:{default}:queues")
        errors = both_faces(server.tcp_url)
        assert [type(e) for e in errors] == [mqredis.SchemaTooNew, mqredis.SchemaTooNew]
        assert client.dump("mq:{default}:queues") == before
