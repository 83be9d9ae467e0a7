"""A thread may be interrupted anywhere (Ctrl-C, a worker's time limit): the next call gets its own reply all the same.

No timer decides where: an exception is raised at the first line that a call executes, then at the second, and so on
until a call is through; and a signal comes exactly while a call waits for its reply.
"""

from __future__ import annotations

import gc
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import FrameType
from typing import Any

import pytest

from mqredis.drivers import core
from mqredis.drivers.aio import AsyncDriver
from mqredis.drivers.outcomes import UnknownOutcomes
from mqredis.drivers.session import Session
from mqredis.drivers.sync import Driver
from mqredis.errors import MqError
from mqredis.steps import Call, perform
from tests.drivers.kit import FAST, add, read, take
from tests.support.faults import Hold, is_script
from tests.support.proxy import Proxy
from tests.support.server import RedisServer

# Paths of the modules whose lines are interrupted.
_TRACED_PATHS = ("/mqredis/", "/redis/", "/threading.py")


class Interrupt(BaseException):
    """Stands for KeyboardInterrupt, which would end pytest."""


class InterruptAtLine:
    """Trace function that raises Interrupt at the n-th executed line."""

    def __init__(self, lines: int) -> None:
        self.left = lines

    def __call__(self, frame: FrameType, event: str, arg: Any) -> Any:
        name = frame.f_code.co_filename
        # What is raised in a finalizer is lost, and so is a trace function that has raised.
        if not any(place in name for place in _TRACED_PATHS) or frame.f_code.co_name == "__del__":
            return None
        if event == "line":
            self.left -= 1
            if self.left == 0:
                raise Interrupt
        return self


@pytest.fixture
def ignore_unclosed_sockets() -> Iterator[None]:
    """A socket that was interrupted before it had an owner is closed by the garbage collector, which runs here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        yield
        gc.collect()


def echo(driver: Driver, word: str) -> str:
    call = Call(
        "read", driver.core.keys.call(), [word], lambda _, payload: payload[1].decode(), changes=False
    )
    return driver.run(perform(call))


def interrupted_at(driver: Driver, lines: int) -> bool:
    """Interrupt a call at its n-th line. Return False if the call ended before that line."""
    before = sys.gettrace()
    gc.disable()  # a finalizer that ran here would swallow the interrupt
    sys.settrace(InterruptAtLine(lines))
    try:
        driver.run(add(driver.core.keys))
    except Interrupt:
        return True
    except UnboundLocalError as error:  # redis-py before 7 stumbles in a `finally` of Connection.__init__
        return isinstance(error.__context__, Interrupt)
    finally:
        sys.settrace(before)
        gc.enable()
    return False


@pytest.mark.parametrize("fresh", [False, True], ids=["a connection in use", "a new connection"])
def test_call_after_an_interrupt_at_any_line_gets_its_own_reply(
    redis_server: RedisServer, connect: Callable[..., Driver], ignore_unclosed_sockets: None, fresh: bool
) -> None:
    driver = connect(redis_server.url, FAST.model_copy(update={"max_connections": 1000}))
    driver.run(add(driver.core.keys))
    calls = 1
    lines = 0
    while True:
        lines += 1
        if fresh:
            driver.backend.drop_idle()
        interrupted = interrupted_at(driver, lines)
        calls += 1
        assert echo(driver, f"w{lines}") == f"w{lines}", f"after an interrupt at line {lines}"
        if not interrupted:
            break
    assert lines > (200 if fresh else 60), "a call has more lines: the interrupts did not reach it"
    assert int(driver.run(read(driver.core.keys))) <= calls, "an interrupted call was carried out twice"


@pytest.mark.parametrize("running", [False, True], ids=["not started", "started"])
@pytest.mark.parametrize("number", [1, 2])
def test_driver_waits_again_and_closes_after_an_interrupt_while_its_threads_start(
    redis_server: RedisServer,
    connect: Callable[..., Driver],
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    running: bool,
) -> None:
    start = threading.Thread.start
    calls = 0

    def interrupt(thread: threading.Thread) -> None:
        nonlocal calls
        calls += 1
        if calls != number or running:
            start(thread)
        if calls == number:
            raise Interrupt

    driver = connect(redis_server.url)
    driver.run(add(driver.core.keys, 0))
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", interrupt)
        with pytest.raises(Interrupt):
            driver.run(take(driver.core.keys))
    assert driver.run(take(driver.core.keys, 0.001)) == "timed out"
    assert all(thread.is_alive() for thread in driver._waiters._threads)
    assert driver.wake_mode == "keyspace"
    driver.close()


def interrupted_by_signal(
    redis_server: RedisServer, connect: Callable[..., Driver], times: int, work: Callable[[Driver], object]
) -> Iterator[tuple[Driver, int]]:
    """Interrupt ``work`` by a signal ``times`` times, each time while its call waits for the reply."""

    def interrupt(*_: object) -> None:
        raise Interrupt

    before = signal.signal(signal.SIGUSR1, interrupt)
    main = threading.get_ident()
    try:
        with Proxy(redis_server.socket_path) as proxy:
            driver = connect(proxy.url(), FAST.model_copy(update={"reply_timeout_seconds": 60.0}))
            driver.run(add(driver.core.keys))
            for n in range(times):
                rule = proxy.add(Hold(reply=True), where=is_script)

                def send_signal(rule: Any = rule) -> None:
                    if rule.wait(60):
                        signal.pthread_kill(main, signal.SIGUSR1)

                thread = threading.Thread(target=send_signal)
                thread.start()
                with pytest.raises(Interrupt):
                    work(driver)
                thread.join()
                rule.release()
                yield driver, n
            assert int(driver.run(read(driver.core.keys))) == times + 1
            driver.close()
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_call_after_a_signal_during_the_wait_for_a_reply_gets_its_own_reply(
    redis_server: RedisServer, connect: Callable[..., Driver]
) -> None:
    for driver, n in interrupted_by_signal(
        redis_server, connect, 20, lambda driver: driver.run(add(driver.core.keys))
    ):
        assert echo(driver, f"w{n}") == f"w{n}"


def test_interrupted_close_closes_the_connections(url: str, connect: Callable[..., Driver]) -> None:
    driver = connect(url)
    driver.run(add(driver.core.keys))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver._waiters, "close", interrupt)
        with pytest.raises(Interrupt):
            driver.close()
    assert driver.backend._count == 0
    driver._waiters.close()


async def test_async_cancelled_close_closes_the_connections(
    url: str, aconnect: Callable[..., AsyncDriver]
) -> None:
    driver = aconnect(url)
    await driver.run(add(driver.core.keys))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver._waiters, "close", interrupt)
        with pytest.raises(Interrupt):
            await driver.close()
    assert driver.backend._count == 0
    await driver._waiters.close()


def interrupt(*_: object) -> None:
    raise Interrupt


def test_channel_is_subscribed_after_an_interrupt_before_its_subscription(
    url: str, connect: Callable[..., Driver]
) -> None:
    driver = connect(url)
    driver.run(take(driver.core.keys, 0.001))  # finds out the wake mode
    assert driver.core.session is not None
    driver.core.session.take()  # the next slot has no channel
    waiters = driver._waiters
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(waiters, "_subscribe", interrupt)
        with pytest.raises(Interrupt):
            driver.run(take(driver.core.keys))
    assert driver.run(take(driver.core.keys, 0.001)) == "timed out"
    assert all(wake.confirmed.is_set() for wake in waiters.table.by_slot.values())


async def test_async_channel_is_subscribed_after_a_cancellation_before_its_subscription(
    url: str, aconnect: Callable[..., AsyncDriver]
) -> None:
    driver = aconnect(url)
    await driver.run(take(driver.core.keys, 0.001))
    assert driver.core.session is not None
    driver.core.session.take()
    waiters = driver._waiters
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(waiters, "_subscribe", interrupt)
        with pytest.raises(Interrupt):
            await driver.run(take(driver.core.keys))
    assert await driver.run(take(driver.core.keys, 0.001)) == "timed out"
    assert all(wake.confirmed.is_set() for wake in waiters.table.by_slot.values())


class Handler:
    """A signal handler, which runs once, in the middle of what its thread does."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work
        self.runs = 0

    def __call__(self) -> None:
        self.runs += 1
        if self.runs == 1:
            self._work()


def while_a_wait_is_noted(driver: Driver, handler: Handler, patch: pytest.MonkeyPatch) -> None:
    class Waits(dict[Any, Any]):
        def __setitem__(self, run: Any, wait: Any) -> None:
            super().__setitem__(run, wait)
            handler()

    patch.setattr(driver._waiters.table, "waits", Waits())


def while_a_sleeper_is_noted(driver: Driver, handler: Handler, patch: pytest.MonkeyPatch) -> None:
    class Sleepers(dict[Any, Any]):
        def pop(self, *args: Any) -> Any:
            handler()
            return super().pop(*args)

    patch.setattr(driver._waiters._reader, "_sleepers", Sleepers())


def while_the_mode_is_found_out(driver: Driver, handler: Handler, patch: pytest.MonkeyPatch) -> None:
    note = driver._waiters._note_mode

    def noted(mode: str, run_id: str) -> None:
        handler()
        note(mode, run_id)

    patch.setattr(driver._waiters, "_note_mode", noted)
    driver._waiters.mode_name = ""


def while_a_session_begins(driver: Driver, handler: Handler, patch: pytest.MonkeyPatch) -> None:
    def session(number: str) -> Session:
        handler()
        return Session(number)

    driver.core.session = None
    patch.setattr(core, "Session", session)


@pytest.mark.parametrize(
    "moment",
    [
        while_a_wait_is_noted,
        while_a_sleeper_is_noted,
        while_the_mode_is_found_out,
        while_a_session_begins,
    ],
)
@pytest.mark.parametrize("closes", [True, False], ids=["closes", "waits"])
def test_signal_handler_may_use_the_client_at_any_moment(
    redis_server: RedisServer,
    connect: Callable[..., Driver],
    monkeypatch: pytest.MonkeyPatch,
    moment: Callable[[Driver, Handler, pytest.MonkeyPatch], None],
    closes: bool,
) -> None:
    driver = connect(redis_server.url)

    def wait() -> None:
        driver.run(take(driver.core.keys, seconds=0.01))

    wait()
    handler = Handler(driver.close if closes else wait)
    moment(driver, handler, monkeypatch)

    def work() -> None:
        with suppress(MqError):
            wait()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(30)
    assert not thread.is_alive(), "the thread waits for a lock that it holds"
    assert handler.runs


def test_signal_handler_may_note_an_unknown_outcome_at_any_moment() -> None:
    outcomes = UnknownOutcomes()

    class Tokens(list[str]):
        def append(self, token: str) -> None:
            super().append(token)
            if token == "1.0:1":
                outcomes.add("1.1:1")

    outcomes.tokens = Tokens()
    thread = threading.Thread(target=outcomes.add, args=("1.0:1",), daemon=True)
    thread.start()
    thread.join(30)
    assert not thread.is_alive(), "the thread waits for a lock that it holds"
    assert outcomes.tokens == ["1.0:1", "1.1:1"]
