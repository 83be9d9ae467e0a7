"""SIGTERM ends a worker at whatever moment it comes: a handler must not wait for what the main thread holds."""

from __future__ import annotations

import itertools
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from mqredis.worker import processes
from mqredis.worker.processes import _Supervisor
from mqredis.worker.run import Running, Signals

#: What the main thread is in while it supervises.
FILES = ("/mqredis/worker/processes.py", "/threading.py", "/queue.py")


def told_at(line: int, ready: Callable[[], bool]) -> Callable[[FrameType, str, Any], Any]:
    """A tracer that raises SIGTERM at the so many-th line of the main thread, counted from when it is ready."""
    lines = itertools.count(1)

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.endswith(FILES):
            return None
        if event == "line" and ready() and next(lines) == line:
            signal.raise_signal(signal.SIGTERM)
        return trace

    return trace


@pytest.mark.timeout(120)
@pytest.mark.parametrize("first", range(1, 61, 10))
def test_a_supervisor_ends_wherever_the_signal_meets_it(monkeypatch: pytest.MonkeyPatch, first: int) -> None:
    monkeypatch.setattr(processes, "_LOOK_SECONDS", 0.001)
    for line in range(first, first + 10):
        supervisor = _Supervisor(["sleep", "30"], {}, 2, False, False, None, Path.cwd())
        before = signal.getsignal(signal.SIGTERM)

        def ready(mine: Any = supervisor._signalled) -> bool:
            return signal.getsignal(signal.SIGTERM) == mine

        sys.settrace(told_at(line, ready))
        try:
            assert supervisor.run() == 0
        finally:
            sys.settrace(None)
        assert signal.getsignal(signal.SIGTERM) == before
        assert all(child is None or child.returncode == -signal.SIGTERM for child in supervisor._children)


class Stage:
    """As much of a run as its signals need."""

    stop = Running.stop

    def __init__(self) -> None:
        self.stopping, self._killed = threading.Event(), threading.Event()


@pytest.mark.timeout(120)
def test_a_run_ends_though_its_main_thread_holds_the_lock_of_the_event() -> None:
    stage: Any = Stage()
    with Signals(stage):
        with stage.stopping._cond:  # as ``wait`` does before and behind its sleep
            signal.raise_signal(signal.SIGTERM)
        assert stage.stopping.wait(60)
        assert not stage._killed.is_set()
        signal.raise_signal(signal.SIGTERM)
        assert stage._killed.wait(60)
