"""The index of message and correlation ids is brought up to date by a search for one (matching/index_build.lua)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from mqredis import Match, Outgoing
from mqredis.commands import read
from mqredis.commands.waiting import Waiter
from mqredis.steps import perform
from tests.matching.index_kit import SPECIAL, TEXT, C, Kit, named, numbered
from tests.matching.kit import drain
from tests.support.facade import PATIENCE


@pytest.mark.parametrize("special", SPECIAL, ids=str)
def test_no_index_is_built_before_the_first_search(kit: Kit, special: dict[str, Any]) -> None:
    q, t = kit.qm.open("q"), kit.qm.open("t")
    for _ in range(2):  # the first call of a session takes another path than the second
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
    assert (kit.indexed_up_to(), kit.indexed_up_to("t")) == ("0", "0")


@pytest.mark.parametrize("selector", ["n = 2", "JMSCorrelationID = 'b'"])
def test_search_in_a_group_builds_no_index_of_other_identifiers(kit: Kit, selector: str) -> None:
    """The messages of the group are few, so a selector is tested on each of them."""
    q = kit.qm.open("q")
    for number, name in enumerate("abc", 1):
        q.send(name.encode(), correlation_id=name, group_id="g", properties={"n": number})
    assert q.receive(0, match=Match(group_id="g"), selector=selector).body == b"b"
    assert (kit.indexed_up_to(), kit.indexed()) == ("0", [])


@pytest.mark.parametrize("special", SPECIAL, ids=str)
def test_search_indexes_the_available_messages(kit: Kit, special: dict[str, Any]) -> None:
    q = kit.qm.open("q")
    q.send_many(named("a", "b", "c", **special))
    assert q.peek(0, match=C).body == b"c"
    assert (kit.indexed_up_to(), kit.indexed()) == ("c", ["a", "b", "c"])
    q.send(b"d", correlation_id="d", **special)
    q.send_many(named("e", "f", "g", **special))
    one, *rest = q.lock_many(2)
    last = q.lock_by_lookup_id(max(q.browse(), key=lambda message: message.lookup_id).lookup_id)
    assert (kit.indexed_up_to(), kit.indexed()) == ("c", ["c"])
    one.abort()
    last.abort()
    for other in rest:
        other.commit()
    assert (kit.indexed_up_to(), kit.indexed()) == ("c", ["a", "c"])
    assert q.receive(0, match=Match(correlation_id="e")).body == b"e"
    assert (kit.indexed_up_to(), kit.indexed()) == ("g", ["a", "c", "d", "f", "g"])
    for lock in q.lock_many(9):
        lock.commit()
    assert kit.indexed() == []
    upto = kit.indexed_up_to()
    q.send(b"h", correlation_id="h", **special)
    kit.build_index("t")
    assert (kit.indexed_up_to(), kit.indexed_up_to("t"), kit.indexed()) == (upto, "0", [])


def test_message_without_a_trail_is_indexed_in_a_queue_with_trails(kit: Kit) -> None:
    kit.qm.create_queue("traced", trail=0.0001)
    traced = kit.qm.open("traced")
    traced.send_many(named("a", "b"))
    kit.build_index("traced")
    sent = traced.send(b"urgent", correlation_id="c", priority=7)  # in front of those that are indexed
    assert kit.qm.trail("traced", sent.lookup_id) == []
    assert traced.receive(0, match=C).body == b"urgent"


@pytest.mark.parametrize(
    "search",
    [
        {"match": Match(message_id="m")},
        {"match": Match(correlation_id="c", group_id="g")},
        {"selector": "JMSCorrelationID = 'c'"},
        {"selector": "JMSCorrelationID IN ('b', 'c')"},
    ],
    ids=str,
)
def test_search_for_an_identifier_builds_the_index(kit: Kit, search: dict[str, Any]) -> None:
    q = kit.qm.open("q")
    q.send_many([*named("x"), Outgoing(body=b"found", message_id="m", correlation_id="c", group_id="g")])
    assert [m.body for m in q.browse(**search)] == [b"found"]
    assert kit.indexed_up_to() == "c"


def test_selector_with_a_generated_message_id_uses_the_index(kit: Kit) -> None:
    q = kit.qm.open("q")
    q.send_many(named("x"))
    sent = q.send(b"found", correlation_id="c")
    selector = f"JMSMessageID IN ('m', 'mq-{sent.lookup_id:016x}')"
    assert [m.body for m in q.browse(selector=selector)] == [b"found"]
    assert kit.indexed_up_to() == "c"


@pytest.mark.parametrize(
    "search",
    [{"match": Match(group_id="g")}, {"selector": "n = 1"}, {"selector": "JMSXGroupID = 'g'"}],
    ids=str,
)
def test_search_without_an_identifier_does_not_build_the_index(kit: Kit, search: dict[str, Any]) -> None:
    q = kit.qm.open("q")
    q.send_many([*named("x"), Outgoing(body=b"found", correlation_id="c", group_id="g", properties={"n": 1})])
    assert [m.body for m in q.browse(**search)] == [b"found"]
    assert (kit.indexed_up_to(), kit.indexed()) == ("0", [])


def test_receive_by_token_does_not_build_the_index(kit: Kit) -> None:
    q = kit.qm.open("q")
    q.send_many(named("a", "b"))
    token = q.peek(0).token
    assert q.receive(0, match=Match(token=token)).body == b"a"
    assert kit.indexed_up_to() == "0"


def test_search_in_a_queue_without_identifiers_reads_nothing(kit: Kit) -> None:
    q = kit.qm.open("q")
    for _ in range(6):
        q.send_many([b"x"] * 200)
    assert kit.peek_once() == ([], "")
    assert kit.indexed_up_to() == "0"
    q.send(b"c", correlation_id="c")
    assert (kit.peek_once(), kit.peek_once("0")) == (([], "0"), ([b"c"], ""))
    assert (kit.indexed_up_to(), kit.indexed()) == ("c", ["c"])


def test_waiting_for_an_identifier_does_not_extend_the_index(kit: Kit) -> None:
    """Neither does the call that fetches the message."""
    q = kit.qm.open("q")
    q.send_many(named("a"))
    kit.build_index()
    with ThreadPoolExecutor() as pool:
        for take in (lambda wait, match: q.lock(wait, match=match).commit(), q.receive, q.peek):
            reader = pool.submit(take, PATIENCE, match=C)
            while not kit.qm.queue_info("q").waiters:
                assert not reader.done()
            sent = q.send(b"c", correlation_id="c")
            reader.result(PATIENCE)
            assert (kit.indexed_up_to(), kit.indexed()) == ("a", ["a"])
        assert q.receive_by_lookup_id(sent.lookup_id).body == b"c"


@pytest.mark.parametrize("other", [{"correlation_id": "a"}, {"message_id": "c"}, {"group_id": "c"}], ids=repr)
def test_message_of_a_stale_notification_is_matched_before_it_is_taken(
    kit: Kit, other: dict[str, Any]
) -> None:
    """The notification may belong to an earlier wait with another match."""
    q = kit.qm.open("q")
    address, waiter = q._handle.address, Waiter("D k0 -")

    def peek_once() -> read.Found:
        return kit.qm.run(perform(read.receive(address, "take", waiter=waiter, match=TEXT)))

    waiter.ticket = peek_once().ticket
    sent = q.send(b"a", **other)
    (slot,) = (field for field in kit.raw.hkeys(kit.meta) if field.endswith(b".0"))
    kit.raw.hset(kit.meta, slot + b"!", f"h {sent.lookup_id:016x}")
    assert peek_once().messages == []
    q.send(b"c", correlation_id="c")
    assert peek_once().messages[0][2].endswith(b"\0c")


def test_index_of_a_deep_queue_is_built_in_several_calls(kit: Kit) -> None:
    q = kit.qm.open("q")
    q.send_many(numbered(0, 2300))
    q.send_many(named("c", "c"))
    assert kit.peek_once() == ([], "0")
    assert (kit.indexed_up_to(), len(kit.indexed())) == ("n999", 1000)
    assert kit.qm.doctor().healthy
    # Messages arrive and leave on both sides of the place up to which the index is built.
    q.send(b"high", correlation_id="high", priority=7)
    q.send_many(named("low", "low", priority=0))
    assert [q.receive(0).body for _ in range(3)] == [b"high", b"n0", b"n1"]
    held = q.lock_many(2)
    last = max(q.browse(selector="JMSPriority = 3"), key=lambda message: message.lookup_id)
    far = q.lock_by_lookup_id(last.lookup_id)
    assert kit.peek_once() == ([], "0")  # another reader continues where the first one stopped
    held[0].abort()
    far.abort()
    assert kit.peek_once("0") == ([b"c"], "")
    assert kit.indexed_up_to() == "low"
    assert kit.indexed() == sorted([*(f"n{n}" for n in range(2, 2300) if n != 3), "c", "c", "low", "low"])
    held[1].abort()
    assert drain(q, match=Match(correlation_id="n3")) == ["n3"]
    assert drain(q, match=C) == ["c", "c"]


def test_bytes_read_by_one_index_call_are_limited(kit: Kit) -> None:
    q = kit.qm.open("q")
    for _ in range(6):
        q.send_many([Outgoing(body=b"", correlation_id="x", properties={"text": "x" * 20_000})] * 100)
    assert kit.peek_once() == ([], "0")
    assert len(kit.indexed()) == 250
    assert drain(q, match=C) == []
    assert len(kit.indexed()) == 600


def test_search_after_a_place_continues_there_once_the_index_is_built(kit: Kit) -> None:
    q = kit.qm.open("q")
    q.send_many([*named("c"), *numbered(0, 1500), *named("c")])
    first = f"{q.peek(0).lookup_id:016x}"
    bodies, place = kit.peek_once(first)
    assert (bodies, place) == ([], first)
    assert kit.peek_once(place) == ([b"c"], "")
    q.receive(0)
    assert kit.peek_once()[0] == [b"c"]


def test_locks_are_settled_once_while_the_index_is_built(kit: Kit) -> None:
    q = kit.qm.open("q")
    q.send_many([*numbered(0, 2500), *named("c")])
    held = q.lock_many(3)
    (lock,) = q.lock_many(1, match=C, settle=held)
    assert lock.body == b"c"
    lock.commit()
    assert kit.qm.queue_info("q").messages == 2497


def test_purge_by_identifier_builds_the_index_and_a_purge_empties_it(kit: Kit) -> None:
    q = kit.qm.open("q")
    q.send_many([*numbered(0, 1200), *named("c", "c")])
    assert q.purge(match=C) == 2
    assert (len(kit.indexed()), kit.qm.queue_info("q").messages) == (1200, 1200)
    q.send_many(named("c"))
    q.purge()
    assert kit.indexed() == []
    q.send_many(named("c"))
    assert kit.indexed() == []
    assert drain(q, match=C) == ["c"]
