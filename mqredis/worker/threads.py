"""The threads of a worker in which its loops read and handle: started, repeated, and ended.

``run`` makes a ``Threads`` and calls it in the thread of ``Worker.run``. docs/worker.md (Running, and its table of
events) tells users of the times at the end and of the pause after errors.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from mqredis.errors import InvalidHandle, ManagerNotFound, MqError, QueueNotAvailable
from mqredis.worker.consumer import Consumer
from mqredis.worker.lease_renewer import LeaseRenewer
from mqredis.worker.liveness import Liveness
from mqredis.worker.loop import Loop
from mqredis.worker.outage import Outage
from mqredis.worker.rate import Rate
from mqredis.worker.shutdown import Shutdown
from mqredis.worker.waiting_reads import WaitingReads

log = logging.getLogger("mqredis.worker")

# The longest pause in seconds between two tries to read after errors of the broker; the first one lasts 0.1.
_PAUSE_MAX = 5.0
# Seconds between two checks whether a pause that an operator has set is over.
_PAUSED_SECONDS = 0.2
# Seconds between two checks whether the driver's poll for all waits succeeded.
_POLL_CHECK_SECONDS = 1.0
# Seconds that cancelled handlers have to end before the messages of those that go on are given back.
_CANCELLED_SECONDS = 2.0


class Threads:
    """One thread for each loop. ``shutdown_seconds``: how long handlers may go on after the end was ordered."""

    def __init__(
        self,
        loops: Sequence[Loop],
        *,
        shutdown_seconds: float,
        reads: WaitingReads,
        shutdown: Shutdown,
        renewer: LeaseRenewer,
        liveness: Liveness,
        outage: Outage,
    ) -> None:
        # Empty until ``Running.prepare`` fills this list.
        self._loops = loops
        # The rate of each consumer that has one, for all rounds of a burst.
        self._rates: dict[Consumer, Rate] = {}
        # These do not change; the parts have their own locks.
        self._shutdown_seconds = shutdown_seconds
        self._reads = reads
        self._shutdown = shutdown
        self._renewer = renewer
        self._liveness = liveness
        self._outage = outage
        # The consumers of which the log says that they are paused. If two threads add one at once, it says so twice.
        self._told_paused: set[str] = set()

    def until_empty(self) -> None:
        """Read and handle until each loop has found its queues empty, or the run ends."""
        with self._run(self._until_empty) as threads:
            for thread in threads:
                while thread.is_alive() and not self._shutdown.stopping.is_set():
                    thread.join(0.1)

    def until_stopped(self) -> None:
        """Read and handle until the run ends."""
        with self._run(self._until_stopped):
            while not self._shutdown.stopping.wait(_POLL_CHECK_SECONDS):
                self._liveness.note(loop.consumer for loop in self._loops if loop.reading)

    @contextmanager
    def _run(self, target: Callable[[Loop, Rate | None], None]) -> Iterator[list[threading.Thread]]:
        """Run all loops in their threads while the block lasts. An error in it, such as KeyboardInterrupt, stops them,
        too."""
        for consumer in {loop.consumer for loop in self._loops}:
            if consumer.rate and consumer not in self._rates:
                self._rates[consumer] = Rate(consumer.rate)
        threads = [
            threading.Thread(
                target=self._guarded,
                args=(target, loop, self._rates.get(loop.consumer)),
                name=f"mqredis-{loop.consumer.name}-{n}",
                daemon=True,
            )
            for n, loop in enumerate(self._loops)
        ]
        try:
            for thread in threads:
                thread.start()
            yield threads
        except BaseException:
            self._shutdown.stop()
            raise
        finally:
            self._end(threads)

    def _end(self, threads: list[threading.Thread]) -> None:
        """Let the threads finish. At the deadline cancel their handlers, and give back the messages of those that go
        on."""
        wait, begun = self._shutdown_seconds, time.monotonic()
        deadline = begun + wait
        for loop in self._loops:
            if time.monotonic() < deadline:  # each call may wait for a server that does not answer
                loop.prefetch.give_back()

        def has_time(loop: Loop) -> bool:
            now = time.monotonic()
            if now < deadline and not self._shutdown.killed.is_set():
                return True
            # What a read has locked cannot be given back before its reply has come.
            return loop.reading and now < begun + _CANCELLED_SECONDS

        for loop, thread in zip(self._loops, threads, strict=True):
            while thread.is_alive() and has_time(loop):
                self._reads.cancel()  # repeatedly, since a thread may be about to wait
                thread.join(0.05)
        if any(thread.is_alive() for thread in threads):
            ended = self._renewer.cancel_all(RuntimeError("the worker is told to end"))
            log.warning("%d handler(s) did not end in time and were cancelled", ended)
            deadline = time.monotonic() + min(_CANCELLED_SECONDS, wait)  # of all together
            for thread in threads:
                if thread.is_alive():
                    thread.join(max(0.0, deadline - time.monotonic()))
            for loop, thread in zip(self._loops, threads, strict=True):
                if thread.is_alive():
                    loop.give_back()

    # ---- what the threads run --------------------------------------------------------------------

    def _guarded(self, target: Callable[[Loop, Rate | None], None], loop: Loop, rate: Rate | None) -> None:
        try:
            target(loop, rate)
        except BaseException as error:  # noqa: BLE001 - run() raises it in the main thread
            self._shutdown.thread_failed(error)
            loop.give_back()  # and commit what was handled, or else it would be handled again

    def _until_empty(self, loop: Loop, rate: Rate | None) -> None:
        if loop.paused:
            if loop.consumer.name not in self._told_paused:
                self._told_paused.add(loop.consumer.name)
                log.warning(
                    "%s is paused by an operator: it reads nothing until mqredis resume", loop.consumer.name
                )
            return
        stopping = self._shutdown.stopping
        while not stopping.is_set():
            if rate is not None and stopping.wait(rate.pause(loop.consumer.batch)):
                break
            if not loop.turn(0):
                break
        loop.flush()

    def _until_stopped(self, loop: Loop, rate: Rate | None) -> None:
        stopping, pause = self._shutdown.stopping, 0.0
        while not stopping.is_set():
            try:
                if loop.paused:
                    loop.flush()
                    loop.consumer.last_read = time.monotonic()
                    self._liveness.touch()
                    stopping.wait(_PAUSED_SECONDS)
                    continue
                if rate is not None and (rest := rate.pause(loop.consumer.batch)) > 0:
                    loop.flush()
                    if stopping.wait(rest):
                        break
                # The first read after an error does not wait, so that the log says when reads succeed again.
                loop.next_turn(wait=not pause)
                self._outage.over()
                self._liveness.touch()
                pause = 0.0
            except ManagerNotFound:
                raise
            except MqError as error:
                if loop.manager.driver.stopped and not stopping.is_set():  # no later read can succeed
                    raise InvalidHandle(
                        f"the queue manager that this worker uses was closed, or its data are gone: {error}"
                    ) from error
                pause = min(max(pause * 2, 0.1), _PAUSE_MAX)
                self._outage.failed(error)
                log.warning(
                    "%s cannot read or commit: %s; it tries again in %.1f s, for up to %g s at a time",
                    loop.consumer.name,
                    error,
                    pause,
                    loop.manager.context.settings.retry_seconds,
                )
                if stopping.wait(pause):
                    break
                if isinstance(error, QueueNotAvailable):
                    loop.reopen()
        try:
            loop.flush()
        except MqError as error:
            log.warning("%s could not commit what it handled: %s", loop.consumer.name, error)
