"""One thread of a consumer: read, run the handler, settle, and again.

``threads`` calls it in that thread, ``run`` makes it. How messages are read and settled differs: ``lock_loop`` and
``transaction_loop`` are subclasses. docs/worker.md says what becomes of messages. The subqueues
;lapsed are read behind the regular queues, and now and then alone (``turn``), since those may never be empty.
lua/features/retry.lua says which messages are in them.
"""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from mqredis.client import Queue
from mqredis.errors import IoTimeout, MqError, OperationCancelled, QueueNotFound, SealBroken
from mqredis.models import Message
from mqredis.steps import Operation
from mqredis.worker.attempts import Attempts
from mqredis.worker.consumer import Consumer
from mqredis.worker.failed_attempts import FailedAttempts
from mqredis.worker.lease_renewer import LeaseRenewer
from mqredis.worker.outcomes import accept_lower_durability
from mqredis.worker.prefetch import Prefetch
from mqredis.worker.shutdown import Shutdown
from mqredis.worker.unit import Unit
from mqredis.worker.waiting_reads import WaitingReads

R = TypeVar("R")
log = logging.getLogger("mqredis.worker")

# Seconds between two reads of the messages whose lease lapsed, while the queues themselves are never empty.
LAPSED_SECONDS = 1.0
# Seconds that a read waits if readers cannot be notified, so that health checks see that the worker lives. If readers
# can be notified, the driver's poll for all waits shows it. Deleted queues are looked for as often.
POLL_READ_SECONDS = 5.0


@dataclass(frozen=True, slots=True, eq=False)
class Shared:
    """What the loops of one consumer have in common. Each part says what protects it."""

    consumer: Consumer
    lease: float
    """Seconds."""
    attempts: Attempts
    failed: FailedAttempts
    reopen: Callable[[Consumer, Queue], Queue]
    """``Queues.reopen``."""
    reads: WaitingReads
    shutdown: Shutdown
    renewer: LeaseRenewer
    loops: list[Loop] = field(default_factory=list)
    """All loops of the consumer. The list does not change after the first one has begun."""


class Loop(ABC):
    """Reads and handles for one consumer, in one thread.

    ``lapsed``: the subqueues with messages whose lease lapsed, for one thread of the consumer. It takes them one at a
    time, outside of batches and prefetched messages, in turn with those of its queues: any of them may kill its
    process, and should not cost other messages an attempt (docs/worker.md, "Messages whose worker died").
    """

    def __init__(self, shared: Shared, queues: Sequence[Queue], lapsed: Sequence[Queue] = ()) -> None:
        self.shared = shared
        self.consumer = consumer = shared.consumer
        self.manager = queues[0].manager
        # A rate counts single messages.
        single = queues[0].handle.transactional or consumer.payload.many or bool(consumer.rate)
        self.prefetch = Prefetch(1 if single else consumer.prefetch, shared.lease, shared.renewer)
        # Is the loop reading, or waiting for a message? Its thread sets it; the main thread and the renewer read it.
        self.reading = False
        # The thread of the renewer replaces the list (``_pass_lapsed``).
        self.lapsed = list(lapsed)
        # The attributes below are used by the thread of the loop alone.
        self.queues = list(queues)
        # Those of the present turn. Its read is interrupted when another thread has replaced them.
        self._lapsed_read = self.lapsed
        self._pauses = shared.reads.pauses
        # Names of its queues that were deleted: they are left out while others are there, until they are opened again.
        self._deleted: set[str] = set()
        self._reopen_at = 0.0
        # When to read lapsed messages next; not in the turn after one was handled.
        self._lapsed_next = time.monotonic() + LAPSED_SECONDS
        self._lapsed_last = False

    def turn(self, timeout: float | None) -> bool:
        """Read once and handle the messages. False: there were none. Raises MqError if the read fails."""
        if self.lapsed and not self._lapsed_last and time.monotonic() >= self._lapsed_next:
            self.flush()  # handled messages are committed before another handler begins
            self._lapsed_last = self._turn([], 0)
            if self._lapsed_last:
                return True
            self._lapsed_next = time.monotonic() + LAPSED_SECONDS
        self._lapsed_last = False
        return self._turn(self.queues, timeout)

    def next_turn(self, *, wait: bool) -> None:
        """A turn that waits for messages if ``wait``, after a look for queues that were deleted. Raises MqError."""
        if self._deleted and time.monotonic() >= self._reopen_at:
            self.reopen({*self._deleted})
        timeout: float | None = 0.0
        if wait:
            timeout = None if self.shared.reads.unlimited() and not self._deleted else POLL_READ_SECONDS
        self.turn(timeout)

    def reopen(self, names: Collection[str] | None = None) -> None:
        """Open queues again, of which some were deleted and created anew.

        ``names``: only these; None: all, since the error of a read does not tell which.
        """
        self._reopen_at = time.monotonic() + POLL_READ_SECONDS
        for handles in (self.queues, self.lapsed):
            for n, queue in enumerate(handles):
                if names is not None and queue.name.removesuffix(";lapsed") not in names:
                    continue
                try:
                    handles[n] = self.shared.reopen(self.consumer, queue)
                    self._deleted.discard(queue.name)
                except QueueNotFound as error:
                    if queue.name not in self._deleted and handles is self.queues:
                        log.warning(
                            "%s reads %s again when it exists: %s", self.consumer.name, queue.name, error
                        )
                        self._deleted.add(queue.name)
                except MqError as error:
                    log.debug("queue %s cannot be opened: %s", queue.name, error)

    @property
    def paused(self) -> bool:
        """Has an operator paused the consumer, or all queues that it reads?"""
        return self.shared.reads.pauses.consumer(self.consumer.name) or not self._readable(self.queues)

    def _readable(self, queues: list[Queue]) -> list[Queue]:
        """The queues that no operator has paused."""
        pauses = self.shared.reads.pauses
        return [queue for queue in queues if not pauses.queue(queue.name)] if pauses else queues

    def _existing(self, queues: list[Queue]) -> list[Queue]:
        return [queue for queue in queues if queue.name.removesuffix(";lapsed") not in self._deleted]

    def _turn(self, queues: list[Queue], timeout: float | None) -> bool:
        """Read from these queues; if they are empty, from the subqueues of lapsed messages."""
        self._pauses, self._lapsed_read = self.shared.reads.pauses, self.lapsed
        queues, lapsed = self._readable(queues), self._readable(self._lapsed_read)
        if self._deleted:  # if all are, the read fails
            queues, lapsed = self._existing(queues) or queues, self._existing(lapsed)
        if not queues and not lapsed:
            return False
        try:
            self._read_and_handle([*queues, *lapsed], len(queues), timeout)
        except (IoTimeout, OperationCancelled):
            self.consumer.last_read = time.monotonic()
            return False
        return True

    def flush(self) -> None:  # noqa: B027 - a loop of transactions has nothing to flush
        """Commit the handled messages without a read."""

    def give_back(self) -> None:
        """Called by another thread to end this loop's work: its messages become available again without a failed
        attempt."""
        try:
            self._give_back_all()
        except MqError as error:
            log.warning("%s could not give back its messages: %s", self.consumer.name, error)

    @abstractmethod
    def _give_back_all(self) -> None:
        """Make the messages available again without a failed attempt."""

    @abstractmethod
    def _read_and_handle(self, queues: list[Queue], regular: int, timeout: float | None) -> None:
        """Read once and handle the messages. ``regular``: the first so many queues may give several messages at once.

        Raises IoTimeout if nothing came.
        """

    def _interrupted(self) -> bool:
        """Does the worker stop, or has it to read other queues now?"""
        return (
            self.shared.shutdown.stopping.is_set()
            or self.shared.reads.pauses is not self._pauses
            or self.lapsed is not self._lapsed_read
        )

    def _read(self, operation: Operation[R]) -> R:
        """The result of a read. Raises MqError. What it took comes back when its lease ends if the reply is lost."""
        self.reading = True
        try:
            return accept_lower_durability(lambda: self.manager.run(operation))
        finally:
            self.reading = False

    def _run(
        self,
        unit: Unit,
        arguments: list[Any],
        renew: Callable[[], object],
        commit: Callable[[], None],
        give_back: Callable[[str], None],
    ) -> BaseException | None:
        """Run the handler, and let another loop read ;lapsed while this one is busy (see ``Attempts.run``)."""

        def renew_and_pass() -> None:
            self._pass_lapsed(unit.messages)
            renew()

        def give_up(instruction: str) -> None:
            give_back(instruction)
            self.prefetch.give_back()
            self._pass_lapsed()

        return self.shared.attempts.run(unit, arguments, renew_and_pass, commit, give_up)

    def _pass_lapsed(self, messages: Sequence[Message] = ()) -> None:
        """Let a loop of the same consumer that waits read ;lapsed in place of this one, whose handler takes long.

        Not while this one handles one of ;lapsed (``messages``): they are handled one at a time. Called by the thread
        of the renewer alone, so no two loops pass them at the same time.
        """
        if not self.lapsed or any(message.queue.endswith(";lapsed") for message in messages):
            return
        for loop in self.shared.loops:
            if loop.reading:
                loop.lapsed, self.lapsed = self.lapsed, []
                self.shared.reads.cancel()  # it begins its read again, with ;lapsed
                return

    def _not_opened(self, error: SealBroken, give_back: Callable[[str], None]) -> None:
        """Messages were read of which one cannot be opened: a failed attempt, as if their handler had failed."""
        failed, messages = self.shared.failed, error.messages
        failed.count(error.with_traceback(None), messages)  # the frames are those of the client
        failed.give_back(messages[0].queue, error, messages, give_back)

    def _lost(self, error: MqError) -> None:
        """Log that messages were handled whose lease was lost before they were settled."""
        log.warning("%s: %s; it may be handled again", self.consumer.name, error)
