"""Topics: durable publish and subscribe."""

from __future__ import annotations

import pytest

import mqredis
from mqredis import (
    DEAD_LETTER,
    Access,
    Acknowledge,
    DuplicateMessage,
    InvalidArgument,
    InvalidName,
    IoTimeout,
    Journal,
    ManagerQuotaExceeded,
    MessageTooLarge,
    NotSupported,
    QueueNotFound,
    QueueQuotaExceeded,
    SelectorSyntaxError,
    Settings,
    Subscription,
    TransactionTooLarge,
    TransactionUsage,
)
from tests.msmq.kit import drain, make
from tests.support.backend import Backend
from tests.support.facade import Pending
from tests.support.until import until


def test_wait_for_a_message_of_a_topic_is_refused(qm):
    news = make(qm, "news", topic=True)
    for read in (news.receive, news.peek, news.lock, news.cursor().peek):
        with pytest.raises(NotSupported, match="'news' is a topic, which stores nothing"):
            read(30)
        with pytest.raises(IoTimeout):
            read(0)


def test_every_subscriber_gets_a_copy(qm):
    news = make(qm, "news", topic=True)
    make(qm, "a"), make(qm, "b")
    assert news.send(b"nobody").lookup_id > 0
    qm.subscribe("news", "a")
    qm.subscribe("news", "b")
    sent = news.send(b"x" * 5000, priority=5, properties={"n": 1})
    found = drain(qm, "a") + drain(qm, "b")
    assert [m.body for m in found] == [b"x" * 5000] * 2
    assert {m.message_id for m in found} == {sent.message_id}
    assert found[0].lookup_id != found[1].lookup_id
    assert (found[0].priority, found[0].properties) == (5, {"n": 1})
    qm.unsubscribe("news", "a")
    news.send_many([b"1", b"2"])
    assert drain(qm, "a") == []
    assert [m.body for m in drain(qm, "b")] == [b"1", b"2"]
    assert qm.info().messages == 0
    assert qm.queue_info("news").topic


def test_publication_without_a_subscriber_creates_no_journal(qm):
    """The topic itself keeps no copy of what is sent to it."""
    news = make(qm, "news", topic=True)
    news.send(b"nobody", journal=Journal.JOURNAL)
    assert [info.name for info in qm.queues()] == ["news"]


def test_subscriptions_with_selectors_get_matching_messages(qm):
    news = make(qm, "news", topic=True)
    make(qm, "eu"), make(qm, "all"), make(qm, "big")
    qm.subscribe("news", "eu", "region = 'EU'")
    qm.subscribe("news", "big", "amount > 10 AND region IS NOT NULL")
    qm.subscribe("news", "all")
    news.send(b"1", properties={"region": "EU", "amount": 5})
    news.send(b"2", properties={"region": "US", "amount": 50})
    news.send(b"3", properties={"amount": 50})
    assert [m.body for m in drain(qm, "eu")] == [b"1"]
    assert [m.body for m in drain(qm, "big")] == [b"2"]
    assert [m.body for m in drain(qm, "all")] == [b"1", b"2", b"3"]
    assert qm.subscriptions("news")[1:] == [
        Subscription(topic="news", queue="big", selector="amount > 10 AND region IS NOT NULL"),
        Subscription(topic="news", queue="eu", selector="region = 'EU'"),
    ]
    qm.subscribe("news", "eu", "region = 'US'")
    news.send(b"4", properties={"region": "US"})
    assert [m.body for m in drain(qm, "eu")] == [b"4"]


def test_lookup_id_is_null_in_the_selector_of_a_subscription(qm):
    """The copies get theirs when they are stored."""
    news = make(qm, "news", topic=True)
    make(qm, "none"), make(qm, "all")
    qm.subscribe("news", "none", "$lookup_id > 0 OR NOT $lookup_id > 0")
    qm.subscribe("news", "all", "$lookup_id IS NULL")
    news.send(b"1")
    assert [drain(qm, "none"), [m.body for m in drain(qm, "all")]] == [[], [b"1"]]


def test_subscription_selects_by_a_part_of_a_long_text(qm):
    news, found = make(qm, "news", topic=True), make(qm, "found")
    qm.subscribe("news", "found", "text LIKE '%n_edle%'")
    news.send(b"1", properties={"text": "hay " * 2000 + "needle"})
    news.send(b"2", properties={"text": "hay " * 2000 + "noodle"})
    assert [m.body for m in found.browse()] == [b"1"]


def test_publication_that_has_expired_leaves_a_dead_letter_for_each_copy(qm):
    news = make(qm, "news", topic=True)
    for name in ("a", "b"):
        make(qm, name)
        qm.subscribe("news", name)
    news.send(b"x", time_to_be_received=0, journal=Journal.DEAD_LETTER)
    assert [m.original_queue for m in drain(qm, DEAD_LETTER)] == ["a", "b"]


def test_quota_of_the_manager_counts_the_copies_of_all_subscribers(qm):
    news = make(qm, "news", topic=True)
    for name in ("a", "b"):
        make(qm, name)
        qm.subscribe("news", name)
    news.send(b"x")
    size = qm.info().bytes
    qm.set_quota(bytes=2 * size - 1)
    with pytest.raises(ManagerQuotaExceeded):
        news.send(b"x")
    assert qm.info().bytes == size
    qm.set_quota(bytes=2 * size)
    news.send(b"x")
    assert qm.info().bytes == 2 * size


def test_invalid_subscriptions_are_refused(qm):
    make(qm, "plain")
    make(qm, "news", topic=True)
    with pytest.raises(InvalidArgument):
        qm.subscribe("plain", "news")
    with pytest.raises(QueueNotFound):
        qm.subscribe("news", "nowhere")
    with pytest.raises(QueueNotFound):
        qm.subscribe("nowhere", "plain")
    with pytest.raises(SelectorSyntaxError):
        qm.subscribe("news", "plain", "region = = 1")
    with pytest.raises(InvalidArgument):
        qm.subscribe("news", "news")
    with pytest.raises(InvalidArgument):
        qm.subscribe("news", "plain", 5)
    with pytest.raises(InvalidName):
        qm.subscribe("news", "plain;s")
    with pytest.raises(InvalidArgument):
        qm.update_queue("plain", topic=True)
    with pytest.raises(IoTimeout):
        qm.open("news").receive(0)


def test_publication_reaches_all_subscribers_or_none(qm):
    news = make(qm, "news", topic=True)
    make(qm, "a"), make(qm, "full", quota_messages=1)
    qm.subscribe("news", "a")
    qm.subscribe("news", "full")
    news.send(b"1")
    with pytest.raises(QueueQuotaExceeded):
        news.send(b"2")
    assert len(drain(qm, "a")) == 1
    qm.delete_queue("full")
    news.send(b"3")
    assert len(drain(qm, "a")) == 1


def test_publication_whose_copies_exceed_the_room_of_its_transaction_is_refused(qm):
    news = make(qm, "news", topic=True, transactional=True)
    plain = make(qm, "plain", transactional=True)
    for name in ("a", "b"):
        make(qm, name, transactional=True)
        qm.subscribe("news", name)
    with qm.transaction() as tx:
        plain.send_many([b"x"] * 997, transaction=tx)
        news.send(b"1", transaction=tx)  # two copies, the operations 998 and 999
        with pytest.raises(TransactionTooLarge):
            news.send(b"2", transaction=tx)
        plain.send(b"last", transaction=tx)
        qm.unsubscribe("news", "a"), qm.unsubscribe("news", "b")
        news.send(b"3", transaction=tx)  # without a copy, it takes no room
    assert [qm.queue_info(name).messages for name in ("a", "b", "plain")] == [1, 1, 998]


def test_publication_may_take_the_last_operations_of_its_transaction(qm):
    news = make(qm, "news", topic=True, transactional=True)
    for name in ("a", "b"):
        make(qm, name, transactional=True)
        qm.subscribe("news", name)
    with qm.transaction() as tx:
        for _ in range(2):
            news.send_many([b"x"] * 250, transaction=tx)
        with pytest.raises(TransactionTooLarge):
            news.send(b"x", transaction=tx)
    assert [qm.queue_info(name).messages for name in ("a", "b")] == [500, 500]


@pytest.mark.parametrize("trail", [0, 1])
def test_copy_of_a_publication_has_the_largest_size_of_its_queue(qm, trail):
    news, copies = make(qm, "news", topic=True), make(qm, "copies", trail=trail)
    qm.subscribe("news", "copies")
    news.send(b"x" * 100)
    size = qm.queue_info("copies").bytes
    qm.update_queue("copies", max_message_bytes=size)
    news.send(b"x" * 100)
    qm.update_queue("copies", max_message_bytes=size - 1)
    with pytest.raises(MessageTooLarge):
        news.send(b"x" * 100)
    assert copies.purge() == 2


def test_publication_in_a_transaction_is_delivered_at_commit(qm):
    news = make(qm, "news", topic=True, transactional=True)
    make(qm, "a", transactional=True), make(qm, "b", transactional=True), make(qm, "plain")
    with qm.transaction() as tx:
        news.send(b"0", transaction=tx)
    make(qm, "later", transactional=True)
    for name in ("a", "b", "later"):
        qm.subscribe("news", name)
    with pytest.raises(InvalidArgument, match="only one of topic 'news' and queue 'plain' is transactional"):
        qm.subscribe("news", "plain")
    qm.delete_queue("later")
    make(qm, "later")
    with pytest.raises(TransactionUsage):
        news.send(b"1")
    tx = qm.transaction()
    news.send(b"1", transaction=tx)
    tx.abort()
    assert qm.info().messages == 0
    with qm.transaction() as tx:
        news.send(b"2", transaction=tx)
        assert qm.queue_info("a").locked == 1
    assert [[m.body for m in drain(qm, n)] for n in ("a", "b", "later")] == [[b"2"], [b"2"], []]
    with pytest.raises(InvalidArgument, match="transactional"):
        qm.subscribe("news", "later", "n = 1")
    qm.unsubscribe("news", "later")


def test_publication_wakes_subscribers_and_applies_features_to_copies(qm):
    news = make(qm, "news", topic=True)
    make(qm, "a", journaling=True), make(qm, "b"), make(qm, "admin")
    qm.subscribe("news", "a")
    qm.subscribe("news", "b")
    with qm.open("a", Access.RECEIVE) as reader:
        waiting = Pending(lambda: reader.receive(30))
        until(lambda: qm.queue_info("a").waiters == 1)
        news.send(
            b"x",
            dedup_key="k",
            dedup_window=5,
            time_to_be_received=9,
            acknowledge=Acknowledge.FULL_REACH_QUEUE,
            administration_queue="admin",
        )
        assert waiting.result(30).body == b"x"
    assert len(drain(qm, "a;journal")) == 1
    assert [m.response_queue for m in drain(qm, "admin")] == ["a", "b"]
    with pytest.raises(DuplicateMessage):
        news.send(b"x", dedup_key="k")
    qm.advance_clock(10)
    assert drain(qm, "b") == []
    news.send(b"x", dedup_key="k")
    assert len(drain(qm, "b")) == 1


def test_publication_removes_dedup_keys_whose_windows_are_over(backend: Backend) -> None:
    client = backend.client()
    with mqredis.connect(client, settings=Settings(test_clock=True, allow_volatile=True)) as qm:
        news = make(qm, "news", topic=True)
        for n in range(3):
            news.send(b"x", dedup_key=f"k{n}", dedup_window=5)
            qm.advance_clock(5)
        assert client.zcard(f"mq:{{{qm.name}}}:q:news:t") == 1
