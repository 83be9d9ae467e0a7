"""Consumers: prefetch, turns, waiting, kombu's event loop, queues and servers that go away under them."""

from __future__ import annotations

import socket
import threading
from typing import Any

import kombu
import pytest
from kombu.asynchronous.hub import Hub

from tests.drivers.kit import until
from tests.transport.kit import WAIT, get, info, publish


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
        reading.transport._fetcher.update()  # the hub never runs: the thread fetches, and no message is delivered
        publish(sending, 1, queue)
        until(lambda: info(sending, "q").locked == 1)
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
