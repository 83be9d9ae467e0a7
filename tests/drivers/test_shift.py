"""Who reads the subscription: threads that sleep do, in turns."""

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

from mqredis.drivers import Driver
from mqredis.drivers.net.blocking import SocketConnection
from mqredis.drivers.shift import Alarm, Shift
from tests.drivers.kit import FAST, put, take, until
from tests.support.server import RedisServer

_HELLO = b"+hello\r\n"
_LONG = 30.0


class Interrupt(BaseException):
    """Like KeyboardInterrupt, which pytest would take for the user's."""


class Line:
    """A shift with a connection whose other end is ours, and what it has heard in which thread."""

    def __init__(self) -> None:
        self.heard: list[tuple[Any, int]] = []
        self.lost = threading.Event()
        self.shift = Shift(self.lost.set)
        self.shift.heard = self._hear
        self.raises: BaseException | None = None
        self._sockets: list[socket.socket] = []

    def connect(self) -> tuple[SocketConnection, socket.socket]:
        ours, theirs = socket.socketpair()
        self._sockets += [ours, theirs]
        return SocketConnection(ours, None), theirs

    def _hear(self, message: Any) -> None:
        self.heard.append((message, threading.get_ident()))
        if self.raises is not None:
            raise self.raises

    def close(self) -> None:
        self.shift.close()
        for one in self._sockets:
            one.close()


@pytest.fixture
def line() -> Iterator[Line]:
    made = Line()
    yield made
    made.close()


def reading(alarm: Alarm) -> Callable[[], bool]:
    return lambda: alarm.reader != 0


def test_the_one_who_sleeps_reads(line: Line) -> None:
    ear, theirs = line.connect()
    line.shift.attach(ear)
    alarm = line.shift.alarm()
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(lambda: (line.shift.sleep(alarm, _LONG), threading.get_ident()))
        until(reading(alarm))
        theirs.sendall(_HELLO + _HELLO[:3])
        until(lambda: line.heard)
        theirs.sendall(_HELLO[3:])
        until(lambda: len(line.heard) == 2)
        alarm.set()
        woken, thread = future.result(_LONG)
    assert woken
    assert line.heard == [(b"hello", thread)] * 2
    assert line.shift.news == 2
    assert not line.lost.is_set()


def test_who_leaves_hands_the_reading_over(line: Line) -> None:
    ear, theirs = line.connect()
    line.shift.attach(ear)
    first, second = line.shift.alarm(), line.shift.alarm()
    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(line.shift.sleep, first, _LONG)
        until(reading(first))
        two = pool.submit(line.shift.sleep, second, _LONG)
        until(lambda: second in line.shift._sleepers)
        first.set()
        assert one.result(_LONG)
        until(reading(second))
        theirs.sendall(_HELLO)
        until(lambda: line.heard)
        second.set()
        assert two.result(_LONG)


def test_time_that_is_over_hands_it_over_too(line: Line) -> None:
    ear, _ = line.connect()
    line.shift.attach(ear)
    second = line.shift.alarm()
    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(line.shift.sleep, line.shift.alarm(), 0.05)
        two = pool.submit(line.shift.sleep, second, _LONG)
        assert not one.result(_LONG)
        until(reading(second))
        second.set()
        assert two.result(_LONG)


def test_who_sleeps_without_a_connection_reads_the_next_one(line: Line) -> None:
    alarm = line.shift.alarm()
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(line.shift.sleep, alarm, _LONG)
        until(lambda: alarm in line.shift._sleepers)
        ear, theirs = line.connect()
        line.shift.attach(ear)
        until(reading(alarm))
        theirs.close()
        until(line.lost.is_set)
        until(lambda: not alarm.reader)
        new, other = line.connect()
        line.shift.attach(new)
        other.sendall(_HELLO)
        until(lambda: line.heard)
        alarm.set()
        assert future.result(_LONG)


def test_an_old_connection_that_fails_late_is_no_loss(line: Line) -> None:
    old, theirs = line.connect()
    new, _ = line.connect()
    line.shift.attach(old)
    line.shift.attach(new)
    theirs.close()
    line.shift._hear(old)
    assert not line.lost.is_set()
    assert line.shift._turn(line.shift.alarm()) is new


def test_what_came_while_nobody_slept_is_gleaned(line: Line) -> None:
    ear, theirs = line.connect()
    line.shift.attach(ear)
    theirs.sendall(_HELLO)
    line.shift.glean()
    line.shift.glean()
    assert [message for message, _ in line.heard] == [b"hello"]
    theirs.close()
    line.shift.glean()
    assert line.lost.is_set()


def test_who_is_interrupted_while_it_hears_gives_the_connection_up(line: Line) -> None:
    ear, theirs = line.connect()
    line.shift.attach(ear)
    line.raises = Interrupt()
    theirs.sendall(_HELLO)
    with pytest.raises(Interrupt):
        line.shift.sleep(line.shift.alarm(), _LONG)
    assert line.lost.is_set()
    assert line.shift._reader is None
    assert not line.shift._sleepers


def test_an_error_of_the_connection_is_not_the_sleepers(line: Line) -> None:
    ear, theirs = line.connect()
    line.shift.attach(ear)
    line.raises = rx.ConnectionError("no")
    theirs.sendall(_HELLO)
    assert not line.shift.sleep(line.shift.alarm(), 0.05)
    assert line.lost.is_set()


def test_a_signal_may_raise_the_alarm_of_the_thread_it_meets(line: Line) -> None:
    ear, _ = line.connect()
    line.shift.attach(ear)
    alarm = line.shift.alarm()
    old = signal.signal(signal.SIGUSR1, lambda *_: alarm.set())
    main = threading.get_ident()
    try:
        with ThreadPoolExecutor(1) as pool:

            def strike() -> None:
                until(reading(alarm))
                signal.pthread_kill(main, signal.SIGUSR1)

            struck = pool.submit(strike)
            assert line.shift.sleep(alarm, _LONG)
            struck.result(_LONG)
    finally:
        signal.signal(signal.SIGUSR1, old)


def test_an_alarm_that_is_up_needs_no_sleep_and_one_that_was_raised_twice_rings_once(line: Line) -> None:
    alarm = line.shift.alarm()
    alarm.set()
    alarm.set()
    assert line.shift.sleep(alarm, 0.0)
    alarm.clear()
    assert not line.shift.sleep(alarm, 0.02)


def test_nothing_stays_open(line: Line) -> None:
    ear, _ = line.connect()
    line.shift.attach(ear)
    pipe = line.shift._pipe
    assert pipe is not None
    line.shift.close()
    for end in pipe:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(end)


def test_a_bell_is_heard_by_the_thread_it_rings_for(
    redis_server: RedisServer, connect: Callable[..., Driver], monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = connect(redis_server.url, FAST.model_copy(update={"recheck_seconds": 60.0}))
    other = connect(redis_server.url)
    board, heard = driver._hub.board, []
    plain = board.heard

    def note(message: Any) -> None:
        if message[0] == b"message":
            heard.append(threading.get_ident())
        plain(message)

    with ThreadPoolExecutor(1) as pool:
        thread = pool.submit(threading.get_ident).result(_LONG)
        for _ in range(5):
            future = pool.submit(driver.run, take(driver.core.keys))
            until(lambda: len(board.waits) == 1)
            monkeypatch.setattr(
                driver._hub._shift, "heard", note
            )  # the trial of the first wait has been heard
            other.run(put(driver.core.keys))
            assert future.result(_LONG) == "taken"
    assert heard == [thread] * 5
