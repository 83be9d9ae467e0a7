"""More messages than one command of a script can take: long groups, full transactions, and many marks."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pytest

import mqredis
from mqredis import Mark, Match, Outgoing, TransactionTooLarge
from mqredis.commands.filters import Filter
from tests.matching.index_kit import C
from tests.matching.kit import COMPLETE, SEGMENTS
from tests.support.backend import Backend
from tests.support.facade import Pending
from tests.support.until import until


def sent(kit: Any, name: str, items: list[Outgoing]) -> Any:
    """Send the messages and index all of them; return the queue."""
    queue = kit.qm.open(name)
    if name == "t":
        for at in range(0, len(items), 1000):
            with kit.qm.transaction() as tx:
                queue.send_many(items[at : at + 1000], transaction=tx)
    else:
        queue.send_many(items)
    queue.peek(0, match=C)
    return queue


def members(size: int, **more: Any) -> list[Outgoing]:
    return [
        Outgoing(body=b"x", group_id="g", sequence=n + 1, last_in_group=n + 1 == size, **more)
        for n in range(size)
    ]


def segments(size: int, **more: Any) -> list[Outgoing]:
    return [
        Outgoing(body=b"x", group_id="g", offset=n, segment=True, last_segment=n + 1 == size, **more)
        for n in range(size)
    ]


def ready_count(queue: Any) -> int:
    return len(list(queue.browse()))


def test_full_transaction_with_all_identifiers_can_be_received_and_aborted(kit: Any) -> None:
    queue = kit.qm.open("t")
    items = [
        Outgoing(body=b"%d" % n, message_id=f"m{n}", correlation_id="c", group_id="g", sequence=n + 1)
        for n in range(1000)
    ]
    with kit.qm.transaction() as tx:
        queue.send_many(items, transaction=tx)
        # The search finds no older message, so the messages of the transaction are indexed at once.
        with kit.qm.transaction() as other:
            queue.send(b"z", correlation_id="z", transaction=other)
        queue.receive(0, match=Match(correlation_id="z"))
    assert ready_count(queue) == 1000
    queue.peek(0, match=C)
    for _ in range(2):
        tx = kit.qm.transaction()
        bodies = [m.body for _ in range(4) for m in queue.receive_many(250, 0, transaction=tx)]
        assert bodies == [item.body for item in items]
        assert ready_count(queue) == 0
        tx.abort()
        assert ready_count(queue) == 1000
        queue.peek(0, match=C)


def test_lock_of_thousands_of_segments_is_aborted_and_taken_again(kit: Any) -> None:
    queue = kit.qm.open("q")
    queue.send_group([b"y" * 3_000_000], segment_bytes=1024)
    assert kit.qm.queue_info("q").messages == 2930
    queue.lock(0, grouping=COMPLETE).abort()
    assert ready_count(queue) == 2930
    assert queue.lock(0, grouping=COMPLETE).body == b"y" * 3_000_000


@pytest.mark.parametrize("size, more", [(4010, {}), (2700, {"correlation_id": "c"}), (8100, {})])
def test_group_of_thousands_is_received(kit: Any, size: int, more: dict[str, Any]) -> None:
    queue = sent(kit, "q", members(size, **more)) if more else kit.qm.open("q")
    if not more:
        queue.send_group([b"x"] * size)
    assert len(queue.receive_group(0)) == size
    assert kit.qm.queue_info("q").messages == 0


@pytest.mark.parametrize("size", [4100, 8100])
def test_lock_of_thousands_of_indexed_segments_is_aborted_and_committed(kit: Any, size: int) -> None:
    queue = sent(kit, "q", segments(size, correlation_id="c"))
    queue.lock(0, grouping=COMPLETE).abort()
    assert ready_count(queue) == size
    queue.peek(0, match=C)
    lock = queue.lock(0, grouping=COMPLETE)
    assert (len(lock.body), ready_count(queue)) == (size, 0)
    lock.commit()
    assert kit.qm.queue_info("q").messages == 0


def test_waiting_reader_ignores_thousands_of_released_messages_without_a_match(kit: Any) -> None:
    queue = sent(kit, "q", segments(4100, correlation_id="c"))
    lock = queue.lock(0, grouping=COMPLETE)
    waiting = Pending(lambda: kit.qm.open("q", selector="a = 1").receive(20))
    until(lambda: kit.qm.queue_info("q").waiters or waiting.done())
    lock.abort()
    assert ready_count(queue) == 4100
    queue.send(b"wanted", properties={"a": 1})
    assert waiting.result().body == b"wanted"


def test_group_that_exceeds_the_transaction_limit_is_refused(kit: Any) -> None:
    queue = sent(kit, "t", members(1000, correlation_id="c"))
    with kit.qm.transaction() as tx:
        queue.send(b"more", transaction=tx)
        for _ in range(2):
            with pytest.raises(TransactionTooLarge):
                queue.receive_group(0, transaction=tx)
        assert ready_count(queue) == 1000
        queue.send(b"still more", transaction=tx)
    tx = kit.qm.transaction()
    assert len(queue.receive_group(0, transaction=tx)) == 1000
    assert ready_count(queue) == 2
    tx.abort()
    assert ready_count(queue) == 1002


def test_segmented_message_that_exceeds_the_transaction_limit_is_refused(kit: Any) -> None:
    queue = sent(kit, "t", segments(1001, correlation_id="c"))
    tx = kit.qm.transaction()
    with pytest.raises(TransactionTooLarge):
        queue.receive(0, grouping=COMPLETE, transaction=tx)
    assert ready_count(queue) == 1001
    tx.abort()


def test_search_for_complete_messages_reads_only_their_own_segments(kit: Any) -> None:
    """The other messages of the group would count for the limit of the members that one call reads."""
    first_segments = [Outgoing(body=b"x", group_id="g", sequence=n, segment=True) for n in range(1, 400)]
    kit.qm.open("q").send_many(first_segments)
    for grouping in (SEGMENTS, COMPLETE):
        assert kit.peek_once(text=Filter(grouping=grouping).text()) == ([], "")  # no other call goes on


def test_segmented_message_with_the_highest_sequence_is_received(kit: Any) -> None:
    queue, last = kit.qm.open("q"), {"group_id": "g", "sequence": 999_999_999, "segment": True}
    queue.send(b"ab", offset=0, **last)
    queue.send(b"cd", offset=2, last_segment=True, **last)
    assert queue.receive(0, grouping=COMPLETE).body == b"abcd"


@pytest.mark.parametrize("mark", [Mark.CO_OP, Mark.HANDLE])
def test_marks_of_removed_messages_are_dropped_while_others_remain(kit: Any, mark: Mark) -> None:
    queue = kit.qm.open("q")
    queue.send_many([Outgoing(body=b"stays", priority=7)] * 20)
    queue.send_many(members(300, priority=0))  # their identifiers stand in front of the marks
    with queue.browser(co_op=True) as browser:
        for _ in range(20):
            browser.first(unmarked=True, mark=mark)
        for _ in range(300):
            queue.send(b"goes", priority=1)
            queue.receive_by_lookup_id(browser.first(unmarked=True, mark=mark).lookup_id)
        assert kit.raw.zlexcount(kit.key("q", "i"), "[y", "+") < 100


def test_few_marks_are_dropped_by_the_next_mark_and_the_close_of_their_browser(kit: Any) -> None:
    queue = kit.qm.open("q")
    queue.send_many([Outgoing(body=b"goes")] * 7)
    with queue.browser() as browser:
        for _ in range(7):
            browser.first(unmarked=True, mark=Mark.HANDLE)
        assert len(queue.receive_many(7)) == 7
        queue.send(b"stays")
        browser.first(mark=Mark.HANDLE)
        assert kit.raw.zlexcount(kit.key("q", "i"), "[y", "+") == 1
    assert not kit.raw.keys("mq:*:q:q:i")


def test_marks_of_ended_sessions_are_dropped_behind_those_of_living_ones(kit: Any, backend: Backend) -> None:
    sent = kit.qm.open("q").send_many([b"stays"] * 20)
    with ExitStack() as stack:
        for _ in range(5):
            client = mqredis.connect(backend.client(), manager=kit.qm.name, settings=kit.qm.context.settings)
            browser = stack.enter_context(client).open("q").browser()
            browser.first(mark=Mark.HANDLE)
        index = kit.key("q", "i")
        kit.raw.zadd(index, {f"y99999-1\0{each.lookup_id:016x}": 0 for each in sent})
        for _ in range(100):
            browser.first(mark=Mark.HANDLE)
        members = kit.raw.zrange(index, 0, -1)
    assert members
    assert not [member for member in members if member.startswith(b"y99999-")]
