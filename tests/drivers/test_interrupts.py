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
from types import FrameType
from typing import Any

import pytest

from mqredis.drivers.sync import Driver
from mqredis.steps import Call, perform
from tests.drivers.kit import FAST, add, read
from tests.support.faults import Hold
from tests.support.proxy import Proxy
from tests.support.server import RedisServer

# Frames in which an interrupt is tried: ours, redis-py's and those of the locks.
_PLACES = ("/mqredis/", "/redis/", "/threading.py")


class Interrupt(BaseException):
    """Like KeyboardInterrupt, which pytest would take for the user's."""


class Bomb:
    """Raises at the n-th line that is executed."""

    def __init__(self, lines: int) -> None:
        self.left = lines

    def __call__(self, frame: FrameType, event: str, arg: Any) -> Any:
        name = frame.f_code.co_filename
        # What is raised in a finalizer is lost, and so is a trace function that has raised.
        if not any(place in name for place in _PLACES) or frame.f_code.co_name == "__del__":
            return None
        if event == "line":
            self.left -= 1
            if self.left == 0:
                raise Interrupt
        return self


@pytest.fixture
def spared() -> Iterator[None]:
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


def defused(driver: Driver, lines: int) -> bool:
    """One call with an interrupt at this line: False once the call has no such line any more."""
    before = sys.gettrace()
    gc.disable()  # nor is the collector to run finalizers here, whose calls would swallow the interrupt
    sys.settrace(Bomb(lines))
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
def test_an_interrupted_thread_never_mixes_up_replies(
    redis_server: RedisServer, connect: Callable[..., Driver], spared: None, fresh: bool
) -> None:
    driver = connect(redis_server.url, FAST.model_copy(update={"max_connections": 1000}))
    driver.run(add(driver.core.keys))
    calls = 1
    lines = 0
    while True:
        lines += 1
        if fresh:
            driver.backend.drop_idle()
        interrupted = defused(driver, lines)
        calls += 1
        assert echo(driver, f"w{lines}") == f"w{lines}", f"after an interrupt at line {lines}"
        if not interrupted:
            break
    assert lines > (200 if fresh else 60), "a call is longer than that: the interrupts did not reach it"
    assert int(driver.run(read(driver.core.keys))) <= calls, "an interrupted call was carried out twice"


def struck(
    redis_server: RedisServer, connect: Callable[..., Driver], times: int, work: Callable[[Driver], object]
) -> Iterator[tuple[Driver, int]]:
    """A signal interrupts this work so often, each time exactly while its call waits for the reply."""

    def interrupt(*_: object) -> None:
        raise Interrupt

    before = signal.signal(signal.SIGUSR1, interrupt)
    main = threading.get_ident()
    try:
        with Proxy(redis_server.socket_path) as proxy:
            driver = connect(proxy.url(), FAST.model_copy(update={"reply_timeout_seconds": 60.0}))
            driver.run(add(driver.core.keys))
            for n in range(times):
                rule = proxy.add(Hold(reply=True), command="FCALL" if driver.core.functions else "EVALSHA")

                def strike(rule: Any = rule) -> None:
                    if rule.wait(60):
                        signal.pthread_kill(main, signal.SIGUSR1)

                thread = threading.Thread(target=strike)
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


def test_a_signal_while_a_call_waits_for_its_reply(
    redis_server: RedisServer, connect: Callable[..., Driver]
) -> None:
    for driver, n in struck(redis_server, connect, 20, lambda driver: driver.run(add(driver.core.keys))):
        assert echo(driver, f"w{n}") == f"w{n}"
