"""What kombu's own classes do not look at: leases, delays, durability, limits, restarts."""

from __future__ import annotations

import socket
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import kombu
import pytest
from kombu.asynchronous.hub import Hub

import mqredis
from mqredis.kombu.store import Locks

WAIT = 60.0


def publish(connection: Any, body: Any, queue: kombu.Queue, **options: Any) -> None:
    with connection.channel() as channel:
        kombu.Producer(channel).publish(
            body, exchange=queue.exchange, routing_key=queue.routing_key, declare=[queue], **options
        )


def get(connection: Any, queue: str) -> Any:
    return connection.default_channel.basic_get(queue)


def info(connection: Any, queue: str) -> mqredis.QueueInfo:
    connection.connect()
    found: mqredis.QueueInfo = connection.transport.store.manager.queue_info(queue)
    return found


@pytest.fixture
def queue() -> kombu.Queue:
    return kombu.Queue("q", routing_key="q")


def test_ten_priorities_in_the_order_of_amqp(connection, queue):
    for priority in range(10):
        publish(connection, priority, queue, priority=priority)
    order = [get(connection, "q").payload for _ in range(10)]
    # 1 and 2 share a level, and so do 7 and 8: the earlier one first.
    assert order == [9, 7, 8, 6, 5, 4, 3, 1, 2, 0]


def test_a_task_with_an_eta_waits_in_the_broker(connection, connect, queue):
    eta = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    publish(connection, 1, queue, headers={"eta": eta})
    assert get(connection, "q") is None
    assert info(connection, "q").delayed == 1
    publish(connect(native_delay=False), 2, queue, headers={"eta": eta})
    assert get(connection, "q").payload == 2


@pytest.mark.parametrize("eta", ["soon", "2001-01-01T00:00:00", None, 5, "9999-12-31T23:59:59+00:00"])
def test_etas_that_make_no_sense(connection, queue, eta):
    publish(connection, 1, queue, headers={"eta": eta})
    assert (get(connection, "q") is None) == (eta is not None and str(eta).startswith("9999"))


def test_time_to_live_of_a_queue(connect):
    connection = connect(settings={"allow_volatile": True, "test_clock": True})
    queue = kombu.Queue("q", routing_key="q", message_ttl=60)
    channel = connection.default_channel
    kombu.Producer(channel).publish(1, routing_key="q", declare=[queue(channel)])
    connection.transport.store.manager.advance_clock(61)
    assert get(connection, "q") is None


def test_senders_know_the_time_to_live_of_a_queue(connect):
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
    kombu.Queue("graves", exchange=dead, routing_key="work")(channel).declare()
    arguments = {"x-dead-letter-exchange": "dead"}
    kombu.Queue("work", routing_key="work", queue_arguments=arguments)(channel).declare()
    kombu.Queue(
        "by.name", queue_arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "graves"}
    )(channel).declare()
    producer = kombu.Producer(sending.default_channel)
    producer.publish("rejected", routing_key="work")
    producer.publish("expired", routing_key="work", expiration=5)
    producer.publish("too", routing_key="by.name")
    get(declaring, "work").reject()
    get(declaring, "by.name").reject()
    declaring.transport.store.manager.advance_clock(6)
    assert get(declaring, "work") is None
    graves = {message.payload: message for message in (get(declaring, "graves") for _ in range(3))}
    assert {body: m.headers["x-first-death-reason"] for body, m in graves.items()} == {
        "rejected": "rejected",
        "expired": "expired",
        "too": "rejected",
    }
    assert graves["too"].headers["x-first-death-queue"] == "by.name"


def test_a_length_is_a_quota(connection, connect):
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
    "arguments",
    [
        {"x-max-length": 5},
        {"x-max-length-bytes": 5, "x-overflow": "drop-head"},
        {"x-max-length": 5, "x-overflow": "reject-publish-dlx"},
        {"x-dead-letter-routing-key": "k"},
        {"x-dead-letter-exchange": "e" * 300},
    ],
    ids=str,
)
def test_arguments_that_would_not_be_kept_are_refused(connection, arguments):
    queue = kombu.Queue("q", routing_key="q", queue_arguments=arguments)
    with pytest.raises(kombu.exceptions.ChannelError, match="NOT_IMPLEMENTED"):
        queue(connection.default_channel).declare()


def test_a_late_acknowledgement_does_no_harm(connect, queue, caplog):
    options = {"settings": {"allow_volatile": True, "test_clock": True}, "lease": 100}
    first, second = connect(**options), connect(**options)
    publish(first, 1, queue)
    late = get(first, "q")
    first.transport.store.manager.advance_clock(101)
    again = get(second, "q")
    assert (late.payload, again.payload) == (1, 1)
    assert again.delivery_info["redelivered"]
    late.ack()
    assert "message" in caplog.text
    assert info(second, "q").locked == 1
    again.ack()
    assert info(second, "q").messages == 0


def test_long_tasks_keep_their_message(connect, queue, monkeypatch):
    renewed = threading.Semaphore(0)
    extend = Locks._extend

    def counting(self, queue, own):
        extend(self, queue, own)
        renewed.release()

    monkeypatch.setattr(Locks, "_extend", counting)
    holder, other = connect(lease=2), connect()
    publish(holder, 1, queue)
    message = get(holder, "q")
    for _ in range(4):  # each a third of the lease: more than the lease in all
        assert renewed.acquire(timeout=WAIT)
    assert get(other, "q") is None
    message.ack()
    assert info(other, "q").messages == 0


def test_what_was_not_acknowledged_is_back_in_its_place(connect, queue):
    holder, other = connect(), connect()
    for body in range(3):
        publish(holder, body, queue)
    assert [get(holder, "q").payload for _ in range(2)] == [0, 1]
    holder.release()
    assert [get(other, "q").payload for _ in range(3)] == [0, 1, 2]


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
    assert connection.transport.store.table("t") == []


def test_what_has_no_queue_is_dropped(connection):
    kombu.Producer(connection.default_channel).publish(1, routing_key="nowhere")
    with pytest.raises(mqredis.QueueNotFound):
        info(connection, "nowhere")


def test_prefetch_is_honoured(connection, queue):
    for body in range(5):
        publish(connection, body, queue)
    seen: list[Any] = []
    consumer = kombu.Consumer(
        connection, [queue], callbacks=[lambda _, message: seen.append(message)], prefetch_count=2
    )
    with consumer:
        connection.drain_events(timeout=1)
        with pytest.raises(socket.timeout):
            connection.drain_events(timeout=0.1)
        assert len(seen) == 2
        assert info(connection, "q").locked == 2
        seen[0].ack()
        connection.drain_events(timeout=1)
        assert [message.payload for message in seen] == [0, 1, 2]


def test_a_consumer_that_waits_is_woken(connect, queue):
    reading, sending = connect(), connect()
    arrived = threading.Event()

    def callback(_, message):
        message.ack()
        arrived.set()

    with kombu.Consumer(reading, [queue], callbacks=[callback]):
        thread = threading.Thread(target=reading.drain_events, kwargs={"timeout": WAIT})
        thread.start()
        publish(sending, 1, queue)
        assert arrived.wait(WAIT)
        thread.join(WAIT)


def test_many_queues_take_turns(connection):
    queues = [kombu.Queue(name, routing_key=name) for name in "abc"]
    for _ in range(2):
        for queue in queues:
            publish(connection, queue.name, queue)
    seen: list[str] = []

    def callback(body, message):
        seen.append(body)
        message.ack()

    with kombu.Consumer(connection, queues, callbacks=[callback], prefetch_count=1):
        while len(seen) < 6:
            connection.drain_events(timeout=1)
    assert seen == ["a", "b", "c"] * 2


def test_the_event_loop_delivers(connect, queue):
    reading, sending = connect(), connect()
    hub = Hub()
    seen: list[int] = []

    def callback(body, message):
        seen.append(body)
        message.ack()

    with kombu.Consumer(reading, [queue], callbacks=[callback], prefetch_count=1):
        reading.register_with_event_loop(hub)
        try:
            for body in range(20):
                publish(sending, body, queue)
            while len(seen) < 20:
                hub.run_once()
        finally:
            reading.release()
            hub.close()
    assert seen == list(range(20))


def test_what_the_event_loop_did_not_deliver_is_given_back(connect, queue):
    reading, sending = connect(), connect()
    hub = Hub()
    with kombu.Consumer(reading, [queue], callbacks=[print]):
        reading.register_with_event_loop(hub)
        hub.run_once  # noqa: B018 - never run: the thread fetches, nobody delivers
        reading.transport._fetcher.update()
        publish(sending, 1, queue)
        reading.release()
        hub.close()
    assert info(sending, "q").ready == 1


def test_a_queue_that_was_deleted_under_its_consumer(connect):
    exchange = kombu.Exchange("x", type="direct")
    queue = kombu.Queue("q", exchange=exchange, routing_key="k")
    reading, sending = connect(), connect()
    seen: list[int] = []

    def callback(body, message):
        message.ack()
        seen.append(body)

    with kombu.Consumer(reading, [queue], callbacks=[callback]):
        sending.connect()
        sending.default_channel.queue_delete("q")
        with pytest.raises(socket.timeout):
            reading.drain_events(timeout=0.1)
        producer = kombu.Producer(sending.default_channel, exchange=exchange)
        producer.publish(1, routing_key="k")
        reading.drain_events(timeout=WAIT)
    assert seen == [1]


def test_queues_that_go_by_themselves(connect):
    connection = connect()
    with kombu.Consumer(connection, [kombu.Queue("own", auto_delete=True, routing_key="own")]):
        assert info(connection, "own").ready == 0
    with pytest.raises(mqredis.QueueNotFound):
        info(connection, "own")


def test_queues_that_expire(connect):
    first = connect()
    kombu.Queue("reply", routing_key="reply", expires=0.001)(first.default_channel).declare()
    first.release()
    second = connect()
    second.connect()
    second.transport.store._swept = 0.0
    second.transport.store.sweep()
    with pytest.raises(mqredis.QueueNotFound):
        info(second, "reply")


@pytest.mark.parametrize(
    "envelope", ["", "nonsense", "[1]", '{"headers": 5, "properties": [1]}', "[" * 100_000, '{"text": true}']
)
def test_foreign_messages_are_delivered_as_they_are(connection, queue, envelope):
    queue(connection.default_channel).declare()
    with connection.transport.store.manager.open("q") as handle:
        handle.send(b"\xff\x00", properties={"kombu": envelope} if envelope else {})
    message = get(connection, "q")
    assert message.body == b"\xff\x00"
    message.ack()


def test_a_restart_of_the_server_is_survived(start_server, queue):
    server = start_server(aof=True, tcp=True)
    connection = kombu.Connection(server.tcp_url.replace("redis://", "mqredis://"))
    publish(connection, 1, queue)
    held = get(connection, "q")
    seen: list[int] = []

    def callback(body, message):
        message.ack()
        seen.append(body)

    with kombu.Consumer(connection, [queue], callbacks=[callback]):
        server.restart()
        publish(connection, 2, queue)
        connection.drain_events(timeout=WAIT)
        held.ack()
    assert seen == [2]
    assert info(connection, "q").messages == 0
    connection.release()


@pytest.mark.parametrize(
    "given, url, shown",
    [
        ("mqredis://", "redis://localhost:6379/0", "mqredis://:**@localhost:6379//"),
        ("mqredis://h:1/2", "redis://h:1/2", "mqredis://:**@h:1/2"),
        ("mqredis://u:p%2Fw@h/2", "redis://u:p%2Fw@h:6379/2", "mqredis://u:**@h:6379/2"),
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
    ],
)
def test_addresses(given, url, shown):
    connection = kombu.Connection(given)
    assert connection.transport.url() == url
    assert connection.as_uri() == shown
    if "+" in given:
        assert connection.as_uri(include_password=True) == given


def test_the_ssl_setting():
    connection = kombu.Connection("mqredis://h/1", ssl={"ssl_ca_certs": "/ca.pem"})
    assert connection.transport.url() == "rediss://h:6379/1?ssl_ca_certs=%2Fca.pem"
