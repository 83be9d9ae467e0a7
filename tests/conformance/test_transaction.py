"""Transaction Prepare, Commit and Abort (MS-MQDMPR 3.1.4.3-5), Create Transaction (3.1.7.1.8)."""

from __future__ import annotations

from urllib.parse import unquote

import pytest

from mqredis.errors import InvalidArgument, IoTimeout, LockLost, TransactionSequence
from tests.support.facade import bodies, drain, send_in

case = pytest.mark.case


@pytest.fixture
def t(broker):
    return broker.transactional()


def state(broker, name="t"):
    info = broker.qm.queue_info(name)
    return info.ready, info.locked, info.messages


@case("H1", "L")
def test_H1_commit_of_a_receive(broker, t):
    send_in(broker.qm, t, "AB")
    x1 = broker.qm.transaction()
    assert t.receive(0, transaction=x1).body == b"A"
    x1.commit()
    assert t.receive(0).body == b"B"


@case("H2", "L")
def test_H2_abort_of_a_receive(broker, t):
    send_in(broker.qm, t, "AB")
    x1 = broker.qm.transaction()
    t.receive(0, transaction=x1)
    x1.abort()
    assert t.receive(0).body == b"A"


@case("H4", "L")
def test_H4_abort_of_a_send(broker, t):
    x1 = broker.qm.transaction()
    t.send(b"A", transaction=x1)
    assert state(broker) == (0, 1, 1)
    x1.abort()
    assert state(broker) == (0, 0, 0)
    with pytest.raises(IoTimeout):
        t.peek(0)


@case("H5", "L")
def test_H5_unknown_transaction(broker, t):
    for first in ("commit", "abort"):
        x1 = broker.qm.transaction()
        t.send(b"A", transaction=x1)
        getattr(x1, first)()
        for second in (x1.commit, x1.abort, x1.prepare):
            with pytest.raises(TransactionSequence):
                second()
        with pytest.raises(TransactionSequence):
            t.send(b"B", transaction=x1)
        with pytest.raises(TransactionSequence):
            t.receive(0, transaction=x1)
    assert drain(t) == [b"A"]


@case("H7", "L")
def test_H7_abort_keeps_the_order(broker, t):
    send_in(broker.qm, t, "ABC")
    x1 = broker.qm.transaction()
    bodies([t.receive(0, transaction=x1), t.receive(0, transaction=x1)])
    x1.abort()
    assert drain(t) == [b"A", b"B", b"C"]


@case("H8", "L")
def test_H8_two_transactions_end_differently(broker, t):
    send_in(broker.qm, t, "ABC")
    x1, x2 = broker.qm.transaction(), broker.qm.transaction()
    assert t.receive(0, transaction=x1).body == b"A"
    assert t.receive(0, transaction=x2).body == b"B"
    x2.commit()
    x1.abort()
    assert drain(t) == [b"A", b"C"]


@case("H10", "L")
@pytest.mark.parametrize("end", ["abort", "commit"])
def test_H10_two_queues_all_or_nothing(broker, end):
    t1, t2 = broker.transactional("t1"), broker.transactional("t2")
    send_in(broker.qm, t1, "A")
    x1 = broker.qm.transaction()
    t2.send(t1.receive(0, transaction=x1).body, transaction=x1)
    assert (state(broker, "t1"), state(broker, "t2")) == ((0, 1, 1), (0, 1, 1))
    getattr(x1, end)()
    expected = {"abort": ([b"A"], []), "commit": ([], [b"A"])}
    assert (bodies(t1.browse()), bodies(t2.browse())) == expected[end]
    assert broker.qm.info().messages == 1


@case("H14", "P")
def test_H14_the_same_id_twice(broker, t):
    x1 = broker.qm.transaction(id="unit-1")
    t.send(b"A", transaction=x1)
    with pytest.raises(TransactionSequence):
        broker.client().transaction(id="unit-1")
    x1.commit()
    assert drain(t) == [b"A"]


@case("H17", "F19")
def test_H17_first_and_last(broker, t):
    send_in(broker.qm, t, "ABC")
    send_in(broker.qm, t, "D")
    marks = [(m.first_in_transaction, m.last_in_transaction) for m in t.browse()]
    assert marks == [(True, False), (False, False), (False, True), (True, True)]


def test_only_sends_have_first_and_last_marks(broker, t):
    """D19: a receive at the beginning or the end of the transaction has no mark."""
    send_in(broker.qm, t, "AZ")
    with broker.qm.transaction() as tx:
        t.receive(0, transaction=tx)
        t.send(b"B", transaction=tx)
        t.send(b"C", transaction=tx)
        t.receive(0, transaction=tx)
    marks = [(m.first_in_transaction, m.last_in_transaction) for m in t.browse()]
    assert marks == [(True, False), (False, True)]


@case("H28", "L")
def test_H28_purged_then_committed(broker, t):
    send_in(broker.qm, t, "A")
    x1 = broker.qm.transaction()
    t.receive(0, transaction=x1)
    t.purge()
    x1.commit()
    assert state(broker) == (0, 0, 0)


@case("H29", "F18")
def test_H29_purged_then_aborted(broker, t):
    send_in(broker.qm, t, "A")
    x1 = broker.qm.transaction()
    t.receive(0, transaction=x1)
    t.purge()
    x1.abort()
    assert state(broker) == (0, 0, 0)
    with pytest.raises(IoTimeout):
        t.receive(0)


@case("H31", "F22")
@pytest.mark.parametrize("end", ["commit", "abort"])
def test_H31_deleted_then_ended(broker, t, end):
    send_in(broker.qm, t, "A")
    other = broker.transactional("other")
    x1 = broker.qm.transaction()
    t.receive(0, transaction=x1)
    t.send(b"B", transaction=x1)
    other.send(b"C", transaction=x1)
    broker.qm.delete_queue("t")
    getattr(x1, end)()
    info = broker.qm.info()
    assert (info.messages, info.transactions) == (1 if end == "commit" else 0, 0)
    assert (info.bytes > 0) == (end == "commit")
    assert drain(other) == ([b"C"] if end == "commit" else [])


def test_abort_count_increases_with_each_abort(broker, t):
    send_in(broker.qm, t, "A")
    for times in range(3):
        x1 = broker.qm.transaction()
        message = t.receive(0, transaction=x1)
        assert (message.abort_count, message.delivery_count) == (times, times + 1)
        x1.abort()
    assert t.receive(0).abort_count == 3


def test_transaction_context_manager_commits_or_aborts_on_error(broker, t):
    def fail():
        with broker.qm.transaction() as tx:
            t.send(b"A", transaction=tx)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    with broker.qm.transaction() as tx:
        t.send(b"B", transaction=tx)
    assert drain(t) == [b"B"]


def test_message_has_the_id_of_its_transaction(broker, t):
    with broker.qm.transaction(id="unit-7") as tx:
        assert tx.id == "unit-7"
        t.send(b"A", transaction=tx)
    message = t.receive(0)
    assert message.transaction_id == "unit-7"
    assert message.recoverable


def test_lapsed_lease_aborts_the_transaction(broker, t):
    send_in(broker.qm, t, "A")
    x1 = broker.qm.transaction(lease=10)
    t.receive(0, transaction=x1)
    t.send(b"B", transaction=x1)
    broker.qm.advance_clock(11)
    message = t.peek(0)
    assert (message.body, message.abort_count) == (b"A", 1)
    with pytest.raises((TransactionSequence, LockLost)):
        x1.commit()
    assert drain(t) == [b"A"]
    assert broker.qm.info().transactions == 0


def test_extended_lease_keeps_the_transaction_open(broker, t):
    x1 = broker.qm.transaction(lease=10)
    t.send(b"A", transaction=x1)
    broker.qm.advance_clock(8)
    x1.extend(10)
    broker.qm.advance_clock(8)
    x1.commit()
    assert drain(t) == [b"A"]


def test_prepared_send_is_visible_only_after_commit(broker, t):
    x1 = broker.qm.transaction()
    t.send(b"A", transaction=x1)
    x1.prepare()
    with pytest.raises(IoTimeout):
        t.peek(0)
    x1.commit()
    assert drain(t) == [b"A"]


def test_empty_transaction_can_be_committed_and_aborted(broker):
    for end in ("commit", "abort"):
        getattr(broker.qm.transaction(), end)()
    assert broker.qm.info().transactions == 0


def test_uncommitted_sends_survive_a_purge(broker, t):
    """D18, taken literally: uncommitted sends are locked, and the commit makes them available."""
    x1 = broker.qm.transaction()
    t.send(b"A", transaction=x1)
    t.purge()
    x1.commit()
    assert drain(t) == [b"A"]


def test_transactions_with_300_operations_commit(broker, t):
    with broker.qm.transaction() as tx:
        for i in range(300):
            t.send(b"%d" % i, transaction=tx)
    with broker.qm.transaction() as tx:
        assert [t.receive(0, transaction=tx).body for _ in range(300)] == [b"%d" % i for i in range(300)]
    assert state(broker) == (0, 0, 0)


@pytest.mark.parametrize("name", ["t1.1", "t0.0", "t900.12345"])
def test_chosen_id_with_the_format_of_generated_ids_is_refused(broker, name):
    with pytest.raises(InvalidArgument):
        broker.qm.transaction(id=name)


def test_id_of_an_unused_transaction_cannot_be_chosen(broker, t):
    fresh = broker.qm.transaction()
    with pytest.raises(InvalidArgument):
        broker.client().transaction(id=fresh.id)
    t.send(b"A", transaction=fresh)
    fresh.commit()
    assert drain(t) == [b"A"]


@pytest.mark.parametrize("name", ["t1", "t1.", "T1.1", "t1.1.1", "xt1.1", "t\u0661.1"])
def test_chosen_id_similar_to_generated_ids_is_accepted(broker, name):
    transaction = broker.qm.transaction(id=name)
    assert unquote(transaction.id) == name  # ids are encoded as names in keys
    transaction.abort()
