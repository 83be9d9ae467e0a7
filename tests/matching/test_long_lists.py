"""More messages at once than one command of a script takes: long groups, full transactions, and what is marked."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from mqredis import Grouping, Mark, Match, Outgoing, TransactionTooLarge
from tests.matching.asking import C
from tests.matching.kit import Pending

COMPLETE = Grouping.COMPLETE_MESSAGE


def sent(kit: Any, name: str, items: list[Outgoing]) -> Any:
    """The queue with these, of which the index has all."""
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


def free(queue: Any) -> int:
    return len(list(queue.browse()))


def test_a_full_transaction_of_all_identifiers_ends(kit: Any) -> None:
    queue = kit.qm.open("t")
    items = [
        Outgoing(body=b"%d" % n, message_id=f"m{n}", correlation_id="c", group_id="g", sequence=n + 1)
        for n in range(1000)
    ]
    with kit.qm.transaction() as tx:
        queue.send_many(items, transaction=tx)
        # Asked for while nothing is there that is older: what comes now enters the index at once.
        with kit.qm.transaction() as other:
            queue.send(b"z", correlation_id="z", transaction=other)
        queue.receive(0, match=Match(correlation_id="z"))
    assert free(queue) == 1000
    queue.peek(0, match=C)
    for _ in range(2):
        tx = kit.qm.transaction()
        bodies = [m.body for _ in range(4) for m in queue.receive_many(250, 0, transaction=tx)]
        assert bodies == [item.body for item in items]
        assert free(queue) == 0
        tx.abort()
        assert free(queue) == 1000
        queue.peek(0, match=C)


def test_a_long_message_in_segments_is_given_back(kit: Any) -> None:
    queue = kit.qm.open("q")
    queue.send_group([b"y" * 3_000_000], segment_bytes=1024)
    assert kit.qm.queue_info("q").messages == 2930
    queue.lock(0, grouping=COMPLETE).abort()
    assert free(queue) == 2930
    assert queue.lock(0, grouping=COMPLETE).body == b"y" * 3_000_000


@pytest.mark.parametrize("size, more", [(4010, {}), (2700, {"correlation_id": "c"}), (8100, {})])
def test_a_long_group_is_taken(kit: Any, size: int, more: dict[str, Any]) -> None:
    queue = sent(kit, "q", members(size, **more)) if more else kit.qm.open("q")
    if not more:
        queue.send_group([b"x"] * size)
    assert len(queue.receive_group(0)) == size
    assert kit.qm.queue_info("q").messages == 0


@pytest.mark.parametrize("size", [4100, 8100])
def test_a_lock_of_many_segments_ends(kit: Any, size: int) -> None:
    queue = sent(kit, "q", segments(size, correlation_id="c"))
    queue.lock(0, grouping=COMPLETE).abort()
    assert free(queue) == size
    queue.peek(0, match=C)
    lock = queue.lock(0, grouping=COMPLETE)
    assert (len(lock.body), free(queue)) == (size, 0)
    lock.commit()
    assert kit.qm.queue_info("q").messages == 0


def test_a_reader_that_waits_meets_all_that_comes_back(kit: Any) -> None:
    queue = sent(kit, "q", segments(4100, correlation_id="c"))
    lock = queue.lock(0, grouping=COMPLETE)
    waiting = Pending(lambda: kit.qm.open("q", selector="a = 1").receive(20))
    pause = threading.Event()
    while not kit.qm.queue_info("q").waiters and not waiting.future.done():
        pause.wait(0.005)
    lock.abort()
    assert free(queue) == 4100
    queue.send(b"wanted", properties={"a": 1})
    assert waiting.result().body == b"wanted"


def test_a_group_is_no_more_than_a_transaction_holds(kit: Any) -> None:
    queue = sent(kit, "t", members(1000, correlation_id="c"))
    with kit.qm.transaction() as tx:
        queue.send(b"more", transaction=tx)
        for _ in range(2):
            with pytest.raises(TransactionTooLarge):
                queue.receive_group(0, transaction=tx)
        assert free(queue) == 1000
        queue.send(b"still more", transaction=tx)
    tx = kit.qm.transaction()
    assert len(queue.receive_group(0, transaction=tx)) == 1000
    assert free(queue) == 2
    tx.abort()
    assert free(queue) == 1002


def test_so_is_a_message_in_segments(kit: Any) -> None:
    queue = sent(kit, "t", segments(1001, correlation_id="c"))
    tx = kit.qm.transaction()
    with pytest.raises(TransactionTooLarge):
        queue.receive(0, grouping=COMPLETE, transaction=tx)
    assert free(queue) == 1001
    tx.abort()


def test_the_highest_sequence_is_complete(kit: Any) -> None:
    queue, last = kit.qm.open("q"), {"group_id": "g", "sequence": 999_999_999, "segment": True}
    queue.send(b"ab", offset=0, **last)
    queue.send(b"cd", offset=2, last_segment=True, **last)
    assert queue.receive(0, grouping=COMPLETE).body == b"abcd"


@pytest.mark.parametrize("mark", [Mark.CO_OP, Mark.HANDLE])
def test_marks_of_messages_that_are_gone_go_though_others_stay(kit: Any, mark: Mark) -> None:
    queue = kit.qm.open("q")
    queue.send_many([Outgoing(body=b"stays", priority=7)] * 20)
    with queue.browser(co_op=True) as browser:
        for _ in range(20):
            browser.first(unmarked=True, mark=mark)
        for _ in range(300):
            queue.send(b"goes", priority=0)
            queue.receive_by_lookup_id(browser.first(unmarked=True, mark=mark).lookup_id)
        assert kit.raw.zlexcount(kit.key("q", "i"), "[y", "+") < 100
