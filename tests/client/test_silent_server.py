"""A server that accepts connections and does not reply, or only greets: calls fail within a bounded time."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import mqredis
import mqredis.asyncio
from mqredis import BrokerUnavailable, IoTimeout, OutcomeUnknown, Settings
from mqredis.drivers.attempt import Attempt
from tests.support.faults import BlackHole
from tests.support.proxy import Proxy
from tests.support.server import RedisServer

RETRY, REPLY = 0.3, 0.2
SETTINGS = Settings(retry_seconds=RETRY, reply_timeout_seconds=REPLY, allow_volatile=True)
# Seconds that a busy machine may add to the bound.
SLACK = 1.5
TIMEOUT = 0.2
Connect = Callable[..., Any]
# Commands that run a script.
SCRIPTS = {"EVALSHA", "FCALL", "FCALL_RO"}


@pytest.fixture
def server(start_server: Callable[..., RedisServer]) -> Iterator[RedisServer]:
    server = start_server()
    yield server
    os.kill(server.pid, signal.SIGCONT)


# Calls on a queue whose only message is locked, each with the seconds that it may wait for a message.
CALLS: dict[str, tuple[Callable[[Any, Any], Any], float]] = {
    "receive": (lambda queue, _: queue.receive(0), 0),
    "receive and wait": (lambda queue, _: queue.receive(TIMEOUT), TIMEOUT),
    "peek": (lambda queue, _: queue.peek(0), 0),
    "lock": (lambda queue, _: queue.lock(0), 0),
    "lock_many": (lambda queue, _: queue.lock_many(5, TIMEOUT), TIMEOUT),
    "commit": (lambda _, lock: lock.commit(), 0),
    "send": (lambda queue, _: queue.send(b"x"), 0),
}


@contextmanager
def in_time(timeout: float) -> Iterator[None]:
    """Check that the call in the block, which gets no reply, fails in time."""
    began = time.monotonic()
    with pytest.raises((BrokerUnavailable, OutcomeUnknown), match="no reply came in time"):
        yield
    assert time.monotonic() - began < timeout + RETRY + REPLY + SLACK


@contextmanager
def unanswered(server: RedisServer, timeout: float) -> Iterator[None]:
    """Check that the call in the block, which gets no reply, fails in time."""
    os.kill(server.pid, signal.SIGSTOP)
    with in_time(timeout):
        yield
    os.kill(server.pid, signal.SIGCONT)


@contextmanager
def greeted_only(proxy: Proxy, timeout: float) -> Iterator[None]:
    """Check that the call in the block, whose connections are greeted but whose scripts get no reply, fails in time."""
    proxy.cut_all()
    rule = proxy.add(BlackHole(), where=lambda request: request.command in SCRIPTS, times=None)
    with in_time(timeout):
        yield
    assert rule.hits
    proxy.clear()
    proxy.cut_all()


@pytest.fixture
def proxy(server: RedisServer) -> Iterator[Proxy]:
    with Proxy(server.socket_path) as proxy:
        yield proxy


@pytest.fixture
def mute() -> Iterator[str]:
    """The URL of a server that never replies."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"redis://127.0.0.1:{listener.getsockname()[1]}/0"


@contextmanager
def holding(connect: Connect, url: str) -> Iterator[tuple[Any, Any]]:
    """A queue, and a lock on its message."""
    with connect(url, settings=SETTINGS) as qm:
        qm.create_queue("q")
        queue = qm.open("q")
        queue.send(b"x")
        yield queue, queue.lock(0)


@pytest.mark.parametrize("name", CALLS)
def test_call_without_reply_fails_in_time(connect_either: Connect, server: RedisServer, name: str) -> None:
    call, timeout = CALLS[name]
    with holding(connect_either, server.url) as held, unanswered(server, timeout):
        call(*held)


@pytest.mark.parametrize("name", CALLS)
def test_call_whose_script_gets_no_reply_fails_in_time(
    connect_either: Connect, proxy: Proxy, name: str
) -> None:
    call, timeout = CALLS[name]
    with holding(connect_either, proxy.url()) as held, greeted_only(proxy, timeout):
        call(*held)


@pytest.fixture
def deadlines(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Until when each call is tried, in the order of the calls. None is tried for longer than ``RETRY``."""
    found: list[float] = []
    plain = Attempt.__init__

    def noted(self: Attempt, *what: Any) -> None:
        plain(self, *what)
        assert self.deadline <= time.monotonic() + RETRY
        found.append(self.deadline)

    monkeypatch.setattr(Attempt, "__init__", noted)
    return found


@pytest.mark.parametrize("seconds", [0.05, 2 * RETRY])
def test_calls_of_a_request_have_one_deadline(
    connect_either: Connect, server: RedisServer, deadlines: list[float], seconds: float
) -> None:
    with holding(connect_either, server.url) as (queue, _):
        deadlines.clear()
        began = time.monotonic()
        with pytest.raises(IoTimeout):
            queue.manager.request(queue, b"x", timeout=seconds)
        assert len(deadlines) > 3
        longest = max(seconds + REPLY, RETRY)  # the wait ends with calls, which need a reply
        assert began + RETRY <= min(deadlines) <= max(deadlines) <= time.monotonic() + longest - seconds


def test_first_call_without_reply_fails_in_time(connect_either: Connect, mute: str) -> None:
    with in_time(0), connect_either(mute, settings=SETTINGS) as qm:
        qm.open("q").receive(0)


def test_close_does_not_wait_for_an_unresponsive_server(server: RedisServer) -> None:
    qm = mqredis.connect(server.url, settings=SETTINGS.model_copy(update={"reply_timeout_seconds": 1.0}))
    qm.create_queue("q")
    os.kill(server.pid, signal.SIGSTOP)
    with pytest.raises(OutcomeUnknown):
        qm.open("q").send(b"x")
    began = time.monotonic()
    qm.close()
    assert time.monotonic() - began < 0.9
