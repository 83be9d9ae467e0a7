"""Features that kombu's own test classes do not cover: leases, delays, limits, dead letters."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

import kombu
import pytest

import mqredis
from mqredis.kombu import channel as channels
from mqredis.kombu.locks import Locks
from mqredis.kombu.store import Store
from tests.transport.kit import WAIT, get, info, publish


def test_ten_priorities_in_the_order_of_amqp(connection, queue):
    for priority in range(10):
        publish(connection, priority, queue, priority=priority)
    order = [get(connection, "q").payload for _ in range(10)]
    # 1 and 2 share a level, and so do 7 and 8: the earlier one first.
    assert order == [9, 7, 8, 6, 5, 4, 3, 1, 2, 0]


def test_message_with_an_eta_is_delayed_in_the_broker(connection, connect, queue):
    eta = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    publish(connection, 1, queue, headers={"eta": eta})
    assert get(connection, "q") is None
    assert info(connection, "q").delayed == 1
    publish(connect(native_delay=False), 2, queue, headers={"eta": eta})
    assert get(connection, "q").payload == 2


@pytest.mark.parametrize("eta", ["soon", "2001-01-01T00:00:00", None, 5, "9999-12-31T23:59:59+00:00"])
def test_invalid_or_past_eta_is_ignored(connection, queue, eta):
    publish(connection, 1, queue, headers={"eta": eta})
    assert (get(connection, "q") is None) == (eta is not None and str(eta).startswith("9999"))


def test_message_ttl_of_a_queue_expires_messages(connect):
    connection = connect(settings={"allow_volatile": True, "test_clock": True})
    queue = kombu.Queue("q", routing_key="q", message_ttl=60)
    channel = connection.default_channel
    kombu.Producer(channel).publish(1, routing_key="q", declare=[queue(channel)])
    connection.transport.store.manager.advance_clock(61)
    assert get(connection, "q") is None


@pytest.mark.parametrize("of", ["queue", "message"])
def test_life_of_a_delayed_message_begins_at_its_eta(connect, of):
    connection = connect(settings={"allow_volatile": True, "test_clock": True})
    queue = kombu.Queue("q", routing_key="q", message_ttl=60 if of == "queue" else None)
    options = {"expiration": 60} if of == "message" else {}
    eta = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    for text in ("read", "expires"):
        publish(connection, text, queue, headers={"eta": eta}, **options)
    manager = connection.transport.store.manager
    manager.advance_clock(3630)
    assert get(connection, "q").payload == "read"
    manager.advance_clock(60)
    assert get(connection, "q") is None


def test_message_ttl_applies_to_other_senders(connect):
    options = {"settings": {"allow_volatile": True, "test_clock": True}}
    declaring, sending = connect(**options), connect(**options)
    exchange = kombu.Exchange("news", type="fanout")
    kombu.Queue("news.1", exchange=exchange, message_ttl=5)(declaring.default_channel).declare()
    kombu.Producer(sending.default_channel, exchange=exchange).publish("hello", declare=[exchange])
    assert info(declaring, "news.1").ready == 1
    sending.transport.store.manager.advance_clock(6)
    assert get(declaring, "news.1") is None
    assert info(declaring, "news.1").messages == 0


def test_rejected_and_expired_messages_go_to_the_dead_letter_exchange(connect):
    options = {"settings": {"allow_volatile": True, "test_clock": True}}
    declaring, sending = connect(**options), connect(**options)
    dead = kombu.Exchange("dead", type="direct")
    channel = declaring.default_channel
    kombu.Queue("dead_letters", exchange=dead, routing_key="work")(channel).declare()
    arguments = {"x-dead-letter-exchange": "dead"}
    kombu.Queue("work", routing_key="work", queue_arguments=arguments)(channel).declare()
    kombu.Queue(
        "by.name", queue_arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead_letters"}
    )(channel).declare()
    producer = kombu.Producer(sending.default_channel)
    producer.publish("rejected", routing_key="work")
    producer.publish("expired", routing_key="work", expiration=5)
    producer.publish("too", routing_key="by.name")
    get(declaring, "work").reject()
    get(declaring, "by.name").reject()
    declaring.transport.store.manager.advance_clock(6)
    assert get(declaring, "work") is None
    dead_letters = {
        message.payload: message for message in (get(declaring, "dead_letters") for _ in range(3))
    }
    assert {body: m.headers["x-first-death-reason"] for body, m in dead_letters.items()} == {
        "rejected": "rejected",
        "expired": "expired",
        "too": "rejected",
    }
    assert dead_letters["too"].headers["x-first-death-queue"] == "by.name"


def test_max_length_is_a_quota(connection, connect):
    channel = connection.default_channel
    for length in (1, 2):
        arguments = {"x-max-length": length, "x-max-length-bytes": 5000, "x-overflow": "reject-publish"}
        kombu.Queue("short", routing_key="short", queue_arguments=arguments)(channel).declare()
    kombu.Queue("short", routing_key="short")(channel).declare()
    assert info(connection, "short").quota_messages == 2
    assert info(connection, "short").quota_bytes == 5000
    producer = kombu.Producer(connect().default_channel)
    producer.publish(1, routing_key="short")
    producer.publish(2, routing_key="short")
    with pytest.raises(mqredis.QueueQuotaExceeded):
        producer.publish(3, routing_key="short")


@pytest.mark.parametrize(
    "raised, shown, tries",
    [
        (mqredis.QueueQuotaExceeded("full"), mqredis.QueueQuotaExceeded, 1),
        (mqredis.MessageTooLarge("large"), mqredis.MessageTooLarge, 1),
        (mqredis.BrokerUnavailable("away"), kombu.exceptions.OperationalError, 3),
    ],
    ids=["quota", "size", "connection"],
)
def test_refused_message_is_not_published_again(connection, queue, monkeypatch, raised, shown, tries):
    queue(connection.default_channel).declare()
    sends: list[str] = []

    def send(self, name: str, message: mqredis.Outgoing) -> bool:
        sends.append(name)
        raise raised

    monkeypatch.setattr(Store, "send", send)
    producer, transport = kombu.Producer(connection), connection.transport
    with pytest.raises(shown):
        producer.publish(1, routing_key="q", retry=True, retry_policy={"max_retries": 2, "interval_start": 0})
    assert sends == ["q"] * tries
    assert (connection.transport is transport) == (tries == 1)


def test_first_of_several_queues_gets_the_dead_letters_which_is_logged_once(connect, monkeypatch, caplog):
    monkeypatch.setattr(channels, "_WARNED", set())
    dead = kombu.Exchange("dead", type="fanout")
    for _ in range(2):
        connection = connect()
        channel = connection.default_channel
        for name in ("second", "first", "work"):  # a queue never gets its own dead letters
            arguments = {"x-dead-letter-exchange": "dead"} if name == "work" else {}
            kombu.Queue(name, exchange=dead, queue_arguments=arguments)(channel).declare()
        for body in "ab":
            connection.Producer().publish(body, routing_key="work")
            get(connection, "work").reject()
    assert [get(connection, "first").payload for _ in range(4)] == ["a", "b", "a", "b"]
    assert get(connection, "second") is None
    (said,) = (record.message for record in caplog.records if "dead letters" in record.message)
    assert "dead letters of 'work' go to 'first'" in said


@pytest.mark.parametrize(
    "arguments",
    [
        {"x-max-length": 5},
        {"x-max-length-bytes": 5, "x-overflow": "drop-head"},
        {"x-max-length": 5, "x-overflow": "reject-publish-dlx"},
        {"x-dead-letter-routing-key": "k"},
        {"x-dead-letter-exchange": "e" * 300},
        {"x-dead-letter-exchange": "e" * 100},
        {"x-delivery-limit": 1001},
        {"x-delivery-limit": "many"},
        {"x-message-ttl": "soon"},
        {"x-max-length": [], "x-overflow": "reject-publish"},
        {"x-delivery-limit": -2},
        {"x-message-ttl": -1},
        {"x-expires": -1},
        {"x-expires": float("inf")},
    ],
    ids=str,
)
def test_unsupported_queue_arguments_are_refused(connection, arguments):
    queue = kombu.Queue("q", routing_key="q", queue_arguments=arguments)
    with pytest.raises(kombu.exceptions.ChannelError, match="NOT_IMPLEMENTED"):
        queue(connection.default_channel).declare()


def test_acknowledgement_after_the_lease_is_ignored(connect, queue, caplog):
    options = {"settings": {"allow_volatile": True, "test_clock": True}, "lease": 100}
    first, second = connect(**options), connect(**options)
    publish(first, 1, queue)
    late = get(first, "q")
    first.transport.store.manager.advance_clock(101)
    redelivered = get(second, "q")
    assert (late.payload, redelivered.payload) == (1, 1)
    assert redelivered.delivery_info["redelivered"]
    late.ack()
    assert "message" in caplog.text
    assert info(second, "q").locked == 1
    redelivered.ack()
    assert info(second, "q").messages == 0


def test_lease_of_an_unacknowledged_message_is_renewed(connect, queue, monkeypatch):
    renewed = threading.Semaphore(0)
    extend = Locks._extend

    def counting(self, queue, own):
        extend(self, queue, own)
        renewed.release()

    monkeypatch.setattr(Locks, "_extend", counting)
    holder, other = connect(lease=2), connect()
    publish(holder, 1, queue)
    message = get(holder, "q")
    for _ in range(4):  # each after a third of the lease: longer than the lease in total
        assert renewed.acquire(timeout=WAIT)
    assert get(other, "q") is None
    message.ack()
    assert info(other, "q").messages == 0


@pytest.mark.parametrize("end", ["ack", "reject"])
def test_failed_settlement_does_not_count_against_the_prefetch_limit(connection, queue, monkeypatch, end):
    """The message is not held any more, and is delivered again when its lease ends."""
    publish(connection, 1, queue)
    message = get(connection, "q")
    channel = connection.default_channel
    channel.basic_qos(prefetch_count=1)
    assert channel.qos.credit() == 0

    def fail(*_):
        raise mqredis.BrokerUnavailable("no reply")

    monkeypatch.setattr(Locks, "settle", fail)
    with pytest.raises(mqredis.BrokerUnavailable):
        getattr(message, end)()
    assert channel.qos.credit() == 1


def test_rejection_after_the_lease_is_logged(connect, queue, caplog):
    options = {"settings": {"allow_volatile": True, "test_clock": True}, "lease": 100}
    connection = connect(**options)
    publish(connection, 1, queue)
    late = get(connection, "q")
    connection.transport.store.manager.advance_clock(101)
    assert get(connect(**options), "q").payload == 1
    late.reject()
    assert "is lost" in caplog.text


def test_unacknowledged_messages_keep_their_position(connect, queue):
    holder, other = connect(), connect()
    for body in range(3):
        publish(holder, body, queue)
    assert [get(holder, "q").payload for _ in range(2)] == [0, 1]
    holder.release()
    assert [get(other, "q").payload for _ in range(3)] == [0, 1, 2]


@pytest.mark.parametrize(
    "envelope",
    [
        "",
        "nonsense",
        "[1]",
        '{"headers": 5, "properties": [1]}',
        "[" * 100_000,
        '{"text": true}',
        '{"properties": {"body_encoding": "none"}}',
        '{"properties": {"body_encoding": 1}}',
        '{"properties": {"body_encoding": "base64"}}',
    ],
)
def test_messages_of_other_senders_are_delivered_unchanged(connection, queue, envelope):
    queue(connection.default_channel).declare()
    with connection.transport.store.manager.open("q") as handle:
        handle.send(b"\xff\x00a", properties={"kombu": envelope} if envelope else {})
    message = get(connection, "q")
    assert message.body == b"\xff\x00a"
    message.ack()


def test_rejected_message_without_a_dead_letter_exchange_becomes_poison(connection, queue):
    publish(connection, 1, queue)
    get(connection, "q").reject()
    with connection.transport.store.manager.open("q;poison") as poison:
        (message,) = poison.browse()
    assert message.properties["failure_reason"] == "rejected"


def test_closed_connection_does_not_count_as_an_attempt(connection, connect, queue):
    publish(connection, 1, queue)
    manager = connection.transport.store.manager
    manager.update_queue("q", retry=mqredis.RetryPolicy(immediate=0))
    for _ in range(3):
        reading = connect()
        assert get(reading, "q").payload == 1
        reading.close()
    assert manager.statistics("q").poison_messages == 0


@pytest.mark.parametrize("dead", [False, True])
def test_message_beyond_the_delivery_limit_is_dead_lettered(connection, dead):
    channel = connection.default_channel
    kombu.Queue("dead_letters", exchange=kombu.Exchange("dead"), routing_key="work")(channel).declare()
    arguments = {"x-delivery-limit": 2, **({"x-dead-letter-exchange": "dead"} if dead else {})}
    kombu.Queue("work", routing_key="work", queue_arguments=arguments)(channel).declare()
    kombu.Producer(channel).publish(1, routing_key="work")
    for _ in range(3):
        get(connection, "work").requeue()
    assert get(connection, "work") is None
    if dead:
        assert get(connection, "dead_letters").headers["x-first-death-reason"] == "delivery_limit"
    else:
        with connection.transport.store.manager.open("work;poison") as poison:
            assert poison.peek(0).attempts == 3


def test_declaration_with_a_dead_letter_exchange_changes_the_end_of_retries(connection, queue):
    channel = connection.default_channel
    queue(channel).declare()
    own = mqredis.RetryPolicy(immediate=1, cycles=3)
    connection.transport.store.manager.update_queue("q", retry=own)
    kombu.Queue("q", queue_arguments={"x-dead-letter-exchange": "dead"})(channel).declare()
    assert info(connection, "q").retry == mqredis.RetryPolicy(immediate=1, cycles=3, final="dead_letter")
    kombu.Queue("q", queue_arguments={"x-message-ttl": 5})(channel).declare()
    assert info(connection, "q").retry == own


def test_declared_queue_has_a_changeable_delivery_limit(connection, queue):
    channel = connection.default_channel
    queue(channel).declare()
    assert info(connection, "q").retry == mqredis.RetryPolicy(immediate=20, final="poison")
    own = mqredis.RetryPolicy(immediate=1, cycles=3)
    connection.transport.store.manager.update_queue("q", retry=own)
    queue(channel).declare()
    assert info(connection, "q").retry == own
    kombu.Queue("q", queue_arguments={"x-delivery-limit": -1})(channel).declare()
    assert info(connection, "q").retry is None
