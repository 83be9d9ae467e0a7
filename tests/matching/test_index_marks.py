"""The index of identifiers has exactly the messages up to its mark, however they arrive or leave
(lua/core/queue.lua)."""

from __future__ import annotations

from typing import Any

import pytest

from mqredis import Journal, Match, Outgoing
from mqredis.commands.address import Address
from mqredis.commands.claims import Order
from mqredis.operations import pipelines
from tests.matching.index_kit import SPECIAL, C, Kit, named, numbered
from tests.matching.kit import drain
from tests.support.counts import set_reach


def claim(kit: Kit, count: int) -> None:
    """Claim the first messages of queue q for a data pipeline."""
    context = kit.qm._context
    address = Address(context.keys, "q", kit.qm.run(pipelines.look(context, "q")).generation)
    assert kit.qm.run(pipelines.claim(address, "lake", "first", 1, Order(count), True)).count == count


@pytest.mark.parametrize("special", SPECIAL, ids=str)
def test_message_that_arrives_before_the_mark_is_indexed_at_once(kit: Kit, special: dict[str, Any]) -> None:
    """It has a higher priority, or was sent in a transaction that began earlier."""
    q, t = kit.qm.open("q"), kit.qm.open("t")
    for _ in range(2):  # the first call of a session takes another path than the second
        q.send_many(named("a", **special))
        kit.build_index()
        q.send(b"b", correlation_id="b", priority=4, **special)
        q.send_many(named("c", "d", priority=7, **special))
        q.send_many(named("e", priority=2, **special))
        assert (kit.indexed_up_to(), kit.indexed()) == ("a", ["a", "b", "c", "d"])
        assert drain(q) == ["c", "d", "b", "a", "e"]
        assert kit.indexed() == []
    for _ in range(2):  # a transaction that is committed after later ones
        one, two, three = (kit.qm.transaction() for _ in range(3))
        t.send(b"a", correlation_id="a", transaction=one, **special)
        t.send_many(named("b", "c", **special), transaction=two)
        t.send(b"d", correlation_id="d", transaction=three, **special)
        three.commit()
        kit.build_index("t")
        one.commit()
        two.commit()
        assert (kit.indexed_up_to("t"), kit.indexed("t")) == ("d", ["a", "b", "c", "d"])
        with kit.qm.transaction() as unit:
            assert t.receive(0, transaction=unit).body == b"a"
            assert t.receive(0, match=Match(correlation_id="b"), transaction=unit).body == b"b"
            assert [m.body for m in t.receive_many(2, 0, transaction=unit)] == [b"c", b"d"]
            assert kit.indexed("t") == []


def test_message_that_becomes_available_before_the_mark_is_indexed(kit: Kit) -> None:
    """Locked, in a transaction, delayed or moved messages were not available when the index was built."""
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
        kit.build_index(queue)
    sub_q = "q%3Bs"
    assert (kit.indexed(), kit.indexed("t"), kit.indexed(sub_q)) == (["z"], ["z"], ["m"])
    single.abort()
    for lock in together:
        lock.abort()
    unit.commit()
    other.abort()
    kit.qm.advance_clock(61)
    kit.qm.maintain()
    assert (kit.indexed_up_to(), kit.indexed()) == ("z", ["d", "l", "p1", "p2", "z"])
    assert (kit.indexed_up_to("t"), kit.indexed("t")) == ("z", ["r1", "r2", "s1", "s2", "z"])
    sub.move(moved.lookup_id, q)
    assert (kit.indexed_up_to(), kit.indexed(), kit.indexed(sub_q)) == (
        "z",
        ["d", "l", "m", "p1", "p2", "z"],
        [],
    )
    assert drain(q, match=Match(correlation_id="m")) == ["m"]


def test_each_queue_has_its_own_mark(kit: Kit) -> None:
    q, sub = kit.qm.open("q"), kit.qm.open("q;s")
    sent = q.send_many(named("a", "b", "c"))
    kit.build_index()
    for message in sent[:2]:
        q.move(message.lookup_id, sub)
    assert (kit.indexed(), kit.indexed("q%3Bs"), kit.indexed_up_to("q%3Bs")) == (["c"], [], "0")
    sub.move(sent[0].lookup_id, q)
    assert (kit.indexed(), kit.indexed("q%3Bs")) == (["a", "c"], [])
    kit.build_index("q;s")
    assert (kit.indexed_up_to("q%3Bs"), kit.indexed("q%3Bs")) == ("b", ["b"])
    q.move(sent[0].lookup_id, sub)
    q.move(sent[2].lookup_id, sub)
    assert (kit.indexed(), kit.indexed("q%3Bs")) == ([], ["a", "b"])
    assert drain(sub, match=C) == ["c"]


def test_dead_letter_copies_are_found_by_the_ids_of_the_original(kit: Kit) -> None:
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


def test_redriven_message_is_found_by_its_correlation_id(kit: Kit) -> None:
    q, dead = kit.qm.open("q"), kit.qm.open("system$;deadletter")
    q.send(b"x", correlation_id="c", time_to_be_received=5, journal=Journal.DEAD_LETTER)
    kit.qm.advance_clock(6)
    assert drain(q) == []
    q.send_many(named("a"))
    kit.build_index()
    kit.build_index("system$;deadletter")
    assert kit.indexed("system%24%3Bdeadletter") == ["c"]
    assert kit.qm.redrive(dead.name) == 1
    assert (kit.indexed("system%24%3Bdeadletter"), kit.indexed()) == ([], ["a"])
    assert drain(q, match=C) == ["x"]


@pytest.mark.parametrize("special", SPECIAL, ids=str)
def test_claim_and_release_keep_the_index_on_both_sides_of_the_mark(
    kit: Kit, special: dict[str, Any]
) -> None:
    q = kit.qm.open("q")
    q.send_many([b"0", *named("a", "b", **special)])
    kit.build_index()
    q.send_many([b"1", *named("c", "d", **special), b"2"])
    claim(kit, 5)
    assert kit.indexed() == []
    kit.build_index()
    assert kit.indexed() == ["d"]
    assert kit.qm.run(pipelines.release(kit.qm._context, "q", "lake", False)) == 5
    assert kit.indexed() == ["a", "b", "c", "d"]
    assert drain(q) == ["0", "a", "b", "1", "c", "d", "2"]


def test_partial_index_takes_all_arrivals_until_a_search_completes_it(kit: Kit) -> None:
    q = kit.qm.open("q")
    q.send_many([*named("l", "a", "c"), Outgoing(body=b"b", correlation_id="b", message_id="b")])
    lock = q.lock(0)
    kit.set_index_fields("part")
    q.send(b"d", correlation_id="d")
    q.send_many(named("e", "f"))
    lock.abort()
    for _ in range(2):
        assert q.receive(0).body in (b"l", b"a")
    assert kit.qm.doctor().healthy
    assert kit.indexed() == ["d", "e", "f"]
    assert drain(q, match=C) == ["c"]
    assert (kit.indexed_up_to(), kit.indexed()) == ("f", ["b", "d", "e", "f"])
    q.send(b"g", correlation_id="g")
    assert (kit.indexed_up_to(), kit.indexed()) == ("f", ["b", "d", "e", "f"])


def test_partial_index_of_an_empty_queue_is_completed_by_a_search(kit: Kit) -> None:
    kit.set_index_fields("part")
    kit.build_index()
    assert kit.indexed_up_to() == "0"
    kit.qm.open("q").send_many(named("a"))
    assert (kit.indexed_up_to(), kit.indexed()) == ("0", [])


def test_partly_completed_index_is_completed_by_further_searches(kit: Kit) -> None:
    """It has the messages that arrived after it was begun, and earlier ones up to ``index_at``."""
    q = kit.qm.open("q")
    q.send_many(numbered(0, 2500))
    kit.peek_once()
    upto = kit.raw.hget(kit.key("q", "q"), "index")
    kit.set_index_fields("part", upto.decode())
    q.send(b"c", correlation_id="c")
    assert "c" in kit.indexed()
    assert kit.qm.doctor().healthy
    assert (kit.peek_once(), len(kit.indexed())) == (([], "0"), 2001)
    q.send_many(named("d"))
    assert kit.indexed()[:2] == ["c", "d"]
    held = q.lock_many(2)
    assert kit.qm.doctor().healthy
    assert (kit.peek_once(), len(kit.indexed())) == (([b"c"], ""), 2500)
    assert kit.indexed_up_to() == "d"
    assert not kit.raw.hexists(kit.key("q", "q"), "index_at")
    q.send_many(named("e"))
    held[0].abort()
    assert len(kit.indexed()) == 2501


def test_invalid_mark_indexes_all_arrivals_until_the_doctor_repairs_it(kit: Kit) -> None:
    q = kit.qm.open("q")
    q.send_many(named("a", "c"))
    kit.build_index()
    kit.set_index_fields("hello")
    q.send_many(named("d"))
    assert kit.indexed() == ["a", "c", "d"]
    assert [fault.code for fault in kit.qm.doctor(repair=True).findings] == ["queue.index"]
    q.send_many(named("e"))
    assert kit.indexed() == ["a", "c", "d", "e"]
    kit.build_index()
    q.send_many(named("f"))
    assert (kit.indexed_up_to(), kit.indexed()) == ("e", ["a", "c", "d", "e"])


@pytest.mark.parametrize(
    "name, code, there", [("b", "stray.i", ["a", "b"]), ("d", "index.missing", ["a", "b", "c", "d"])]
)
def test_doctor_repairs_the_index_to_agree_with_its_mark(
    kit: Kit, name: str, code: str, there: list[str]
) -> None:
    """Messages after the mark are removed from the index, missing ones up to the mark are added."""
    q = kit.qm.open("q")
    sent = q.send_many(named("a", "b", "c"))
    kit.build_index()
    sent += q.send_many(named("d"))
    properties, upto = kit.key("q", "q"), f"{sent[ord(name) - ord('a')].lookup_id:016x}"
    kit.raw.hset(properties, "index", upto)
    set_reach(kit.raw, properties, upto.encode())
    assert [fault.code for fault in kit.qm.doctor(repair=True).findings] == [code]
    assert (kit.indexed_up_to(), kit.indexed()) == (name, there)
    assert drain(q, match=Match(correlation_id="d")) == ["d"]
    assert drain(q, match=C) == ["c"]
