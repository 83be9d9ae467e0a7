"""Cursors: Peek Next Message (MS-MQDMPR 3.1.7.1.14) and the state machine of 3.2.7."""

from __future__ import annotations

import pytest

from mqredis.errors import (
    IllegalCursorAction,
    InvalidHandle,
    IoTimeout,
    MessageAlreadyReceived,
    MessageNotFound,
    OperationCancelled,
    QueueNotAvailable,
)
from tests.support.facade import bodies, drain, send, send_in

case = pytest.mark.case


@pytest.fixture
def q(broker):
    handle = broker.queue()
    send(handle, "ABC")
    return handle


def at_the_end(cursor):
    """Case E3: all three messages were seen, and the peek for a fourth timed out."""
    assert [cursor.peek(0).body, cursor.peek_next(0).body, cursor.peek_next(0).body] == [b"A", b"B", b"C"]
    with pytest.raises(IoTimeout):
        cursor.peek_next(0)


@case("E1", "L")
def test_E1_next_on_a_fresh_cursor(q):
    c = q.cursor()
    with pytest.raises(IllegalCursorAction):
        c.peek_next(0)
    assert c.peek(0).body == b"A"


@case("E2", "L")
def test_E2_current_stays(q):
    c = q.cursor()
    assert bodies([c.peek(0), c.peek(0)]) == [b"A", b"A"]


@case("E4", "L")
def test_E4_after_the_end(q):
    c = q.cursor()
    at_the_end(c)
    with pytest.raises(IllegalCursorAction):
        c.peek_next(0)
    with pytest.raises(IoTimeout):
        c.peek(0)


@case("E5", "L")
def test_E5_arrival_behind_the_end(q):
    c = q.cursor()
    at_the_end(c)
    send(q, "D")
    assert c.peek(0).body == b"D"


@case("E7", "L")
def test_E7_wait_jumps_to_the_front(broker, q):
    c = q.cursor()
    assert bodies([c.peek(0), c.peek_next(0), c.peek_next(0)]) == [b"A", b"B", b"C"]
    waiting = broker.wait(lambda: c.peek_next(30))
    q.send(b"X", priority=7)
    assert waiting.result().body == b"X"
    assert c.peek_next(0).body == b"A"


@case("E8", "L")
def test_E8_receive_under_the_cursor(q):
    c = q.cursor()
    assert c.peek(0).body == b"A"
    assert c.receive(0).body == b"A"
    with pytest.raises(IllegalCursorAction):
        c.peek_next(0)
    assert c.peek(0).body == b"B"


@case("E10", "L")
def test_E10_receive_on_an_empty_queue(broker):
    c = broker.queue().cursor()
    with pytest.raises(MessageNotFound):
        c.receive(0)
    with pytest.raises(IoTimeout):
        c.peek(0)


@case("E11", "L")
def test_E11_peek_wait_keeps_the_place(broker):
    q = broker.queue()
    c = q.cursor()
    with pytest.raises(IoTimeout):
        c.peek(0)
    send(q, "A")
    assert c.peek(0).body == b"A"


@case("E13", "C14")
def test_E13_timed_out_receive_leaves_the_cursor_at_the_end(broker):
    """D14, taken literally: only a message that is delivered through a wait reaches the cursor now."""
    q = broker.queue()
    c = q.cursor()
    with pytest.raises(IoTimeout):
        c.receive(0.05)
    send(q, "D")
    with pytest.raises(IoTimeout):
        c.peek(0)
    waiting = broker.wait(lambda: c.receive(30))
    send(q, "E")
    assert waiting.result().body == b"E"
    assert drain(q) == [b"D"]


@case("E14", "L")
def test_E14_somebody_else_received_it(broker, q):
    c = q.cursor()
    assert c.peek(0).body == b"A"
    assert broker.client().open("q").receive(0).body == b"A"
    with pytest.raises(MessageAlreadyReceived):
        c.peek(0)
    with pytest.raises(MessageAlreadyReceived):
        c.receive(0)
    assert c.peek_next(0).body == b"B"


@case("E16", "F35")
def test_E16_next_after_two_are_gone(q):
    c = q.cursor()
    assert c.peek(0).body == b"A"
    q.receive(0)
    q.receive(0)
    assert c.peek_next(0).body == b"C"


@case("E17", "L")
def test_E17_passes_over_locked(q):
    b = [m.lookup_id for m in q.browse()][1]
    c = q.cursor()
    with q.lock_by_lookup_id(b):
        assert bodies([c.peek(0), c.peek_next(0)]) == [b"A", b"C"]


@case("E19", "L")
def test_E19_cursors_are_independent(q):
    c1, c2 = q.cursor(), q.cursor()
    assert bodies([c1.peek(0), c1.peek_next(0)]) == [b"A", b"B"]
    assert c2.peek(0).body == b"A"


@case("E20", "F38")
def test_E20_close_ends_its_wait(broker, q):
    c = q.cursor()
    bodies([c.peek(0), c.peek_next(0), c.peek_next(0)])
    waiting = broker.wait(lambda: c.peek_next(None))
    c.close()
    assert isinstance(waiting.error(), OperationCancelled)
    broker.waiting(0)


@case("E22", "L")
def test_E22_purged_under_the_cursor(q):
    c = q.cursor()
    assert c.peek(0).body == b"A"
    q.purge()
    with pytest.raises(MessageAlreadyReceived):
        c.peek(0)
    with pytest.raises(IoTimeout):
        c.peek_next(0)
    with pytest.raises(IllegalCursorAction):
        c.peek_next(0)


@case("E23", "P")
def test_E23_find_by_correlation_id(broker):
    q = broker.queue()
    for name in ("c-1", "c-2", "c-3"):
        q.send(name.encode(), correlation_id=name)
    with q.cursor() as c:
        message = c.peek(0)
        while message.correlation_id != "c-2":
            message = c.peek_next(0)
        assert c.receive(0).body == b"c-2"
    assert drain(q) == [b"c-1", b"c-3"]


@case("E25", "L")
def test_E25_no_cursor_on_a_deleted_queue(broker, q):
    broker.qm.delete_queue("q")
    with pytest.raises(QueueNotAvailable):
        q.cursor()


# ---- the rest of the table of 3.2.7 -----------------------------------------------------------------------


def test_cursor_receive_advances_the_cursor(q):
    c = q.cursor()
    assert bodies([c.receive(0), c.receive(0), c.receive(0)]) == [b"A", b"B", b"C"]
    with pytest.raises(MessageNotFound):
        c.receive(0)
    send(q, "D")
    assert c.receive(0).body == b"D"


def test_cursor_receive_takes_the_peeked_message(q):
    c = q.cursor()
    assert bodies([c.peek(0), c.peek_next(0)]) == [b"A", b"B"]
    assert c.receive(0).body == b"B"
    assert drain(q) == [b"A", b"C"]


def test_cursor_does_not_return_to_a_message_sent_before_its_position(q):
    c = q.cursor()
    assert bodies([c.peek(0), c.peek_next(0)]) == [b"A", b"B"]
    q.send(b"X", priority=7)
    assert c.peek_next(0).body == b"C"


def test_cursor_finds_its_message_after_the_abort_of_another_reader(broker):
    t = broker.transactional()
    send_in(broker.qm, t, "AB")
    c = t.cursor()
    assert c.peek(0).body == b"A"
    tx = broker.qm.transaction()
    t.receive(0, transaction=tx)
    with pytest.raises(MessageAlreadyReceived):
        c.peek(0)
    tx.abort()
    assert c.peek(0).body == b"A"
    assert c.receive(0).body == b"A"


def test_cursor_keeps_its_position_when_its_transaction_aborts(broker):
    t = broker.transactional()
    send_in(broker.qm, t, "ABC")
    c = t.cursor()
    tx = broker.qm.transaction()
    assert bodies([c.receive(0, transaction=tx), c.receive(0, transaction=tx)]) == [b"A", b"B"]
    tx.abort()
    assert c.peek(0).body == b"C"
    assert drain(t) == [b"A", b"B", b"C"]


def test_reset_cursor_starts_at_the_first_message(q):
    c = q.cursor()
    bodies([c.peek(0), c.peek_next(0)])
    c.reset()
    with pytest.raises(IllegalCursorAction):
        c.peek_next(0)
    assert c.peek(0).body == b"A"


def test_waiting_cursor_gets_an_aborted_message_before_its_position(broker):
    t = broker.transactional()
    send_in(broker.qm, t, "AB")
    tx = broker.qm.transaction()
    assert t.receive(0, transaction=tx).body == b"A"
    c = t.cursor()
    assert c.peek(0).body == b"B"
    waiting = broker.wait(lambda: c.peek_next(30), "t")
    tx.abort()
    assert waiting.result().body == b"A"
    assert c.peek_next(0).body == b"B"


def test_timed_out_peek_next_keeps_the_position_of_the_cursor(broker, q):
    c = q.cursor()
    assert c.peek(0).body == b"A"
    drain(q)
    with pytest.raises(IoTimeout):
        c.peek_next(0.05)
    with pytest.raises(IllegalCursorAction):
        c.peek_next(0)
    send(q, "D")
    assert c.peek(0).body == b"D"


def test_closed_cursor_refuses_calls(q):
    c = q.cursor()
    c.close()
    for call in (c.peek, c.peek_next, c.receive):
        with pytest.raises(InvalidHandle):
            call(0)


def test_close_of_a_handle_closes_its_cursors(broker):
    q = broker.queue()
    c = q.cursor()
    q.close()
    with pytest.raises(InvalidHandle):
        c.peek(0)


def test_cursor_on_a_deleted_queue_refuses_calls(broker, q):
    c = q.cursor()
    assert c.peek(0).body == b"A"
    broker.qm.delete_queue("q")
    for call in (c.peek, c.peek_next, c.receive):
        with pytest.raises(QueueNotAvailable):
            call(0)


def test_cursor_sees_each_message_while_messages_are_received(broker):
    q = broker.queue()
    send(q, "ABCDEF")
    seen = []
    with q.cursor() as c:
        message = c.peek(0)
        while True:
            seen.append(message.body)
            q.receive_by_lookup_id(message.lookup_id)
            try:
                message = c.peek_next(0)
            except IoTimeout:
                break
    assert seen == [b"A", b"B", b"C", b"D", b"E", b"F"]
    assert broker.qm.queue_info("q").messages == 0
