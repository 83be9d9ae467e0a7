"""The thread that fetches for kombu's event loop: errors, late results, changed consumers."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any

import kombu
import pytest
from kombu.asynchronous.hub import Hub

from mqredis.kombu import fetcher as module
from mqredis.kombu.fetcher import Fetcher
from mqredis.kombu.locks import Locks
from mqredis.kombu.transport import Transport
from tests.support.until import until
from tests.transport.kit import WAIT, get, info, publish


@contextlib.contextmanager
def fetching(connection: Any) -> Iterator[Fetcher]:
    """The fetcher of a connection. Its hub never runs: the test calls what the hub's thread would."""
    hub = Hub()
    connection.register_with_event_loop(hub)
    fetcher: Fetcher = connection.transport._fetcher
    fetcher.update()
    try:
        yield fetcher
    finally:
        connection.release()
        hub.close()


@contextlib.contextmanager
def one_fetched(reading: Any, sending: Any, queue: Any) -> Iterator[tuple[Fetcher, list[Any]]]:
    """The fetcher of a connection that has fetched the body 1, and a list to which the consumer appends bodies."""
    seen: list[Any] = []
    with (
        kombu.Consumer(reading, [queue], callbacks=[lambda body, _: seen.append(body)]),
        fetching(reading) as fetcher,
    ):
        publish(sending, 1, queue)
        until(lambda: fetcher._inbox)
        yield fetcher, seen


def test_error_in_the_fetcher_thread_is_raised_in_the_event_loop(connect, queue, monkeypatch):
    reading, sending = connect(), connect()
    seen: list[int] = []
    fetch = module.fetch
    errors = [RuntimeError("broken")]

    def broken(*given: Any) -> Any:
        if errors:
            raise errors.pop()
        return fetch(*given)

    monkeypatch.setattr(module, "fetch", broken)
    with (
        kombu.Consumer(reading, [queue], callbacks=[lambda body, _: seen.append(body)]),
        fetching(reading) as fetcher,
    ):
        until(lambda: fetcher._inbox)
        with pytest.raises(RuntimeError, match="broken"):
            fetcher.deliver()
        fetcher.update()
        publish(sending, 1, queue)
        until(fetcher.deliver)
    assert seen == [1]


def test_deleted_queue_is_recreated_in_the_event_loop_thread(connect, queue, monkeypatch):
    reading, sending = connect(), connect()
    threads: list[threading.Thread] = []
    recreate = Transport._recreate

    def watched(*given: Any) -> None:
        threads.append(threading.current_thread())
        recreate(*given)

    monkeypatch.setattr(Transport, "_recreate", watched)
    with kombu.Consumer(reading, [queue], callbacks=[print]), fetching(reading) as fetcher:
        sending.connect()
        sending.default_channel.queue_delete("q")
        until(lambda: fetcher._inbox)
        assert threads == []
        assert not fetcher.deliver()
        assert threads == [threading.current_thread()]
        assert info(sending, "q").messages == 0


def test_message_fetched_after_close_is_released(connect, queue, monkeypatch):
    reading, sending = connect(), connect()
    fetched, ended = threading.Event(), threading.Event()
    fetch = module.fetch

    def late(*given: Any) -> Any:
        found = fetch(*given)
        fetched.set()
        assert ended.wait(WAIT)
        return found

    monkeypatch.setattr(module, "fetch", late)
    with kombu.Consumer(reading, [queue], callbacks=[print]), fetching(reading) as fetcher:
        publish(sending, 1, queue)
        assert fetched.wait(WAIT)
        join = fetcher._thread.join
        monkeypatch.setattr(fetcher._thread, "join", lambda _: None)
        fetcher.close()
        assert info(sending, "q").locked == 1
        ended.set()
        join(WAIT)
        assert (info(sending, "q").ready, info(sending, "q").locked) == (1, 0)


def test_fetched_message_goes_to_the_channel_that_consumes_now(connect, queue):
    reading, sending = connect(), connect()
    seen: list[Any] = []
    one, other = reading.channel(), reading.channel()
    consumer = kombu.Consumer(one, [queue], callbacks=[print])
    consumer.consume()
    with fetching(reading) as fetcher:
        publish(sending, 1, queue)
        until(lambda: fetcher._inbox)
        consumer.cancel()
        with kombu.Consumer(other, [queue], callbacks=[lambda _, message: seen.append(message)], no_ack=True):
            assert fetcher.deliver()
        assert [message.channel for message in seen] == [other]
        until(lambda: info(sending, "q").messages == 0)


def test_fetched_message_without_a_consumer_is_released(connect, queue):
    reading, sending = connect(), connect()
    consumer = kombu.Consumer(reading, [queue], callbacks=[print])
    consumer.consume()
    with fetching(reading) as fetcher:
        publish(sending, 1, queue)
        until(lambda: fetcher._inbox)
        consumer.cancel()
        fetcher.deliver()
        assert info(sending, "q").ready == 1


def test_messages_after_a_failing_callback_are_released(connection, queue):
    for body in range(3):
        publish(connection, body, queue)

    def callback(body: int, _: Any) -> None:
        raise RuntimeError(f"not {body}")

    with kombu.Consumer(connection, [queue], callbacks=[callback]):
        with pytest.raises(RuntimeError, match="not 0"):
            connection.drain_events(timeout=WAIT)
        assert (info(connection, "q").ready, info(connection, "q").locked) == (2, 1)


def test_lease_of_a_fetched_message_is_renewed(connect, queue, monkeypatch):
    """The event loop may be busy for longer than the lease, for example with a task in the solo pool."""
    renewed = threading.Semaphore(0)
    extend = Locks._extend

    def counting(*given: Any) -> None:
        extend(*given)
        renewed.release()

    monkeypatch.setattr(Locks, "_extend", counting)
    reading, other = connect(lease=2), connect()
    with one_fetched(reading, other, queue) as (fetcher, seen):
        for _ in range(4):  # each after a third of the lease: longer than the lease in total
            assert renewed.acquire(timeout=10)
        assert get(other, "q") is None
        assert fetcher.deliver()
    assert seen == [1]


def test_fetched_message_whose_lease_has_lapsed_is_not_delivered(connect, queue, monkeypatch):
    reading, other = connect(lease=100), connect()
    with one_fetched(reading, other, queue) as (fetcher, seen):
        now = time.monotonic()
        with monkeypatch.context() as later:
            later.setattr(time, "monotonic", lambda: now + 101)
            fetcher.deliver()
        assert (seen, info(other, "q").ready) == ([], 1)


@pytest.mark.parametrize("others", [False, True])
def test_auto_delete_queue_is_deleted_although_its_fetcher_still_waits(connect, monkeypatch, others):
    reading, other = connect(), connect()
    queue = kombu.Queue("own", auto_delete=True)
    consumer = kombu.Consumer(reading, [queue], callbacks=[print])
    consumer.consume()
    other.connect()
    with fetching(reading):
        until(lambda: info(other, "own").waiters == 1)
        if others:
            get(other, "own")
        with monkeypatch.context() as slow:
            slow.setattr(reading.transport.store.manager.driver, "cancel", lambda _: None)
            consumer.cancel()
        assert [each.name for each in other.transport.store.manager.queues("own")] == ["own"] * others


def test_fetch_through_a_handle_that_was_closed_meanwhile_finds_nothing(connection, queue):
    publish(connection, 1, queue)
    connection.transport.store.source("q").close()
    assert module.fetch(connection.transport, [("q", 1)], 0, object(), lambda: False) is None


def test_threads_that_change_limits_at_once_do_not_disturb_each_other(connection, monkeypatch):
    """One thread acknowledges a message while another one computes what to fetch."""
    transport = connection.connection
    seen: list[Any] = []
    for name in ("one", "two"):
        channel = connection.channel()
        channel.basic_qos(prefetch_count=1)
        queue = kombu.Queue(name, routing_key=name)
        kombu.Consumer(channel, [queue], callbacks=[lambda _, message: seen.append(message)]).consume()
    publish(connection, 1, kombu.Queue("one", routing_key="one"))
    connection.drain_events(timeout=WAIT)
    assert transport.requests() == [("two", 1)]

    def in_another_thread() -> None:
        seen.pop().ack()
        transport.requests()
        transport.deliver("two", [])

    other = threading.Thread(target=in_another_thread)
    update = transport._order.update

    def interrupted(queues: list[str]) -> None:
        update(queues)
        if seen:
            other.start()
            until(lambda: transport._turns.locked() or not other.is_alive())

    monkeypatch.setattr(transport._order, "update", interrupted)
    assert transport.requests() == [("two", 1)]
    other.join(WAIT)
    assert transport.requests() == [("one", 1), ("two", 1)]


def test_end_of_a_consumer_does_not_wait_while_another_thread_opens_a_queue(connection, monkeypatch):
    store = connection.default_channel.store
    for name in ("slow", "work"):
        store.declare(name)
    store.source("work")
    opening, opened = threading.Event(), threading.Event()
    open_queue = store.manager.open

    def slow(*given: Any) -> Any:
        opening.set()
        assert opened.wait(WAIT)
        return open_queue(*given)

    monkeypatch.setattr(store.manager, "open", slow)
    thread = threading.Thread(target=store.source, args=["slow"])
    thread.start()
    try:
        assert opening.wait(WAIT)
        ending = threading.Thread(target=store.stop_reading, args=["work"], daemon=True)
        ending.start()
        ending.join(2)
        assert not ending.is_alive()
    finally:
        opened.set()
        thread.join(WAIT)


def test_two_threads_that_open_a_queue_at_once_share_one_handle(connection, monkeypatch):
    store = connection.default_channel.store
    store.declare("work")
    together = threading.Barrier(2)
    open_queue = store.manager.open

    def both(*given: Any) -> Any:
        with contextlib.suppress(threading.BrokenBarrierError):
            together.wait(2)
        return open_queue(*given)

    monkeypatch.setattr(store.manager, "open", both)
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(store.source("work"))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)
    assert found[0] is found[1] is store.source("work")
    assert info(connection, "work").receivers == 1
