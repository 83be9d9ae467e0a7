"""Checks: removed messages leave nothing behind; hostile names, properties, selectors and tokens."""

from __future__ import annotations

import contextlib
import random
import time
from itertools import islice
from typing import Any

import mqredis
from mqredis import (
    Acknowledge,
    DuplicateMessage,
    IoTimeout,
    Journal,
    Mark,
    MqError,
    Outgoing,
    RetryPolicy,
    Settings,
)
from mqredis.keys import ManagerKeys, decode, encode
from mqredis.selector.parser import parse
from tests.reliability.check import Run, check
from tests.reliability.store import Reader
from tests.support.server import RedisServer

# Messages of one lap over all queues.
LAP = 4000
# Queues with what the broker does by itself.
QUEUES: dict[str, dict[str, Any]] = {
    "q0": {"journaling": True, "journal_quota_messages": 300},
    "q1": {"retry": RetryPolicy(immediate=0, final="poison")},
    "q2": {"retry": RetryPolicy(immediate=0, cycles=1, delay=4, final="dead_letter")},
    "q3": {"group_exclusive": True},
    "q4": {},
}

# Queues in steady use, and how many messages of which size lie in each of them all the time: what a leak is measured
# against. Beside empty queues alone, counters that gain a digit would look like one.
STEADY, DEPTH, SIZE = 40, 20, 100
# By how much the keys may have grown at the end: 290 bytes, for the digits that their counters gain. Something that
# stayed of one in ten thousand messages would be more than that.
MOST = 1.002


def _fill(qm: mqredis.QueueManager) -> list[mqredis.Queue]:
    """The queues in steady use."""
    for n in range(STEADY):
        qm.create_queue(f"steady{n}")
    steady = [qm.open(f"steady{n}") for n in range(STEADY)]
    for q in steady:
        q.send_many([b"x" * SIZE] * DEPTH)
    return steady


def _lap(
    qm: mqredis.QueueManager,
    queues: list[mqredis.Queue],
    steady: list[mqredis.Queue],
    unit: mqredis.Queue,
    rng: random.Random,
) -> None:
    """Remove messages in every possible way."""
    for q in queues:
        ways = [rng.choice("ttreaplxmdj") for _ in range(LAP // len(queues))]
        for way in set(ways):
            items = [_item(way, rng) for _ in range(ways.count(way))]
            q.send_many(items)
            if way == "t":
                q.receive_many(len(items), 0)
            elif way in "re":
                for locked in q.lock_many(len(items), 0, lease=5):
                    (locked.commit if way == "e" else locked.reject)()
            elif way == "a":
                for locked in q.lock_many(len(items), 0, lease=5):
                    locked.abort()
            elif way == "l":
                q.lock_many(len(items), 0, lease=5)
            elif way == "m":
                with qm.open(q.name + ";s") as sub:
                    for found in islice(q.browse(), 3):
                        q.move(found.lookup_id, sub)
        _features(qm, q, rng)
    for outcome in ("commit", "abort", "lapse"):
        work = qm.transaction(lease=5)
        unit.send_many([b"x"] * 20, transaction=work)
        if outcome != "lapse":
            getattr(work, outcome)()
    qm.advance_clock(10)
    qm.maintain()
    with qm.transaction() as work:
        unit.receive_many(20, 0, transaction=work)
    work = qm.transaction(lease=5)
    unit.send(Outgoing(body=b"x", journal=Journal.DEAD_LETTER, time_to_be_received=1.0), transaction=work)
    work.commit()
    qm.advance_clock(100)  # every lease, delay, rest and dedup window is over
    qm.maintain()
    for q in steady:
        q.receive(0)
        q.send(b"x" * SIZE)
    for info in qm.queues():
        if not info.topic and not info.name.startswith("steady"):
            with qm.open(info.name) as q:
                q.purge()


def _features(qm: mqredis.QueueManager, q: mqredis.Queue, rng: random.Random) -> None:
    """Dedup keys, groups, topics, marks of browsers, selectors, acknowledgements, requests without a reply."""
    number = rng.randrange(1 << 40)
    for n in range(6):
        with contextlib.suppress(DuplicateMessage):
            q.send(b"x", dedup_key=f"{number}-{n % 4}", dedup_window=20)
    q.send_group([b"1", b"2", b"3"], group_id=f"g{number}")
    q.send(b"x", acknowledge=Acknowledge.FULL_RECEIVE, administration_queue="admin", time_to_be_received=3.0)
    with qm.open("news") as news:
        news.send_many([Outgoing(body=b"x", properties={"n": n}) for n in range(4)])
    with contextlib.suppress(IoTimeout):
        q.receive(0, selector=f"JMSCorrelationID = 'c{number % 9}'")
    with contextlib.suppress(IoTimeout):
        qm.request(q, b"x", timeout=0.001)
    with q.browser(co_op=True) as browser:
        with contextlib.suppress(IoTimeout):
            browser.first(0, mark=Mark.HANDLE, lock=True)
        with contextlib.suppress(IoTimeout):
            browser.next(0, mark=Mark.CO_OP)


def _item(way: str, rng: random.Random) -> Outgoing:
    body = b"x" * rng.choice((10, 100, 5000))
    if way == "x":
        return Outgoing(body=body, time_to_be_received=5.0, journal=Journal(rng.randrange(4)))
    if way == "j":
        return Outgoing(
            body=body, journal=Journal.JOURNAL, group_id=f"j{rng.randrange(5)}", time_to_be_received=50.0
        )
    if way == "d":
        return Outgoing(body=body, delay=8.0, correlation_id="c", properties={"n": 1})
    return Outgoing(body=body, correlation_id=f"c{rng.randrange(9)}")


@check("leaks", "after any number of messages the key space is as before, and so is the memory")
def leaks(run: Run) -> None:
    """Repeat a round over all queues; the store after each must equal the store after the first."""
    messages = run.size(2_000_000, 3 * LAP)
    settings = Settings(test_clock=True, allow_volatile=True, wake="poll")
    with RedisServer(options={"rdbcompression": "no"}) as server:  # else DUMP depends on the digits, too
        with mqredis.connect(server.url, manager="r", settings=settings) as qm:
            for name, properties in QUEUES.items():
                qm.create_queue(name, **properties)
            qm.create_queue("t", transactional=True)
            qm.create_queue("admin")
            qm.create_queue("news", topic=True)
            for name, selector in (("q1", "n > 1"), ("q4", None)):
                qm.subscribe("news", name, selector)
            queues, unit, steady = [qm.open(name) for name in QUEUES], qm.open("t"), _fill(qm)
            shape: dict[str, int] = {}
            first = 0
            with server.client() as raw:
                for lap in range(max(3, messages // LAP)):
                    _lap(qm, queues, steady, unit, run.rng("lap", lap))
                    if lap == 1:
                        shape, first = _shape(raw), _memory(raw)
                now, last = _shape(raw), _memory(raw)
            assert now == shape, f"{now} is left, {shape} was there after the second lap"
            report = qm.doctor()
            assert report.healthy, report.findings[:3]
        run.counts.update({"messages": max(3, messages // LAP) * LAP, "keys": len(shape)})
        run.counts.update(
            {"bytes of keys": last, "memory grew percent": round(100 * (last - first) / first, 3)}
        )
        # Counters gain digits: a handful of bytes however long the run is.
        assert last <= first * MOST, f"memory grew from {first} to {last}"


def _shape(raw: Any) -> dict[str, int]:
    """Every key of the queues with the number of its elements. Slots of the session stay, one each."""
    out = {}
    for key in raw.keys("mq:*"):
        out[key.decode()] = raw.hlen(key) if raw.type(key) == b"hash" else raw.zcard(key)
    # Properties come once and stay: a queue's hash may have some more fields after it was used in a new way.
    return {key: 0 if key.endswith((":q", ":meta")) else n for key, n in out.items()}


def _memory(raw: Any) -> int:
    """Bytes of what all keys hold, as the server would write them down: exact, and the same for the same content.

    ``MEMORY USAGE`` would add the room in tables that were larger once and shrink when they are next touched, and the
    server's own total the buffers of connections. A queue's statistics over time are left out: they grow with time, up
    to a bound that tests/inspection/test_history.py shows.
    """
    queues = raw.keys("mq:*:q:*:q")
    return sum(len(raw.dump(key)) for key in raw.keys("*")) - sum(
        raw.hstrlen(key, "statistics") for key in queues
    )


# ---- hostile input -------------------------------------------------------------------------------

_PIECES = (
    "{", "}", "*", "?", "[", "]", "\r\n", "\n", "\0", ":", ";", ",", "|", "%", "'", '"', "\\", "a", "é", "e\u0301",
    "\u202e", "\u200b",
    "(", ")", " LIKE ", " ESCAPE ", "%_", " AND ", " NOT ", " IN (", "1e400", "-", "9" * 30, " BETWEEN ", " IS NULL",
    "\ud800", "\x01", "\x04", "q", "JMSPriority", " = ", " <> ", ".5", "$", "\U0001f600",
)  # fmt: skip


def _hostile(rng: random.Random) -> str:
    return "".join(rng.choice(_PIECES) for _ in range(rng.choice((1, 2, 3, 8, 40, 200))))


@check(
    "hostile input",
    "names, properties, selectors and tokens of any kind: typed errors, no foreign key, no slow one",
)
def hostile(run: Run) -> None:
    """Random texts of characters with a special meaning somewhere."""
    parse("a = 1")  # its grammar is built on first use
    cases, rng, slowest = run.size(2_000_000, 3000), run.rng("hostile"), 0.0
    with RedisServer() as server:
        reader = Reader(server)
        with mqredis.connect(server.url, manager="r", settings=Settings(wake="poll")) as qm:
            qm.create_queue("q")
            q = qm.open("q")
            for case in range(3):  # scripts are joined and loaded on first use
                with contextlib.suppress(MqError):
                    _try(qm, q, "warm", case)
            for case in range(cases):
                text = _hostile(rng)
                began = time.perf_counter()
                try:
                    what = _try(qm, q, text, case)
                except MqError as error:
                    what = type(error).__name__
                slowest = max(slowest, time.perf_counter() - began)
                run.add(what)
            report = qm.doctor()
            assert report.healthy, report.findings[:3]
        keys = reader.wire.command("KEYS", "*")
        foreign = [key for key in keys if not key.startswith(b"mq:{r}:")]
        assert not foreign, foreign[:3]
    assert slowest < 1.0, f"a case took {slowest:.2f} s"
    run.counts.update({"cases": cases, "slowest ms": round(1000 * slowest, 1)})


def _try(qm: mqredis.QueueManager, q: mqredis.Queue, text: str, case: int) -> str:
    """Use a text in one way and return the outcome."""
    if case % 50 == 0:
        qm.create_queue(text)
        assert qm.queue_info(text).messages == 0
        qm.delete_queue(text)
        return "queues made"
    if case % 50 == 1:
        q.send(
            text.encode("utf-8", "surrogatepass"),
            properties={text[:40]: text},
            correlation_id=text,
            label=text,
        )
        found = q.receive(0)
        assert found.properties == {text[:40]: text}, "a property came back changed"
        assert (found.correlation_id, found.label) == (text, text), "a field came back changed"
        return "messages sent"
    if case % 50 == 2:
        qm.resolve(text)
        return "tokens resolved"
    if case % 2:
        parse(text)
        return "selectors read"
    keys = ManagerKeys(text)
    name = encode(text)
    assert decode(name) == text
    assert keys.tag.count("{") == keys.tag.count("}") == 1
    return "names accepted"
