"""Looks of waiting readers, one by one: what they look at, and what a refused one changes."""

from __future__ import annotations

import uuid

import pytest

import mqredis
from mqredis import Settings
from mqredis.commands import read
from mqredis.commands.filters import Filter, Member
from mqredis.commands.read import Waiter
from mqredis.selector import parse
from mqredis.steps import perform
from tests.drivers.kit import until
from tests.matching.kit import PATIENCE, Pending

_WANTED = Filter(programs=[parse("colour = 'red'").program]).text()


class Reader:
    """A reader that waits, driven look by look."""

    def __init__(self, qm, text=_WANTED, name="q"):
        self.qm, self.text = qm, text
        self.address = qm.open(name)._handle.address
        self.waiter = Waiter("D k0 -")
        self.looks = 0

    def look(self, count=1):
        """One look at the queue, in as many calls as it takes: the bodies it took."""
        place = ""
        while True:
            cursor = "A" + place if place else ""
            call = read.receive(
                self.address, "take", count, waiter=self.waiter, match=self.text, cursor=cursor
            )
            found = self.qm._run(perform(call))
            self.looks += 1
            self.waiter.ticket = found.ticket
            place = found.place
            if found.messages or not place:
                return [raw[2].rpartition(b"\0")[2] for raw in found.messages]


@pytest.fixture(params=["real", "fake"])
def url(request):
    if request.param == "real":
        return request.getfixturevalue("redis_server").url
    return f"memory://re-{uuid.uuid4().hex}"


def connect(url):
    return mqredis.connect(url, manager="rechecks", settings=Settings(test_clock=True, allow_volatile=True))


@pytest.fixture
def qm(url):
    with connect(url) as made:
        made.create_queue("q")
        yield made
        assert not made.doctor().findings


def fill(queue, count, **properties):
    queue.send_many([mqredis.Outgoing(body=b"%d" % n, properties=properties) for n in range(count)])


def test_it_does_not_look_at_the_same_messages_again(qm):
    queue = qm.open("q")
    fill(queue, 2500, colour="blue")
    reader = Reader(qm)
    assert reader.look() == []
    assert reader.looks == 3
    for _ in range(5):
        assert reader.look() == []
    assert reader.looks == 8
    fill(queue, 20, colour="green")
    assert reader.look() == []
    assert reader.looks == 9


def test_what_returns_with_a_lower_id_is_looked_at(qm):
    queue = qm.open("q")
    queue.send(b"low", priority=7, properties={"colour": "red"})
    lock = queue.lock(0)
    queue.send(b"late", priority=6, properties={"colour": "red"})
    late = queue.lock(0, lease=5)
    fill(queue, 1200, colour="blue")
    reader = Reader(qm)
    assert reader.look() == []
    before = reader.looks
    qm.advance_clock(6)
    assert reader.look() == [b"late"]
    assert late.body == b"late"
    assert reader.looks == before + 1
    reader.waiter.ticket = ""
    assert reader.look() == []
    before = reader.looks
    lock.abort()  # rings: the hint leads to it
    assert reader.look() == [b"low"]
    assert reader.looks == before + 1


def test_what_was_meant_for_a_reader_that_died_is_found_by_the_next(qm):
    queue = qm.open("q")
    fill(queue, 1200, colour="blue")
    reader = Reader(qm)
    assert reader.look() == []
    before = reader.looks
    # No listening reader is notified; the reader stays registered and finds the message with its next fetch.
    queue.send(b"red", properties={"colour": "red"})
    assert reader.look() == [b"red"]
    assert reader.looks <= before + 2


def test_what_became_available_twice_is_taken_once(qm, url):
    with connect(url) as other, other.open("q") as queue:
        first = Pending(lambda: queue.lock(PATIENCE, selector="colour = 'red'", lease=5))
        until(lambda: qm.queue_info("q").waiters == 1)
        reader = Reader(qm)
        assert reader.look() == []
        qm.open("q").send(b"red", properties={"colour": "red"})  # the first gets it, the second remembers it
        assert first.result().body == b"red"
        qm.advance_clock(6)
        assert reader.look(count=5) == [b"red"]  # the lease ends in this very call


def test_more_than_is_remembered(qm):
    queue = qm.open("q")
    fill(queue, 1200, colour="blue")
    reader = Reader(qm)
    assert reader.look() == []
    assert reader.looks == 2
    fill(queue, 256, colour="blue")
    fill(queue, 256, colour="blue")
    assert reader.look() == []
    assert reader.looks == 4
    assert reader.look() == []
    assert reader.looks == 5


def test_what_arrived_while_it_looked_is_not_missed(qm):
    queue = qm.open("q")
    fill(queue, 1500, colour="blue")
    reader = Reader(qm)
    call = read.receive(reader.address, "take", waiter=reader.waiter, match=_WANTED)
    found = qm._run(perform(call))
    assert found.place
    queue.send(b"front", priority=7, properties={"colour": "red"})
    reader.waiter.ticket = found.ticket
    rest = read.receive(reader.address, "take", waiter=reader.waiter, match=_WANTED, cursor="A" + found.place)
    found = qm._run(perform(rest))
    reader.waiter.ticket = found.ticket
    bodies = [raw[2].rpartition(b"\0")[2] for raw in found.messages] or reader.look()
    assert bodies == [b"front"]


def test_the_last_look_is_short_too(qm):
    queue = qm.open("q")
    fill(queue, 2500, colour="blue")
    reader = Reader(qm)
    assert reader.look() == []
    before = reader.looks
    reader.waiter.ticket = "leave" + reader.waiter.ticket[reader.waiter.ticket.index(":") :]
    assert reader.look() == []
    assert reader.looks == before + 1
    assert qm.queue_info("q").waiters == 0


def test_a_group_that_became_complete_is_seen(qm):
    queue = qm.open("q")
    wanted = Filter(letters="W").text()
    queue.send(b"1", group_id="g", sequence=1)
    reader = Reader(qm, wanted)
    assert reader.look() == []
    queue.send(b"2", group_id="g", sequence=2, last_in_group=True)
    assert reader.look() == [b"1", b"2"]


def test_a_refused_call_has_settled_nothing(qm):
    queue = qm.open("q")
    queue.send(b"held")
    held = queue.lock(0)
    queue.send_group([b"1", b"2"], group_id="y")
    # Inside group y, whose second message is not the one that is asked for.
    wanted = Filter(match=mqredis.Match(group_id="z"), member=Member("sy", 2, 0)).text()
    settle = [("c", held.fence, f"{held.lookup_id:016x}")]
    with pytest.raises(mqredis.MatchOptionsError):
        qm._run(
            perform(
                read.receive(
                    queue._handle.address, "lock", grant="9000", match=wanted, settle=read.runs(settle)
                )
            )
        )
    held.abort()
    assert [m.body for m in queue.browse()] == [b"held", b"1", b"2"]


def test_what_is_settled_on_the_way_refuses_nothing_any_more(qm):
    queue = qm.open("q")
    queue.send_group([b"1", b"2"], group_id="y")
    held = queue.lock_by_lookup_id([m.lookup_id for m in queue.browse()][1])
    wanted = Filter(match=mqredis.Match(group_id="z"), member=Member("sy", 2, 0)).text()
    call = read.receive(
        queue._handle.address,
        "lock",
        grant="9000",
        match=wanted,
        settle=["a", held.fence, f"{held.lookup_id:016x}"],
    )
    assert not qm._run(perform(call)).messages
    assert [m.body for m in queue.browse()] == [b"1", b"2"]
