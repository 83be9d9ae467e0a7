"""Waiting threads read the shared subscription in turns."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from redis import exceptions as rx

from mqredis.drivers.net.blocking import SocketConnection
from mqredis.drivers.sync import Driver
from mqredis.drivers.waiting.reader import SubscriptionReader, WakeFlag
from tests.drivers.kit import FAST, put, take
from tests.support.server import RedisServer
from tests.support.until import until

_HELLO = b"+hello\r\n"
_LONG = 30.0


class Interrupt(BaseException):
    """Stands for KeyboardInterrupt, which pytest would handle itself."""


class ReaderFixture:
    """A SubscriptionReader on a socket pair, with the messages it received and the thread of each."""

    def __init__(self) -> None:
        self.received: list[tuple[Any, int]] = []
        self.lost = threading.Event()
        self.reader = SubscriptionReader(self.lost.set)
        self.reader.received = self._note
        self.raises: BaseException | None = None
        self._sockets: list[socket.socket] = []

    def connect(self) -> tuple[SocketConnection, socket.socket]:
        ours, theirs = socket.socketpair()
        self._sockets += [ours, theirs]
        return SocketConnection(ours, None), theirs

    def _note(self, message: Any) -> None:
        self.received.append((message, threading.get_ident()))
        if self.raises is not None:
            raise self.raises

    def close(self) -> None:
        self.reader.close()
        for one in self._sockets:
            one.close()


@pytest.fixture
def fixture() -> Iterator[ReaderFixture]:
    made = ReaderFixture()
    yield made
    made.close()


def reading(flag: WakeFlag) -> Callable[[], bool]:
    return lambda: flag.reading_thread != 0


def test_sleeping_thread_reads_the_subscription(fixture: ReaderFixture) -> None:
    conn, theirs = fixture.connect()
    fixture.reader.attach(conn)
    flag = fixture.reader.flag()
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(lambda: (fixture.reader.sleep(flag, _LONG), threading.get_ident()))
        until(reading(flag))
        theirs.sendall(_HELLO + _HELLO[:3])
        until(lambda: fixture.received)
        theirs.sendall(_HELLO[3:])
        until(lambda: len(fixture.received) == 2)
        flag.set()
        woken, thread = future.result(_LONG)
    assert woken
    assert fixture.received == [(b"hello", thread)] * 2
    assert fixture.reader._count == 2
    assert not fixture.lost.is_set()


def test_woken_thread_passes_the_reading_to_another(fixture: ReaderFixture) -> None:
    conn, theirs = fixture.connect()
    fixture.reader.attach(conn)
    first, second = fixture.reader.flag(), fixture.reader.flag()
    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(fixture.reader.sleep, first, _LONG)
        until(reading(first))
        two = pool.submit(fixture.reader.sleep, second, _LONG)
        until(lambda: second in fixture.reader._sleepers)
        first.set()
        assert one.result(_LONG)
        until(reading(second))
        theirs.sendall(_HELLO)
        until(lambda: fixture.received)
        second.set()
        assert two.result(_LONG)


def test_thread_whose_sleep_timed_out_passes_the_reading_to_another(fixture: ReaderFixture) -> None:
    conn, _ = fixture.connect()
    fixture.reader.attach(conn)
    second = fixture.reader.flag()
    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(fixture.reader.sleep, fixture.reader.flag(), 0.05)
        two = pool.submit(fixture.reader.sleep, second, _LONG)
        assert not one.result(_LONG)
        until(reading(second))
        second.set()
        assert two.result(_LONG)


def test_thread_sleeping_without_a_connection_reads_the_next_one(fixture: ReaderFixture) -> None:
    flag = fixture.reader.flag()
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(fixture.reader.sleep, flag, _LONG)
        until(lambda: flag in fixture.reader._sleepers)
        conn, theirs = fixture.connect()
        fixture.reader.attach(conn)
        until(reading(flag))
        theirs.close()
        until(fixture.lost.is_set)
        until(lambda: not flag.reading_thread)
        new, other = fixture.connect()
        fixture.reader.attach(new)
        other.sendall(_HELLO)
        until(lambda: fixture.received)
        flag.set()
        assert future.result(_LONG)


def test_failure_of_a_replaced_connection_is_ignored(fixture: ReaderFixture) -> None:
    old, theirs = fixture.connect()
    new, _ = fixture.connect()
    fixture.reader.attach(old)
    fixture.reader.attach(new)
    theirs.close()
    fixture.reader._receive(old)
    assert not fixture.lost.is_set()
    assert fixture.reader._claim_reading(fixture.reader.flag()) is new


def test_messages_that_arrive_while_no_thread_sleeps_are_drained(fixture: ReaderFixture) -> None:
    conn, theirs = fixture.connect()
    fixture.reader.attach(conn)
    theirs.sendall(_HELLO)
    fixture.reader.drain_pending()
    fixture.reader.drain_pending()
    assert [message for message, _ in fixture.received] == [b"hello"]
    theirs.close()
    fixture.reader.drain_pending()
    assert fixture.lost.is_set()


def test_interrupted_thread_drops_the_connection(fixture: ReaderFixture) -> None:
    conn, theirs = fixture.connect()
    fixture.reader.attach(conn)
    fixture.raises = Interrupt()
    theirs.sendall(_HELLO)
    with pytest.raises(Interrupt):
        fixture.reader.sleep(fixture.reader.flag(), _LONG)
    assert fixture.lost.is_set()
    assert fixture.reader._reader is None
    assert not fixture.reader._sleepers


def test_connection_error_is_not_raised_in_the_sleeping_thread(fixture: ReaderFixture) -> None:
    conn, theirs = fixture.connect()
    fixture.reader.attach(conn)
    fixture.raises = rx.ConnectionError("no")
    theirs.sendall(_HELLO)
    assert not fixture.reader.sleep(fixture.reader.flag(), 0.05)
    assert fixture.lost.is_set()


def test_signal_handler_may_set_the_flag_of_the_thread_it_interrupts(fixture: ReaderFixture) -> None:
    conn, _ = fixture.connect()
    fixture.reader.attach(conn)
    flag = fixture.reader.flag()
    old = signal.signal(signal.SIGUSR1, lambda *_: flag.set())
    main = threading.get_ident()
    try:
        with ThreadPoolExecutor(1) as pool:

            def send_signal() -> None:
                until(reading(flag))
                signal.pthread_kill(main, signal.SIGUSR1)

            interrupted_by_signal = pool.submit(send_signal)
            assert fixture.reader.sleep(flag, _LONG)
            interrupted_by_signal.result(_LONG)
    finally:
        signal.signal(signal.SIGUSR1, old)


def test_set_flag_ends_the_sleep_until_cleared(fixture: ReaderFixture) -> None:
    flag = fixture.reader.flag()
    flag.set()
    flag.set()
    assert fixture.reader.sleep(flag, 0.0)
    flag.clear()
    assert not fixture.reader.sleep(flag, 0.02)


def test_close_closes_the_wake_pipe(fixture: ReaderFixture) -> None:
    conn, _ = fixture.connect()
    fixture.reader.attach(conn)
    pipe = fixture.reader._pipe
    assert pipe is not None
    fixture.reader.close()
    for end in pipe:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(end)


def test_notification_is_read_by_the_thread_it_wakes(
    redis_server: RedisServer, connect: Callable[..., Driver], monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = connect(redis_server.url, FAST.model_copy(update={"recheck_seconds": 60.0}))
    other = connect(redis_server.url)
    table, received = driver._waiters.table, []
    plain = table.received

    def note(message: Any) -> None:
        if message[0] == b"message":
            received.append(threading.get_ident())
        plain(message)

    with ThreadPoolExecutor(1) as pool:
        thread = pool.submit(threading.get_ident).result(_LONG)
        for _ in range(5):
            future = pool.submit(driver.run, take(driver.core.keys))
            until(lambda: len(table.waits) == 1)
            # Only now: the first wait also tests the wake mode.
            monkeypatch.setattr(driver._waiters._reader, "received", note)
            other.run(put(driver.core.keys))
            assert future.result(_LONG) == "taken"
    assert received == [thread] * 5
