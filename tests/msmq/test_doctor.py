"""The doctor's checks of timers, retries, dedup keys, journals and topics."""

from __future__ import annotations

import pytest

import mqredis
from mqredis import Settings
from mqredis.keys import QUEUE_COUNTS
from tests.support.counts import header, set_config, set_count


@pytest.fixture
def qm(redis_server):
    with mqredis.connect(redis_server.url, manager="ill", settings=Settings(test_clock=True)) as manager:
        yield manager


def codes(qm):
    return [finding.code for finding in qm.doctor().findings if not finding.code.startswith("server.")]


def test_doctor_finds_and_repairs_wrong_dedup_keys(qm, redis_server):
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


# Key, fault written into it, code of the finding, whether a repair fixes it.
FAULTS = {
    "messages of a journal": ("q:q%3Bjournal:q", {"messages": 7}, "counter.queue", True),
    "bytes of a journal": ("q:q%3Bjournal:q", {"bytes": 1}, "counter.queue", True),
    "messages of the dead letters": ("q:system%24%3Bdeadletter:q", {"messages": 0}, "counter.queue", True),
    "what rests counts in its queue": ("q:q:q", {"sub_messages": 0}, "counter.queue", True),
    "policy of words": ("q:q:q", {"retry": "as often as you like"}, "retry.malformed", False),
    "policy without its flag": ("q:q:q", {"flags": "j"}, "retry.flag", True),
    "flag without a policy": ("q:q:q", {"retry": ""}, "retry.flag", True),
    "rest of nothing": ("q:q:t", {"bnobody": 5}, "retry.timer", True),
    "rest of something that is not there": ("q:q:t", {"k\x01": 9e15}, "dedup.leak", True),
    "subscription of words": ("q:news:q", {"sub:q": "everything"}, "topic.subscription", False),
    "subscription cut short": ("q:news:q", {"sub:q": "99:n = 1"}, "topic.subscription", False),
    "subscription of a queue": ("q:q:q", {"sub:news": "0:"}, "topic.flag", False),
    "delay of a message that is there": ("q:q:t", {"d{first}": 5}, "timer.delay", True),
    "expiry of a message that has none": ("q:q:t", {"e{first}": 5}, "timer.expiry", True),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
def test_doctor_finds_and_repairs_planted_faults(qm, redis_server, fault):
    part, values, code, repairable = fault
    qm.create_queue("news", topic=True)
    policy = mqredis.RetryPolicy(immediate=0, cycles=1)
    qm.create_queue("q", journaling=True, retry=policy)
    qm.subscribe("news", "q", "n = 1")
    q = qm.open("q")
    q.send(b"rests")
    q.lock(0).abort()
    q.send(b"gone")
    q.receive(0)
    q.send(b"dead", time_to_be_received=0, journal=mqredis.Journal.DEAD_LETTER)
    q.send(b"there")
    q.send(b"later", delay=60)
    assert codes(qm) == []
    first = f"{q.peek(0).lookup_id:016x}"
    with redis_server.client() as client:
        key = f"mq:{{ill}}:{part}"
        if part.endswith(":t"):
            client.zadd(key, {name.format(first=first): score for name, score in values.items()})
        else:
            for name, value in values.items():
                if name in QUEUE_COUNTS:
                    set_count(client, key, name, value)
                else:
                    client.hset(key, name, value)
    assert code in codes(qm)
    qm.doctor(repair=True)
    assert codes(qm) == ([] if repairable else [code])


def test_doctor_rebuilds_the_header_of_a_repaired_field(qm, redis_server):
    """A script that rebuilt the header meanwhile has used the wrong fields, which is not a finding of its own."""
    qm.create_queue("q", retry=mqredis.RetryPolicy(immediate=0, cycles=1))
    with redis_server.client() as client:
        key = "mq:{ill}:q:q:q"
        config = header(client, key).config
        without = config.replace(b"r", b"", 1)
        assert without != config
        client.hset(key, "flags", client.hget(key, "flags").replace(b"r", b""))
        set_config(client, key, without)
        assert codes(qm) == ["retry.flag"]
        qm.doctor(repair=True)
        assert header(client, key).config == config
    assert codes(qm) == []
    q = qm.open("q")
    q.send(b"rests")
    q.lock(0).abort()
    info = qm.queue_info("q")
    assert (info.ready, info.delayed, info.messages) == (0, 1, 1)  # waits for its retry, counted as delayed
