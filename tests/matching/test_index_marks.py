"""In the index of identifiers stands what comes before the mark, however it comes or goes (lua/core/queue.lua)."""

from __future__ import annotations

from typing import Any

import pytest

from mqredis import Journal, Match, Outgoing
from mqredis.commands.common import Address
from mqredis.commands.pipelines import Order
from mqredis.operations import pipelines
from tests.matching.asking import SPECIAL, C, Kit, named, numbered
from tests.matching.kit import drain
from tests.support.counts import set_reach


def claim(kit: Kit, count: int) -> None:
    """The first of queue q, for a data pipeline."""
    context = kit.qm._context
    address = Address(context.keys, "q", kit.qm._run(pipelines.look(context, "q")).generation)
    assert kit.qm._run(pipelines.claim(address, "lake", "first", 1, Order(count), True)).count == count


@pytest.mark.parametrize("special", SPECIAL, ids=str)
def test_what_comes_before_the_mark_enters_at_once(kit: Kit, special: dict[str, Any]) -> None:
    """Of a higher priority, or sent in a transaction."""
    q, t = kit.qm.open("q"), kit.qm.open("t")
    for _ in range(2):  # the long way and the short one
        q.send_many(named("a", **special))
        kit.ask()
        q.send(b"b", correlation_id="b", priority=4, **special)
        q.send_many(named("c", "d", priority=7, **special))
        q.send_many(named("e", priority=2, **special))
        assert (kit.reach(), kit.indexed()) == ("a", ["a", "b", "c", "d"])
        assert drain(q) == ["c", "d", "b", "a", "e"]
        assert kit.indexed() == []
    for _ in range(2):  # what was sent in a transaction that others have passed
        one, two, three = (kit.qm.transaction() for _ in range(3))
        t.send(b"a", correlation_id="a", transaction=one, **special)
        t.send_many(named("b", "c", **special), transaction=two)
        t.send(b"d", correlation_id="d", transaction=three, **special)
        three.commit()
        kit.ask("t")
        one.commit()
        two.commit()
        assert (kit.reach("t"), kit.indexed("t")) == ("d", ["a", "b", "c", "d"])
        with kit.qm.transaction() as unit:
            assert t.receive(0, transaction=unit).body == b"a"
            assert t.receive(0, match=Match(correlation_id="b"), transaction=unit).body == b"b"
            assert [m.body for m in t.receive_many(2, 0, transaction=unit)] == [b"c", b"d"]
            assert kit.indexed("t") == []


def test_what_comes_back_later_is_in_it(kit: Kit) -> None:
    """Locked singly or together, in a transaction, delayed, moved away: none was available when the search ran."""
    q, t, sub = kit.qm.open("q"), kit.qm.open("t"), kit.qm.open("q;s")
    q.send_many(named("p1", "p2", "l"))
    with kit.qm.transaction() as unit:
        t.send_many(named("r1", "r2"), transaction=unit)
    together, single = q.lock_many(2), q.lock(0)
    q.send(b"d", correlation_id="d", delay=60)
    moved = q.send(b"m", correlation_id="m")
    q.move(moved.lookup_id, sub)
    unit, other = kit.qm.transaction(), kit.qm.transaction()
    t.send_many(named("s1", "s2"), transaction=unit)
    t.receive_many(2, 0, transaction=other)
    q.send_many(named("z"))
    with kit.qm.transaction() as last:
        t.send_many(named("z"), transaction=last)
    for queue in ("q", "t", "q;s"):
        kit.ask(queue)
    sub_q = "q%3Bs"
    assert (kit.indexed(), kit.indexed("t"), kit.indexed(sub_q)) == (["z"], ["z"], ["m"])
    single.abort()
    for lock in together:
        lock.abort()
    unit.commit()
    other.abort()
    kit.qm.advance_clock(61)
    kit.qm.maintain()
    assert (kit.reach(), kit.indexed()) == ("z", ["d", "l", "p1", "p2", "z"])
    assert (kit.reach("t"), kit.indexed("t")) == ("z", ["r1", "r2", "s1", "s2", "z"])
    sub.move(moved.lookup_id, q)
    assert (kit.reach(), kit.indexed(), kit.indexed(sub_q)) == ("z", ["d", "l", "m", "p1", "p2", "z"], [])
    assert drain(q, match=Match(correlation_id="m")) == ["m"]


def test_each_queue_has_its_own_mark(kit: Kit) -> None:
    q, sub = kit.qm.open("q"), kit.qm.open("q;s")
    sent = q.send_many(named("a", "b", "c"))
    kit.ask()
    for message in sent[:2]:
        q.move(message.lookup_id, sub)
    assert (kit.indexed(), kit.indexed("q%3Bs"), kit.reach("q%3Bs")) == (["c"], [], "0")
    sub.move(sent[0].lookup_id, q)
    assert (kit.indexed(), kit.indexed("q%3Bs")) == (["a", "c"], [])
    kit.ask("q;s")
    assert (kit.reach("q%3Bs"), kit.indexed("q%3Bs")) == ("b", ["b"])
    q.move(sent[0].lookup_id, sub)
    q.move(sent[2].lookup_id, sub)
    assert (kit.indexed(), kit.indexed("q%3Bs")) == ([], ["a", "b"])
    assert drain(sub, match=C) == ["c"]


def test_copies_are_found_by_the_message_that_they_are_copies_of(kit: Kit) -> None:
    q = kit.qm.open("q")
    sent = q.send(b"x", correlation_id="c", time_to_be_received=5, journal=Journal.DEAD_LETTER)
    kit.qm.advance_clock(6)
    assert drain(q) == []
    dead = kit.qm.open("system$;deadletter")
    assert kit.indexed("system%24%3Bdeadletter") == []
    assert dead.receive(0, match=Match(message_id=sent.message_id, correlation_id="c")).body == b"x"
    q.send(b"y", correlation_id="c", time_to_be_received=5, journal=Journal.DEAD_LETTER)
    kit.qm.advance_clock(6)
    assert drain(q) == []
    assert kit.indexed("system%24%3Bdeadletter") == []
    assert dead.receive(0, match=C).body == b"y"


def test_what_is_sent_again_from_the_dead_letters(kit: Kit) -> None:
    q, dead = kit.qm.open("q"), kit.qm.open("system$;deadletter")
    q.send(b"x", correlation_id="c", time_to_be_received=5, journal=Journal.DEAD_LETTER)
    kit.qm.advance_clock(6)
    assert drain(q) == []
    q.send_many(named("a"))
    kit.ask()
    kit.ask("system$;deadletter")
    assert kit.indexed("system%24%3Bdeadletter") == ["c"]
    assert kit.qm.redrive(dead.name) == 1
    assert (kit.indexed("system%24%3Bdeadletter"), kit.indexed()) == ([], ["a"])
    assert drain(q, match=C) == ["x"]


@pytest.mark.parametrize("special", SPECIAL, ids=str)
def test_a_claim_takes_on_both_sides_of_the_mark(kit: Kit, special: dict[str, Any]) -> None:
    q = kit.qm.open("q")
    q.send_many([b"0", *named("a", "b", **special)])
    kit.ask()
    q.send_many([b"1", *named("c", "d", **special), b"2"])
    claim(kit, 5)
    assert kit.indexed() == []
    kit.ask()
    assert kit.indexed() == ["d"]
    assert kit.qm._run(pipelines.release(kit.qm._context, "q", "lake", False)) == 5
    assert kit.indexed() == ["a", "b", "c", "d"]
    assert drain(q) == ["0", "a", "b", "1", "c", "d", "2"]


def test_every_arriving_message_enters_a_part_of_an_index_until_a_search(kit: Kit) -> None:
    q = kit.qm.open("q")
    q.send_many([*named("l", "a", "c"), Outgoing(body=b"b", correlation_id="b", message_id="b")])
    lock = q.lock(0)
    kit.say("part")
    q.send(b"d", correlation_id="d")
    q.send_many(named("e", "f"))
    lock.abort()
    for _ in range(2):
        assert q.receive(0).body in (b"l", b"a")
    assert kit.qm.doctor().healthy
    assert kit.indexed() == ["d", "e", "f"]
    assert drain(q, match=C) == ["c"]
    assert (kit.reach(), kit.indexed()) == ("f", ["b", "d", "e", "f"])
    q.send(b"g", correlation_id="g")
    assert (kit.reach(), kit.indexed()) == ("f", ["b", "d", "e", "f"])


def test_a_part_of_an_index_in_an_empty_queue(kit: Kit) -> None:
    kit.say("part")
    kit.ask()
    assert kit.reach() == "0"
    kit.qm.open("q").send_many(named("a"))
    assert (kit.reach(), kit.indexed()) == ("0", [])


def test_a_part_of_an_index_that_searches_have_begun_to_complete(kit: Kit) -> None:
    """The messages that arrived later are in it, and earlier ones up to ``index_at``."""
    q = kit.qm.open("q")
    q.send_many(numbered(0, 2500))
    kit.look()
    upto = kit.raw.hget(kit.key("q", "q"), "index")
    kit.say("part", upto.decode())
    q.send(b"c", correlation_id="c")
    assert "c" in kit.indexed()
    assert kit.qm.doctor().healthy
    assert (kit.look(), len(kit.indexed())) == (([], "0"), 2001)
    q.send_many(named("d"))
    assert kit.indexed()[:2] == ["c", "d"]
    held = q.lock_many(2)
    assert kit.qm.doctor().healthy
    assert (kit.look(), len(kit.indexed())) == (([b"c"], ""), 2500)
    assert kit.reach() == "d"
    assert not kit.raw.hexists(kit.key("q", "q"), "index_at")
    q.send_many(named("e"))
    held[0].abort()
    assert len(kit.indexed()) == 2501


def test_a_mark_of_words_lets_all_enter_until_the_doctor_comes(kit: Kit) -> None:
    q = kit.qm.open("q")
    q.send_many(named("a", "c"))
    kit.ask()
    kit.say("hello")
    q.send_many(named("d"))
    assert kit.indexed() == ["a", "c", "d"]
    assert [fault.code for fault in kit.qm.doctor(repair=True).findings] == ["queue.index"]
    q.send_many(named("e"))
    assert kit.indexed() == ["a", "c", "d", "e"]
    kit.ask()
    q.send_many(named("f"))
    assert (kit.reach(), kit.indexed()) == ("e", ["a", "c", "d", "e"])


@pytest.mark.parametrize(
    "name, code, there", [("b", "stray.i", ["a", "b"]), ("d", "index.missing", ["a", "b", "c", "d"])]
)
def test_the_doctor_sees_a_mark_that_is_wrong(kit: Kit, name: str, code: str, there: list[str]) -> None:
    """It goes by the mark: what is behind it leaves the index, what is not enters it."""
    q = kit.qm.open("q")
    sent = q.send_many(named("a", "b", "c"))
    kit.ask()
    sent += q.send_many(named("d"))
    properties, upto = kit.key("q", "q"), f"{sent[ord(name) - ord('a')].lookup_id:016x}"
    kit.raw.hset(properties, "index", upto)
    set_reach(kit.raw, properties, upto.encode())
    assert [fault.code for fault in kit.qm.doctor(repair=True).findings] == [code]
    assert (kit.reach(), kit.indexed()) == (name, there)
    assert drain(q, match=Match(correlation_id="d")) == ["d"]
    assert drain(q, match=C) == ["c"]
