"""Published cases of moves, acknowledgements, journals and dead letters (groups M and N), named by id."""

from __future__ import annotations

import threading

import pytest

from mqredis import (
    DEAD_LETTER,
    SYSTEM_JOURNAL,
    TRANSACTIONAL_DEAD_LETTER,
    Access,
    Acknowledge,
    InvalidArgument,
    Journal,
    MessageLocked,
    MessageNotFound,
    Status,
    TransactionUsage,
    UnsupportedAccess,
)
from tests.msmq.kit import (
    FULL_RECEIVE,
    NACK_RECEIVE,
    POS_ARRIVAL,
    POS_RECEIVE,
    classes,
    drain,
    gone,
    make,
    read,
)
from tests.support.facade import Pending, send, send_in

# ---- M: moves ----------------------------------------------------------------------------------------------


def family(qm, name="q", **properties):
    """A queue and a handle that reads its subqueue, and one to move there."""
    return make(qm, name, **properties), qm.open(f"{name};s"), qm.open(f"{name};s", Access.MOVE)


def test_m1(qm):
    q, sub, target = family(qm)
    sent = send(q, "ABC")
    q.move(sent[1].lookup_id, target)
    assert (read(q), read(sub)) == ("AC", "B")
    assert sub.peek(0).lookup_id == sent[1].lookup_id


def test_m3(qm):
    t, _, target = family(qm, "t", transactional=True)
    (sent,) = send_in(qm, t, "A")
    tx = qm.transaction()
    t.receive(0, transaction=tx)
    with pytest.raises(MessageLocked):
        t.move(sent.lookup_id, target)
    tx.abort()


def test_m4(qm):
    q, _, target = family(qm)
    (sent,) = send(q, "A")
    with pytest.raises(MessageNotFound):
        q.move(12345, target)
    q.receive(0)
    with pytest.raises(MessageNotFound):
        q.move(sent.lookup_id, target)


def test_m6(qm):
    q, _, target = family(qm)
    (sent,) = send(q, "A")
    tx = qm.transaction()
    with pytest.raises(TransactionUsage):
        q.move(sent.lookup_id, target, transaction=tx)


def test_m7(qm):
    t, sub, target = family(qm, "t", transactional=True)
    (sent,) = send_in(qm, t, "A")
    tx = qm.transaction()
    t.move(sent.lookup_id, target, transaction=tx)
    assert (read(t), read(sub)) == ("", "")
    tx.commit()
    assert (read(t), read(sub)) == ("", "A")


def test_m9(qm):
    t, sub, target = family(qm, "t", transactional=True)
    (sent,) = send_in(qm, t, "A")
    for _ in range(3):
        tx = qm.transaction()
        t.receive(0, transaction=tx)
        tx.abort()
    assert t.peek(0).abort_count == 3
    t.move(sent.lookup_id, target)
    with qm.open("t", Access.MOVE) as home:
        sub.move(sent.lookup_id, home)
    back = t.peek(0)
    assert (back.abort_count, back.move_count) == (0, 2)
    assert back.last_moved_at is not None


def test_m10(qm):
    q, _, target = family(qm, journaling=True)
    make(qm, "admin")
    (sent,) = send(q, "A", **FULL_RECEIVE)
    q.move(sent.lookup_id, target)
    assert classes(qm) == []
    assert drain(qm, "q;journal") == []


def test_m12(qm):
    q, sub, target = family(qm)
    (low,) = send(q, "A")
    (high,) = send(q, "C", priority=7)
    q.move(low.lookup_id, target)
    q.move(high.lookup_id, target)
    assert read(sub) == "CA"


def test_m13(qm):
    q, sub, target = family(qm)
    (sent,) = send(q, "A")
    gate = threading.Barrier(2)

    def move():
        gate.wait(30)
        q.move(sent.lookup_id, target)

    ends = [Pending(move).error, Pending(move).error]
    errors = [end(10) for end in ends]
    assert sorted(error is None for error in errors) == [False, True]
    assert isinstance(next(filter(None, errors)), MessageNotFound | MessageLocked)
    assert read(sub) == "A"


def test_m15(qm):
    make(qm)
    with pytest.raises(UnsupportedAccess):
        qm.open("q;s", Access.SEND)


def test_m16(qm):
    q, sub, target = family(qm)
    target.close()
    assert "q;s" in [info.name for info in qm.queues()]
    sub.close()
    assert [info.name for info in qm.queues()] == ["q"]
    q.close()


# ---- N: acknowledgements, journals, dead letters -----------------------------------------------------------


def test_n1(qm):
    q = make(qm)
    make(qm, "admin")
    (sent,) = send(q, "A", **POS_ARRIVAL)
    (ack,) = drain(qm, "admin")
    assert (ack.message_class, ack.body) == (0x0002, b"")
    assert (ack.correlation_id, ack.response_queue) == (sent.message_id, "q")


def test_n2(qm):
    q = make(qm)
    make(qm, "admin")
    send(q, "A", **POS_RECEIVE)
    q.receive(0)
    assert classes(qm) == [0x4000]


def test_n4(qm):
    q = make(qm)
    make(qm, "admin")
    send(q, "A", **FULL_RECEIVE)
    q.purge()
    assert [(m.message_class, m.body) for m in drain(qm, "admin")] == [(0xC001, b"A")]


def test_n5(qm):
    q = make(qm)
    make(qm, "admin")
    send(q, "A", **NACK_RECEIVE)
    q.receive(0)
    assert classes(qm) == []


def test_n7(qm):
    q = make(qm)
    send(q, "A", acknowledge=Acknowledge.FULL_RECEIVE)
    assert q.receive(0).body == b"A"


@pytest.mark.parametrize("transactional", [None, True])
def test_n8(qm, transactional):
    q = make(qm)
    if transactional:
        make(qm, "admin", transactional=True)
    send(q, "A", **FULL_RECEIVE)
    assert q.receive(0).body == b"A"
    assert qm.info().messages == 0


@pytest.mark.parametrize("commit", [True, False])
def test_n10_n11(qm, commit):
    t = make(qm, "t", transactional=True)
    make(qm, "admin")
    send_in(qm, t, "A", **POS_RECEIVE)
    tx = qm.transaction()
    t.receive(0, transaction=tx)
    assert classes(qm) == []
    tx.commit() if commit else tx.abort()
    assert classes(qm) == ([0x4000] if commit else [])


def test_n13(qm):
    q = make(qm, journaling=True)
    sent = send(q, "A")[0], send(q, "B", priority=7)[0]
    read_ = [q.receive(0), q.receive(0)]
    copies = drain(qm, "q;journal")
    assert [m.body for m in copies] == [m.body for m in read_] == [b"B", b"A"]
    assert copies[1].lookup_id != sent[0].lookup_id == copies[1].original_lookup_id


def test_n14(qm):
    q = make(qm, journaling=True)
    send(q, "A")
    q.peek(0)
    q.purge()
    send(q, "B", time_to_be_received=0)
    assert drain(qm, "q;journal") == []


def test_n16(qm):
    q = make(qm)
    send(q, "A", journal=Journal.DEAD_LETTER)
    q.purge()
    assert drain(qm, DEAD_LETTER) == []


def test_n17(qm):
    t = make(qm, "t", transactional=True)
    send_in(qm, t, "A", journal=Journal.DEAD_LETTER)
    t.purge()
    assert classes(qm, TRANSACTIONAL_DEAD_LETTER) == [0xC001]


def test_n19(qm):
    qm.update_queue(DEAD_LETTER, quota_bytes=0)
    q = make(qm)
    send(q, "A", journal=Journal.DEAD_LETTER, time_to_be_received=0)
    gone(q)
    assert drain(qm, DEAD_LETTER) == []


@pytest.mark.parametrize("name", [DEAD_LETTER, TRANSACTIONAL_DEAD_LETTER, SYSTEM_JOURNAL, "q;journal"])
def test_n20(qm, name):
    make(qm)
    with pytest.raises(UnsupportedAccess) as refused:
        qm.open(name, Access.SEND)
    assert refused.value.status == Status.UNSUPPORTED_FORMATNAME_OPERATION


def test_n23(qm):
    make(qm, "a", transactional=True), make(qm, "b", transactional=True)
    tx = qm.transaction()
    with pytest.raises(InvalidArgument) as refused:
        qm.open("a,b", Access.SEND).send(b"A", transaction=tx, journal=Journal.DEAD_LETTER)
    assert refused.value.status == Status.INVALID_PARAMETER
    tx.abort()
