"""Wait For New Message (MS-MQDMPR 3.1.7.3.1) and which reader Message Position Available serves (3.1.7.2.2)."""

from __future__ import annotations

import pytest

from mqredis.errors import IoTimeout, OperationCancelled, QueueNotAvailable
from tests.support.facade import bodies, drain, send, send_in
from tests.support.until import until

case = pytest.mark.case


@case("F1", "L")
def test_F1_send_satisfies_the_wait(broker):
    q = broker.queue()
    waiting = broker.wait(lambda: q.receive(None))
    send(broker.client().open("q"), "A")
    assert waiting.result().body == b"A"
    assert broker.qm.queue_info("q").messages == 0


@case("F3", "C44")
def test_F3_first_come_first_served_over_all_handles(broker):
    """D44: the text serves handles in the order of opening; we serve readers in the order of waiting."""
    broker.queue()
    h1, h2 = broker.client().open("q"), broker.client().open("q")
    w2 = broker.wait(lambda: h2.receive(30))
    w1 = broker.wait(lambda: h1.receive(30))
    send(h1, "A")
    assert w2.result().body == b"A"
    broker.waiting(1)
    assert not w1.done()
    send(h1, "B")
    assert w1.result().body == b"B"


@case("F4", "L")
def test_F4_peekers_up_to_the_first_receiver(broker):
    q = broker.queue()
    p1 = broker.wait(lambda: q.peek(30))
    p2 = broker.wait(lambda: q.peek(30))
    d1 = broker.wait(lambda: q.receive(30))
    p3 = broker.wait(lambda: q.peek(None))
    send(q, "A")
    assert bodies([p1.result(), p2.result(), d1.result()]) == [b"A", b"A", b"A"]
    broker.waiting(1)
    assert not p3.done()
    q.close()
    assert isinstance(p3.error(), OperationCancelled)


@case("F6", "L")
def test_F6_only_peekers(broker):
    q = broker.queue()
    peekers = [broker.wait(lambda: q.peek(30)) for _ in range(3)]
    send(q, "A")
    assert bodies(p.result() for p in peekers) == [b"A", b"A", b"A"]
    assert drain(q) == [b"A"]


def test_waiting_peek_gets_a_large_message(broker):
    q = broker.queue()
    waiting = broker.wait(lambda: q.peek(30))
    q.send(b"x" * 5000)
    assert waiting.result().body == b"x" * 5000


@case("F7", "L")
def test_F7_receiver_before_peeker(broker):
    q = broker.queue()
    d1 = broker.wait(lambda: q.receive(30))
    p1 = broker.wait(lambda: q.peek(30))
    send(q, "A")
    assert d1.result().body == b"A"
    broker.waiting(1)
    assert not p1.done()
    send(q, "B")
    assert p1.result().body == b"B"


@case("F9", "L")
def test_F9_each_has_its_own_timeout(broker):
    q = broker.queue()
    w1 = broker.start(lambda: q.receive(0.1))
    w2 = broker.start(lambda: q.receive(30))
    assert isinstance(w1.error(), IoTimeout)
    broker.waiting(1)
    send(q, "A")
    assert w2.result().body == b"A"


@case("F13", "L")
def test_F13_abort_satisfies_the_wait(broker):
    t = broker.transactional()
    send_in(broker.qm, t, "A")
    x1 = broker.qm.transaction()
    t.receive(0, transaction=x1)
    waiting = broker.wait(lambda: t.receive(30), "t")
    x1.abort()
    assert waiting.result().body == b"A"


@case("F15", "L")
def test_F15_commit_satisfies_two(broker):
    t = broker.transactional()
    x1 = broker.qm.transaction()
    t.send(b"A", transaction=x1)
    t.send(b"B", transaction=x1)
    w1 = broker.wait(lambda: t.receive(30), "t")
    w2 = broker.wait(lambda: t.receive(30), "t")
    x1.commit()
    assert bodies([w1.result(), w2.result()]) == [b"A", b"B"]


@case("F16", "L")
def test_F16_a_wait_inside_a_transaction(broker):
    t = broker.transactional()
    x1 = broker.qm.transaction()
    w1 = broker.wait(lambda: t.receive(30, transaction=x1), "t")
    w2 = broker.wait(lambda: t.receive(30), "t")
    send_in(broker.qm, t, "A")
    assert w1.result().body == b"A"
    broker.waiting(1, "t")
    assert not w2.done()
    x1.abort()
    assert w2.result().body == b"A"


@case("F18", "F22")
@pytest.mark.parametrize("read", ["receive", "peek", "lock"])
def test_F18_deleted_under_the_wait(broker, read):
    q = broker.queue()
    waiting = broker.wait(lambda: getattr(q, read)(None))
    broker.qm.delete_queue("q")
    assert isinstance(waiting.error(), QueueNotAvailable)


@case("F19", "L")
def test_F19_eight_wait_for_five(broker):
    q = broker.queue()
    readers = [broker.wait(lambda: q.receive(None)) for _ in range(8)]
    send(q, "ABCDE")
    until(lambda: sum(r.done() for r in readers) == 5)
    broker.waiting(3)
    assert sorted(r.result().body for r in readers if r.done()) == [b"A", b"B", b"C", b"D", b"E"]


@case("F22", "L")
def test_F22_a_wait_with_a_cursor(broker):
    q = broker.queue()
    c = q.cursor()
    waiting = broker.wait(lambda: c.receive(30))
    send(q, "A")
    assert waiting.result().body == b"A"
    assert broker.qm.queue_info("q").messages == 0


def test_lapsed_lock_lease_satisfies_the_wait(broker):
    q = broker.queue()
    send(q, "A")
    q.lock(0, lease=10)
    waiting = broker.wait(lambda: q.receive(30))
    broker.qm.advance_clock(11)
    assert waiting.result().body == b"A"


def test_release_of_a_lock_satisfies_the_wait(broker):
    q = broker.queue()
    send(q, "A")
    locked = q.lock(0)
    waiting = broker.wait(lambda: q.receive(30))
    locked.abort()
    assert waiting.result().body == b"A"


def test_waiting_lock_gets_a_sent_message(broker):
    q = broker.queue()
    waiting = broker.wait(lambda: q.lock(30, lease=60))
    send(q, "A")
    locked = waiting.result()
    assert locked.body == b"A"
    assert broker.qm.queue_info("q").locked == 1
    locked.commit()
    assert broker.qm.queue_info("q").messages == 0


def test_waiting_lock_gets_a_message_whose_delay_is_over_before_one_that_is_sent(broker):
    q = broker.queue()
    send(q, "A", delay=60)
    reader = broker.client().open("q")
    waiting = broker.wait(lambda: reader.lock(30))
    broker.qm.advance_clock(61)
    send(q, "B")
    assert waiting.result().body == b"A"
    assert drain(q) == [b"B"]


def test_waiting_receive_many_returns_with_the_first_message(broker):
    q = broker.queue()
    waiting = broker.wait(lambda: q.receive_many(5, 30))
    send(q, "A")
    assert bodies(waiting.result()) == [b"A"]


def test_each_wait_gets_the_message_of_its_queue(broker):
    queues = [broker.queue(f"q{i}") for i in range(3)]
    readers = [broker.wait(lambda q=q: q.receive(30), q.name) for q in queues]
    for i, q in reversed(list(enumerate(queues))):
        q.send(b"%d" % i)
    assert bodies(r.result() for r in readers) == [b"0", b"1", b"2"]


def test_timed_out_reader_is_not_a_waiter(broker):
    q = broker.queue()
    with pytest.raises(IoTimeout):
        q.receive(0.02)
    assert broker.qm.queue_info("q").waiters == 0
    send(q, "A")
    assert drain(q) == [b"A"]


def test_40_waiting_readers_get_40_messages(broker):
    q = broker.queue()
    readers = [broker.start(lambda: q.receive(30)) for _ in range(40)]
    broker.waiting(40)
    for i in range(40):
        q.send(b"%d" % i)
    assert sorted(r.result().body for r in readers) == sorted(b"%d" % i for i in range(40))
    broker.waiting(0)
