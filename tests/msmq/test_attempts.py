"""Attempts of a message: what counts as one, what is stored about failures, and how expired leases are handled."""

from __future__ import annotations

import pytest

from mqredis import DEAD_LETTER, Access, IoTimeout, QueueProperties, RetryPolicy
from mqredis.operations import giveback, settle, transaction
from tests.msmq.kit import drain, make
from tests.support.facade import Pending, unwrap
from tests.support.until import until

TWICE = RetryPolicy(immediate=1)


def settle_lock(queue, lock, text):
    """Settle a lock as a worker does."""
    settled = queue.manager.run(settle.settle(unwrap(queue._handle), [(text, lock.fence, lock._key)]))
    assert not settled.lost


def poison(qm, name="q"):
    return drain(qm, f"{name};poison")


def test_orderly_return_does_not_count_as_an_attempt(qm):
    q = make(qm, retry=TWICE)
    q.send(b"a")
    for n in range(1, 8):
        lock = q.lock(0)
        assert lock.message.delivery_count == n
        settle_lock(q, lock, giveback.unattempted())
    told = qm.statistics("q")
    assert (told.poison_messages, told.retried) == (0, 0)
    q.lock(0).abort()
    settle_lock(q, q.lock(0), giveback.unattempted())
    q.lock(0).abort()
    (dead,) = poison(qm)
    assert dead.delivery_count == 11  # drain's own read included
    assert dead.properties["failure_attempts"] == 2
    assert qm.doctor().findings == ()


def test_every_read_shows_the_attempts(qm):
    q = make(qm, transactional=True)
    with qm.transaction() as tx:
        q.send(b"a", transaction=tx)
    assert q.peek(0).attempts == 0
    lock = q.lock(0)
    assert lock.message.attempts == 1
    waiting = Pending(lambda: q.peek(30))
    until(lambda: qm.queue_info("q").waiters == 1)
    settle_lock(q, lock, giveback.unattempted())
    shown = [
        waiting.result(30),
        q.peek(0),
        next(iter(q.browse())),
        q.peek_by_lookup_id(lock.message.lookup_id),
        qm.message("q", lock.message.lookup_id).message,
        qm.messages("q").items[0].message,
    ]
    assert [(message.delivery_count, message.attempts) for message in shown] == [(1, 0)] * 6
    tx, (received,) = received_in(qm, q)
    assert (received.delivery_count, received.attempts) == (2, 1)
    tx.abort()
    again = q.lock_by_lookup_id(lock.message.lookup_id)
    assert (again.message.delivery_count, again.message.attempts) == (3, 2)
    again.abort()
    (taken,) = q.receive_many(1)
    assert (taken.delivery_count, taken.attempts) == (4, 3)


def test_copy_of_a_message_taken_without_a_lock_keeps_its_attempts(qm):
    q = make(qm, journaling=True)
    q.send(b"a")
    settle_lock(q, q.lock(0), giveback.unattempted())
    taken = q.receive(0)
    copy = qm.open("q;journal").peek(0)
    assert (taken.delivery_count, taken.attempts) == (2, 1)
    assert (copy.delivery_count, copy.attempts) == (2, 1)


def test_expired_lease_after_an_orderly_return_counts_as_an_attempt(qm):
    q = make(qm, retry=TWICE)
    q.send(b"a")
    settle_lock(q, q.lock(0), giveback.unattempted())
    for _ in range(2):
        q.lock(0, lease=5)
        qm.advance_clock(6)
    qm.maintain()
    (dead,) = poison(qm)
    assert (dead.reason, dead.properties["failure_reason"]) == (
        "poison: the lease lapsed",
        "the lease lapsed",
    )


@pytest.mark.parametrize("policy", [None, TWICE])
def test_orderly_return_with_a_delay_makes_the_message_wait(qm, policy):
    q = make(qm, retry=policy)
    q.send(b"a")
    sent = qm.queue_info("q")
    for _ in range(4):
        settle_lock(q, q.lock(0), giveback.unattempted(60))
        info = qm.queue_info("q")
        assert (info.messages, info.bytes, info.ready, info.delayed) == (1, sent.bytes, 0, 1)
        assert qm.queues("q") == [info]
        with pytest.raises(IoTimeout):
            q.receive(0)
        qm.advance_clock(61)
    assert q.lock(0).body == b"a"
    assert qm.statistics("q").poison_messages == 0


@pytest.mark.parametrize("policy", [None, TWICE])
def test_permanent_failure_is_poison_at_once(qm, policy):
    q = make(qm, retry=policy)
    q.send_many([b"a", b"b"])
    settle_lock(
        q,
        q.lock(0),
        giveback.final_failure("not valid: amount", {"error": "ValueError: x", "worker": "w1"}),
    )
    (dead,) = poison(qm)
    assert (dead.body, dead.reason) == (b"a", "poison: not valid: amount")
    known = {name: dead.properties[f"failure_{name}"] for name in ("reason", "error", "worker", "attempts")}
    assert known == {
        "reason": "not valid: amount",
        "error": "ValueError: x",
        "worker": "w1",
        "attempts": 1,
    }
    assert dead.last_moved_at.timestamp() == pytest.approx(dead.properties["failure_time"], abs=0.002)
    assert q.receive(0).body == b"b"
    assert qm.doctor().findings == ()


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("final", ["poison", "dead_letter"])
def test_last_failure_report_is_stored_with_the_message(qm, final, large):
    make(qm, "dead")
    policy = TWICE.model_copy(update={"final": final, "dead_letter_queue": "dead"})
    q = make(qm, retry=policy)
    body = b"a" * (9000 if large else 1)
    q.send(body, label="l", properties={"mine": 1}, correlation_id="c", priority=5)
    settle_lock(q, q.lock(0), giveback.failed("first", {"error": "one"}))
    settle_lock(q, q.lock(0), giveback.failed("second \x01\x03 \ud800", {"error": "two"}))
    (dead,) = drain(qm, "dead") if final == "dead_letter" else poison(qm)
    assert (dead.body, dead.label, dead.correlation_id, dead.properties["mine"]) == (body, "l", "c", 1)
    assert dead.properties["failure_error"] == "two"
    assert dead.properties["failure_reason"] == "second \x01\x03 ?"
    assert dead.reason == "poison: second \x01\x03 ?"
    assert qm.info().messages == qm.info().bytes == 0
    assert qm.doctor().findings == ()


def test_message_moved_back_from_poison_starts_with_no_attempts(qm):
    q = make(qm, retry=TWICE)
    sent = q.send(b"a", properties={"mine": 1})
    size = qm.queue_info("q").bytes
    for _ in range(2):
        settle_lock(q, q.lock(0), giveback.failed("broken", {"error": "x"}))
    source = qm.open("q;poison")
    with qm.open("q", Access.MOVE) as target:
        source.move(sent.lookup_id, target)
    back = q.peek(0)
    assert (back.properties, back.reason) == ({"mine": 1}, None)
    assert qm.queue_info("q").bytes == size
    q.lock(0).abort()
    q.lock(0).abort()
    assert len(poison(qm)) == 1
    assert qm.doctor().findings == ()


@pytest.mark.parametrize("where", ["q;poison", "dead"])
def test_redrive_returns_a_failed_message_without_its_failure_report(qm, where):
    make(qm, "dead")
    dead_letters = RetryPolicy(immediate=0, final="dead_letter", dead_letter_queue="dead")
    q = make(qm, retry=RetryPolicy(immediate=0) if where == "q;poison" else dead_letters)
    sent = q.send(b"a", properties={"mine": 1}, label="l")
    settle_lock(q, q.lock(0), giveback.failed("broken", {"error": "x", "traceback": "t"}))
    assert qm.redrive(where) == 1
    back = q.receive(0)
    assert back.message_id == sent.message_id
    assert back.lookup_id != sent.lookup_id
    assert (back.body, back.label, back.properties, back.reason) == (b"a", "l", {"mine": 1}, None)
    assert qm.info().messages == 0


def test_redrive_reads_dead_letter_properties_of_older_workers(qm):
    q, dead = make(qm), make(qm, "dead")
    about = {
        "dead_letter_reason": "ValueError: x",
        "dead_letter_queue": "q",
        "dead_letter_message_id": "mq-1",
        "dead_letter_deliveries": 5,
    }
    dead.send(b"a", properties={"mine": 1, **about})
    assert qm.redrive("dead") == 1
    assert q.receive(0).properties == {"mine": 1}


@pytest.mark.parametrize("trouble", ["missing", "full", "topic"])
def test_dead_letter_that_its_queue_cannot_take_becomes_poison(qm, trouble):
    if trouble != "missing":
        make(qm, "dead", topic=trouble == "topic", quota_messages=0 if trouble == "full" else None)
    policy = RetryPolicy(immediate=0, final="dead_letter", dead_letter_queue="dead")
    q = make(qm, retry=policy)
    q.send(b"a")
    q.lock(0).abort()
    assert [m.body for m in poison(qm)] == [b"a"]


def test_message_is_poison_when_the_system_dead_letter_queue_is_full(qm):
    q = make(qm, retry=RetryPolicy(immediate=0, final="dead_letter"))
    q.send_many([b"a", b"b"])
    q.lock(0).abort()
    qm.update_queue(DEAD_LETTER, quota_messages=1)
    q.lock(0).abort()
    assert [m.body for m in drain(qm, DEAD_LETTER)] == [b"a"]
    assert [m.body for m in poison(qm)] == [b"b"]


def test_message_is_dead_lettered_when_the_manager_quota_is_reached(qm):
    q = make(qm, retry=RetryPolicy(immediate=0, final="dead_letter"))
    q.send(b"a")
    qm.set_quota(bytes=qm.info().bytes)
    settle_lock(q, q.lock(0), giveback.failed("long" * 100, {"error": "y" * 500}))
    assert [m.body for m in drain(qm, DEAD_LETTER)] == [b"a"]


# ---- transactions --------------------------------------------------------------------------------


def received_in(qm, q, count=1):
    tx = qm.transaction()
    return tx, [q.receive(0, transaction=tx) for _ in range(count)]


def filled(qm, *bodies, **properties):
    q = make(qm, transactional=True, **properties)
    with qm.transaction() as tx:
        for body in bodies:
            q.send(body, transaction=tx)
    return q


def test_orderly_abort_of_a_transaction_does_not_count_as_an_attempt(qm):
    q = filled(qm, b"a", retry=TWICE)
    for _ in range(5):
        tx, _ = received_in(qm, q)
        qm.run(transaction.End(unwrap(tx._unit), "abort", given=giveback.unattempted()))
    assert q.peek(0).delivery_count == 5
    for _ in range(2):
        tx, _ = received_in(qm, q)
        qm.run(transaction.End(unwrap(tx._unit), "abort", given=giveback.failed("bad", {"error": "E"})))
    (dead,) = poison(qm)
    assert (dead.properties["failure_error"], dead.properties["failure_attempts"]) == ("E", 2)
    assert qm.doctor().findings == ()


def test_orderly_abort_after_a_rejection_does_not_count_as_an_attempt(qm):
    q = filled(qm, b"a", retry=TWICE)
    for _ in range(3):
        tx, (message,) = received_in(qm, q)
        tx.reject(q, message)
        qm.run(transaction.End(unwrap(tx._unit), "abort", given=giveback.unattempted()))
    assert q.peek(0).delivery_count == 3


def test_commit_with_verdicts_moves_single_messages_to_poison(qm):
    q, out = filled(qm, b"good", b"bad", b"rest", retry=TWICE), make(qm, "out", transactional=True)
    tx, (_, bad, rest) = received_in(qm, q, 3)
    out.send(b"result", transaction=tx)
    verdicts = {
        f"{bad.lookup_id:016x}": giveback.final_failure("not valid", {}),
        f"{rest.lookup_id:016x}": giveback.unattempted(),
    }
    qm.run(transaction.End(unwrap(tx._unit), "commit", verdicts=verdicts))
    assert [m.body for m in poison(qm)] == [b"bad"]
    assert [m.body for m in out.browse()] == [b"result"]
    assert [(m.body, m.abort_count) for m in q.browse()] == [(b"rest", 0)]
    assert qm.doctor().findings == ()


# ---- expired leases ------------------------------------------------------------------------------

ISOLATING = RetryPolicy(immediate=0, cycles=3, delay=10, factor=2, isolate=True)


def lapse(qm, queue, count=1):
    queue.lock_many(count, 0, lease=5)
    qm.advance_clock(6)
    qm.maintain()


def test_messages_with_expired_leases_return_to_the_lapsed_subqueue_after_a_delay(qm):
    q = make(qm, retry=ISOLATING)
    q.send_many([b"a", b"b", b"c"])
    lapse(qm, q, 2)
    assert [m.body for m in q.browse()] == [b"c"]
    assert [m.body for m in qm.open("q;retry").browse()] == [b"a", b"b"]
    qm.advance_clock(11)
    qm.maintain()
    lapsed = qm.open("q;lapsed")
    assert [m.body for m in lapsed.browse()] == [b"a", b"b"]
    assert [m.body for m in q.browse()] == [b"c"]
    lapsed.lock(0).commit()
    assert [m.body for m in lapsed.browse()] == [b"b"]
    assert qm.doctor().findings == ()


def test_attempts_continue_in_the_lapsed_subqueue(qm):
    q = make(qm, retry=ISOLATING)
    q.send_many([b"a", b"b"])
    lapse(qm, q, 2)
    lapsed = qm.open("q;lapsed")
    for rest in (10, 20, 40):
        qm.advance_clock(rest + 1)
        qm.maintain()
        lapse(qm, lapsed)  # one message at a time
    (dead,) = poison(qm)
    assert (dead.body, dead.properties["failure_attempts"]) == (b"a", 4)
    assert [m.body for m in lapsed.browse()] == [b"b"]
    assert qm.doctor().findings == ()


def test_message_that_fails_in_the_lapsed_subqueue_returns_to_the_queue(qm):
    q = make(qm, retry=ISOLATING)
    q.send(b"a")
    lapse(qm, q)
    qm.advance_clock(11)
    qm.maintain()
    lapsed = qm.open("q;lapsed")
    settle_lock(lapsed, lapsed.lock(0), giveback.failed("bad", {}))
    qm.advance_clock(21)
    assert q.lock(0).body == b"a"


def test_orderly_return_in_the_lapsed_subqueue_keeps_the_message_there(qm):
    q = make(qm, retry=ISOLATING)
    q.send(b"a")
    lapse(qm, q)
    qm.advance_clock(11)
    qm.maintain()
    lapsed = qm.open("q;lapsed")
    settle_lock(lapsed, lapsed.lock(0), giveback.unattempted())
    assert lapsed.peek(0).body == b"a"


@pytest.mark.parametrize("name", ["q;lapsed", "q;retry"])
def test_orderly_return_with_a_delay_in_a_subqueue_of_the_policy_ends_in_the_queue(qm, name):
    q = make(qm, retry=ISOLATING)
    q.send(b"a")
    lapse(qm, q)
    if name == "q;lapsed":
        qm.advance_clock(11)
        qm.maintain()
    subqueue = qm.open(name)
    settle_lock(subqueue, subqueue.lock(0), giveback.unattempted(60))
    assert qm.statistics("q").retry_messages == 1
    qm.advance_clock(61)
    assert q.lock(0).body == b"a"


def test_lapsed_message_that_no_worker_takes_returns_to_the_queue(qm):
    q = make(qm, retry=ISOLATING)
    q.send(b"a")
    lapse(qm, q)
    qm.advance_clock(11)
    qm.maintain()
    lapsed = qm.open("q;lapsed")
    settle_lock(lapsed, lapsed.lock(0), giveback.unattempted())
    qm.advance_clock(601)
    assert q.lock(0).body == b"a"
    assert qm.doctor().findings == ()


def test_message_with_an_expired_lease_is_isolated_at_once_without_a_delay(qm):
    q = make(qm, retry=ISOLATING.model_copy(update={"delay": 0.0}))
    q.send(b"a")
    lapse(qm, q)
    assert qm.open("q;lapsed").lock(0).body == b"a"


def test_messages_of_an_expired_transaction_are_isolated(qm):
    q = filled(qm, b"a", retry=ISOLATING)
    tx = qm.transaction(lease=5)
    q.receive(0, transaction=tx)
    qm.advance_clock(6)
    qm.maintain()
    qm.advance_clock(11)
    qm.maintain()
    lapsed = qm.open("q;lapsed")
    with qm.transaction() as tx:
        assert lapsed.receive(0, transaction=tx).body == b"a"
    assert qm.info().messages == 0
    assert qm.doctor().findings == ()


def test_journal_copy_has_the_attempts_of_its_message(qm):
    q = make(qm, retry=RetryPolicy(immediate=0, final="poison"), journaling=True)
    q.send(b"a")
    q.lock(0).abort()
    with qm.open("q;poison") as failed:
        failed.move(failed.peek(0).lookup_id, q)
    lock = q.lock(0)
    assert (lock.message.delivery_count, lock.message.attempts) == (2, 1)
    lock.commit()
    with qm.open("q;journal") as journal:
        copy = journal.peek(0)
    assert (copy.delivery_count, copy.attempts) == (2, 1)


def test_message_without_a_delay_returns_at_once_after_many_rounds(qm):
    q = make(qm, retry=RetryPolicy(immediate=0, cycles=1000, delay=0, factor=100))
    q.send(b"a")
    for _ in range(160):  # 100 ** 155 is more than a number holds
        q.lock(0).abort()
    assert q.peek(0).attempts == 160


def test_retry_delays_differ_by_the_jitter(qm):
    policy = RetryPolicy(immediate=0, cycles=1, delay=100, jitter=0.5)
    q = make(qm, retry=policy)
    q.send_many([b"%d" % n for n in range(20)])
    for lock in q.lock_many(20, 0):
        lock.abort()
    qm.advance_clock(99)
    assert qm.queue_info("q").ready == 0
    qm.advance_clock(26)
    assert 3 <= qm.queue_info("q").ready <= 17
    qm.advance_clock(26)
    assert qm.queue_info("q").ready == 20


def test_retry_policy_and_poison_quotas_are_queue_properties(qm):
    policy = RetryPolicy(jitter=0.1, isolate=True, final="dead_letter", dead_letter_queue="dead")
    info = qm.create_queue("q", retry=policy, poison_quota_messages=7, poison_quota_bytes=8)
    assert info.retry == policy
    assert (info.poison_quota_messages, info.poison_quota_bytes) == (7, 8)
    assert QueueProperties(**info.properties()).retry == policy


@pytest.mark.parametrize("policy", [None, TWICE, RetryPolicy(immediate=0, isolate=True)])
@pytest.mark.parametrize("name", ["q;s", "q;poison"])
def test_message_of_a_subqueue_rests_in_it(qm, name, policy):
    q, sub = make(qm, retry=policy), qm.open(name)
    q.send_many([b"a", b"b" * 5000])
    for message in list(q.browse()):
        q.move(message.lookup_id, sub)
    for lock in sub.lock_many(2, 0):
        settle_lock(sub, lock, giveback.unattempted(10))
    assert (qm.queue_info(name).delayed, qm.queue_info(name).ready) == (2, 0)
    qm.advance_clock(11)
    qm.maintain()
    assert [(len(m.body), m.attempts, m.delivery_count) for m in sub.browse()] == [(1, 0, 1), (5000, 0, 1)]
    assert [info.name for info in qm.queues("q*") if info.ready] == [name]


@pytest.mark.parametrize(
    "text", [giveback.final_failure("no", {}), giveback.unattempted(30)], ids=["ended", "rests"]
)
def test_failed_message_that_its_reader_gives_back_is_deleted_in_the_end(qm, text):
    queue, poison = make(qm, retry=RetryPolicy(immediate=0), failed_time_to_live=60), qm.open("q;poison")
    queue.send(b"a")
    queue.lock(0).abort()
    qm.advance_clock(50)
    lock = poison.lock(0, lease=500)
    qm.advance_clock(20 if "no" in text else 0)
    qm.maintain()
    settle_lock(poison, lock, text)
    qm.advance_clock(31)
    qm.maintain()
    assert qm.queue_info("q;poison").ready == 1
    qm.advance_clock(60)
    qm.maintain()
    assert qm.info().messages == 0


def test_message_that_an_aborted_move_leaves_in_lapsed_returns_to_its_queue(qm):
    policy = RetryPolicy(immediate=3, delay=1, isolate=True)
    q, lapsed = make(qm, transactional=True, retry=policy), qm.open("q;lapsed")
    with qm.transaction() as tx:
        q.send(b"a", transaction=tx)
    q.lock(0, lease=1)
    for seconds in (2, 2):  # the lease, then the rest
        qm.advance_clock(seconds)
        qm.maintain()
    tx = qm.transaction(lease=2000)
    lapsed.move(lapsed.peek(0).lookup_id, q, transaction=tx)
    qm.advance_clock(700)
    qm.maintain()
    tx.abort()
    assert (qm.queue_info("q").ready, qm.queue_info("q;lapsed").ready) == (0, 1)
    qm.advance_clock(601)
    qm.maintain()
    assert (qm.queue_info("q").ready, qm.queue_info("q;lapsed").ready) == (1, 0)
