"""Runs several processes of one worker, and restarts them when their code changes.

``command`` uses it for ``--processes`` and ``--reload``, and calls ``end_with_supervisor`` in each process. A process
is started by its command line and shares nothing with this one but the pipe. docs/worker.md (Running) and docs/cli.md
(Exit codes) tell users what they can rely on.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue

log = logging.getLogger("mqredis.worker")

# Environment variable that tells a process its end of the pipe to the supervisor.
_PIPE = "MQREDIS_WORKER_PIPE"
# Pause before a process that died is started again, in seconds.
_AGAIN_SECONDS = 1.0
# Exit code of a process that cannot run with its arguments or packages: it is not started again. It is Exit.USAGE of
# mqredis/cli/exits.py, which a worker cannot import; a test compares both.
_USAGE = 2
# Seconds between two checks of the files for changes.
_LOOK_SECONDS = 0.5


def end_with_supervisor() -> None:
    """In a process that a supervisor started: end as on SIGTERM when the supervisor is gone, however it ended.

    The kernel closes the supervisor's end of a pipe then, which a thread here waits for.
    """
    pipe = os.environ.pop(_PIPE, None)
    if pipe is None:
        return

    def wait() -> None:
        os.read(int(pipe), 1)
        log.warning("the supervisor of this process is gone: it ends")
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="mqredis-supervisor", daemon=True).start()


class Supervisor:
    """Runs ``processes`` copies of ``command`` until SIGTERM or SIGINT. Each signal is passed on to them as SIGTERM; at
    the second one a worker gives its messages back without waiting for its handlers.

    A process that dies is started again. With ``once`` none is started again, and the run is over when all have ended.
    Without it, if one ends with exit code 2 (wrong arguments, a missing package), all end, except with ``reload``,
    since a change of the code may help. ``own``: further arguments by number of process.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        processes: int,
        own: Callable[[int], Sequence[str]],
        *,
        reload: bool = False,
        once: bool = False,
    ) -> None:
        self._command = list(command)
        # A pipe that stays open as long as this process lives. Child processes inherit the first end only.
        self._pipe = os.pipe()
        self._environment = {**environment, _PIPE: str(self._pipe[0])}
        self._reload = reload
        self._once = once
        self._own = own
        # Filled by the signal handler. An event would not do: the main thread may hold its lock at that moment.
        self._wake: SimpleQueue[None] = SimpleQueue()
        self._stops = 0
        # Process ids that got SIGTERM.
        self._terminated: set[int] = set()
        self._children: list[subprocess.Popen[bytes] | None] = [None] * processes
        # When a process that died is started again, on the monotonic clock; 0: at once.
        self._due = [0.0] * processes
        self._code = 0

    def run(self) -> int:
        """Return the exit code: with ``once`` that of the first process, by number, which failed (1 if a signal ended
        it); 2 if a process cannot run; else 0."""
        old = {number: signal.signal(number, self._signalled) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            seen = self._times() if self._reload else {}
            while not self._stops:
                self._start()
                if self._once and all(
                    child is not None and child.poll() is not None for child in self._children
                ):
                    break
                with suppress(Empty):
                    self._wake.get(timeout=_LOOK_SECONDS)
                if self._reload and (now := self._times()) != seen:
                    log.warning("the code has changed: the worker starts anew")
                    seen = now
                    self._terminate()
                    self._collect()
                    self._terminated.clear()
                    self._children = [None] * len(self._children)
                    self._due = [0.0] * len(self._children)
        finally:
            self._collect()
            for number, handler in old.items():
                signal.signal(number, handler)
            for end in self._pipe:
                os.close(end)
        if self._once:
            return next((_exit_code(child) for child in self._children if child and child.returncode), 0)
        return self._code

    def _start(self) -> None:
        now = time.monotonic()
        for n, child in enumerate(self._children):
            if child is not None and child.poll() is None:
                continue
            if child is not None:
                if self._once:
                    continue
                if child.returncode == _USAGE and not self._reload:
                    log.error("process %d cannot run the worker, so all processes end", child.pid)
                    self._code = _USAGE
                    self._stops += 1
                    return
                if self._due[n] == 0.0:
                    log.error("process %d ended with %d; it is started again", child.pid, child.returncode)
                    self._due[n] = now + _AGAIN_SECONDS
                if now < self._due[n]:
                    continue
            self._due[n] = 0.0
            # A process group of their own, so that Ctrl-C in a terminal reaches them once, through this process.
            self._children[n] = subprocess.Popen(  # noqa: S603 - our own interpreter with our own arguments
                [*self._command, *self._own(n)],
                env=self._environment,
                process_group=0,
                pass_fds=self._pipe[:1],
            )

    def _signalled(self, *_: object) -> None:
        self._stops += 1
        self._terminate()
        self._wake.put(None)

    def _terminate(self) -> None:
        for child in self._children:
            if child is not None and child.poll() is None:
                self._terminated.add(child.pid)
                child.terminate()

    def _collect(self) -> None:
        """Wait until all have ended; each keeps its own deadline for running handlers."""
        for child in self._children:
            if child is not None:
                if child.pid not in self._terminated and child.poll() is None:
                    child.terminate()  # it was started after the others got their signal
                child.wait()

    def _times(self) -> dict[str, int]:
        """Every source file of the application, with the time of its last change."""
        found: dict[str, int] = {}
        folder = Path.cwd()
        for path in folder.rglob("*.py"):
            if any(part.startswith(".") for part in path.relative_to(folder).parts):
                continue
            try:
                found[str(path)] = path.stat().st_mtime_ns
            except FileNotFoundError:
                continue
        return found


def _exit_code(child: subprocess.Popen[bytes]) -> int:
    """The exit code of a process that has ended; 1 if a signal ended it."""
    return child.returncode if child.returncode > 0 else 1
