"""One run of a worker in one process: starts its threads and its event loop, and shuts them down.

``Worker.run`` makes a ``Running``. The loops, the heartbeat and the scheduler use it from their threads.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from mqredis.client import Queue, QueueManager
from mqredis.errors import (
    InvalidArgument,
    ManagerNotFound,
    MqError,
    QueueExists,
    QueueNotAvailable,
    QueueNotFound,
)
from mqredis.models import Message, RetryPolicy
from mqredis.operations.schedules import Wanted
from mqredis.steps import Listen, Steps, procedure
from mqredis.worker.consumer import Consumer
from mqredis.worker.failure import text_of, worker_name
from mqredis.worker.heartbeat import Heartbeat, Pauses
from mqredis.worker.keeper import Keeper
from mqredis.worker.lock_loop import LockLoop
from mqredis.worker.logs import announce
from mqredis.worker.loop import Loop
from mqredis.worker.outage import Outage
from mqredis.worker.outcomes import accept_lower_durability
from mqredis.worker.rate import Rate
from mqredis.worker.schedule import Scheduler
from mqredis.worker.targets import Targets, close_handle
from mqredis.worker.transaction_loop import TransactionLoop

R = TypeVar("R")
log = logging.getLogger("mqredis.worker")

# Seconds that a read waits if readers cannot be notified, so that health checks see that the worker lives. If readers
# can be notified, the driver's poll for all waits shows it.
POLL_READ_SECONDS = 5.0
# The longest pause in seconds between two tries to read after errors of the broker; the first one lasts 0.1.
_PAUSE_MAX = 5.0
# Seconds between two checks whether a pause that an operator has set is over.
_PAUSED_SECONDS = 0.2
# Seconds between two checks whether the driver's poll for all waits succeeded.
_POLL_CHECK_SECONDS = 1.0
# Seconds that cancelled handlers have to end before the messages of those that go on are given back.
_CANCELLED_SECONDS = 2.0


class Running:
    """A worker at work on one queue manager."""

    def __init__(
        self,
        manager: QueueManager,
        consumers: Iterable[Consumer],
        schedules: Iterable[Wanted] = (),
        *,
        shutdown_seconds: float,
        health_file: str | None = None,
        raise_errors: bool = False,
        name: str | None = None,
        heartbeat_seconds: float | None = None,
    ) -> None:
        self.manager = manager
        self.settings = manager.context.settings
        self.sealed = manager.context.sealer is not None
        self.chosen_name = name
        self.name = name or worker_name()
        self.consumers = list(consumers)
        self.schedules = list(schedules)
        self._scheduler = Scheduler(manager, self.schedules)
        self.keeper = Keeper()
        self.outage = Outage()
        # What operators have paused.
        self.pauses = Pauses()
        # The consumers of which the log says that they are paused.
        self._told_paused: set[str] = set()
        self._heartbeat = Heartbeat(self, heartbeat_seconds) if heartbeat_seconds is not None else None
        # The scope by which waiting reads are cancelled.
        self.scope = object()
        self.stopping = threading.Event()
        # What ended a loop, and the first failure of a handler if the run ends with it: ``Worker.run`` raises them.
        self.fatal: BaseException | None = None
        self.first: Exception | None = None
        self._killed = threading.Event()
        self._raise_errors = raise_errors
        self._shutdown_seconds = shutdown_seconds
        self._health = Path(health_file) if health_file else None
        self._touched = 0.0
        self._last_poll = 0.0
        # The queues to which handlers send, and those that the loops read.
        self.targets = Targets(manager)
        self._handles: dict[str, Queue] = {}
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loop_thread: threading.Thread | None = None
        self._loops: list[Loop] = []

    # ---- what the loops use ----------------------------------------------------------------------

    def open(self, name: str) -> Queue:
        """The handle with which loops read this queue. Raises QueueNotFound."""
        with self._lock:
            found = self._handles.get(name)
            if found is None or found.handle.closed:
                found = self._handles[name] = self.manager.open(name)
            return found

    def loop(self) -> tuple[asyncio.AbstractEventLoop, threading.Thread]:
        """The event loop of all handlers that are coroutines, and the thread that runs it."""
        with self._lock:
            if self._loop is None or self._loop_thread is None:
                self._loop = asyncio.new_event_loop()
                self._loop_thread = threading.Thread(
                    target=self._loop.run_forever, name="mqredis-asyncio", daemon=True
                )
                self._loop_thread.start()
            return self._loop, self._loop_thread

    def failed(
        self, consumer: Consumer, messages: Sequence[Message], error: BaseException, *, lapsed: bool = False
    ) -> None:
        """A handler failed. ``lapsed``: after the lease of its messages."""
        consumer.last_error = text_of(error, sealed=self.sealed)
        if self._raise_errors and isinstance(error, Exception):
            self.first = self.first or error
            self.stopping.set()
            return
        known = self._refresh_policy(consumer, messages[0].queue)
        if consumer.isolates(messages):
            found = ", ".join(f"{message.lookup_id:#018x}" for message in messages)
            said = f"a batch of {len(messages)} messages of {messages[0].queue}, which are tried again alone: {found}"
        else:
            said = "; ".join(self._attempt(consumer, message, known, lapsed) for message in messages)
        log.error("%s failed with %s", consumer.name, said, exc_info=error)

    def _attempt(self, consumer: Consumer, message: Message, known: bool, lapsed: bool) -> str:
        """The text for the log: the message, which attempt has failed, and what follows."""
        outcome = consumer.failure(message)
        if lapsed:
            outcome = f"attempt {message.attempts}, which had failed before, when the lease lapsed"
        elif not known:
            outcome = f"attempt {message.attempts}: its retry policy could not be read"
        return f"message {message.lookup_id:#018x} of {message.queue} in {outcome}"

    def pass_lapsed(self, busy: Loop, messages: Sequence[Message] = ()) -> None:
        """Let a loop of the same consumer that waits read ;lapsed in place of one whose handler takes long.

        Not while that one handles one of ;lapsed (``messages``): they are handled one at a time.
        """
        if not busy.lapsed or any(message.queue.endswith(";lapsed") for message in messages):
            return
        for loop in self._loops:
            if loop.consumer is busy.consumer and loop.reading:
                loop.lapsed, busy.lapsed = busy.lapsed, []
                self.manager.driver.cancel(self.scope)  # it begins its read again, with ;lapsed
                return

    def touch(self) -> None:
        """Touch the health file, since a queue was read successfully, or a handler runs."""
        now = time.monotonic()
        if self._health is not None and now - self._touched >= 1.0 and not self._stuck():
            self._touched = now
            self._health.touch()

    def _stuck(self) -> bool:
        """Does some consumer read nothing any more, since all its handlers were given up and have not ended?"""
        given_up = Counter(
            id(handling.consumer) for held, handling in self.keeper.handlers().items() if held.given_up
        )
        return any(given_up[id(consumer)] >= consumer.concurrency for consumer in self.consumers)

    # ---- the run ---------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Create the queues that a consumer wants created, set the retry policies of its queues, and open them."""
        for consumer in self.consumers:
            self._create(consumer)
            queues = [_existing(consumer, name, self.open) for name in consumer.queues]
            if len({queue.handle.transactional for queue in queues}) > 1:
                raise InvalidArgument(f"the queues of {consumer.name} must be all transactional or none")
            lapsed = [self.open(f"{name};lapsed") for name in consumer.queues if ";" not in name]
            self._set_policies(consumer)
            loop = TransactionLoop if queues[0].handle.transactional else LockLoop
            for n in range(consumer.concurrency):
                self._loops.append(loop(self, consumer, queues, () if n else lapsed))
        self._scheduler.declare()

    def _create(self, consumer: Consumer) -> None:
        if consumer.create is None:
            return
        for name in (*consumer.queues, *([consumer.dead_letter] if consumer.dead_letter else [])):
            properties = dict(consumer.create)
            retry = properties.get("retry")
            if isinstance(retry, RetryPolicy) and name in consumer.queues:
                # As it will be set. Otherwise the next start would warn that the queue's policy is another one.
                properties["retry"] = consumer.policy(retry, properties.get("group_exclusive") is True)
            try:
                self.manager.create_queue(name, exist_ok=True, **properties)
            except QueueExists as error:
                log.warning("%s", error)

    def _set_policies(self, consumer: Consumer) -> None:
        if consumer.dead_letter is not None:  # the error comes now rather than at the first failure
            _existing(consumer, consumer.dead_letter, self.manager.queue_info)
        for name in consumer.queues:
            self._set_policy(consumer, name)

    def _set_policy(self, consumer: Consumer, name: str) -> None:
        """Give the queue the policy that the consumer chooses for it. Raises QueueNotFound."""
        if ";" in name:
            return  # a subqueue has no policy
        info = self.manager.queue_info(name)
        wanted = consumer.policies[name] = consumer.policy(info.retry, info.group_exclusive)
        if wanted != info.retry:
            accept_lower_durability(partial(self.manager.update_queue, name, retry=wanted))

    def _refresh_policy(self, consumer: Consumer, queue: str) -> bool:
        """Read the policy again, since an operator may have changed or removed it. False if that fails."""
        name = queue.removesuffix(";lapsed")
        try:
            if name in consumer.policies:
                consumer.policies[name] = self.manager.queue_info(name).retry
        except MqError as error:
            log.debug("the retry policy of %s cannot be read: %s", name, error)
            return False
        return True

    def burst(self) -> None:
        """Handle messages until the queues are empty, including messages that handlers send; but no paused ones."""
        self.set_pauses(Pauses.of(self.manager.pauses()))
        while not self.stopping.is_set():
            before = self._count()
            sent, _ = self._scheduler.serve()
            self._threads(self._until_empty, wait=None)
            if self._count() == before and not sent:
                return

    def forever(self) -> None:
        """Handle messages until ``stop``."""
        announce(self.manager, self.name, self.consumers, self.schedules)
        if self._heartbeat is not None:
            self._heartbeat.begin()
        self._scheduler.begin()
        try:
            self._threads(self._until_stopped, wait=self._shutdown_seconds)
        finally:
            self._scheduler.end()
            if self._heartbeat is not None:
                self._heartbeat.end()

    def stop(self) -> None:
        """Stop reading. Running handlers are finished, or their messages given back at the deadline; a second call
        gives them back now."""
        if self.stopping.is_set():
            self._killed.set()
        self.stopping.set()

    def set_pauses(self, pauses: Pauses) -> None:
        """An operator has set or ended a pause: waiting reads begin again with the queues that they may read."""
        if pauses != self.pauses:
            self.pauses = pauses  # before the cancellation, since a reader that is about to wait checks it
            self.manager.driver.cancel(self.scope)

    def close(self) -> None:
        """Close the handles and the event loop."""
        self.keeper.close()
        if self._loop is not None and self._loop_thread is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._loop_thread.join(5)
            if not self._loop_thread.is_alive():
                self._loop.run_until_complete(self._loop.shutdown_default_executor())
                self._loop.close()
        self.targets.close()
        for queue in self._handles.values():
            close_handle(queue)

    def _count(self) -> int:
        return sum(c.handled + c.rejected + c.failed + c.isolated for c in self.consumers)

    def _threads(self, target: Callable[[Loop, Rate | None], None], wait: float | None) -> None:
        rates = {id(c): Rate(c.rate) if c.rate else None for c in self.consumers}
        threads = [
            threading.Thread(
                target=self._guarded,
                args=(target, loop, rates[id(loop.consumer)]),
                name=f"mqredis-{loop.consumer.name}-{n}",
                daemon=True,
            )
            for n, loop in enumerate(self._loops)
        ]
        for thread in threads:
            thread.start()
        if wait is None:
            for thread in threads:
                while thread.is_alive() and not self.stopping.is_set():
                    thread.join(0.1)
        else:
            while not self.stopping.wait(_POLL_CHECK_SECONDS):
                self._alive()
        self._end(threads, self._shutdown_seconds)

    def _end(self, threads: list[threading.Thread], wait: float) -> None:
        """Let the threads finish. At the deadline cancel their handlers, and give back the messages of those that go
        on."""
        deadline = time.monotonic() + wait
        for loop in self._loops:
            loop.prefetch.give_back()
        for thread in threads:
            while thread.is_alive() and time.monotonic() < deadline and not self._killed.is_set():
                self.manager.driver.cancel(self.scope)  # repeatedly, since a thread may be about to wait
                thread.join(0.05)
        if any(thread.is_alive() for thread in threads):
            ended = self.keeper.cancel_all(RuntimeError("the worker is told to end"))
            log.warning("%d handler(s) did not end in time and were cancelled", ended)
            deadline = time.monotonic() + min(_CANCELLED_SECONDS, wait)  # of all together
            for thread in threads:
                thread.join(max(0.0, deadline - time.monotonic()))
            for loop, thread in zip(self._loops, threads, strict=True):
                if thread.is_alive():
                    loop.give_back()

    def _woken(self) -> bool:
        """Can readers be notified, so that a read may wait without a limit?"""
        driver = self.manager.driver
        if not driver.wake_mode:
            driver.run(_listen())
        return driver.wake_mode in ("keyspace", "publish")

    def _alive(self) -> None:
        """Note a successful poll for all waits as a read of each waiting loop. A handler that still has its messages
        shows life, too, since no loop reads while all handlers are busy."""
        now = time.monotonic()
        if any(held.reason is None and now < held.until for held in self.keeper.handlers()):
            self.touch()
        last_poll = self.manager.driver.last_poll
        if last_poll <= self._last_poll:
            return
        self._last_poll = last_poll
        for loop in self._loops:
            if loop.reading:
                loop.consumer.last_read = max(loop.consumer.last_read, last_poll)
                self.touch()

    def _guarded(self, target: Callable[[Loop, Rate | None], None], loop: Loop, rate: Rate | None) -> None:
        try:
            target(loop, rate)
        except BaseException as error:  # noqa: BLE001 - run() raises it in the main thread
            self.fatal = self.fatal or error
            self.stopping.set()
            loop.give_back()  # and commit what was handled, or else it would be handled again

    def _until_empty(self, loop: Loop, rate: Rate | None) -> None:
        if loop.paused:
            if loop.consumer.name not in self._told_paused:
                self._told_paused.add(loop.consumer.name)
                log.warning(
                    "%s is paused by an operator: it reads nothing until mqredis resume", loop.consumer.name
                )
            return
        while not self.stopping.is_set():
            if rate is not None and self.stopping.wait(rate.pause(loop.consumer.batch)):
                break
            if not loop.turn(0):
                break
        loop.flush()

    def _until_stopped(self, loop: Loop, rate: Rate | None) -> None:
        pause = 0.0
        while not self.stopping.is_set():
            try:
                if loop.paused:
                    loop.flush()
                    loop.consumer.last_read = time.monotonic()
                    self.touch()
                    self.stopping.wait(_PAUSED_SECONDS)
                    continue
                if rate is not None and (rest := rate.pause(loop.consumer.batch)) > 0:
                    loop.flush()
                    if self.stopping.wait(rest):
                        break
                if loop.deleted and time.monotonic() >= loop.reopen_at:
                    self._reopen(loop, {*loop.deleted})
                # The first read after an error does not wait, so that the log says when reads succeed again.
                wait = 0.0 if pause else POLL_READ_SECONDS
                loop.turn(None if self._woken() and not loop.deleted and not pause else wait)
                self.outage.over()
                self.touch()
                pause = 0.0
            except ManagerNotFound:
                raise
            except MqError as error:
                pause = min(max(pause * 2, 0.1), _PAUSE_MAX)
                self.outage.failed(error)
                log.warning(
                    "%s cannot read or commit: %s; it tries again in %.1f s, for up to %g s at a time",
                    loop.consumer.name,
                    error,
                    pause,
                    self.settings.retry_seconds,
                )
                if self.stopping.wait(pause):
                    break
                if isinstance(error, QueueNotAvailable):
                    self._reopen(loop)
        try:
            loop.flush()
        except MqError as error:
            log.warning("%s could not commit what it handled: %s", loop.consumer.name, error)

    def _reopen(self, loop: Loop, names: Collection[str] | None = None) -> None:
        """Open queues again, of which some were deleted and created anew, and set their retry policy as at the start.

        ``names``: only these; None: all, since the error of a read does not tell which.
        """
        loop.reopen_at = time.monotonic() + POLL_READ_SECONDS
        for handles in (loop.queues, loop.lapsed):
            for n, queue in enumerate(handles):
                if names is not None and queue.name.removesuffix(";lapsed") not in names:
                    continue
                with self._lock:
                    if self._handles.get(queue.name) is queue:
                        del self._handles[queue.name]
                try:
                    found = self.open(queue.name)
                    if found.handle.address.generation != queue.handle.address.generation:
                        self._set_policy(loop.consumer, queue.name)
                    handles[n] = found
                    loop.deleted.discard(queue.name)
                except QueueNotFound as error:
                    if queue.name not in loop.deleted and handles is loop.queues:
                        log.warning(
                            "%s reads %s again when it exists: %s", loop.consumer.name, queue.name, error
                        )
                        loop.deleted.add(queue.name)
                except MqError as error:
                    log.debug("queue %s cannot be opened: %s", queue.name, error)


def _existing(consumer: Consumer, name: str, look: Callable[[str], R]) -> R:
    """The properties of a queue that a consumer names. Raises QueueNotFound with what to do."""
    try:
        return look(name)
    except QueueNotFound:
        queue = name.partition(";")[0]
        raise QueueNotFound(
            f"consumer {consumer.name}: queue {queue!r} does not exist: create it with create={{}} of the "
            f"consumer, or with `mqredis queue create {queue}`"
        ) from None


@procedure
def _listen() -> Steps[None]:
    """Find out how readers are woken."""
    yield Listen()
