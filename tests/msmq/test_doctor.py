"""The doctor knows what queues do by themselves."""

from __future__ import annotations

import pytest

import mqredis
from mqredis import Settings


@pytest.fixture
def qm(redis_server):
    with mqredis.connect(redis_server.url, manager="ill", settings=Settings(test_clock=True)) as manager:
        yield manager


def codes(qm):
    return [finding.code for finding in qm.doctor().findings if not finding.code.startswith("server.")]


def test_dedup_keys(qm, redis_server):
    qm.create_queue("q")
    q = qm.open("q")
    q.send(b"a", dedup_key="k")
    q.send(b"b", dedup_key="l", dedup_window=60)
    q.send(b"c", dedup_key="m", dedup_window=60)
    q.receive_by_lookup_id(q.peek(0).lookup_id, seek=mqredis.Seek.LAST)
    with qm.open("q;s", mqredis.Access.MOVE) as target:
        q.move(q.peek(0).lookup_id, target)
        assert codes(qm) == []
        with redis_server.client() as client:
            client.zadd("mq:{ill}:q:q:t", {"kleak": 9e15})
            client.zrem("mq:{ill}:q:q:t", "kl")
        assert codes(qm) == ["dedup.leak", "dedup.missing"]
        qm.doctor(repair=True)
        assert codes(qm) == []
        with pytest.raises(mqredis.DuplicateMessage):
            q.send(b"b", dedup_key="l")
        q.send(b"d", dedup_key="leak")
