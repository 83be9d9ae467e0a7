"""One thread of a consumer: read, run the handler, settle, and again.

``lock_loop`` and ``transaction_loop`` are subclasses. ``otel.patches`` wraps ``_run``, which runs the handler.

What a handler did not finish is given back with a report, and the queue's retry policy decides what becomes of it.
How messages are read and settled differs: see ``lock_loop`` and ``transaction_loop``.
"""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from mqredis.client import Queue, QueueManager
from mqredis.errors import InvalidArgument, IoTimeout, MqError, OperationCancelled, TransactionSequence
from mqredis.models import Message
from mqredis.operations import giveback
from mqredis.steps import Operation
from mqredis.worker.consumer import Consumer
from mqredis.worker.failure import Reporter, from_handler
from mqredis.worker.held import Held
from mqredis.worker.keeper import Handling
from mqredis.worker.outcomes import (
    BROKER_ERRORS,
    Cancelled,
    GivenUp,
    HandlerCancelled,
    Reject,
    RetryLater,
    TimeLimitExceeded,
    accept_lower_durability,
)
from mqredis.worker.prefetch import Prefetch
from mqredis.worker.unit import AsyncUnit, Unit

if TYPE_CHECKING:
    from mqredis.worker.run import Running

R = TypeVar("R")
log = logging.getLogger("mqredis.worker")

# Seconds between two reads of the messages whose lease lapsed, while the queues themselves are never empty.
LAPSED_SECONDS = 1.0


class Loop:
    """Reads and handles for one consumer, in one thread.

    ``lapsed``: the subqueues with messages whose lease lapsed, for one thread of the consumer. It takes them one at a
    time, outside of batches and prefetched messages, in turn with those of its queues.
    """

    def __init__(
        self, running: Running, consumer: Consumer, queues: Sequence[Queue], lapsed: Sequence[Queue] = ()
    ) -> None:
        self.running = running
        self.consumer = consumer
        self.queues = list(queues)
        self.lapsed = list(lapsed)
        # That of the present turn: another thread may give the loop the lapsed messages, or take them away.
        self._lapsed_read = self.lapsed
        self.manager: QueueManager = running.manager
        self.transactional = queues[0].handle.transactional
        self.lease = consumer.lease or running.settings.lease_seconds
        # Is the loop reading, or waiting for a message?
        self.reading = False
        # A rate counts single messages.
        single = self.transactional or consumer.payload.many or bool(consumer.rate)
        self.prefetch = Prefetch(1 if single else consumer.prefetch, self.lease, running.keeper)
        self._report = Reporter(running.name, consumer.name, sealed=running.sealed)
        # The pauses that were set when the present turn began.
        self._pauses = running.pauses
        # Names of its queues that were deleted: they are left out while others are there, until they are opened again.
        self.deleted: set[str] = set()
        self.reopen_at = 0.0
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

    @property
    def paused(self) -> bool:
        """Has an operator paused the consumer, or all queues that it reads?"""
        return self.running.pauses.consumer(self.consumer.name) or not self._readable(self.queues)

    def _readable(self, queues: list[Queue]) -> list[Queue]:
        """The queues that no operator has paused."""
        pauses = self.running.pauses
        return [queue for queue in queues if not pauses.queue(queue.name)] if pauses else queues

    def _existing(self, queues: list[Queue]) -> list[Queue]:
        return [queue for queue in queues if queue.name.removesuffix(";lapsed") not in self.deleted]

    def _turn(self, queues: list[Queue], timeout: float | None) -> bool:
        """Read from these queues; if they are empty, from the subqueues of lapsed messages."""
        self._pauses, self._lapsed_read = self.running.pauses, self.lapsed
        queues, lapsed = self._readable(queues), self._readable(self._lapsed_read)
        if self.deleted:  # if all are, the read fails
            queues, lapsed = self._existing(queues) or queues, self._existing(lapsed)
        if not queues and not lapsed:
            return False
        try:
            self._read_and_handle([*queues, *lapsed], len(queues), timeout)
        except (IoTimeout, OperationCancelled):
            self.consumer.last_read = time.monotonic()
            return False
        return True

    def flush(self) -> None:
        """Commit the handled messages without a read."""

    def give_back(self) -> None:
        """Called by another thread to end this loop's work: its messages become available again without a failed
        attempt."""
        try:
            self._give_back_all()
        except MqError as error:
            log.warning("%s could not give back its messages: %s", self.consumer.name, error)

    def _give_back_all(self) -> None:
        raise NotImplementedError

    def _read_and_handle(self, queues: list[Queue], regular: int, timeout: float | None) -> None:
        """Read once and handle the messages. ``regular``: the first so many queues may give several messages at once.

        Raises IoTimeout if nothing came.
        """
        raise NotImplementedError

    def _interrupted(self) -> bool:
        """Does the worker stop, or has it to read other queues now?"""
        return (
            self.running.stopping.is_set()
            or self.running.pauses is not self._pauses
            or self.lapsed is not self._lapsed_read
        )

    def _read(self, operation: Operation[R]) -> R:
        self.reading = True
        try:
            return accept_lower_durability(lambda: self.manager.run(operation))
        finally:
            self.reading = False

    def _accepted(
        self, messages: list[Message]
    ) -> tuple[list[Message], list[Any], list[tuple[Message, Exception]]]:
        """Split messages: those that can be handled, the argument for each, and the others, each with its error."""
        good: list[Message] = []
        arguments: list[Any] = []
        bad: list[tuple[Message, Exception]] = []
        for message in messages:
            try:
                arguments.append(self.consumer.payload.one(message))
                good.append(message)
            except Exception as error:  # noqa: BLE001 - the application's own type may raise anything
                self._count(error, [message])
                bad.append((message, error))
        return good, arguments, bad

    def _run(
        self,
        unit: Unit,
        arguments: list[Any],
        renew: Callable[[], object],
        commit: Callable[[], None],
        give_back: Callable[[str], None],
    ) -> BaseException | None:
        """Run the handler, then ``commit``. Returns the error of the attempt, which is counted, None if it succeeded.

        If the handler is cancelled and does not end, its messages are given back meanwhile: it returns GivenUp.
        Raises the error of a commit, or of a send of the unit, that failed because the broker cannot do anything at the
        moment.
        """
        consumer, running, begun = self.consumer, self.running, time.monotonic()

        def renew_and_pass() -> None:
            running.pass_lapsed(self, unit.messages)
            renew()

        def give_up(reason: Exception) -> None:
            log.warning(
                "%s still runs with message %s, %.1f s after its start: %s; a call that blocks, or a coroutine that "
                "ignores its cancellation, cannot be interrupted, so the message is given back now, and the handler's "
                "result will not count",
                consumer.name,
                ", ".join(f"{message.lookup_id:#018x}" for message in unit.messages),
                time.monotonic() - begun,
                reason,
            )
            self._count(from_handler(reason, consumer.handler), unit.messages)
            give_back(self._return_instruction(reason, unit.messages))
            self.prefetch.give_back()
            running.pass_lapsed(self)

        held = Held(
            renew_and_pass,
            self.lease,
            max_hold=consumer.max_hold,
            time_limit=consumer.time_limit,
            on_cancel=unit._lose,
            on_overdue=give_up,
        )
        running.keeper.add(held, Handling(consumer, unit.messages, begun))
        try:
            error = self._call_handler(held, unit, arguments)
            if not held.end():
                seconds = time.monotonic() - begun
                log.warning("%s has ended at last, %.1f s after its start: %r", consumer.name, seconds, error)
                return GivenUp(str(error))
            if unit.broker_error is not None and error is unit.broker_error:
                raise unit.broker_error
            error = error or self._commit(commit)
        finally:
            running.keeper.remove(held)
        if isinstance(error, TransactionSequence):
            log.warning("%s lost its message before the commit: %s", consumer.name, error)
            return Cancelled(str(error))
        if error is None:
            consumer.handled += len(unit.messages)
        else:
            self._count(error, unit.messages, lapsed=time.monotonic() > held.until)
        return error

    def _call_handler(self, held: Held, unit: Unit, arguments: list[Any]) -> BaseException | None:
        """Run the handler. Returns what it raised, or why it was cancelled; None if it succeeded."""
        consumer = self.consumer
        try:
            argument = arguments if consumer.payload.many else arguments[0]
            if consumer.is_async:
                tx = AsyncUnit(unit)
                arguments = [argument, tx] if consumer.takes_tx else [argument]
                loop, thread = self.running.loop()
                held.run_async(tx._run(consumer.handler, *arguments), loop, thread.ident)
            else:
                given = (argument, unit) if consumer.takes_tx else (argument,)
                self._run_plain(held, *given)
            if held.reason is not None:
                raise Cancelled(str(held.reason))
        except Cancelled as cancelled:
            why = held.reason or cancelled
            if isinstance(why, TimeLimitExceeded | HandlerCancelled):
                return why
            log.warning("%s was cancelled: %s", consumer.name, why)
            return cancelled
        except Exception as error:  # noqa: BLE001 - whatever a handler raises is its failure, not ours
            return from_handler(error, consumer.handler)
        return None

    def _run_plain(self, held: Held, *given: Any) -> None:
        """Run a handler that is no coroutine function. Raises InvalidArgument if it returns a coroutine."""
        answer = held.run(self.consumer.handler, *given)
        if inspect.iscoroutine(answer):
            answer.close()
            raise InvalidArgument(
                f"{self.consumer.name} is a plain function that returned a coroutine, which was not run: "
                "write it as `async def`, and await the coroutine there"
            )

    def _commit(self, commit: Callable[[], None]) -> Exception | None:
        """Commit the work of a handler. Returns the error if a message that it has sent is refused.

        Raises the error of a broker that cannot do anything at the moment.
        """
        try:
            accept_lower_durability(commit)
        except BROKER_ERRORS:
            raise
        except Exception as error:  # noqa: BLE001 - the handler sent what cannot be sent: its failure
            return error
        return None

    def _after_failure(
        self,
        queue: Queue,
        error: BaseException,
        messages: Sequence[Message],
        give_back: Callable[[str], None],
    ) -> None:
        """Give the messages back after a failure."""
        if isinstance(error, GivenUp):
            return
        give_back(self._return_instruction(error, messages))
        self._pause_without_policy(queue, error)

    def _count(self, error: BaseException, messages: Sequence[Message], *, lapsed: bool = False) -> None:
        """Count the messages that were rejected or that failed, and log them. ``lapsed``: after their lease."""
        if isinstance(error, Reject) and not self.consumer.isolates(messages):
            for message in messages:
                self._rejected(message, error)
        elif not isinstance(error, Cancelled | RetryLater):
            self.running.failed(self.consumer, messages, error, lapsed=lapsed)
            if self.consumer.isolates(messages):
                self.consumer.isolated += len(messages)
            else:
                self.consumer.failed += len(messages)

    def _pause_without_policy(self, queue: Queue, error: BaseException) -> None:
        """Wait if no retry policy delays the message that has failed: it is in a subqueue, or the policy was removed.

        It was given back before, so its lease does not matter.
        """
        if not isinstance(error, Cancelled | Reject | RetryLater) and not self.consumer.policy_of(queue.name):
            self.running.stopping.wait(self.consumer.retry.delay)

    def _return_instruction(self, error: BaseException, messages: Sequence[Message]) -> str:
        """How messages are given back after their handler has ended with this error."""
        if isinstance(error, Cancelled):
            return giveback.orderly()
        if self.consumer.isolates(messages) and not isinstance(error, RetryLater):
            return giveback.alone()
        return self._report.return_instruction(error, self.consumer.retry.delay)

    def _rejected(self, message: Message, error: Reject) -> None:
        self.consumer.rejected += 1
        log.warning("message %#018x of %s is rejected: %s", message.lookup_id, message.queue, error)

    def _lost(self, error: MqError) -> None:
        log.warning("%s: %s; it may be handled again", self.consumer.name, error)
