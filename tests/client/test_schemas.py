"""Stores of earlier schemas: the first session brings them to the present one, and each queue who opens it first."""

from __future__ import annotations

import pytest

import mqredis
from mqredis.settings import Settings
from tests.support.counts import before_schema_5, count, counts, packed_locks, set_reach

QUICK = Settings(allow_volatile=True, retry_seconds=0.2, connect_timeout_seconds=0.5, reply_timeout_seconds=1)


@pytest.fixture
def server(start_server):
    return start_server(tcp=True)


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
