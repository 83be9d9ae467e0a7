"""Which reader is notified of which message: one that a waiting reader cannot use goes to the next one at once.

The clients here do not look again by themselves before the tests lose their patience.
"""

from __future__ import annotations

import uuid

import pytest

import mqredis
from mqredis import Grouping, Match, MatchOptionsError, Outgoing, Settings
from mqredis.commands import pipelines, read
from mqredis.commands.filters import Filter, Member
from mqredis.commands.read import Waiter
from mqredis.keys import QUEUE_PARTS, ManagerKeys
from mqredis.selector import parse
from mqredis.steps import perform
from tests.matching.kit import PATIENCE, bodies

LOGICAL = Grouping.LOGICAL_ORDER
ALL = Grouping.ALL_MESSAGES_AVAILABLE
COMPLETE = Grouping.COMPLETE_MESSAGE
SEGMENTS = Grouping.ALL_SEGMENTS_AVAILABLE
PLAIN = Settings(test_clock=True, allow_volatile=True)
WHOLE = Filter(grouping=ALL).text()
RED = Filter(programs=[parse("colour = 'red'").program]).text()
TWO = Filter(programs=[parse("n = 2").program]).text()
NOBODY_IN_WHOLE = Filter(grouping=ALL, programs=[parse("colour = 'red'").program]).text()


class Room:
    """A queue and readers that wait for it, each a client of its own."""

    def __init__(self, broker, **properties):
        self.broker, self.queue = broker, broker.queue("r", **properties)
        self.handles = []

    def waits(self, call="receive", *args, **how):
        """A reader that waits as long as it takes."""
        return self.on(self.handle(), call, *args, **how)

    def handle(self):
        self.handles.append(self.broker.handle("r", recheck_seconds=60))
        return self.handles[-1]

    def on(self, handle, call="receive", *args, **how):
        return self.broker.beside(lambda: getattr(handle, call)(*args, timeout=None, **how), "r")

    def send(self, body, group=None, sequence=None, last=False, **fields):
        return self.queue.send(self.made(body, group, sequence, last, **fields))

    def made(self, body, group=None, sequence=None, last=False, **fields):
        return Outgoing(body=body.encode(), group_id=group, sequence=sequence, last_in_group=last, **fields)

    @property
    def waiters(self):
        return self.broker.qm.queue_info("r").waiters


@pytest.fixture
def room(broker):
    return Room(broker)


# ---- who can be told not to want it ---------------------------------------------------------------------------


@pytest.mark.parametrize("grouping", [LOGICAL, LOGICAL | COMPLETE, LOGICAL | SEGMENTS])
def test_the_middle_of_a_group_is_nothing_for_a_reader_in_logical_order(room, grouping):
    logical = room.waits(grouping=grouping)
    chosen = room.waits(selector="n = 1")
    room.send("2", "g", 2, properties={"n": 1})
    assert chosen.result().body == b"2"
    assert room.waiters == 1
    room.send("1", "h", 1)
    assert logical.result().body == b"1"


def test_each_reader_in_logical_order_gets_what_it_matches(room):
    one = room.waits(grouping=LOGICAL, match=Match(correlation_id="one"))
    two = room.waits(grouping=LOGICAL, match=Match(correlation_id="two"))
    room.send("B", "g", 1, correlation_id="two")
    assert two.result().body == b"B"
    room.send("A", "h", 1, correlation_id="one")
    assert one.result().body == b"A"


def test_a_selector_is_asked_about_messages_of_groups(room):
    red = room.waits(grouping=ALL, selector="colour = 'red'")
    blue = room.waits(grouping=ALL, selector="colour = 'blue'")
    room.send("1", "g", 1, last=True, properties={"colour": "blue"})
    assert blue.result().body == b"1"
    room.send("1", "h", 1, properties={"colour": "red"})
    room.send("2", "h", 2, last=True, properties={"colour": "green"})
    assert red.result().body == b"1"


def test_a_later_segment_is_nothing_for_who_begins_at_the_first(room):
    joined = room.waits(grouping=COMPLETE)
    anybody = room.waits()
    room.send("de", "g", 1, offset=3, segment=True, last_segment=True)
    assert anybody.result().body == b"de"
    room.send("abc", "h", 1, segment=True)
    room.send("de", "h", 1, offset=3, segment=True, last_segment=True)
    assert joined.result().body == b"abcde"


@pytest.mark.parametrize("grouping", [SEGMENTS, COMPLETE, LOGICAL | SEGMENTS, ALL])
def test_what_completes_a_message_rings_who_waits_for_its_first_segment(room, grouping):
    reader = room.waits(grouping=grouping, selector="first = TRUE")
    room.send("de", "g", 1, True, offset=3, segment=True, last_segment=True)
    room.send("abc", "g", 1, segment=True, properties={"first": True})
    assert reader.result().body == (b"abcde" if grouping is COMPLETE else b"abc")
    room.queue.purge()
    reader = room.waits(grouping=grouping, selector="first = TRUE")
    room.send("abc", "h", 1, segment=True, properties={"first": True})
    room.send("de", "h", 1, True, offset=3, segment=True, last_segment=True)
    assert reader.result().body == (b"abcde" if grouping is COMPLETE else b"abc")


def test_a_copy_is_shown_of_the_message_that_a_group_begins_with(room):
    shown = room.waits("peek", match=Match(group_id="g"))
    whole = room.waits("receive_group")
    room.send("2", "g", 2, last=True)
    assert shown.result().body == b"2"
    room.send("1", "g", 1)
    assert bodies(whole.result()) == ["1", "2"]


def test_the_next_member_alone_ends_a_wait_inside_a_group(room):
    handle = room.handle()
    room.send("1", "g", 1)
    assert handle.receive(0, grouping=LOGICAL).body == b"1"
    inside = room.on(handle, grouping=LOGICAL)
    anybody = room.waits()
    room.send("3", "g", 3)
    assert anybody.result().body == b"3"
    room.send("2", "g", 2)
    assert inside.result().body == b"2"


def test_a_browser_inside_a_group_is_told_what_disagrees(broker, room):
    with room.handle().browser(match=Match(correlation_id="one"), grouping=LOGICAL) as browser:
        room.send("1", "g", 1, correlation_id="one")
        assert browser.next().body == b"1"
        reader = broker.beside(lambda: browser.next(timeout=None), "r")
        room.send("2", "g", 2, correlation_id="two")
        assert isinstance(reader.error(), MatchOptionsError)


@pytest.mark.parametrize("call", ["receive", "lock"])
def test_who_is_told_that_the_next_member_disagrees_uses_nothing_up(room, call):
    handle = room.handle()
    room.send("1", "g", 1)
    assert handle.receive(0, grouping=LOGICAL).body == b"1"
    inside = room.on(handle, call, grouping=LOGICAL, match=Match(correlation_id="one"))
    anybody = room.waits()
    room.send("2", "g", 2, correlation_id="two")
    assert anybody.result().body == b"2"
    room.send("2", "g", 2, correlation_id="two")  # the other may have been the quicker one
    assert isinstance(inside.error(), MatchOptionsError)


# ---- who cannot be told ----------------------------------------------------------------------------------------


def test_what_a_reader_leaves_of_a_group_is_for_the_next(room):
    """The last member makes the first reader take another one; the last itself is for who matches it."""
    first = room.waits(grouping=ALL)
    last = room.waits(selector="last = TRUE")
    room.send("1", "g", 1)
    room.send("2", "g", 2, True, properties={"last": True})
    assert first.result().body == b"1"
    assert last.result().body == b"2"


def test_what_a_reader_of_several_leaves_is_for_the_next(room):
    several = room.waits("receive_many", 2, selector="n < 9")
    chosen = room.waits(selector="n = 8")
    room.queue.send_many(
        [
            Outgoing(body=b"%d" % n, properties={"n": n}, priority=priority)
            for n, priority in ((8, 0), (1, 7), (2, 7))
        ]
    )
    assert bodies(several.result()) == ["1", "2"]
    assert chosen.result().body == b"8"


class Reader:
    """A waiting reader that subscribes to its wake channel and polls only when the test says so."""

    def __init__(self, backend, manager, text=b"", kind="D", queue="q"):
        self.qm = mqredis.connect(backend.client(), manager=manager, settings=PLAIN)
        self.raw, self.text = backend.client(), text
        self.keys, self.queue = ManagerKeys(manager), queue
        self.waiter = Waiter(f"{kind} p0 -")
        self.address = self.qm.open(queue)._handle.address
        others = set(self.waiting())
        assert self.look() == []
        (member,) = set(self.waiting()) - others
        self.slot = member.split()[0].decode()
        self.channel = self.raw.pubsub()
        self.channel.subscribe(f"__keyspace@0__:{self.keys.tag}wake:{self.slot}")
        assert self.channel.get_message(timeout=PATIENCE)["type"] == "subscribe"

    def waiting(self):
        return self.raw.zrange(self.keys.queue(self.queue)[QUEUE_PARTS.index("w")], 0, -1)

    def look(self):
        found = self.qm._run(perform(read.receive(self.address, "take", waiter=self.waiter, match=self.text)))
        self.waiter.ticket = found.ticket
        return [raw[2].rpartition(b"\0")[2].decode() for raw in found.messages]

    def leave(self):
        self.qm._run(perform(read.leave(self.address, self.waiter.member, self.text)))

    @property
    def rung(self):
        return self.raw.hget(self.keys.own[0], self.slot + "!") is not None

    def close(self):
        self.channel.close()
        self.raw.close()
        self.qm.close()


@pytest.fixture
def stage(backend):
    """A queue, and what makes readers of it."""
    made = []
    manager = f"rings{uuid.uuid4().hex}"

    def reader(*args, **how):
        made.append(Reader(backend, manager, *args, **how))
        return made[-1]

    with mqredis.connect(backend.client(), manager=manager, settings=PLAIN) as qm:
        qm.create_queue("q")
        qm.create_queue("x", group_exclusive=True)
        yield qm, reader
        for item in made:
            item.close()
        assert qm.doctor().healthy


def two_of_a_group(queue):
    """The second message makes the group complete, and another reader takes the first one before the notified one
    fetches."""
    queue.send(b"1", group_id="g", sequence=1, properties={"n": 1})
    queue.send(b"2", group_id="g", sequence=2, last_in_group=True, properties={"n": 2})
    assert queue.receive(0, match=Match(sequence=1)).body == b"1"


def test_a_wake_in_vain_goes_on_to_the_next_that_matches(stage):
    qm, reader = stage
    first, red, second = reader(WHOLE), reader(RED), reader(WHOLE)
    chosen, behind = reader(TWO), reader(TWO)
    two_of_a_group(qm.open("q"))
    assert [r.rung for r in (first, red, second, chosen, behind)] == [True, False, False, False, False]
    assert first.look() == []
    # The group is not complete any more, so nothing rings the second reader of whole groups.
    assert [r.rung for r in (first, red, second, chosen, behind)] == [False, False, False, True, False]
    assert chosen.look() == ["2"]
    assert not behind.rung
    assert qm.queue_info("q").waiters == 4


def test_a_wake_in_vain_goes_on_to_who_takes_what_comes(stage):
    qm, reader = stage
    whole, red, one, other = reader(WHOLE), reader(RED), reader(), reader()
    qm.open("q").send_group([b"1", b"2"], group_id="g")
    assert [r.rung for r in (whole, red, one, other)] == [True, False, True, False]
    assert one.look() == ["2"]
    assert whole.look() == []
    assert [r.rung for r in (whole, red, other)] == [False, False, True]
    assert other.look() == ["1"]


def test_wakes_in_vain_come_to_an_end(stage):
    """Too many messages to ask about: every reader is rung, none can use them, and each passes the wake on once."""
    qm, reader = stage
    readers = [reader(NOBODY_IN_WHOLE) for _ in range(3)]
    queue = qm.open("q")
    queue.send_group([b"%d" % n for n in range(100)], group_id="g")
    looks = 0
    while any(r.rung for r in readers):
        for r in readers:
            if r.rung:
                assert r.look() == []
                looks += 1
    assert looks == 3
    assert queue.purge() == 100


def test_who_leaves_before_its_look_passes_its_wake_on(stage):
    qm, reader = stage
    whole, chosen = reader(WHOLE), reader(TWO)
    two_of_a_group(qm.open("q"))
    assert (whole.rung, chosen.rung) == (True, False)
    whole.leave()
    assert chosen.look() == ["2"]


def test_inside_a_group_a_later_segment_completes_the_next_message(stage):
    qm, reader = stage
    inside = reader(Filter(grouping=LOGICAL | COMPLETE, member=Member("sg", 2, 0)).text())
    queue = qm.open("q")
    queue.send(b"abc", group_id="g", sequence=2, segment=True)
    assert not inside.rung
    queue.send(b"de", group_id="g", sequence=2, offset=3, segment=True, last_segment=True)
    assert inside.rung
    assert inside.look() == ["abc", "de"]


# ---- queues with turns -----------------------------------------------------------------------------------------


def test_a_message_of_a_busy_group_is_shown_to_who_waits(broker):
    room = Room(broker, group_exclusive=True)
    room.send("1", "g")
    lock = room.queue.lock(0)
    takes = [room.waits(), room.waits(match=Match(group_id="g")), room.waits("lock", selector="n = 2")]
    shown = [
        room.waits("peek"),
        room.waits("peek", selector="n = 2"),
        room.waits("peek", match=Match(group_id="g")),
    ]
    with room.handle().browser() as browser:
        shown.append(broker.beside(lambda: browser.next(timeout=None), "r"))
        room.send("2", "g", properties={"n": 2})
        assert [reader.result().body for reader in shown] == [b"2"] * 4
    assert room.waiters == len(takes)
    lock.commit()
    anybody, named, chosen = takes
    assert named.result().body == b"2"
    room.send("3", "h", properties={"n": 2})
    assert chosen.result().body == b"3"
    room.send("4", "g")
    assert anybody.result().body == b"4"


def test_who_takes_is_not_rung_for_a_busy_group(stage):
    qm, reader = stage
    queue = qm.open("x")
    queue.send(b"1", group_id="g")
    lock = queue.lock(0)
    plain, chosen, shown = reader(queue="x"), reader(TWO, queue="x"), reader(kind="P", queue="x")
    queue.send(b"2", group_id="g", properties={"n": 2})
    assert [r.rung for r in (plain, chosen, shown)] == [False, False, True]
    shown.leave()
    assert [r.rung for r in (plain, chosen)] == [False, False]
    lock.commit()
    assert [r.rung for r in (plain, chosen)] == [False, True]
    assert chosen.look() == ["2"]


def test_a_pipeline_waits_on_for_a_busy_group(stage):
    """It is rung like a peek, but waits for what it could claim."""
    qm, _ = stage
    queue = qm.open("x")
    queue.send(b"1", group_id="g")
    lock = queue.lock(0)
    waiter = Waiter("P p0 -")

    def waits():
        found = qm._run(perform(pipelines.wait(queue._handle.address, "", waiter)))
        if found is not None:
            waiter.ticket = found.ticket
        return found is not None

    assert waits()
    queue.send(b"2", group_id="g")
    assert waits()
    lock.commit()
    assert not waits()
