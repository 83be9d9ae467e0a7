"""The retry policy of a queue: messages that are aborted, or whose reader dies."""

from __future__ import annotations

import pytest

from mqredis import (
    DEAD_LETTER,
    TRANSACTIONAL_DEAD_LETTER,
    Access,
    Acknowledge,
    InvalidArgument,
    IoTimeout,
    Journal,
    PutInhibited,
    QueueQuotaExceeded,
    RetryPolicy,
)
from tests.msmq.kit import drain, make
from tests.support.facade import Pending
from tests.support.until import until


def fail(queue, times):
    for _ in range(times):
        queue.lock(0).abort()


def test_retry_policy_is_a_queue_property(qm):
    policy = RetryPolicy(immediate=1, cycles=2, delay=0.5, factor=1.5, max_delay=60, final="drop")
    assert qm.create_queue("q", retry=policy).retry == policy
    assert policy.attempts == 6
    assert qm.update_queue("q", label="x").retry == policy
    assert qm.update_queue("q", retry=None).retry is None
    assert qm.update_queue("q", retry=RetryPolicy()).retry == RetryPolicy()
    with pytest.raises(InvalidArgument):
        qm.update_queue("q", retry="often")
    with pytest.raises(InvalidArgument):
        qm.create_queue("r", retry={"final": "nowhere"})


@pytest.mark.parametrize("body", [b"a", b"x" * 5000])
def test_message_is_poison_after_exactly_the_deliveries_of_its_policy(qm, body):
    q = make(qm, retry=RetryPolicy(immediate=2))
    q.send_many([body, b"neighbour"])
    fail(q, 3)
    assert q.receive(0).body == b"neighbour"
    with pytest.raises(IoTimeout):
        q.receive(0)
    poison = qm.open("q;poison").peek(0)
    assert (poison.body, poison.delivery_count, poison.move_count) == (body, 3, 1)
    drain(qm, "q;poison")
    assert qm.info().messages == qm.queue_info("q").bytes == 0


def test_expired_leases_count_as_attempts(qm):
    q = make(qm, retry=RetryPolicy(immediate=1))
    q.send(b"a")
    for _ in range(2):
        q.lock(0, lease=5)
        qm.advance_clock(6)
    qm.maintain()
    assert [m.body for m in drain(qm, "q;poison")] == [b"a"]
    assert qm.queue_info("q").locked == 0


@pytest.mark.parametrize("name", ["q", "q;lapsed"])
def test_lease_that_was_over_before_the_policy_changed_follows_the_old_policy(qm, name):
    q = make(qm, retry=RetryPolicy(immediate=2, delay=1, isolate=name == "q;lapsed"))
    q.send(b"a")
    q.lock(0, lease=5)
    for seconds in (6, 2):
        qm.advance_clock(seconds)
        qm.maintain()
    qm.open(name).lock(0, lease=5)
    qm.advance_clock(6)
    qm.update_queue("q", retry=RetryPolicy(immediate=0, final="drop"))
    qm.maintain()
    assert qm.info().messages == 1


def test_properties_that_changed_while_a_lease_ended_stay_when_others_change(qm):
    q = make(qm)
    q.send(b"a")
    q.lock(0, lease=5)
    qm.advance_clock(6)
    qm.update_queue("q", put_inhibited=True)
    qm.update_queue("q", label="x")
    with pytest.raises(PutInhibited):
        q.send(b"b")
    assert q.receive(0).body == b"a"


def test_aborted_and_expired_transactions_count_as_attempts(qm):
    t = make(qm, "t", transactional=True, retry=RetryPolicy(immediate=2))
    with qm.transaction() as tx:
        t.send(b"a", transaction=tx)
        t.send(b"b", transaction=tx)
    tx = qm.transaction()
    t.receive(0, transaction=tx)
    tx.abort()
    tx = qm.transaction(lease=5)
    t.receive(0, transaction=tx)
    qm.advance_clock(6)
    tx = qm.transaction()
    assert t.receive(0, transaction=tx).delivery_count == 3
    tx.abort()
    assert t.peek(0).body == b"b"
    assert [m.body for m in drain(qm, "t;poison")] == [b"a"]


def test_retry_delays_grow_up_to_the_maximum(qm):
    policy = RetryPolicy(immediate=1, cycles=3, delay=1000, factor=2, max_delay=3000, final="poison")
    q = make(qm, retry=policy)
    sent = q.send(b"a")
    for rest in (1000, 2000, 3000):
        fail(q, 2)
        assert qm.statistics("q").retry_messages == 1
        with pytest.raises(IoTimeout):
            q.receive(0)
        qm.advance_clock(rest - 100)  # the test clock also runs in real time
        with pytest.raises(IoTimeout):
            q.receive(0)
        qm.advance_clock(100)
        assert q.peek(0).lookup_id == sent.lookup_id
    fail(q, 2)
    (poison,) = drain(qm, "q;poison")
    assert (poison.lookup_id, poison.move_count) == (sent.lookup_id, 7)


def test_end_of_a_retry_delay_wakes_a_waiting_reader(qm):
    q = make(qm, retry=RetryPolicy(immediate=0, cycles=1, delay=10))
    q.send(b"a")
    fail(q, 1)
    waiting = Pending(lambda: q.receive(30))
    until(lambda: qm.queue_info("q").waiters == 1)
    qm.advance_clock(11)
    assert waiting.result(30).body == b"a"


def test_retried_message_returns_to_its_place(qm):
    q = make(qm, retry=RetryPolicy(immediate=0, cycles=1, delay=1))
    q.send_many([b"a", b"b"])
    fail(q, 1)
    qm.advance_clock(2)
    assert [m.body for m in drain(qm, "q")] == [b"a", b"b"]


@pytest.mark.parametrize("transactional", [False, True])
def test_final_dead_letter_ignores_the_journal_flag_of_the_sender(qm, transactional):
    q = make(qm, transactional=transactional, retry=RetryPolicy(immediate=0, final="dead_letter"))
    if transactional:
        with qm.transaction() as tx:
            q.send(b"a", transaction=tx)
        tx = qm.transaction()
        q.receive(0, transaction=tx)
        tx.abort()
    else:
        q.send(b"a")
        fail(q, 1)
    (dead,) = drain(qm, TRANSACTIONAL_DEAD_LETTER if transactional else DEAD_LETTER)
    assert (dead.reason, dead.message_class, dead.original_queue) == ("poison", 0xC004, "q")
    assert qm.statistics("q").poisoned == qm.statistics("q").dead == 1


@pytest.mark.parametrize("asked", [Journal.NONE, Journal.DEAD_LETTER])
def test_final_reject_follows_the_journal_flag_of_the_sender(qm, asked):
    q, _ = make(qm, retry=RetryPolicy(immediate=0, final="reject")), make(qm, "admin")
    q.send(b"a", journal=asked, acknowledge=Acknowledge.NACK_RECEIVE, administration_queue="admin")
    fail(q, 1)
    assert len(drain(qm, DEAD_LETTER)) == bool(asked)
    assert [m.message_class for m in drain(qm, "admin")] == [0xC004]


def test_final_drop_deletes_the_message(qm):
    q = make(qm, retry=RetryPolicy(immediate=0, final="drop"))
    q.send(b"a", journal=Journal.DEAD_LETTER)
    fail(q, 1)
    assert qm.info().messages == 0
    assert qm.statistics("q").dropped == 1


def test_expiry_takes_precedence_over_the_retry_policy(qm):
    q = make(qm, retry=RetryPolicy(immediate=0))
    q.send(b"a", time_to_be_received=1, journal=Journal.DEAD_LETTER)
    lock = q.lock(0, lease=60)
    qm.advance_clock(2)
    lock.abort()
    assert [m.reason for m in drain(qm, DEAD_LETTER)] == ["receive_timeout"]


def test_message_expires_while_it_waits_for_a_retry(qm):
    q = make(qm, retry=RetryPolicy(immediate=0, cycles=1, delay=10))
    q.send(b"a", time_to_be_received=5, journal=Journal.DEAD_LETTER)
    fail(q, 1)
    qm.advance_clock(11)
    qm.maintain()
    assert [m.reason for m in drain(qm, DEAD_LETTER)] == ["receive_timeout"]
    assert qm.info().messages == 0


def test_message_received_from_the_retry_subqueue_does_not_return(qm):
    q = make(qm, retry=RetryPolicy(immediate=0, cycles=1, delay=10))
    q.send_many([b"a", b"b"])
    fail(q, 2)
    assert qm.open("q;retry").receive(0).body == b"a"
    qm.advance_clock(11)
    assert [m.body for m in drain(qm, "q")] == [b"b"]


def test_purge_keeps_messages_that_wait_for_a_retry(qm):
    q = make(qm, retry=RetryPolicy(immediate=0, cycles=1, delay=10))
    q.send_many([b"a", b"b"])
    fail(q, 1)
    assert q.purge() == 1
    qm.advance_clock(11)
    assert [m.body for m in drain(qm, "q")] == [b"a"]


def test_poison_does_not_count_in_the_quota_of_its_queue(qm):
    q = make(qm, quota_messages=1, retry=RetryPolicy(immediate=0))
    q.send(b"a")
    fail(q, 1)
    q.send(b"b")
    with pytest.raises(QueueQuotaExceeded):
        q.send(b"c")
    assert [m.body for m in drain(qm, "q;poison")] == [b"a"]


@pytest.mark.parametrize("limit", [{"poison_quota_messages": 1}, {"poison_quota_bytes": 2000}])
def test_message_waits_for_another_retry_when_poison_is_full(qm, limit):
    q = make(qm, retry=RetryPolicy(immediate=0, max_delay=60), **limit)
    q.send_many([b"a" * 900, b"b" * 900])
    fail(q, 2)
    assert [m.body[:1] for m in qm.open("q;poison").browse()] == [b"a"]
    assert qm.statistics("q").retry_messages == 1
    drain(qm, "q;poison")
    qm.advance_clock(61)
    fail(q, 1)
    assert [m.body[:1] for m in drain(qm, "q;poison")] == [b"b"]


@pytest.mark.parametrize("limit", [{"quota_messages": 1}, {"quota_bytes": 2000}])
@pytest.mark.parametrize("final", ["poison", "dead_letter"])
def test_message_for_which_one_that_failed_with_it_leaves_no_room_goes_elsewhere(qm, final, limit):
    poison_limit = {f"poison_{name}": value for name, value in limit.items()} if final == "poison" else {}
    q = make(qm, retry=RetryPolicy(immediate=0, final=final, dead_letter_queue="dead"), **poison_limit)
    make(qm, "dead", **limit)
    q.send_many([b"a" * 900, b"b" * 900])
    q.lock_many(2, 0, lease=5)
    qm.advance_clock(6)
    qm.maintain()
    first, second = ("q;poison", "q;retry") if final == "poison" else ("dead", "q;poison")
    assert [[m.body[:1] for m in qm.open(name).browse()] for name in (first, second)] == [[b"a"], [b"b"]]


def test_poison_message_moved_back_can_be_locked_again(qm):
    q = make(qm, retry=RetryPolicy(immediate=1))
    q.send(b"a")
    fail(q, 2)
    poison = qm.open("q;poison")
    with qm.open("q", Access.MOVE) as target:
        poison.move(poison.peek(0).lookup_id, target)
    with q.lock(0) as lock:
        assert lock.body == b"a"


def test_committed_messages_are_not_retried(qm):
    q = make(qm, retry=RetryPolicy(immediate=0))
    q.send_many([b"a", b"b"])
    for lock in q.lock_many(2, 0):
        lock.commit()
    assert qm.info().messages == 0


@pytest.mark.parametrize("final", ["poison", "dead_letter", "drop"])
def test_poison_message_does_not_block_its_group(qm, final):
    policy = RetryPolicy(immediate=0, cycles=1, delay=10, final=final)
    q = make(qm, group_exclusive=True, retry=policy)
    for body in (b"1", b"2"):
        q.send(body, group_id="g")
    q.send(b"other", group_id="h")
    fail(q, 1)
    found = q.lock_many(5, 0)
    assert {m.body for m in found} == {b"2", b"other"}
    for lock in found:
        lock.commit()
    qm.advance_clock(11)
    fail(q, 1)
    assert qm.queue_info("q").ready == 0
    q.send(b"3", group_id="g")
    assert q.receive(0).body == b"3"


def test_dead_letter_creates_no_queue_for_poison(qm):
    q = make(qm, retry=RetryPolicy(immediate=0, final="dead_letter"))
    q.send(b"a")
    q.lock(0).abort()
    assert [info.name for info in qm.queues()] == ["q", DEAD_LETTER]


def test_dead_letter_in_a_queue_with_a_quota_leaves_the_acknowledgement_too(qm):
    make(qm, "letters", quota_messages=5)
    make(qm, "admin")
    q = make(qm, retry=RetryPolicy(immediate=0, final="dead_letter", dead_letter_queue="letters"))
    q.send(b"a", acknowledge=Acknowledge.NEGATIVE_RECEIVE, administration_queue="admin")
    fail(q, 1)
    assert [m.body for m in drain(qm, "letters")] == [b"a"]
    assert [m.body for m in drain(qm, "admin")] == [b"a"]
    assert qm.queue_info("q").messages == 0
