"""URLs, exchanges, bindings, and queues that are deleted automatically."""

from __future__ import annotations

import ssl
from typing import Any

import kombu
import pytest

import mqredis
from mqredis.drivers.net.urls import parse
from tests.transport.kit import WAIT, get, info, publish


@pytest.mark.parametrize(
    "given, url, shown",
    [
        ("mqredis://", "redis://localhost:6379/0", "mqredis://:**@localhost:6379//"),
        ("mqredis://h:1/2", "redis://h:1/2", "mqredis://:**@h:1/2"),
        ("mqredis://u:p%2Fw@h/2", "redis://u:p%2Fw@h:6379/2", "mqredis://u:**@h:6379/2"),
        ("mqredis://u:p@[::1]:7/2", "redis://u:p@[::1]:7/2", "mqredis://u:**@%3A%3A1:7/2"),
        ("mqredis+rediss://u:pw@h:1/0", "rediss://u:pw@h:1/0", "mqredis+rediss://u:**@h:1/0"),
        ("mqredis+unix:///tmp/s?db=1", "unix:///tmp/s?db=1", "mqredis+unix:///tmp/s?db=1"),
        (
            "mqredis+redis+cluster://u:p@a:1,b:2",
            "redis+cluster://u:p@a:1,b:2",
            "mqredis+redis+cluster://u:**@a:1,b:2",
        ),
        (
            "mqredis+redis+sentinel://:p@a:1,b:2/main/0?sentinel_password=x&db=1",
            "redis+sentinel://:p@a:1,b:2/main/0?sentinel_password=x&db=1",
            "mqredis+redis+sentinel://:**@a:1,b:2/main/0?sentinel_password=**&db=1",
        ),
        (
            "mqredis+redis://u:26/x@h/0?ssl_password=a%26b",
            "redis://u:26/x@h/0?ssl_password=a%26b",
            "mqredis+redis://u:**@h/0?ssl_password=**",
        ),
    ],
)
def test_broker_url_is_translated_and_redacted(given, url, shown):
    connection = kombu.Connection(given)
    assert connection.transport.url() == url
    assert connection.as_uri() == shown
    if "+" in given:
        assert connection.as_uri(include_password=True) == given


def test_ssl_setting_becomes_a_rediss_url():
    connection = kombu.Connection("mqredis://h/1", ssl={"ssl_ca_certs": "/ca.pem"})
    assert connection.transport.url() == "rediss://h:6379/1?ssl_ca_certs=%2Fca.pem"


@pytest.mark.parametrize(
    "options, query",
    [
        ({"ssl_check_hostname": False, "ssl_ca_certs": None}, "ssl_check_hostname=False"),
        ({"ssl_cert_reqs": ssl.CERT_NONE}, "ssl_cert_reqs=none"),
        ({"ssl_cert_reqs": "optional", "ssl_password": "a&b"}, "ssl_cert_reqs=optional&ssl_password=a%26b"),
    ],
)
def test_no_ssl_option_is_ignored(options, query):
    url = kombu.Connection("mqredis://h/1", ssl=options).transport.url()
    assert url == f"rediss://h:6379/1?{query}"
    parsed = parse(url).options
    assert parsed["ssl_check_hostname"] is (options.get("ssl_cert_reqs") == "optional")


def test_unknown_ssl_option_is_refused():
    connection = kombu.Connection("mqredis://h/1", ssl={"ca_certs": "/ca.pem"})
    with pytest.raises(mqredis.InvalidArgument, match="unknown option 'ca_certs' in broker_use_ssl"):
        connection.transport.url()


def test_fanout_is_durable_and_shared(connect):
    exchange = kombu.Exchange("news", type="fanout")
    queues = [kombu.Queue(f"news.{n}", exchange=exchange) for n in range(2)]
    declaring, publishing = connect(), connect()
    for queue in queues:
        queue(declaring.default_channel).declare()
    declaring.release()
    kombu.Producer(publishing.default_channel, exchange=exchange).publish("hello")
    reading = connect()
    assert [get(reading, f"news.{n}").payload for n in range(2)] == ["hello"] * 2


def test_bindings_can_be_removed(connect):
    exchange = kombu.Exchange("t", type="topic")
    connection = connect()
    channel = connection.default_channel
    queue = kombu.Queue("t.1", exchange=exchange, routing_key="a.*")(channel)
    queue.declare()
    producer = kombu.Producer(channel, exchange=exchange)
    producer.publish(1, routing_key="a.b")
    queue.unbind_from(exchange, routing_key="a.*")
    producer.publish(2, routing_key="a.b")
    assert get(connection, "t.1").payload == 1
    assert get(connection, "t.1") is None
    queue.queue_bind()
    queue.delete()
    assert connection.transport.store.bindings.table("t") == []


def test_queue_can_be_bound_to_the_default_exchange_again(connection):
    channel = connection.default_channel
    channel.exchange_declare()  # amq.direct
    channel.queue_declare("q")
    channel.queue_bind("q", routing_key="k")
    channel.queue_unbind("q", routing_key="k")
    channel.queue_bind("q", routing_key="k")
    assert connection.transport.store.bindings.table("amq.direct") == [("k", "", "q")]


def test_queue_that_was_deleted_elsewhere_is_bound_by_its_next_declaration(connect):
    declaring, other = connect(), connect()
    exchange = kombu.Exchange("e", type="direct")
    queue = kombu.Queue("q", exchange=exchange, routing_key="k")(declaring.default_channel)
    queue.declare()
    other.default_channel.queue_delete("q")
    queue.declare()
    kombu.Producer(other.default_channel, exchange=exchange).publish(1, routing_key="k")
    assert get(declaring, "q").payload == 1


def test_message_among_the_bindings_that_is_none_is_ignored(connection):
    exchange = kombu.Exchange("e", type="direct")
    queue = kombu.Queue("q", exchange=exchange, routing_key="k")(connection.default_channel)
    queue.declare()
    with connection.transport.store.manager.open("_kombu.bindings.e") as table:
        for body in (b"nonsense", b"5", b'["k"]', b"\xff"):
            table.send(body)
    kombu.Producer(connection.default_channel, exchange=exchange).publish(1, routing_key="k")
    assert get(connection, "q").payload == 1
    queue.delete()
    assert connection.transport.store.bindings.table("e") == []


def test_message_without_a_queue_is_dropped(connection):
    kombu.Producer(connection.default_channel).publish(1, routing_key="nowhere")
    with pytest.raises(mqredis.QueueNotFound):
        info(connection, "nowhere")


def test_unacknowledged_message_ends_with_its_auto_delete_queue_without_a_warning(connect, caplog):
    connection = connect()
    received: list[Any] = []
    queue = kombu.Queue("own", auto_delete=True, routing_key="own")
    with kombu.Consumer(connection, [queue], on_message=received.append):
        publish(connection, "event", queue)
        connection.drain_events(timeout=WAIT)
    connection.release()
    assert [len(received), caplog.text] == [1, ""]


def test_auto_delete_queue_is_deleted_with_its_consumer(connect):
    connection = connect()
    with kombu.Consumer(connection, [kombu.Queue("own", auto_delete=True, routing_key="own")]):
        assert info(connection, "own").ready == 0
    with pytest.raises(mqredis.QueueNotFound):
        info(connection, "own")


@pytest.mark.parametrize("name", ["reply", "re ply[1];%20"])
def test_expired_queue_is_deleted_with_its_bindings(connect, name):
    first = connect()
    exchange = kombu.Exchange("replies", type="fanout")
    kombu.Queue(name, exchange, expires=0.001)(first.default_channel).declare()
    first.release()
    second = connect()
    second.connect()
    second.transport.store._swept = 0.0
    second.transport.store.sweep()
    assert [info.name for info in second.transport.store.manager.queues("re*")] == []
    assert second.transport.store.bindings.table("replies") == []


@pytest.mark.parametrize("use", ["read", "consume", "declare", "send"])
def test_expiry_of_a_queue_counts_from_its_last_use(connect, use):
    """As in AMQP, a queue is used by readers and by declarations, and not by senders. Its messages stay if it is."""
    options = {"settings": {"allow_volatile": True, "test_clock": True}}
    queue = kombu.Queue("work", routing_key="work", expires=3600)
    first = connect(**options)
    queue(first.default_channel).declare()
    for body in (1, 2):
        publish(first, body, queue)
    manager = first.transport.store.manager
    manager.advance_clock(3000)
    first.transport.store._renewed.clear()  # as after this time
    if use == "read":
        get(first, "work").ack()
    elif use == "consume":
        with kombu.Consumer(first, [queue], callbacks=[lambda _, message: message.ack()], prefetch_count=1):
            first.drain_events(timeout=WAIT)
    elif use == "declare":
        queue(first.default_channel).declare()
    else:
        kombu.Producer(first.default_channel).publish(3, routing_key="work")
    manager.advance_clock(3000)
    first.release()  # as for a restart of a worker
    second = connect(**options)
    kombu.Queue("other", expires=3600)(second.default_channel).declare()
    found = second.transport.store.manager.queues("work")
    assert [each.ready for each in found] == ([] if use == "send" else [2 if use == "declare" else 1])
    second.transport.store.manager.advance_clock(3601)
    second.transport.store._swept = 0.0
    second.transport.store.sweep()
    assert second.transport.store.manager.queues("work") == []


CLOCK = {"settings": {"allow_volatile": True, "test_clock": True}}


def left_after_expiry(connection, manager):
    """Whether `work` is left when another queue with x-expires is declared after its time."""
    manager.advance_clock(1801)
    kombu.Queue("other", expires=7200)(connection.default_channel).declare()
    return [info.name for info in manager.queues("work")]


def test_queue_expires_although_a_sender_is_connected(connect):
    declaring, sending = connect(**CLOCK), connect(**CLOCK)
    kombu.Queue("work", expires=1800)(declaring.default_channel).declare()
    declaring.release()
    kombu.Producer(sending.default_channel).publish(1, routing_key="work")
    assert left_after_expiry(connect(**CLOCK), sending.transport.store.manager) == []


@pytest.mark.parametrize("state", ["new", "without credit", "cancelled"])
def test_queue_with_a_consumer_that_does_not_wait_does_not_expire(connect, state):
    reading, sending = connect(**CLOCK), connect(**CLOCK)
    queue = kombu.Queue("work", expires=1800)
    seen: list[kombu.Message] = []
    consumer = kombu.Consumer(
        reading, [queue], callbacks=[lambda _, message: seen.append(message)], prefetch_count=1
    )
    consumer.consume()
    kombu.Producer(sending.default_channel).publish(1, routing_key="work")
    if state != "new":
        reading.drain_events(timeout=WAIT)
    if state == "cancelled":
        seen[0].ack()
        consumer.cancel()
    left = left_after_expiry(connect(**CLOCK), sending.transport.store.manager)
    assert left == ([] if state == "cancelled" else ["work"])


def test_sender_keeps_a_limited_number_of_handles(connect):
    declaring, sending = connect(), connect()
    names = [f"reply.{n}" for n in range(300)]
    for name in names:
        kombu.Queue(name)(declaring.default_channel).declare()
    producer = kombu.Producer(sending.default_channel)
    for name in [*names, names[0]]:
        producer.publish(name, routing_key=name)
    manager = sending.transport.store.manager
    assert sum(info.active for info in manager.queues("reply.*")) <= 256
    assert get(declaring, names[0]).payload == names[0]


def test_message_is_sent_although_its_handle_was_closed_meanwhile(connection, queue):
    publish(connection, 1, queue)
    connection.transport.store._targets.open("q").close()
    publish(connection, 2, queue)
    assert [get(connection, "q").payload for _ in range(2)] == [1, 2]


def test_use_of_a_queue_keeps_a_declaration_that_another_process_makes_at_once(connect, monkeypatch):
    using, declaring = connect(), connect()
    queue = kombu.Queue("work", expires=1800)
    queue(using.default_channel).declare()
    store = using.transport.store
    run = store.manager.run

    def declared_after_the_first_call(operation):
        monkeypatch.undo()
        result = run(operation)
        kombu.Queue("work", expires=1800, message_ttl=60)(declaring.default_channel).declare()
        return result

    monkeypatch.setattr(store.manager, "run", declared_after_the_first_call)
    store._renew_expiry("work")
    assert "ttl_ms" in info(using, "work").label


def test_cancelled_consumer_keeps_its_unacknowledged_messages(connection):
    queue = kombu.Queue("work", expires=1800)
    seen: list[kombu.Message] = []
    with kombu.Consumer(connection, [queue], callbacks=[lambda _, message: seen.append(message)]):
        kombu.Producer(connection.default_channel).publish(1, routing_key="work")
        connection.drain_events(timeout=WAIT)
    assert info(connection, "work").locked == 1
    seen[0].ack()
    assert info(connection, "work").messages == 0


def test_sender_uses_the_arguments_of_a_later_declaration(connect):
    connection = connect(**CLOCK)
    channel = connection.default_channel
    kombu.Queue("q")(channel).declare()
    producer = kombu.Producer(channel)
    for ttl, body in ((3600, "long"), (60, "short")):
        kombu.Queue("q", message_ttl=ttl)(channel).declare()
        producer.publish(body, routing_key="q")
    connection.transport.store.manager.advance_clock(61)
    assert get(connection, "q").payload == "long"
    assert get(connection, "q") is None
