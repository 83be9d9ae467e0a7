"""The index of message and correlation ids comes with the first reader who asks for one (lua/lib/index_build.lua)."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

import mqredis
from mqredis import Journal, Match, Outgoing, Settings
from mqredis.commands import read
from mqredis.commands.filters import Filter
from mqredis.steps import perform
from tests.matching.kit import drain
from tests.support.backend import Backend

_C = Match(correlation_id="c")
_TEXT = Filter(_C).text()
#: What a message asks for so that it is more than named.
_SPECIAL: list[dict[str, Any]] = [
    {},
    {"message_id": "m"},
    {"time_to_be_received": 600.0},
    {"group_id": "g"},
    {"message_id": "m", "group_id": "g"},
]


@dataclass
class Kit:
    """A queue manager with a queue that nobody asked, and what is in its index."""

    qm: mqredis.QueueManager
    raw: Any

    def key(self, queue: str, part: str) -> str:
        (key,) = self.raw.keys(f"mq:*:q:{queue}:{part}")
        return str(key.decode())

    def state(self, queue: str = "q") -> str:
        return str(self.raw.hget(self.key(queue, "q"), "index").decode())

    def indexed(self, queue: str = "q") -> list[str]:
        """The correlation ids in the index, one for each message."""
        keys = self.raw.keys(f"mq:*:q:{queue}:i")
        members = self.raw.zrange(keys[0], 0, -1) if keys else []
        return [name.partition(b"\0")[0][2:].decode() for name in members if name[:1] == b"c"]

    def look(self, place: str = "", text: bytes = _TEXT) -> tuple[list[bytes], str]:
        """One call of a peek: bodies, and where the search goes on."""
        address = self.qm.open("q")._handle.address
        cursor, step = ("A" + place, "after") if place else ("", "current")
        found = self.qm._run(perform(read.peek(address, 1, cursor=cursor, step=step, match=text)))
        return [raw[2].rpartition(b"\0")[2] for raw in found.messages], found.place


@pytest.fixture
def kit(backend: Backend) -> Iterator[Kit]:
    settings = Settings(test_clock=True, allow_volatile=True)
    with mqredis.connect(backend.client(), manager=f"i{uuid.uuid4().hex}", settings=settings) as qm:
        qm.create_queue("q")
        qm.create_queue("t", transactional=True)
        yield Kit(qm, backend.client())
        assert qm.doctor().healthy


def named(*names: str, **more: Any) -> list[Outgoing]:
    """Messages with a correlation id, which is their body as well."""
    return [Outgoing(body=name.encode(), correlation_id=name, **more) for name in names]


def numbered(start: int, stop: int) -> list[Outgoing]:
    return named(*(f"n{number}" for number in range(start, stop)))


@pytest.mark.parametrize("special", _SPECIAL, ids=str)
def test_nobody_pays_before_somebody_asks(kit: Kit, special: dict[str, Any]) -> None:
    q, t = kit.qm.open("q"), kit.qm.open("t")
    for _ in range(2):  # a session's first call goes the long way, its second the short one
        q.send(b"x", correlation_id="c", **special)
        q.send_many(named("c", "c", **special))
        lock, *rest = q.lock_many(2)
        lock.abort()
        for other in rest:
            other.commit()
        with kit.qm.transaction() as unit:
            t.send(b"x", correlation_id="c", transaction=unit, **special)
            t.send_many(named("c", "c", **special), transaction=unit)
        with kit.qm.transaction() as unit:
            t.receive(0, transaction=unit)
    q.peek(0)
    assert q.receive(0, match=Match(group_id="g") if "group_id" in special else None).body
    assert (kit.indexed(), kit.indexed("t")) == ([], [])
    assert (kit.state(), kit.state("t")) == ("none", "none")


@pytest.mark.parametrize("special", _SPECIAL, ids=str)
def test_from_the_first_question_on_it_is_kept(kit: Kit, special: dict[str, Any]) -> None:
    q = kit.qm.open("q")
    q.send_many(named("a", "b", "c", **special))
    assert q.peek(0, match=_C).body == b"c"
    assert (kit.state(), kit.indexed()) == ("all", ["a", "b", "c"])
    q.send(b"d", correlation_id="d", **special)
    q.send_many(named("e", "f", **special))
    one, *rest = q.lock_many(2)
    assert kit.indexed() == ["c", "d", "e", "f"]
    one.abort()
    for other in rest:
        other.commit()
    assert [m.body for m in q.browse(match=Match(correlation_id="a"))] == [b"a"]
    assert kit.indexed() == ["a", "c", "d", "e", "f"]
    assert q.receive(0, match=Match(correlation_id="e")).body == b"e"
    for lock in q.lock_many(9):
        lock.commit()
    assert kit.indexed() == []


@pytest.mark.parametrize(
    "question",
    [
        {"match": Match(message_id="m")},
        {"match": Match(correlation_id="c", group_id="g")},
        {"selector": "JMSCorrelationID = 'c'"},
        {"selector": "JMSCorrelationID IN ('b', 'c')"},
    ],
    ids=str,
)
def test_what_asks(kit: Kit, question: dict[str, Any]) -> None:
    q = kit.qm.open("q")
    q.send_many([*named("x"), Outgoing(body=b"found", message_id="m", correlation_id="c", group_id="g")])
    assert [m.body for m in q.browse(**question)] == [b"found"]
    assert kit.state() == "all"


@pytest.mark.parametrize(
    "question",
    [{"match": Match(group_id="g")}, {"selector": "n = 1"}, {"selector": "JMSXGroupID = 'g'"}],
    ids=str,
)
def test_what_does_not(kit: Kit, question: dict[str, Any]) -> None:
    q = kit.qm.open("q")
    q.send_many([*named("x"), Outgoing(body=b"found", correlation_id="c", group_id="g", properties={"n": 1})])
    assert [m.body for m in q.browse(**question)] == [b"found"]
    assert (kit.state(), kit.indexed()) == ("none", [])


def test_a_token_needs_no_index(kit: Kit) -> None:
    q = kit.qm.open("q")
    q.send_many(named("a", "b"))
    token = q.peek(0).token
    assert q.receive(0, match=Match(token=token)).body == b"a"
    assert kit.state() == "none"


def test_what_comes_back_later_is_in_it(kit: Kit) -> None:
    """Locked singly or together, in a transaction, delayed, moved away: none was available when it was built."""
    q, t, sub = kit.qm.open("q"), kit.qm.open("t"), kit.qm.open("q;s")
    q.send_many(named("p1", "p2", "l"))
    together, single = q.lock_many(2), q.lock(0)
    q.send(b"d", correlation_id="d", delay=60)
    moved = q.send(b"m", correlation_id="m")
    q.move(moved.lookup_id, sub)
    unit = kit.qm.transaction()
    t.send_many(named("s1", "s2"), transaction=unit)
    for queue in (q, t, sub):
        assert drain(queue, match=_C) == []
    assert (kit.indexed(), kit.indexed("t")) == ([], [])
    single.abort()
    for lock in together:
        lock.abort()
    unit.commit()
    kit.qm.advance_clock(61)
    for name in ("p1", "p2", "l", "d"):
        assert drain(q, match=Match(correlation_id=name)) == [name]
    for name in ("s1", "s2"):
        assert drain(t, match=Match(correlation_id=name)) == [name]
    sub.move(moved.lookup_id, q)
    assert drain(q, match=Match(correlation_id="m")) == ["m"]


def test_a_deep_queue_is_asked_in_several_calls(kit: Kit) -> None:
    q = kit.qm.open("q")
    q.send_many(numbered(0, 2300))
    q.send_many(named("c", "c"))
    assert kit.look() == ([], "0")
    assert (kit.state(), len(kit.indexed())) == ("part", 1000)
    assert kit.qm.doctor().healthy
    # What comes and goes on either side of the place up to which it is built.
    q.send(b"high", correlation_id="high", priority=7)
    q.send_many(named("low", "low", priority=0))
    assert [q.receive(0).body for _ in range(3)] == [b"high", b"n0", b"n1"]
    held = q.lock_many(2)
    last = max(q.browse(selector="JMSPriority = 3"), key=lambda message: message.lookup_id)
    far = q.lock_by_lookup_id(last.lookup_id)
    assert kit.look() == ([], "0")  # another reader goes on where the first one stopped
    held[0].abort()
    far.abort()
    assert kit.look("0") == ([b"c"], "")
    assert kit.state() == "all"
    assert kit.indexed() == sorted([*(f"n{n}" for n in range(2, 2300) if n != 3), "c", "c", "low", "low"])
    held[1].abort()
    assert drain(q, match=Match(correlation_id="n3")) == ["n3"]
    assert drain(q, match=_C) == ["c", "c"]


def test_a_call_reads_no_more_than_some_megabytes(kit: Kit) -> None:
    q = kit.qm.open("q")
    for _ in range(6):
        q.send_many([Outgoing(body=b"", correlation_id="x", properties={"text": "x" * 20_000})] * 100)
    assert kit.look() == ([], "0")
    assert len(kit.indexed()) == 250
    assert drain(q, match=_C) == []
    assert len(kit.indexed()) == 600


def test_a_search_goes_on_from_where_it_began(kit: Kit) -> None:
    q = kit.qm.open("q")
    q.send_many([*named("c"), *numbered(0, 1500), *named("c")])
    first = f"{q.peek(0).lookup_id:016x}"
    bodies, place = kit.look(first)
    assert (bodies, place) == ([], first)
    assert kit.look(place) == ([b"c"], "")
    q.receive(0)
    assert kit.look()[0] == [b"c"]


def test_an_old_queue_has_it_from_the_start(kit: Kit) -> None:
    """A queue that was made before the index came on demand says nothing about it, and so does its brief."""
    q = kit.qm.open("q")
    assert drain(q, match=_C) == []
    q.send_many(named("a", "c"))
    properties = kit.key("q", "q")
    brief, _, _ = kit.raw.hget(properties, "brief").rpartition(b"|")
    kit.raw.hdel(properties, "index")
    kit.raw.hset(properties, "brief", brief)
    q.send(b"d", correlation_id="d")
    assert kit.qm.doctor().healthy
    assert kit.indexed() == ["a", "c", "d"]
    assert drain(q, match=_C) == ["c"]
    assert kit.indexed() == ["a", "d"]
    assert kit.qm.doctor().healthy


def test_locks_are_settled_once_while_it_is_built(kit: Kit) -> None:
    q = kit.qm.open("q")
    q.send_many([*numbered(0, 2500), *named("c")])
    held = q.lock_many(3)
    (lock,) = q.lock_many(1, match=_C, settle=held)
    assert lock.body == b"c"
    lock.commit()
    assert kit.qm.queue_info("q").messages == 2497


def test_a_purge_by_an_identifier(kit: Kit) -> None:
    q = kit.qm.open("q")
    q.send_many([*numbered(0, 1200), *named("c", "c")])
    assert q.purge(match=_C) == 2
    assert (kit.state(), kit.qm.queue_info("q").messages) == ("all", 1200)
    q.purge()
    assert kit.indexed() == []
    q.send_many(named("c"))
    assert drain(q, match=_C) == ["c"]


def test_copies_are_found_by_the_message_that_they_are_copies_of(kit: Kit) -> None:
    q = kit.qm.open("q")
    sent = q.send(b"x", correlation_id="c", time_to_be_received=5, journal=Journal.DEAD_LETTER)
    kit.qm.advance_clock(6)
    assert drain(q) == []
    dead = kit.qm.open("system$;deadletter")
    assert kit.indexed("system%24%3Bdeadletter") == []
    assert dead.receive(0, match=Match(message_id=sent.message_id, correlation_id="c")).body == b"x"
