"""Polls of waiting readers, one by one: which messages they examine, and what a refused one changes."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

import mqredis
from mqredis import Match, Settings
from mqredis.commands import read, settlement, waiting
from mqredis.commands.filters import MARK_COOPERATIVE, UNMARKED, WHOLE_GROUP, Filter, Member
from mqredis.commands.waiting import Waiter
from mqredis.drivers.connect import forget_store
from mqredis.selector import parse
from mqredis.steps import perform
from tests.support.facade import PATIENCE, Pending
from tests.support.until import until

_WANTED = Filter(programs=[parse("colour = 'red'").program]).text()


class Reader:
    """A waiting reader, driven poll by poll."""

    def __init__(self, qm, text=_WANTED, name="q"):
        self.qm, self.text = qm, text
        self.address = qm.open(name)._handle.address
        self.waiter = Waiter("D k0 -")
        self.calls = 0

    def poll(self, count=1):
        """Poll once, in as many calls as needed; return the bodies taken."""
        place = ""
        while True:
            cursor = "A" + place if place else ""
            call = read.receive(
                self.address, "take", count, waiter=self.waiter, match=self.text, cursor=cursor
            )
            found = self.qm.run(perform(call))
            self.calls += 1
            self.waiter.ticket = found.ticket
            place = found.place
            if found.messages or not place:
                return [raw[2].rpartition(b"\0")[2] for raw in found.messages]


@pytest.fixture(params=["real", "fake"])
def url(request):
    if request.param == "real":
        yield request.getfixturevalue("redis_server").url
    else:
        name = f"re-{uuid.uuid4().hex}"
        yield f"memory://{name}"
        forget_store(name)


def connect(url):
    return mqredis.connect(url, manager="rechecks", settings=Settings(test_clock=True, allow_volatile=True))


@pytest.fixture
def qm(url):
    with connect(url) as made:
        made.create_queue("q")
        yield made
        assert not made.doctor().findings


def fill(queue, count, transaction=None, **properties):
    items = [mqredis.Outgoing(body=b"%d" % n, properties=properties) for n in range(count)]
    queue.send_many(items, transaction=transaction)


def reader_that_found_nothing(qm):
    """A queue with many messages, and a reader of others after its first look."""
    queue = qm.open("q")
    fill(queue, 1200, colour="blue")
    reader = Reader(qm)
    assert reader.poll() == []
    return queue, reader


def test_poll_does_not_examine_the_same_messages_again(qm):
    queue = qm.open("q")
    fill(queue, 2500, colour="blue")
    reader = Reader(qm)
    assert reader.poll() == []
    assert reader.calls == 3
    for _ in range(5):
        assert reader.poll() == []
    assert reader.calls == 8
    fill(queue, 20, colour="green")
    assert reader.poll() == []
    assert reader.calls == 9


def test_message_that_returns_before_the_examined_ones_is_found(qm):
    queue = qm.open("q")
    queue.send(b"low", priority=7, properties={"colour": "red"})
    lock = queue.lock(0)
    queue.send(b"late", priority=6, properties={"colour": "red"})
    late = queue.lock(0, lease=5)
    fill(queue, 1200, colour="blue")
    reader = Reader(qm)
    assert reader.poll() == []
    before = reader.calls
    qm.advance_clock(6)
    assert reader.poll() == [b"late"]
    assert late.body == b"late"
    assert reader.calls == before + 1
    reader.waiter.ticket = ""
    assert reader.poll() == []
    before = reader.calls
    lock.abort()  # notifies the reader, with a hint to the message
    assert reader.poll() == [b"low"]
    assert reader.calls == before + 1


def test_message_without_a_notification_is_found_by_the_next_poll(qm):
    queue, reader = reader_that_found_nothing(qm)
    before = reader.calls
    # No listening reader is notified; the reader was handed the id of the message, and finds it with its next fetch.
    queue.send(b"red", properties={"colour": "red"})
    assert reader.poll() == [b"red"]
    assert reader.calls == before + 1


def test_message_that_became_available_twice_is_taken_once(qm, url):
    with connect(url) as other, other.open("q") as queue:
        first = Pending(lambda: queue.lock(PATIENCE, selector="colour = 'red'", lease=5))
        until(lambda: qm.queue_info("q").waiters == 1)
        reader = Reader(qm)
        assert reader.poll() == []
        qm.open("q").send(b"red", properties={"colour": "red"})  # the first gets it, the second remembers it
        assert first.result().body == b"red"
        qm.advance_clock(6)
        assert reader.poll(count=5) == [b"red"]  # the lease ends in this very call


def test_more_arrivals_than_are_remembered_lead_to_a_full_poll(qm):
    queue, reader = reader_that_found_nothing(qm)
    assert reader.calls == 2
    fill(queue, 256, colour="blue")
    fill(queue, 256, colour="blue")
    assert reader.poll() == []
    assert reader.calls == 4
    assert reader.poll() == []
    assert reader.calls == 5


def test_as_many_arrivals_as_are_remembered_are_examined_alone(qm):
    queue, reader = reader_that_found_nothing(qm)
    before = reader.calls
    for _ in range(2):
        fill(queue, 250, colour="blue")
    assert reader.poll() == []
    assert reader.calls == before + 1


def test_message_under_the_cursor_that_comes_back_is_not_behind_it(qm):
    queue = qm.open("q")
    queue.send(b"under", properties={"colour": "red"})
    under = queue.lock(0)
    after = Filter(programs=[parse("colour = 'red'").program], after=f"{under.lookup_id:016x}").text()
    reader = Reader(qm, after)
    assert reader.poll() == []
    under.abort()
    assert reader.poll() == []
    queue.send(b"behind", properties={"colour": "red"})
    assert reader.poll() == [b"behind"]


_LONG = "ab" * 20_000  # one LIKE on it uses up the time that a call has for a selector


def reader_of_unoffered(qm, selector, *items, options=""):
    """A waiting reader, and messages about which it is not asked: another one uses up the time for that."""
    slow = " OR ".join(f"colour LIKE '%{n}%'" for n in range(5))
    reader = Reader(qm, Filter(programs=[parse(selector).program], options=options).text())
    for each in (Reader(qm, Filter(programs=[parse(slow).program]).text()), reader):
        assert each.poll() == []
    qm.open("q").send_many([mqredis.Outgoing(body=b"long", properties={"colour": _LONG}), *items])
    return reader


def test_oldest_arrival_that_is_remembered_is_found(qm):
    reader = reader_of_unoffered(qm, "colour LIKE 'ab%'")
    for size in (250, 249):
        fill(qm.open("q"), size, colour="blue")
    assert reader.poll() == [b"long"]


@pytest.mark.parametrize("other", [_WANTED, Filter(Match(correlation_id="c")).text()], ids=["all", "one"])
def test_arrivals_stay_while_a_reader_waits_that_searches_them(qm, other):
    """Another reader that leaves takes none away, whether its filter names an identifier or not."""
    reader = reader_of_unoffered(qm, "colour LIKE 'ab%'")
    leaving = Reader(qm, other)
    assert leaving.poll() == []
    leaving.waiter.ticket = "leave"
    assert leaving.poll() == []
    assert reader.poll() == [b"long"]


def test_poll_goes_on_behind_the_arrival_at_which_its_time_was_used_up(qm):
    wanted = mqredis.Outgoing(body=b"wanted", properties={"colour": _LONG, "wanted": True})
    reader = reader_of_unoffered(qm, "colour LIKE 'ab%' AND wanted", wanted)
    assert reader.poll() == [b"wanted"]
    assert reader.calls == 3


def test_group_that_became_complete_without_a_notification_is_found(qm):
    wanted: dict[str, Any] = {"group_id": "g", "properties": {"wanted": True}}
    qm.open("q").send(b"1", sequence=1, **wanted)
    last = mqredis.Outgoing(body=b"2", sequence=2, last_in_group=True, **wanted)
    reader = reader_of_unoffered(qm, "wanted", last, options=WHOLE_GROUP)
    assert reader.poll() == [b"1", b"2"]


def test_message_of_a_group_that_is_not_busy_any_more_is_found(qm):
    qm.create_queue("x", group_exclusive=True)
    queue = qm.open("x")
    for n, colour in enumerate(("blue", "blue", "red")):
        queue.send(b"%d" % n, group_id="g", properties={"colour": colour})
    lock, reader = queue.lock(0), Reader(qm, name="x")
    assert reader.poll() == []
    lock.commit()
    assert reader.poll() == [b"2"]


def test_message_whose_co_operative_mark_ended_is_found(qm):
    qm.open("q").send(b"marked")
    marking, looking = (
        Filter(options=option, browser=f"1-{n}", interval="5000").text()
        for n, option in enumerate((MARK_COOPERATIVE, UNMARKED))
    )
    reader = Reader(qm, looking)
    qm.run(perform(read.peek(reader.address, match=marking, marks=True)))
    assert reader.poll() == []
    qm.advance_clock(5)
    assert reader.poll() == [b"marked"]


def test_poll_takes_as_many_arrivals_as_it_asks_for(qm):
    items = [mqredis.Outgoing(body=b"%d" % n, properties={"wanted": True}) for n in range(3)]
    reader = reader_of_unoffered(qm, "wanted", *items)
    assert reader.poll(count=2) == [b"0", b"1"]
    assert reader.poll(count=2) == [b"2"]


def test_arrival_during_a_poll_in_pages_is_found(qm):
    queue = qm.open("q")
    fill(queue, 1500, colour="blue")
    reader = Reader(qm)
    call = read.receive(reader.address, "take", waiter=reader.waiter, match=_WANTED)
    found = qm.run(perform(call))
    assert found.place
    queue.send(b"front", priority=7, properties={"colour": "red"})
    reader.waiter.ticket = found.ticket
    rest = read.receive(reader.address, "take", waiter=reader.waiter, match=_WANTED, cursor="A" + found.place)
    found = qm.run(perform(rest))
    reader.waiter.ticket = found.ticket
    bodies = [raw[2].rpartition(b"\0")[2] for raw in found.messages] or reader.poll()
    assert bodies == [b"front"]


def test_arrival_while_a_search_in_pages_was_not_registered_is_found(qm):
    queue = qm.open("q")
    fill(queue, 1500, colour="blue")
    reader = Reader(qm)
    call = read.receive(reader.address, "take", waiter=reader.waiter, match=_WANTED)
    found = qm.run(perform(call))
    assert found.place
    queue.send(b"first", priority=7, properties={"colour": "red"})  # ends the registration of the reader
    assert queue.receive(0).body == b"first"
    queue.send(b"second", priority=7, properties={"colour": "red"})
    reader.waiter.ticket = found.ticket
    rest = read.receive(reader.address, "take", waiter=reader.waiter, match=_WANTED, cursor="A" + found.place)
    found = qm.run(perform(rest))
    assert not found.messages
    reader.waiter.ticket = found.ticket
    assert reader.poll() == [b"second"]


def test_last_poll_examines_no_message_again(qm):
    queue = qm.open("q")
    fill(queue, 2500, colour="blue")
    reader = Reader(qm)
    assert reader.poll() == []
    before = reader.calls
    reader.waiter.ticket = "leave" + reader.waiter.ticket[reader.waiter.ticket.index(":") :]
    assert reader.poll() == []
    assert reader.calls == before + 1
    assert qm.queue_info("q").waiters == 0


def test_reader_beyond_those_that_are_asked_finds_its_message(qm):
    queue, wanted = qm.open("q"), {}
    # Of the readers of one identifier 64 are asked about a message, in the order of their texts.
    for n in range(65):
        match, program = mqredis.Match(correlation_id="c"), parse(f"size = {n}").program
        wanted[Filter(match=match, programs=[program]).text()] = n
    readers = [Reader(qm, text) for text in sorted(wanted)]
    assert [reader.poll() for reader in readers] == [[]] * 65
    last = readers[-1]
    queue.send(b"last", correlation_id="c", properties={"size": wanted[last.text]})
    assert last.poll() == [b"last"]
    assert [reader.poll() for reader in readers] == [[]] * 65


def test_group_that_became_complete_is_found(qm):
    queue = qm.open("q")
    wanted = Filter(options="W").text()
    queue.send(b"1", group_id="g", sequence=1)
    reader = Reader(qm, wanted)
    assert reader.poll() == []
    queue.send(b"2", group_id="g", sequence=2, last_in_group=True)
    assert reader.poll() == [b"1", b"2"]


def test_refused_call_settles_nothing(qm):
    queue = qm.open("q")
    queue.send(b"held")
    held = queue.lock(0)
    queue.send_group([b"1", b"2"], group_id="y")
    # Inside group y, whose second message is not the one that is asked for.
    wanted = Filter(match=mqredis.Match(group_id="z"), member=Member("sy", 2, 0)).text()
    settle = [("c", held.fence, f"{held.lookup_id:016x}")]
    with pytest.raises(mqredis.MatchOptionsError):
        qm.run(
            perform(
                read.receive(
                    queue._handle.address, "lock", grant="9000", match=wanted, settle=settlement.runs(settle)
                )
            )
        )
    held.abort()
    assert [m.body for m in queue.browse()] == [b"held", b"1", b"2"]


def test_settlement_that_changes_the_group_prevents_the_refusal(qm):
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
    assert not qm.run(perform(call)).messages
    assert [m.body for m in queue.browse()] == [b"1", b"2"]


def test_sender_spends_a_limited_time_on_the_selectors_of_readers(qm):
    queue, text = qm.open("q"), "ab" * 2000
    slow = Filter(programs=[parse("colour LIKE '%abc%def%ghi%' AND colour LIKE '%zzz%yyy%'").program]).text()
    readers = [Reader(qm, slow) for _ in range(100)] + [
        Reader(qm, Filter(programs=[parse("colour LIKE 'ab%'").program]).text())
    ]
    for n, reader in enumerate(readers):
        reader.waiter = Waiter(f"D k0 t{n}")
        assert reader.poll() == []
    queue.send(b"x", properties={"colour": text})
    assert qm.queue_info("q").waiters == 101  # the last one was not asked
    assert readers[-1].poll() == [b"x"]
    assert readers[0].poll() == []
    queue.send(b"y", properties={"colour": "ab"})
    readers[-1].waiter.ticket = ""
    assert readers[-1].poll() == [b"y"]


def test_arrivals_are_noted_only_while_a_reader_waits_that_searches_them(redis_server):
    """A reader of an identifier finds its messages in the index."""
    with connect(redis_server.url) as made, redis_server.client() as raw:
        made.create_queue("q")
        for text, noted in ((Filter(Match(correlation_id="c")).text(), False), (_WANTED, True)):
            assert Reader(made, text).poll() == []
            made.open("q").send(b"x")
            assert bool(raw.hexists("mq:{rechecks}:q:q:q", "arrivals")) is noted


def test_arrivals_are_kept_until_the_last_reader_leaves_that_searches_them(redis_server):
    """After that no reader searches the arrivals, and they would only take room in the index."""
    with connect(redis_server.url) as made, redis_server.client() as raw:
        made.create_queue("q")
        readers = [Reader(made, text) for text in (_WANTED, Filter(programs=[parse("n = 1").program]).text())]
        assert [reader.poll() for reader in readers] == [[], []]
        made.open("q").send(b"x")
        for reader, kept in zip(readers, (1, 0), strict=True):
            made.run(perform(waiting.leave(reader.address, reader.waiter.registration, reader.text)))
            assert raw.zlexcount("mq:{rechecks}:q:q:i", "[l", "(m") == kept


@pytest.mark.parametrize("sizes", [(300, 199, 1, 1), (600,)])
def test_index_keeps_the_last_arrivals_alone(redis_server, sizes):
    """A reader that has seen fewer searches the whole queue."""
    with connect(redis_server.url) as made, redis_server.client() as raw:
        made.create_queue("q", transactional=True)
        assert Reader(made).poll() == []
        for size in sizes:
            with made.transaction() as unit:  # all of them become available at once
                fill(made.open("q"), size, unit, colour="blue")
        kept = raw.zrangebylex("mq:{rechecks}:q:q:i", "[l", "(m")
        assert [int(member[1:15]) for member in kept] == list(range(sum(sizes) - 499, sum(sizes) + 1))
