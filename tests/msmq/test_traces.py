"""Journals, dead letters and acknowledgements (docs/semantics.md)."""

from __future__ import annotations

import pytest

import mqredis
from mqredis import (
    DEAD_LETTER,
    SYSTEM_JOURNAL,
    TRANSACTIONAL_DEAD_LETTER,
    Access,
    Acknowledge,
    Journal,
    MessageClass,
    Outgoing,
    RetryPolicy,
)
from mqredis.errors import AccessDenied, InvalidName, IoTimeout, QueueQuotaExceeded, UnsupportedAccess
from tests.msmq.kit import drain, make


def test_journal_has_received_messages_in_the_order_of_receipt(qm):
    q = make(qm, journaling=True)
    q.send(b"a", priority=0, label="first", properties={"n": 1})
    q.send(b"b", priority=7)
    sent = q.send(b"c", priority=3)
    with q.lock(0):
        pass
    q.receive(0)
    q.receive_by_lookup_id(q.peek(0).lookup_id)
    copies = drain(qm, "q;journal")
    assert [m.body for m in copies] == [b"b", b"c", b"a"]
    assert copies[1].original_lookup_id == sent.lookup_id != copies[1].lookup_id
    assert copies[1].message_id == sent.message_id
    assert copies[0].original_queue == "q"
    assert copies[2].label == "first"
    assert copies[2].properties == {"n": 1}
    assert copies[0].reason == "receive"
    assert copies[0].message_class == MessageClass.NORMAL
    assert copies[0].delivery_count >= 1
    assert qm.info().messages == 0


def test_journal_in_a_transaction_is_written_at_commit(qm):
    t = make(qm, "t", transactional=True, journaling=True)
    with qm.transaction() as tx:
        t.send(b"a", transaction=tx)
        t.send(b"x" * 5000, transaction=tx)
    tx = qm.transaction()
    t.receive_many(2, 0, transaction=tx)
    assert qm.statistics("t").journal_messages == 0
    tx.abort()
    assert qm.statistics("t").journal_messages == 0
    with qm.transaction() as tx:
        t.receive_many(2, 0, transaction=tx)
    assert [m.body for m in drain(qm, "t;journal")] == [b"a", b"x" * 5000]


def test_delayed_messages_that_expired_before_anybody_looked_become_dead_letters(qm):
    """More than one page of timers (core/timers): those of the delays come first, and the messages have expired."""
    q = make(qm)
    for n in range(40):
        q.send(b"%d" % n, delay=1, time_to_be_received=2, journal=Journal.DEAD_LETTER)
    qm.advance_clock(3)
    with pytest.raises(IoTimeout):
        q.receive(0)
    assert sorted(int(m.body) for m in drain(qm, DEAD_LETTER)) == [*range(40)]


def test_no_journal_copy_for_purge_expiry_peek_and_move(qm):
    q = make(qm, journaling=True)
    q.send(b"a", time_to_be_received=1)
    q.send(b"b")
    q.peek(0)
    qm.advance_clock(2)
    retry = qm.open("q;retry")
    q.move(q.peek(0).lookup_id, retry)
    q.send(b"c")
    q.purge()
    assert qm.statistics("q").journal_messages == 0
    retry.receive(0)
    assert [m.original_queue for m in drain(qm, "q;journal")] == ["q;retry"]


def test_journal_that_was_deleted_is_created_again(qm):
    q = make(qm, journaling=True)
    q.send(b"a")
    q.send(b"b")
    q.receive(0)
    qm.delete_queue("q;journal")
    q.receive(0)
    assert [m.body for m in drain(qm, "q;journal")] == [b"b"]


def test_dead_letter_queue_that_was_deleted_is_created_again(qm):
    """The calls of the handle name it since the first dead letter."""
    q = make(qm)
    for body in (b"a", b"b"):
        q.send(body, journal=Journal.DEAD_LETTER)
        q.lock(0).reject()
        assert [m.body for m in drain(qm, DEAD_LETTER)] == [body]
        qm.delete_queue(DEAD_LETTER)


def test_copy_tells_when_its_message_was_sent(qm):
    q = make(qm, journaling=True)
    q.send(b"a", sent_seconds_ago=40)
    qm.advance_clock(10)
    sent_at = q.receive(0).sent_at
    (copy,) = drain(qm, "q;journal")
    assert abs((copy.sent_at - sent_at).total_seconds()) < 1


@pytest.mark.parametrize("quota", [{"journal_quota_messages": 0}, {"journal_quota_bytes": 0}])
def test_receive_succeeds_when_the_journal_quota_is_reached(qm, quota):
    q = make(qm, journaling=True, **quota)
    q.send(b"a")
    assert q.receive(0).body == b"a"
    assert drain(qm, "q;journal") == []


def test_journal_quota_counts_only_the_journal(qm):
    q = make(qm, journaling=True, quota_messages=1, journal_quota_messages=2)
    for body in b"abc":
        q.send(bytes([body]))
        q.receive(0)
    assert [m.body for m in drain(qm, "q;journal")] == [b"a", b"b"]
    q.send(b"d")


def test_send_and_move_to_journals_and_system_queues_are_refused(qm):
    make(qm, journaling=True)
    for name in ("q;journal", DEAD_LETTER, TRANSACTIONAL_DEAD_LETTER, SYSTEM_JOURNAL):
        for access in (Access.SEND, Access.MOVE):
            with pytest.raises(UnsupportedAccess):
                qm.open(name, access)
        with pytest.raises(AccessDenied):
            qm.open(name).send(b"x")
    with pytest.raises(InvalidName):
        qm.create_queue("system$")


def test_journaling_can_be_switched_on_while_a_handle_is_open(qm):
    q = make(qm)
    q.send_many([b"a", b"b"])
    q.receive(0)
    qm.update_queue("q", journaling=True)
    q.receive(0)
    assert [m.body for m in drain(qm, "q;journal")] == [b"b"]


def test_source_journal_copies_messages_at_send_and_commit(qm):
    q, t = make(qm), make(qm, "t", transactional=True)
    q.send(b"plain", journal=Journal.JOURNAL)
    assert [m.body for m in drain(qm, SYSTEM_JOURNAL)] == [b"plain"]
    with qm.transaction() as tx:
        t.send(b"transactional", journal=Journal.JOURNAL, transaction=tx)
    assert drain(qm, SYSTEM_JOURNAL) == []
    t.receive(0)
    assert [m.body for m in drain(qm, SYSTEM_JOURNAL)] == [b"transactional"]


def test_expired_message_is_dead_lettered_by_maintain(qm):
    q = make(qm)
    sent = q.send(
        b"a",
        journal=Journal.DEAD_LETTER,
        time_to_be_received=1,
        priority=6,
        dedup_key="k",
        correlation_id="c",
    )
    with q.lock(0) as lock:
        lock.abort()
    qm.advance_clock(2)
    qm.maintain()
    (dead,) = drain(qm, DEAD_LETTER)
    assert dead.message_class == MessageClass.NACK_RECEIVE_TIMEOUT
    assert (dead.body, dead.original_queue, dead.original_lookup_id) == (b"a", "q", sent.lookup_id)
    assert (dead.reason, dead.priority, dead.correlation_id, dead.dedup_key) == (
        "receive_timeout",
        6,
        "c",
        "k",
    )
    assert dead.journal == Journal.DEAD_LETTER
    assert dead.expires_at is None
    assert dead.original_arrived_at is not None
    assert dead.arrived_at > dead.original_arrived_at
    assert qm.statistics("q").expired == qm.statistics("q").dead == 1
    assert qm.info().messages == 0


def test_message_that_expires_while_locked_is_dead_lettered_at_abort(qm):
    q = make(qm)
    q.send(b"a", journal=Journal.DEAD_LETTER, time_to_be_received=1)
    lock = q.lock(0, lease=60)
    qm.advance_clock(2)
    qm.maintain()
    assert drain(qm, DEAD_LETTER) == []
    lock.abort()
    assert len(drain(qm, DEAD_LETTER)) == 1
    q.send(b"b", journal=Journal.DEAD_LETTER, time_to_be_received=1)
    with q.lock(0, lease=60):
        qm.advance_clock(2)
    assert drain(qm, DEAD_LETTER) == []


def test_expired_and_purged_transactional_messages_are_dead_lettered(qm):
    t = make(qm, "t", transactional=True)
    for body in (b"purged", b"expired"):
        with qm.transaction() as tx:
            t.send(
                body,
                journal=Journal.DEAD_LETTER,
                transaction=tx,
                time_to_be_received=1 if body == b"expired" else None,
            )
    qm.advance_clock(2)
    assert t.purge() == 1
    dead = drain(qm, TRANSACTIONAL_DEAD_LETTER)
    assert {m.body: m.message_class for m in dead} == {b"expired": 0xC002, b"purged": 0xC001}
    assert drain(qm, DEAD_LETTER) == []


def test_purge_makes_no_dead_letter_of_a_plain_message(qm):
    q = make(qm)
    q.send(b"a", journal=Journal.DEAD_LETTER)
    q.purge()
    assert drain(qm, DEAD_LETTER) == []


def test_dead_letter_queue_named_by_the_sender_is_used(qm):
    q, mine = make(qm), make(qm, "mine")
    q.send(b"a", journal=Journal.DEAD_LETTER, dead_letter_queue="mine", time_to_be_received=0)
    assert mine.receive(0).original_queue == "q"
    q.send(b"a", journal=Journal.DEAD_LETTER, dead_letter_queue="nowhere", time_to_be_received=0)
    with pytest.raises(IoTimeout):
        q.receive(0)
    assert qm.info().messages == 0


def test_full_dead_letter_queue_discards_the_copy(qm):
    qm.update_queue(DEAD_LETTER, quota_messages=1)
    q = make(qm)
    for body in (b"a", b"b"):
        q.send(body, journal=Journal.DEAD_LETTER, time_to_be_received=0)
    assert [m.body for m in drain(qm, DEAD_LETTER)] == [b"a"]


@pytest.mark.parametrize("asks", [False, True])
def test_copies_take_the_room_of_messages_that_have_expired(qm, asks):
    beside, q = make(qm, "beside", quota_messages=1), make(qm, failed_time_to_live=5)
    for letter in "ab":  # of the first one, nobody reads the dead letter
        life = {"journal": Journal.DEAD_LETTER, "dead_letter_queue": "beside", "time_to_be_received": 1}
        q.send(letter, **life)
        qm.advance_clock(2)
        with pytest.raises(IoTimeout):
            q.peek(0)
        qm.advance_clock(5 if letter == "a" else 0)
    assert [m.text for m in beside.browse()] == ["b"]
    beside.purge()
    nack = {"acknowledge": Acknowledge.NACK_RECEIVE, "administration_queue": "q"}
    beside.send("old", time_to_be_received=1, **(nack if asks else {}))
    qm.advance_clock(2)
    q.send("c", acknowledge=Acknowledge.POSITIVE_ARRIVAL, administration_queue="beside")
    # What leaves something behind needs a call to its own queue.
    assert [m.message_class for m in beside.browse()] == ([] if asks else [MessageClass.ACK_REACH_QUEUE])


def test_reject_in_a_transaction_takes_effect_at_commit(qm):
    t, admin = make(qm, "t", transactional=True), make(qm, "admin")
    with qm.transaction() as tx:
        t.send(
            b"a",
            journal=Journal.DEAD_LETTER,
            acknowledge=Acknowledge.FULL_RECEIVE,
            administration_queue="admin",
            transaction=tx,
        )
    tx = qm.transaction()
    _reject(tx, t)
    tx.abort()
    assert drain(qm, TRANSACTIONAL_DEAD_LETTER) == []
    with qm.transaction() as tx:
        _reject(tx, t)
    assert [m.message_class for m in drain(qm, TRANSACTIONAL_DEAD_LETTER)] == [0xC004]
    nack = admin.receive(0)
    assert (nack.message_class, nack.body, nack.response_queue) == (0xC004, b"a", "t")


def test_abort_of_a_rejection_leaves_the_message_to_the_retry_policy(qm):
    """The subqueue that it goes to is created by this abort."""
    t = make(qm, "t", transactional=True, retry=RetryPolicy(immediate=0))
    with qm.transaction() as tx:
        t.send(b"a", transaction=tx)
    tx = qm.transaction()
    _reject(tx, t)
    tx.abort()
    assert [m.body for m in drain(qm, "t;poison")] == [b"a"]


def _reject(tx, queue):
    tx.reject(queue, queue.receive(0, transaction=tx))


ACKS = {
    "acknowledge": Acknowledge.FULL_RECEIVE | Acknowledge.FULL_REACH_QUEUE,
    "administration_queue": "admin",
}


def test_acknowledgements_of_arrival_and_receive(qm):
    q, admin = make(qm), make(qm, "admin")
    sent = q.send(b"a", **ACKS)
    ack = admin.receive(0)
    assert (ack.message_class, ack.body) == (MessageClass.ACK_REACH_QUEUE, b"")
    assert (ack.correlation_id, ack.response_queue) == (sent.message_id, "q")
    q.receive(0)
    ack = admin.receive(0)
    assert (ack.message_class, ack.body, ack.correlation_id) == (
        MessageClass.ACK_RECEIVE,
        b"",
        sent.message_id,
    )
    with pytest.raises(IoTimeout):
        admin.receive(0)


def test_acknowledgements_wait_for_the_commit(qm):
    t, admin = make(qm, "t", transactional=True), make(qm, "admin")
    tx = qm.transaction()
    t.send(b"a", transaction=tx, **ACKS)
    assert qm.queue_info("admin").messages == 0
    tx.commit()
    assert admin.receive(0).message_class == MessageClass.ACK_REACH_QUEUE
    tx = qm.transaction()
    t.receive(0, transaction=tx)
    tx.abort()
    assert qm.queue_info("admin").messages == 0
    tx = qm.transaction()
    t.receive(0, transaction=tx)
    tx.commit()
    assert admin.receive(0).message_class == MessageClass.ACK_RECEIVE


@pytest.mark.parametrize("body", [b"a", b"x" * 5000])
def test_negative_acknowledgements_carry_the_body(qm, body):
    q, _admin = make(qm), make(qm, "admin")
    ask = {"acknowledge": Acknowledge.NACK_RECEIVE, "administration_queue": "admin"}
    q.send(body, **ask)
    q.purge()
    q.send(body, time_to_be_received=0, **ask)
    q.send(body, **ask)
    q.lock(0, lease=60)
    qm.delete_queue("q")
    q = make(qm)
    q.send(body, **ask)
    q.lock(0).reject()
    q.send(body, **ask)
    q.receive(0)
    nacks = drain(qm, "admin")
    assert [m.message_class for m in nacks] == [0xC001, 0xC002, 0xC000, 0xC004]
    assert {m.body for m in nacks} == {body}


def test_locked_message_of_a_purged_queue_is_acknowledged_as_purged(qm):
    q, _admin = make(qm), make(qm, "admin")
    q.send(b"a", acknowledge=Acknowledge.FULL_RECEIVE, administration_queue="admin")
    with q.lock(0):
        q.purge()
    assert [m.message_class for m in drain(qm, "admin")] == [0xC001]


@pytest.mark.parametrize("transactional", [None, True])
def test_acknowledgement_that_its_queue_cannot_take_is_discarded(qm, transactional):
    if transactional:
        make(qm, "admin", transactional=True)
    q = make(qm)
    q.send(b"a", **ACKS)
    q.send(b"b", acknowledge=Acknowledge.FULL_RECEIVE)
    assert [q.receive(0).body, q.receive(0).body] == [b"a", b"b"]
    assert qm.info().messages == 0


def test_refused_message_is_negatively_acknowledged(qm):
    q, _admin = make(qm, quota_messages=0), make(qm, "admin")
    ask = {"acknowledge": Acknowledge.NEGATIVE_ARRIVAL, "administration_queue": "admin"}
    with pytest.raises(QueueQuotaExceeded):
        q.send(b"a", message_id="m", journal=Journal.DEAD_LETTER, **ask)
    with pytest.raises(mqredis.MessageTimedOut):
        q.send(b"x" * 5000, time_to_reach_queue=1, sent_seconds_ago=2, **ask)
    with pytest.raises(mqredis.TransactionUsage), qm.transaction() as tx:
        q.send(b"c", transaction=tx, **ask)
    qm.throttle(True)
    with pytest.raises(mqredis.ManagerQuotaExceeded):
        q.send(b"d", **ask)
    qm.throttle(False)
    nacks = drain(qm, "admin")
    assert [m.message_class for m in nacks] == [0x8003, 0x8002, 0x8009]
    assert [m.correlation_id for m in nacks] == ["m", None, None]
    assert nacks[1].body == b"x" * 5000
    (dead,) = drain(qm, DEAD_LETTER)
    assert (dead.message_class, dead.message_id, dead.original_lookup_id) == (0x8003, "m", None)


def test_moves_and_aborted_sends_create_no_copies_or_acknowledgements(qm):
    t = make(qm, "t", transactional=True, journaling=True)
    make(qm, "admin")
    tx = qm.transaction()
    t.send(b"a", transaction=tx, journal=Journal.DEAD_LETTER, **ACKS)
    tx.abort()
    with qm.transaction() as tx:
        t.send(b"a", transaction=tx, acknowledge=Acknowledge.FULL_RECEIVE, administration_queue="admin")
    with qm.open("t;s", Access.ALL) as sub:
        t.move(t.peek(0).lookup_id, sub)
        assert qm.queue_info("admin").messages == 0
        assert qm.info().messages == 1


def test_expired_messages_with_many_administration_queues_are_acknowledged(qm):
    q = make(qm)
    for n in range(40):
        make(qm, f"admin{n}")
    items = [
        Outgoing(
            body=b"%d" % n,
            time_to_be_received=1,
            acknowledge=Acknowledge.NACK_RECEIVE,
            administration_queue=f"admin{n}",
        )
        for n in range(40)
    ]
    q.send_many(items)
    qm.advance_clock(2)
    with pytest.raises(IoTimeout):
        q.receive(0)
    qm.maintain()
    assert [drain(qm, f"admin{n}")[0].body for n in range(40)] == [b"%d" % n for n in range(40)]


def test_invalid_administration_and_dead_letter_queue_names_are_refused(qm):
    q = make(qm)
    for name in ("a;b", "x" * 200, " a"):
        with pytest.raises(InvalidName):
            q.send(b"a", administration_queue=name)
        with pytest.raises(InvalidName):
            q.send(b"a", dead_letter_queue=name)
