"""Regression tests for differences found by comparing the broker with the reference model."""

from __future__ import annotations

import pytest

from mqredis import (
    DEAD_LETTER,
    SYSTEM_JOURNAL,
    TRANSACTIONAL_DEAD_LETTER,
    Acknowledge,
    InvalidArgument,
    IoTimeout,
    Journal,
    ManagerQuotaExceeded,
    MessageNotFound,
    MessageTooLarge,
    Outgoing,
    QueueQuotaExceeded,
    RetryPolicy,
)
from mqredis.commands import features
from mqredis.operations.queue_call import QueueCall
from tests.msmq.kit import drain, make, read
from tests.support.facade import unwrap


def test_source_journal_is_not_limited_by_a_target_journal(qm):
    q = make(qm, journal_quota_bytes=10)
    q.send(b"a", journal=Journal.JOURNAL)
    assert [m.body for m in drain(qm, SYSTEM_JOURNAL)] == [b"a"]


def test_copy_of_a_received_message_counts_its_delivery(qm):
    q = make(qm, journaling=True)
    q.send_many([b"taken", b"locked"])
    q.receive(0)
    q.lock(0).commit()
    q.send(b"again")
    q.lock(0).abort()
    q.receive(0)
    assert [(m.body, m.delivery_count) for m in qm.open("q;journal").browse()] == [
        (b"taken", 1), (b"locked", 1), (b"again", 2),
    ]  # fmt: skip


def test_copy_of_a_message_taken_from_the_lock_of_a_browser_counts_one_delivery(qm):
    q = make(qm, journaling=True)
    q.send(b"a")
    browser = q.browser()
    browser.first(lock=True)
    assert browser.take().delivery_count == 1
    assert [m.delivery_count for m in qm.open("q;journal").browse()] == [1]


def test_refused_batch_acknowledges_each_message_that_asks_for_it(qm):
    q, _ = make(qm, quota_messages=1), make(qm, "admin")
    asked = Outgoing(body=b"b", acknowledge=Acknowledge.NEGATIVE_ARRIVAL, administration_queue="admin")
    with pytest.raises(QueueQuotaExceeded):
        q.send_many([Outgoing(body=b"a"), asked])
    assert [(m.message_class, m.body) for m in drain(qm, "admin")] == [(0x8003, b"b")]


def test_delete_and_purge_dead_letter_the_messages_of_a_subqueue(qm):
    for name, remove in (("t", lambda: qm.delete_queue("t")), ("u", lambda: qm.open("u;poison").purge())):
        t = make(qm, name, transactional=True, retry=RetryPolicy(immediate=0))
        with qm.transaction() as tx:
            t.send(b"a", transaction=tx, journal=Journal.DEAD_LETTER)
        t.lock(0).abort()
        assert read(qm.open(f"{name};poison")) == "a"
        remove()
        assert [m.original_queue for m in drain(qm, TRANSACTIONAL_DEAD_LETTER)] == [f"{name};poison"]


def test_copies_made_at_commit_have_the_transaction_marks(qm):
    t = make(qm, "t", transactional=True)
    with qm.transaction() as tx:
        t.send(b"a", transaction=tx, time_to_be_received=0, journal=Journal.DEAD_LETTER)
    (dead,) = drain(qm, TRANSACTIONAL_DEAD_LETTER)
    assert (dead.first_in_transaction, dead.last_in_transaction) == (True, True)


def test_expiry_in_a_subqueue_acknowledges_into_its_own_queue(qm):
    q = make(qm)
    q.send(b"a", time_to_be_received=10, acknowledge=Acknowledge.NEGATIVE_RECEIVE, administration_queue="q")
    with qm.open("q;s") as sub:
        q.move(q.peek(0).lookup_id, sub)
        qm.advance_clock(11)
        qm.maintain()
    assert [m.message_class for m in q.browse()] == [0xC002]
    assert (qm.queue_info("q").messages, qm.queue_info("q").delayed) == (1, 0)


def test_redrive_of_a_message_that_expires_at_once_terminates(qm):
    q = make(qm)
    q.send(b"a", time_to_be_received=0, journal=Journal.DEAD_LETTER)
    assert qm.redrive() == 1
    assert qm.queue_info(DEAD_LETTER).ready == 1


def test_redriven_message_that_expires_at_once_is_dead_lettered(qm):
    q = make(qm)
    q.send(b"a", time_to_be_received=0, journal=Journal.JOURNAL | Journal.DEAD_LETTER)
    drain(qm, DEAD_LETTER)
    assert qm.redrive(SYSTEM_JOURNAL) == 1
    assert [m.reason for m in drain(qm, DEAD_LETTER)] == ["receive_timeout"]


def queue_with_an_expired_message(qm):
    """A queue whose message is a dead letter."""
    q = make(qm)
    q.send(b"a", time_to_be_received=1, journal=Journal.DEAD_LETTER)
    qm.advance_clock(2)
    qm.maintain()
    return q


def redrive_by_id(qm, dead, *lookup_ids):
    """One call for these messages. Returns how many went."""
    address = unwrap(dead).handle.address
    went, _ = qm.run(QueueCall(address, features.redrive(address, "", [f"{n:016x}" for n in lookup_ids])))
    return went


@pytest.mark.parametrize("limit", ["messages", "bytes"])
def test_redrive_works_when_the_manager_quota_is_reached(qm, limit):
    q = queue_with_an_expired_message(qm)
    qm.set_quota(**{limit: getattr(qm.info(), limit)})
    assert qm.redrive() == 1
    assert read(q) == "a"


def test_redrive_limit_counts_only_returned_messages(qm):
    q, other = make(qm), make(qm, "other")
    for queue, body in ((q, b"stays"), (other, b"goes")):
        queue.send(body, time_to_be_received=1, journal=Journal.DEAD_LETTER)
    qm.advance_clock(2)
    qm.maintain()
    qm.update_queue("q", put_inhibited=True)
    assert qm.redrive(limit=1) == 1
    assert read(other) == "goes"


def test_redrive_sends_a_message_once_that_is_named_twice(qm):
    q = queue_with_an_expired_message(qm)
    with qm.open(DEAD_LETTER) as dead:
        lookup_id = dead.peek(0).lookup_id
        went = redrive_by_id(qm, dead, lookup_id, lookup_id)
    assert (went, qm.info().messages, read(q)) == (1, 1, "a")


def test_redrive_takes_a_message_whose_lease_is_over(qm):
    q = queue_with_an_expired_message(qm)
    with qm.open(DEAD_LETTER) as dead:
        lookup_id = dead.lock(0, lease=5).message.lookup_id
        qm.advance_clock(6)
        went = redrive_by_id(qm, dead, lookup_id)
    assert (went, read(q)) == (1, "a")


def test_discarded_dead_letter_is_not_counted(qm):
    q = make(qm)
    q.send(b"a", time_to_be_received=0, journal=Journal.DEAD_LETTER, dead_letter_queue="nowhere")
    qm.open(DEAD_LETTER)
    qm.update_queue(DEAD_LETTER, quota_messages=0)
    q.send(b"a", time_to_be_received=0, journal=Journal.DEAD_LETTER)
    assert qm.statistics("q").dead == 0


def test_copy_of_a_dead_letter_names_the_queue_it_came_from(qm):
    q, _ = make(qm), make(qm, "letters", journaling=True)
    q.send(b"a", time_to_be_received=0, journal=Journal.DEAD_LETTER, dead_letter_queue="letters")
    (dead,) = drain(qm, "letters")
    (copy,) = drain(qm, "letters;journal")
    assert (copy.original_queue, copy.original_lookup_id) == ("letters", dead.lookup_id)
    assert (copy.reason, copy.message_class) == ("receive", dead.message_class)


def test_topic_cannot_subscribe_or_receive_copies(qm):
    q = make(qm)
    make(qm, "news", topic=True), make(qm, "more", topic=True)
    with pytest.raises(InvalidArgument, match="keeps no messages"):
        qm.subscribe("news", "more")
    q.send(
        b"a",
        time_to_be_received=0,
        journal=Journal.DEAD_LETTER,
        dead_letter_queue="news",
        acknowledge=Acknowledge(15),
        administration_queue="news",
    )
    assert qm.queue_info("news").messages == qm.info().messages == 0


def test_manager_quota_covers_all_subscribers_together(qm):
    news = make(qm, "news", topic=True)
    for name in "abc":
        make(qm, name)
        qm.subscribe("news", name)
    qm.set_quota(messages=2)
    with pytest.raises(ManagerQuotaExceeded):
        news.send(b"x")
    qm.set_quota(messages=3)
    news.send(b"x")
    assert qm.info().messages == 3


def test_throttle_refuses_a_topic_without_subscribers(qm):
    news = make(qm, "news", topic=True)
    qm.throttle(True)
    with pytest.raises(ManagerQuotaExceeded):
        news.send(b"x")


def test_message_too_large_for_a_subscriber_goes_to_none(qm):
    news = make(qm, "news", topic=True)
    make(qm, "a"), make(qm, "b", max_message_bytes=100)
    qm.subscribe("news", "a"), qm.subscribe("news", "b")
    with pytest.raises(MessageTooLarge):
        news.send(b"x" * 200)
    assert qm.info().messages == 0


def test_publication_respects_exclusive_groups_of_the_subscriber(qm):
    news = make(qm, "news", topic=True)
    a = make(qm, "a", group_exclusive=True)
    qm.subscribe("news", "a")
    news.send_many([Outgoing(body=b"1", group_id="g"), Outgoing(body=b"2", group_id="g")])
    with a.lock(0) as lock:
        assert lock.body == b"1"
        with pytest.raises(IoTimeout):
            a.lock(0)


def test_subqueue_reports_the_properties_of_its_queue(qm):
    make(qm)
    qm.open("q;s")
    qm.update_queue("q", quota_messages=3, label="new", retry=RetryPolicy())
    info = qm.queue_info("q;s")
    assert (info.quota_messages, info.label, info.retry) == (3, "new", RetryPolicy())
    assert (
        info.properties() == next(i for i in qm.queues("q;*")).properties() == qm.queue_info("q").properties()
    )


def test_empty_subqueue_without_handles_is_deleted(qm):
    q = make(qm)
    q.send(b"a", time_to_be_received=10)
    with qm.open("q;s") as sub:
        q.move(q.peek(0).lookup_id, sub)
    qm.advance_clock(11)
    qm.maintain()
    assert [info.name for info in qm.queues("q*")] == ["q"]


def test_message_waiting_for_a_retry_returns_after_policy_removal_and_purge(qm):
    q = make(qm, retry=RetryPolicy(immediate=0, cycles=1, delay=10))
    q.send(b"a")
    q.lock(0).abort()
    qm.update_queue("q", retry=None)
    q.purge()
    qm.advance_clock(11)
    qm.maintain()
    assert read(q) == "a"


def test_message_received_in_a_transaction_is_deleted_with_its_queue(qm):
    q = make(qm, transactional=True)
    with qm.transaction() as tx:
        q.send(b"a", transaction=tx)
    with qm.transaction() as tx:
        message = q.receive(0, transaction=tx)
        qm.delete_queue("q")
        make(qm, transactional=True)
        with pytest.raises(MessageNotFound):
            tx.reject(q, message)
    assert qm.queue_info("q").messages == 0


def test_subqueue_with_an_uncommitted_move_is_kept_when_closed(qm):
    queue, target = make(qm, "q", transactional=True), qm.open("q;s")
    with qm.transaction() as tx:
        lookup_id = queue.send(b"x", transaction=tx).lookup_id
    with qm.transaction() as tx:
        queue.move(lookup_id, target, transaction=tx)
        target.close()
        target = qm.open("q;s")
    assert target.peek(0).lookup_id == lookup_id
    assert qm.queue_info("q").ready == 0
