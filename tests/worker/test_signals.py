"""SIGTERM ends a worker at any moment: its handler must not wait for a lock that the main thread holds."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import pytest

from mqredis.worker import processes
from mqredis.worker.processes import Supervisor
from mqredis.worker.shutdown import Shutdown

# Where the signal meets the supervisor of two processes: before and behind the start of each, before and in its sleep.
MOMENTS = ("before 1", "behind 1", "before 2", "behind 2", "asleep 1", "asleep 2", "asleep 3")


def no_options(_number: int) -> tuple[str, ...]:
    """Return the options of a process, which has none of its own."""
    return ()


class Moments:
    """Raises SIGTERM at one of the moments, in a replacement of the function that the supervisor calls then."""

    def __init__(self, wanted: str) -> None:
        self.wanted, self.starts, self.sleeps, self.signalled = wanted, 0, 0, False

    def at(self, moment: str) -> None:
        if moment == self.wanted:
            self.signalled = True
            signal.raise_signal(signal.SIGTERM)

    def start(self, real: Callable[..., Any], *args: Any, **options: Any) -> Any:
        self.starts += 1
        number = self.starts
        self.at(f"before {number}")
        child = real(*args, **options)
        self.at(f"behind {number}")
        return child

    def sleep(self, real: SimpleQueue[None], timeout: float) -> None:
        self.sleeps += 1
        self.at(f"asleep {self.sleeps}")
        real.get(timeout=timeout)


class Wake:
    """The queue on which the supervisor waits, with a signal at the wanted moment."""

    def __init__(self, moments: Moments) -> None:
        self.moments, self.real = moments, SimpleQueue[None]()

    def put(self, item: None) -> None:
        self.real.put(item)

    def get(self, timeout: float) -> None:
        self.moments.sleep(self.real, timeout)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("moment", MOMENTS)
def test_sigterm_ends_the_supervisor_at_any_moment(monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    monkeypatch.setattr(processes, "_LOOK_SECONDS", 0.001)
    moments, popen = Moments(moment), subprocess.Popen
    before = signal.getsignal(signal.SIGTERM)
    supervisor = Supervisor(["sleep", "30"], {}, 2, no_options)
    monkeypatch.setattr(supervisor, "_wake", Wake(moments))
    monkeypatch.setattr(subprocess, "Popen", lambda *a, **o: moments.start(popen, *a, **o))
    assert supervisor.run() == 0
    assert moments.signalled
    assert signal.getsignal(signal.SIGTERM) == before
    assert all(child is None or child.returncode == -signal.SIGTERM for child in supervisor._children)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "script, code", [("exit 0", 0), ("exit 3", 3), ("kill -INT $$", 1)], ids=["done", "failed", "killed"]
)
def test_supervisor_of_one_run_returns_the_code_of_a_process_that_ended_at_once(
    monkeypatch: pytest.MonkeyPatch, script: str, code: int
) -> None:
    supervisor = Supervisor(["sh", "-c", script], {}, 1, no_options, once=True)
    start = supervisor._start

    def start_and_wait() -> None:
        start()
        for child in supervisor._children:
            assert child is not None
            child.wait()

    monkeypatch.setattr(supervisor, "_start", start_and_wait)
    assert supervisor.run() == code


@pytest.mark.timeout(60)
def test_supervisor_is_woken_through_a_reentrant_queue() -> None:
    supervisor = Supervisor(["true"], {}, 1, no_options)
    # Its ``put`` may interrupt a ``get`` of the same thread (documented), unlike that of an event or another queue.
    assert type(supervisor._wake) is SimpleQueue


@pytest.mark.timeout(120)
def test_sigterm_ends_a_run_whose_main_thread_holds_the_lock_of_the_event() -> None:
    shutdown = Shutdown()
    stopping: Any = shutdown.stopping
    with shutdown.on_signals():
        with stopping._cond:  # as ``wait`` does before and after it sleeps
            signal.raise_signal(signal.SIGTERM)
        assert shutdown.stopping.wait(60)
        assert not shutdown.killed.is_set()
        signal.raise_signal(signal.SIGTERM)
        assert shutdown.killed.wait(60)


@pytest.mark.timeout(60)
def test_signal_handler_of_an_application_may_stop_a_worker() -> None:
    shutdown = Shutdown()
    flags: list[Any] = [shutdown.stopping, shutdown.killed]

    def interrupted() -> None:
        for flag in flags:
            with flag._cond:  # as ``wait`` holds it before and after it sleeps
                shutdown.stop()

    thread = threading.Thread(target=interrupted, daemon=True)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()
    assert shutdown.stopping.is_set()
    assert shutdown.killed.is_set()
