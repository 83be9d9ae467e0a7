"""Read Message By Lookup Identifier (MS-MQDMPR 3.1.7.1.13) and Seek With Id (3.1.7.3.3)."""

from __future__ import annotations

import pytest

from mqredis.errors import (
    IoTimeout,
    MessageAlreadyReceived,
    MessageNotFound,
    QueueNotAvailable,
    TransactionUsage,
)
from mqredis.models import Seek
from tests.support.facade import bodies, drain, send, send_in

case = pytest.mark.case
NEVER = 0x0400000000FFFFFF


@pytest.fixture
def abc(broker):
    """A, B, C in a plain queue: the handle and their ids."""
    q = broker.queue()
    return q, *(s.lookup_id for s in send(q, "ABC"))


@pytest.fixture
def tabc(broker):
    """A, B, C in a transactional queue."""
    t = broker.transactional()
    return t, *(s.lookup_id for s in send_in(broker.qm, t, "ABC"))


@case("C1", "L")
def test_C1_current(abc):
    q, _, b, _ = abc
    assert q.peek_by_lookup_id(b).body == b"B"


@case("C3", "F5")
def test_C3_first_and_last_need_no_id(abc):
    q, *_ = abc
    assert q.peek_by_lookup_id(0, seek=Seek.FIRST).body == b"A"
    assert q.peek_by_lookup_id(0, seek=Seek.LAST).body == b"C"


@case("C4", "F3")
def test_C4_off_the_list(abc):
    q, a, _, c = abc
    for lookup_id, seek in ((c, Seek.NEXT), (a, Seek.PREVIOUS)):
        with pytest.raises(MessageNotFound):
            q.peek_by_lookup_id(lookup_id, seek=seek)


@case("C6", "L")
@pytest.mark.parametrize("seek", [Seek.NEXT, Seek.PREVIOUS, Seek.CURRENT])
def test_C6_id_that_was_never_issued(abc, seek):
    q, *_ = abc
    with pytest.raises(MessageNotFound):
        q.peek_by_lookup_id(NEVER, seek=seek)
    with pytest.raises(MessageNotFound):
        q.receive_by_lookup_id(NEVER, seek=seek)


@case("C7", "L")
def test_C7_received_is_gone(abc):
    q, _, b, _ = abc
    assert q.receive_by_lookup_id(b).body == b"B"
    with pytest.raises(MessageNotFound):
        q.peek_by_lookup_id(b)
    with pytest.raises(MessageNotFound):
        q.receive_by_lookup_id(b)
    assert drain(q) == [b"A", b"C"]


@case("C9", "L")
def test_C9_peek_of_a_locked_message(broker, tabc):
    t, _, b, _ = tabc
    with broker.qm.transaction() as tx:
        t.receive_by_lookup_id(b, transaction=tx)
        with pytest.raises(TransactionUsage):
            t.peek_by_lookup_id(b)


@case("C10", "C8")
def test_C10_receive_of_a_locked_message(broker, tabc):
    t, _, b, _ = tabc
    with broker.qm.transaction() as tx:
        t.receive_by_lookup_id(b, transaction=tx)
        with pytest.raises(MessageNotFound):
            t.receive_by_lookup_id(b)
        with pytest.raises(MessageNotFound):
            t.lock_by_lookup_id(b)


@case("C12", "L")
def test_C12_locked_anchor(broker, tabc):
    t, _, b, _ = tabc
    with broker.qm.transaction() as tx:
        t.receive_by_lookup_id(b, transaction=tx)
        assert t.peek_by_lookup_id(b, seek=Seek.PREVIOUS).body == b"A"
        assert t.peek_by_lookup_id(b, seek=Seek.NEXT).body == b"C"


@case("C13", "L")
def test_C13_first_passes_over_locked(broker, tabc):
    t, a, *_ = tabc
    with broker.qm.transaction() as tx:
        t.receive_by_lookup_id(a, transaction=tx)
        assert t.peek_by_lookup_id(0, seek=Seek.FIRST).body == b"B"


@case("C15", "F3")
def test_C15_all_locked(broker, tabc):
    t, *_ = tabc
    with broker.qm.transaction() as tx:
        t.receive_many(3, 0, transaction=tx)
        for seek in (Seek.FIRST, Seek.LAST):
            with pytest.raises(MessageNotFound):
                t.peek_by_lookup_id(0, seek=seek)


@case("C16", "F3")
def test_C16_empty_queue(broker):
    q = broker.queue()
    with pytest.raises(MessageNotFound):
        q.peek_by_lookup_id(0, seek=Seek.FIRST)
    with pytest.raises(MessageNotFound):
        q.receive_by_lookup_id(0, seek=Seek.LAST)


@case("C18", "L")
def test_C18_previous_is_locked(broker, tabc):
    t, a, b, _ = tabc
    with broker.qm.transaction() as tx:
        t.receive_by_lookup_id(a, transaction=tx)
        with pytest.raises(MessageNotFound):
            t.receive_by_lookup_id(b, seek=Seek.PREVIOUS)
        assert t.peek_by_lookup_id(b).body == b"B"
        with pytest.raises(TransactionUsage):
            t.peek_by_lookup_id(a)


@case("C19", "L")
def test_C19_navigation_never_waits(abc):
    q, _, _, c = abc
    with pytest.raises(MessageNotFound):
        q.peek_by_lookup_id(c, seek=Seek.NEXT)
    send(q, "D")
    assert q.peek_by_lookup_id(c, seek=Seek.NEXT).body == b"D"


@case("C21", "L")
def test_C21_abort_brings_it_back(broker, tabc):
    t, _, b, _ = tabc
    tx = broker.qm.transaction()
    t.receive_by_lookup_id(b, transaction=tx)
    tx.abort()
    assert t.peek_by_lookup_id(b).body == b"B"


@case("C22", "F1")
def test_C22_neighbours_by_priority(broker):
    q = broker.queue()
    a = q.send(b"A", priority=3).lookup_id
    b = q.send(b"B", priority=7).lookup_id
    assert q.peek_by_lookup_id(b, seek=Seek.NEXT).body == b"A"
    assert q.peek_by_lookup_id(a, seek=Seek.PREVIOUS).body == b"B"


@case("C24", "L")
def test_C24_two_clients_one_message(broker, abc):
    _, _, b, _ = abc
    handles = [broker.client().open("q") for _ in range(2)]
    calls = [broker.start(lambda h=h: h.receive_by_lookup_id(b)) for h in handles]
    errors = [c.error() for c in calls]
    assert sorted(e is None for e in errors) == [False, True]
    assert all(e is None or isinstance(e, MessageNotFound) for e in errors)
    assert [c.result().body for c in calls if c.error() is None] == [b"B"]


@case("C25", "L")
def test_C25_committed_is_gone(broker, tabc):
    t, a, b, _ = tabc
    with broker.qm.transaction() as tx:
        t.receive_by_lookup_id(b, transaction=tx)
    assert t.peek_by_lookup_id(a, seek=Seek.NEXT).body == b"C"


# ---- AllowPeekWhenLocked ----------------------------------------------------------------------------------


@pytest.fixture
def shown(broker, tabc):
    """A was received by id in a transaction and is visible to peeks; B and C follow it."""
    t, a, b, _ = tabc
    x1 = broker.qm.transaction()
    assert t.receive_by_lookup_id(a, transaction=x1, allow_peek=True).body == b"A"
    return x1, broker.client().open("t"), a, b


@case("P2", "L")
def test_P2_receive_passes_over_it(shown):
    x1, other, _, _ = shown
    assert other.receive(0).body == b"B"
    x1.abort()


@case("P3", "L")
def test_P3_peek_current_shows_it(shown):
    x1, other, a, _ = shown
    assert other.peek_by_lookup_id(a).body == b"A"
    assert other.peek(0).body == b"A"
    x1.abort()


@case("P5", "L")
def test_P5_seeks_for_peek_find_it(shown):
    x1, other, _, b = shown
    assert other.peek_by_lookup_id(b, seek=Seek.PREVIOUS).body == b"A"
    assert other.peek_by_lookup_id(0, seek=Seek.FIRST).body == b"A"
    with pytest.raises(MessageNotFound):
        other.receive_by_lookup_id(b, seek=Seek.PREVIOUS)
    x1.abort()


@case("P6", "L")
def test_P6_a_cursor_shows_it_once(shown):
    x1, other, _, _ = shown
    c = other.cursor()
    assert c.peek(0).body == b"A"
    with pytest.raises(MessageAlreadyReceived):
        c.peek(0)
    assert c.peek_next(0).body == b"B"
    x1.abort()


@case("P8", "L")
def test_P8_after_commit_it_is_gone(shown):
    x1, other, a, _ = shown
    x1.commit()
    with pytest.raises(MessageNotFound):
        other.peek_by_lookup_id(a)


@case("P9", "L")
def test_P9_after_abort_it_is_back(shown):
    x1, other, _, _ = shown
    x1.abort()
    assert other.receive(0).body == b"A"


# ---- more of the same rules -------------------------------------------------------------------------------


def test_peek_does_not_find_a_message_with_pending_purge(broker, tabc):
    """D6: the text has no branch for a peek of a position that is purge pending."""
    t, a, *_ = tabc
    tx = broker.qm.transaction()
    t.receive_by_lookup_id(a, transaction=tx, allow_peek=True)
    t.purge()
    with pytest.raises(MessageNotFound):
        t.peek_by_lookup_id(a)
    with pytest.raises(IoTimeout):
        t.peek(0)
    tx.abort()


@pytest.mark.parametrize(
    "seek, body, rest",
    [
        (Seek.FIRST, b"A", [b"B", b"C"]),
        (Seek.PREVIOUS, b"A", [b"B", b"C"]),
        (Seek.CURRENT, b"B", [b"A", b"C"]),
        (Seek.NEXT, b"C", [b"A", b"B"]),
        (Seek.LAST, b"C", [b"A", b"B"]),
    ],
)
def test_receive_and_lock_by_lookup_id_accept_every_seek(abc, seek, body, rest):
    q, _, b, _ = abc
    with q.lock_by_lookup_id(b, seek=seek) as locked:
        assert locked.body == body
        assert bodies(q.browse()) == rest
        locked.abort()
    assert q.receive_by_lookup_id(b, seek=seek).body == body
    assert drain(q) == rest


def test_lookup_in_a_deleted_queue_is_refused(broker, abc):
    q, a, *_ = abc
    broker.qm.delete_queue("q")
    for call in (q.peek_by_lookup_id, q.receive_by_lookup_id, q.lock_by_lookup_id):
        with pytest.raises(QueueNotAvailable):
            call(a)


def test_receive_by_lookup_id_in_a_transaction_on_a_plain_queue_is_refused(broker, abc):
    q, a, *_ = abc
    with broker.qm.transaction() as tx, pytest.raises(TransactionUsage):
        q.receive_by_lookup_id(a, transaction=tx)
    assert q.peek(0).body == b"A"
