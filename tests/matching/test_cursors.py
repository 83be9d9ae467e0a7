"""MSMQ cursors with a match or a selector: each step goes to the next matching message."""

from __future__ import annotations

import pytest

from mqredis import (
    IllegalCursorAction,
    InvalidArgument,
    IoTimeout,
    Match,
    MatchOptionsError,
    MessageAlreadyReceived,
    MessageNotFound,
    Outgoing,
    SelectorSyntaxError,
)
from tests.matching.kit import put


def of(queue, **wanted):
    return queue.cursor(**wanted)


def test_cursor_visits_only_matching_messages(broker):
    q = broker.queue()
    put(q, "A:c1", "B:c2", "C:c1", "D:c2")
    cursor = of(q, match=Match(correlation_id="c2"))
    assert cursor.peek(0).body == b"B"
    assert cursor.peek(0).body == b"B"
    assert cursor.peek_next(0).body == b"D"
    with pytest.raises(IoTimeout):
        cursor.peek_next(0)
    cursor.reset()
    assert cursor.receive(0).body == b"B"
    with cursor.lock(0) as lock:
        assert lock.body == b"D"
    with pytest.raises(MessageNotFound):
        cursor.receive(0)
    assert [m.body for m in q.browse()] == [b"A", b"C"]


def test_cursor_and_handle_selectors_both_apply(broker):
    broker.queue()
    q = broker.qm.open("q", selector="n > 1")
    q.send_many([Outgoing(body=b"%d" % n, properties={"n": n}) for n in range(6)])
    cursor = of(q, selector="n <> 3")
    assert [cursor.receive(0).body for _ in range(3)] == [b"2", b"4", b"5"]
    assert of(q).peek(0).body == b"3"


def test_call_on_a_removed_current_message_is_refused(broker):
    q = broker.queue()
    put(q, "A:c1", "B:c2")
    cursor = of(q, match=Match(correlation_id="c2"))
    assert cursor.peek(0).body == b"B"
    q.receive(0, match=Match(correlation_id="c2"))
    with pytest.raises(MessageAlreadyReceived):
        cursor.receive(0)
    with pytest.raises(MessageAlreadyReceived):
        cursor.peek(0)


def test_cursor_searches_across_pages(broker):
    q = broker.queue()
    q.send_many([Outgoing(body=b"%d" % n, properties={"n": n}) for n in range(1400)])
    cursor = of(q, selector="n = 1 OR n = 1300 OR n = 1399")
    assert [cursor.peek(0).body, cursor.peek_next(0).body] == [b"1", b"1300"]
    assert cursor.receive(0).body == b"1300"
    assert cursor.receive(0).body == b"1399"
    with pytest.raises(MessageNotFound):
        cursor.receive(0)
    cursor = of(q, selector="n > 5000")
    with pytest.raises(MessageNotFound):
        cursor.receive(0)


def test_cursor_waits_for_a_matching_message_of_any_priority(broker):
    q = broker.queue()
    put(q, "A:c1")
    cursor = of(q, match=Match(correlation_id="c1"))
    assert cursor.peek(0).body == b"A"
    waiting = broker.wait(lambda: cursor.peek_next(30))
    q.send("B", correlation_id="c2")
    q.send("C", correlation_id="c1", priority=7)
    assert waiting.result().body == b"C"
    waiting = broker.wait(lambda: of(q, selector="JMSPriority = 6").receive(30))
    q.send("D", priority=5)
    q.send("E", priority=6)
    assert waiting.result().body == b"E"


@pytest.mark.parametrize(
    "wanted",
    [
        {"match": Match(correlation_id="c1")},
        {"match": Match(group_id="g")},
        {"selector": "JMSXGroupID = 'g'"},
    ],
    ids=["correlation id", "group id", "selector"],
)
@pytest.mark.parametrize("how", ["receive", "lock"])
def test_taking_cursor_gets_a_message_that_arrives_before_its_place(broker, wanted, how):
    """A reader with a cursor is served like the others, wherever the message is (MS-MQDMPR 3.2.7.5)."""
    q = broker.queue()
    q.send("A", correlation_id="c1", group_id="g", priority=2)
    q.send("B", correlation_id="c1", group_id="g", priority=6)
    with q.lock(0) as before:
        cursor = of(q, **wanted)
        assert cursor.receive(0).body == b"A"
        waiting = broker.wait(lambda: getattr(cursor, how)(30))
        q.send("C", priority=7)
        before.abort()
    assert waiting.result().body == b"B"
    waiting = broker.wait(lambda: getattr(cursor, how)(30))
    q.send("D", correlation_id="c1", group_id="g", priority=7)
    assert waiting.result().body == b"D"


def test_invalid_cursor_arguments_are_refused(broker):
    q = broker.queue()
    with pytest.raises(SelectorSyntaxError):
        of(q, selector="n =")
    with pytest.raises(MatchOptionsError):
        of(q, match="c1")
    token = q.send("A").token
    cursor = of(q, match=Match(token=token))
    with pytest.raises(MatchOptionsError):
        cursor.peek(5)
    with pytest.raises(IllegalCursorAction):
        cursor.peek_next(0)
    with pytest.raises(InvalidArgument):
        cursor.peek("x")
    assert cursor.peek(0).body == b"A"
