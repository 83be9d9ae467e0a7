"""Sessions of clients that make no call which changes something."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

import mqredis
from mqredis import Access, IoTimeout, Settings, Share, SharingViolation
from tests.support.backend import Backend


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Moves the clock of this process."""
    passed = 0.0

    def move(seconds: float) -> None:
        nonlocal passed
        passed += seconds

    for module in ("attempt", "core", "session"):
        monkeypatch.setattr(f"mqredis.drivers.{module}.monotonic", lambda: time.monotonic() + passed)
    return move


@contextmanager
def clients(backend: Backend) -> Iterator[tuple[mqredis.QueueManager, mqredis.QueueManager]]:
    """A client, and one whose session ends 10 seconds after it was used last."""
    settings = Settings(test_clock=True, allow_volatile=True)
    short = settings.model_copy(update={"session_ttl_seconds": 10.0})
    with (
        mqredis.connect(backend.client(), settings=settings) as qm,
        mqredis.connect(backend.client(), settings=short) as other,
    ):
        yield qm, other


def test_client_that_only_reads_keeps_its_session(backend: Backend, later: Callable[[float], None]) -> None:
    with clients(backend) as (qm, reader):
        qm.create_queue("q")
        queue = reader.open("q", Access.PEEK, Share.DENY_RECEIVE)
        for _ in range(5):
            qm.advance_clock(6)
            later(6)
            with pytest.raises(IoTimeout):
                queue.peek(0)
        with pytest.raises(SharingViolation):
            qm.open("q", Access.RECEIVE)


def test_handles_of_a_client_that_is_gone_are_removed(backend: Backend) -> None:
    with clients(backend) as (qm, gone):
        qm.create_queue("q")
        qm.create_queue("r")
        for _ in range(500):  # one page
            qm.open("q")
        gone.open("r")
        raw, handles = backend.client(), qm.context.keys.admin().keys[3]
        assert raw.zcard(handles) == 501
        qm.advance_clock(11)
        qm.maintain()
        assert raw.zcard(handles) == 500


def test_sessions_in_use_do_not_hide_one_whose_time_is_over(backend: Backend) -> None:
    """A call looks at eight sessions, and the next call at others."""
    with clients(backend) as (qm, first), ExitStack() as stack:
        qm.create_queue("q")
        others = [first, *(stack.enter_context(clients(backend))[1] for _ in range(7))]
        queues = [other.open("q", Access.SEND) for other in others]
        qm.advance_clock(1)
        _, gone = stack.enter_context(clients(backend))
        gone.open("q", Access.PEEK, Share.DENY_RECEIVE)
        qm.advance_clock(9)
        for queue in queues:
            queue.send(b"a")
        qm.advance_clock(1)
        with pytest.raises(SharingViolation):
            qm.open("q", Access.RECEIVE)
        qm.open("q", Access.RECEIVE)
