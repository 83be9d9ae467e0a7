"""Consumers: prefetch, round robin, waiting, kombu's event loop, deleted queues and restarted servers."""

from __future__ import annotations

import socket
import threading
from contextlib import nullcontext
from typing import Any

import kombu
import pytest
from kombu.asynchronous.hub import Hub

from tests.support.until import until
from tests.transport.kit import WAIT, get, info, publish


def test_prefetch_count_limits_unacknowledged_messages(connection, queue):
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


def test_waiting_consumer_is_woken(connect, queue):
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


def test_queues_are_read_in_turn(connection):
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


def test_event_loop_delivers_messages(connect, queue):
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


def test_undelivered_messages_are_released_with_the_connection(connect, queue):
    reading, sending = connect(), connect()
    hub = Hub()
    with kombu.Consumer(reading, [queue], callbacks=[print]):
        reading.register_with_event_loop(hub)
        reading.transport._fetcher.update()  # the hub never runs: the thread fetches, and no message is delivered
        publish(sending, 1, queue)
        until(lambda: info(sending, "q").locked == 1)
        reading.release()
        hub.close()
    assert info(sending, "q").ready == 1


def test_consumed_queue_is_recreated_after_its_deletion(connect):
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


def test_recreated_queue_has_the_declared_arguments(connect):
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead", "x-message-ttl": 60_000}
    queue = kombu.Queue("q", routing_key="q", queue_arguments={**arguments, "x-delivery-limit": 3})
    reading, sending = connect(), connect()
    with kombu.Consumer(reading, [queue], callbacks=[print]):
        before = info(sending, "q")
        sending.default_channel.queue_delete("q")
        with pytest.raises(socket.timeout):
            reading.drain_events(timeout=0.1)
        after = info(sending, "q")
    assert "ttl_ms" in before.label
    assert before.retry is not None
    assert (after.label, after.retry) == (before.label, before.retry)


@pytest.mark.parametrize("ends", ["by an error", "by a cancellation"])
def test_messages_without_acknowledgement_are_not_lost_when_consumption_ends(connect, queue, ends):
    reading, sending = connect(), connect()
    for body in range(4):
        publish(sending, body, queue)
    seen: list[int] = []

    def callback(body, message):
        seen.append(body)
        if body == 1 and ends == "by an error":
            raise RuntimeError("no")
        if body == 1:
            consumer.cancel()

    consumer = kombu.Consumer(reading, [queue], callbacks=[callback], no_ack=True)
    consumer.consume()
    with pytest.raises(RuntimeError) if ends == "by an error" else nullcontext():
        reading.drain_events(timeout=WAIT)
    assert (seen, info(sending, "q").locked) == ([0, 1], 0)
    assert [get(sending, "q").payload for _ in range(2)] == [2, 3]


def test_consumer_continues_after_a_server_restart(start_server, queue):
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


def test_queue_is_not_read_for_a_consumer_whose_callback_kombu_has_dropped(connection, queue):
    """kombu has one callback for each queue of a connection, and drops it when any of its consumers ends."""
    with kombu.Consumer(connection.channel(), [queue], callbacks=[print]):
        kombu.Consumer(connection.channel(), [queue], callbacks=[print]).consume()
    publish(connection, 1, queue)
    with pytest.raises(socket.timeout):  # and not an endless exchange of locks
        connection.drain_events(timeout=0.1)
