"""One thread of a consumer: read, run the handler, settle, and again.

The locks of handled messages are committed by the call that reads the next ones: one round trip per batch.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from mqredis.client import LockedMessage, Queue, QueueManager, Transaction
from mqredis.commands import read
from mqredis.commands.read import Lost
from mqredis.errors import (
    IoTimeout,
    LockLost,
    MessageNotFound,
    MqError,
    OperationCancelled,
    TransactionSequence,
)
from mqredis.models import Message
from mqredis.operations import several
from mqredis.operations.settle import ends, settle, settling
from mqredis.steps import Operation
from mqredis.worker.ahead import Ahead
from mqredis.worker.consumer import Consumer
from mqredis.worker.keeper import Held
from mqredis.worker.outcomes import Cancelled, Reject, RetryLater, TimeLimitExceeded, reached
from mqredis.worker.unit import AsyncUnit, Unit

if TYPE_CHECKING:
    from mqredis.worker.run import Running

R = TypeVar("R")
log = logging.getLogger("mqredis.worker")

#: A reader that nobody can wake comes back after so many seconds even if nothing arrives: the sign of life for health
#: checks. Where readers are woken, one glance looks for all of them, and tells that they live.
LOOK_SECONDS = 5.0
#: Longest lease the broker grants, in seconds.
_LONGEST = 86_400.0


class Loop:
    """Reads and handles for one consumer, in one thread."""

    def __init__(
        self, running: Running, consumer: Consumer, queues: Sequence[Queue], judged: Collection[str] = ()
    ) -> None:
        self.running = running
        self.consumer = consumer
        self.queues = list(queues)
        self.manager: QueueManager = running.manager
        self.transactional = queues[0]._handle.transactional
        self.lease = consumer.lease or running.settings.lease_seconds
        #: Queues whose own retry policy decides what becomes of failed messages.
        self.judged = judged
        #: It is reading, or waiting for something to read.
        self.reading = False
        # A rate counts single messages, and a queue's own policy would judge messages that nobody has handled.
        single = self.transactional or consumer.payload.many or bool(consumer.rate) or bool(judged)
        self.ahead = Ahead(1 if single else consumer.prefetch, self.lease, running.keeper)
        self._done: list[LockedMessage] = []
        self._held: list[LockedMessage] = []

    def turn(self, timeout: float | None) -> bool:
        """Read once and handle what came; False if nothing did. Raises MqError if the broker cannot be read."""
        try:
            if self.transactional:
                return self._turn_in_transaction(timeout)
            return self._turn_with_locks(timeout)
        except (IoTimeout, OperationCancelled):
            self.consumer.looked = time.monotonic()
            return False

    def flush(self) -> None:
        """Commit what was handled, without reading on."""
        done, self._done = self._done, []
        try:
            self._commit(done)
        except MqError:
            self._done = [*done, *self._done]
            raise

    def _commit(self, done: list[LockedMessage]) -> None:
        for queue in self.queues:
            own = ends("c", done, queue)
            while own:
                some, own = own[: read.BATCH], own[read.BATCH :]
                operation = settle(queue._handle, some)
                self._all_lost(reached(partial(self.manager._run, operation)).lost)

    def give_back(self) -> None:
        """Another thread ends this one's work: its messages become available again."""
        try:
            self.flush()
        except MqError as error:
            log.warning("%s could not commit what it handled: %s", self.consumer.name, error)
        for lock in list(self._held):
            if not lock.settled:
                try:
                    lock.abort()
                except MqError as error:
                    log.warning("message %#018x could not be given back: %s", lock.lookup_id, error)

    # ---- locks -----------------------------------------------------------------------------------

    def _turn_with_locks(self, timeout: float | None) -> bool:
        consumer = self.consumer
        done, self._done = self._done, []
        earlier = [
            settling(queue._handle, [d for d in done if d._grant.queue is queue]) for queue in self.queues
        ]
        handles = [queue._handle for queue in self.queues]
        operation = several.lock(
            handles,
            consumer.batch if consumer.payload.many else self.ahead.count,
            timeout,
            self.lease,
            earlier,
            (self.running.scope,),
            self.running.stopping.is_set,
        )
        try:
            at, found = self._read(operation)
        finally:
            for group in earlier:
                if group.lost:
                    self._all_lost((lookup_id, "") for lookup_id in group.lost)
                if group.pending():
                    unsettled = {*group.keys[group.done :]}
                    self._done += [lock for lock in done if lock._key in unsettled]
        consumer.looked = time.monotonic()
        queue = self.queues[at]
        locks = queue._locked(found.whole())
        if self.ahead.most > 1:
            self.ahead.run(
                queue,
                locks,
                partial(self._handle_one, queue),
                lambda: [*self._done],
                self.flush,
                self._ending,
            )
        else:
            self._handle_locks(queue, locks)
        return True

    def _ending(self) -> bool:
        return self.running.stopping.is_set() or self.running.first is not None

    def _handle_one(self, queue: Queue, lock: LockedMessage) -> bool:
        self._handle_locks(queue, [lock])
        return bool(self._done) and self._done[-1] is lock

    def _read(self, operation: Operation[R]) -> R:
        self.reading = True
        try:
            return reached(lambda: self.manager._run(operation))
        finally:
            self.reading = False

    def _handle_locks(self, queue: Queue, locks: list[LockedMessage]) -> None:
        self._held = locks
        try:
            self._handle_held(queue, locks)
        finally:
            self._held = []

    def _handle_held(self, queue: Queue, locks: list[LockedMessage]) -> None:
        # Not by lookup id, which would have to be read out of its message first: somebody waits for it.
        lock_of: dict[int, LockedMessage] = {}
        messages: list[Message] = []
        for lock in locks:
            lock_of[id(lock.message)] = lock
            messages.append(lock.message)

        def reject(message: Message, reason: str) -> None:
            self._bury(queue, message, reason, None)
            self._settle(partial(lock_of.pop(id(message)).reject, reason))

        good, arguments = self._accepted(messages, reject)
        if not good:
            return
        unit = Unit(self.manager, self.running.open, good, None)
        error = self._run(unit, arguments, lambda: self._renew(list(lock_of.values())), unit.flush)
        for message in good:
            lock = lock_of[id(message)]
            if error is None:
                self._done.append(lock)
            elif isinstance(error, Reject) or self._is_over(error, message):
                self._reason(message, error)
                self._bury(queue, message, self._why(error), None)
                self._settle(partial(lock.reject, self._why(error)))
            elif isinstance(error, Cancelled):
                self._settle(lock.abort)
            else:
                pause = self._pause(queue, error, message.delivery_count)
                self._settle(partial(lock.extend, pause) if pause else lock.abort)
                if pause:
                    queue._handle.locks.pop(lock._key, None)  # its lease is the pause now

    def _renew(self, locks: list[LockedMessage]) -> None:
        for lock in locks:
            lock.extend(self.lease)

    def _settle(self, action: Callable[[], object]) -> None:
        try:
            reached(action)
        except LockLost as error:
            self._lost(error)

    # ---- transactions ----------------------------------------------------------------------------

    def _turn_in_transaction(self, timeout: float | None) -> bool:
        consumer = self.consumer
        transaction = self.manager.transaction(lease=self.lease)
        handles = [queue._handle for queue in self.queues]
        operation = several.receive(
            handles,
            consumer.batch,
            timeout,
            transaction._unit,
            (self.running.scope,),
            self.running.stopping.is_set,
        )
        at, messages = self._read(operation)
        consumer.looked = time.monotonic()
        queue = self.queues[at]

        def reject(message: Message, reason: str) -> None:
            self._bury(queue, message, reason, transaction)

        good, arguments = self._accepted(messages, reject)
        error: BaseException | None = None
        if good:
            unit = Unit(self.manager, self.running.open, good, transaction)
            error = self._run(unit, arguments, lambda: transaction.extend(self.lease), transaction.commit)
        else:
            self._end(transaction.commit)
        if error is None:
            return True
        gone = [m for m in good if isinstance(error, Reject) or self._is_over(error, m)]
        if gone or isinstance(error, Cancelled):
            self._end(transaction.abort)
            for message in gone:
                self._reason(message, error)
                self._reject_later(queue, message, self._why(error))
            return True
        pause = self._pause(queue, error, max(m.delivery_count for m in good))
        self._end(transaction.abort)
        self._rest(queue, good, pause)
        return True

    def _rest(self, queue: Queue, messages: list[Message], pause: float) -> None:
        """Keep messages away from readers for a while: a move that is never committed ends with its lease."""
        if pause <= 0:
            return
        try:
            aside = self.running.open(f"{queue.name};later")
            transaction = self.manager.transaction(lease=pause)
            for message in messages:
                queue.move(message.lookup_id, aside, transaction=transaction)
        except MqError as error:
            log.info("a message of %s is tried again at once: %s", queue.name, error)

    def _reject_later(self, queue: Queue, message: Message, reason: str) -> None:
        """Reject a message whose transaction is undone: in a transaction of its own, if nobody has taken it."""
        try:
            with self.manager.transaction(lease=self.lease) as transaction:
                again = queue.receive_by_lookup_id(message.lookup_id, transaction=transaction)
                self._bury(queue, again, reason, transaction)
        except (MessageNotFound, MqError) as error:
            log.warning("message %#018x could not be rejected: %s", message.lookup_id, error)

    def _end(self, action: Callable[[], object]) -> None:
        try:
            reached(action)
        except TransactionSequence as error:
            self._lost(error)

    # ---- common ----------------------------------------------------------------------------------

    def _accepted(
        self, messages: list[Message], reject: Callable[[Message, str], None]
    ) -> tuple[list[Message], list[Any]]:
        """Those that may be handled, with what the handler takes for each; the others are rejected."""
        good: list[Message] = []
        arguments: list[Any] = []
        limit = self.consumer.retry.deliveries
        for message in messages:
            reason = ""
            if 0 < limit < message.delivery_count and message.queue not in self.judged:
                reason = f"delivered {message.delivery_count - 1} times without an end"
            else:
                try:
                    arguments.append(self.consumer.payload.one(message))
                    good.append(message)
                except Reject as refused:
                    reason = str(refused)
            if reason:
                log.warning("message %#018x of %s is rejected: %s", message.lookup_id, message.queue, reason)
                self.consumer.rejected += 1
                reject(message, reason)
        return good, arguments

    def _run(
        self, unit: Unit, arguments: list[Any], renew: Callable[[], object], commit: Callable[[], None]
    ) -> BaseException | None:
        """Run the handler, then ``commit``. Answers what it failed with."""
        consumer, running = self.consumer, self.running
        held = Held(
            renew,
            self.lease,
            max_hold=consumer.max_hold,
            time_limit=consumer.time_limit,
            on_cancel=unit._lose,
        )
        running.keeper.add(held)
        try:
            argument = arguments if consumer.payload.many else arguments[0]
            if consumer.is_async:
                rest = (AsyncUnit(unit),) if consumer.takes_tx else ()
                held.run_async(consumer.handler(argument, *rest), running.loop())
            else:
                given = (argument, unit) if consumer.takes_tx else (argument,)
                held.run(consumer.handler, *given)
            if held.reason is not None:
                raise held.reason
            reached(commit)
        except Cancelled as cancelled:
            why = held.reason or cancelled
            if not isinstance(why, TimeLimitExceeded):
                log.warning("%s was cancelled: %s", consumer.name, why)
                return cancelled
            return self._failed(why)
        except TransactionSequence as lost:
            log.warning("%s lost its message before the commit: %s", consumer.name, lost)
            return Cancelled(str(lost))
        except Exception as error:  # noqa: BLE001 - whatever a handler raises is its failure, not ours
            return self._failed(error)
        finally:
            running.keeper.remove(held)
        consumer.handled += len(unit.messages)
        return None

    def _failed(self, error: Exception) -> Exception:
        if not isinstance(error, (Reject, RetryLater)):
            self.consumer.failed += 1
            self.running.failed(self.consumer, error)
        return error

    def _is_over(self, error: BaseException, message: Message) -> bool:
        if isinstance(error, (Cancelled, RetryLater)) or message.queue in self.judged:
            return False
        return self.consumer.retry.over(message.delivery_count)

    def _pause(self, queue: Queue, error: BaseException, deliveries: int) -> float:
        if queue.name in self.judged:
            return 0.0
        if isinstance(error, RetryLater) and error.seconds is not None:
            return min(max(error.seconds, 0.0), _LONGEST)
        return self.consumer.retry.pause(deliveries)

    def _why(self, error: BaseException) -> str:
        return str(error) if isinstance(error, Reject) else f"{type(error).__name__}: {error}"

    def _reason(self, message: Message, error: BaseException) -> None:
        self.consumer.rejected += 1
        log.warning(
            "message %#018x of %s is rejected: %s", message.lookup_id, message.queue, self._why(error)
        )

    def _bury(self, queue: Queue, message: Message, reason: str, transaction: Transaction | None) -> None:
        """Put a copy among the consumer's dead letters, and end the message in its transaction."""
        if self.consumer.dead_letter:
            self.running.open(self.consumer.dead_letter).send(
                message.body,
                transaction=transaction,
                content_type=message.content_type,
                label=message.label,
                priority=message.priority,
                correlation_id=message.correlation_id,
                properties={
                    **message.properties,
                    "dead_letter_reason": reason[:1000],
                    "dead_letter_queue": message.queue,
                    "dead_letter_message_id": message.message_id,
                    "dead_letter_deliveries": message.delivery_count,
                },
            )
        elif transaction is not None:
            transaction.reject(queue, message, reason)

    def _all_lost(self, lost: Iterable[Lost]) -> None:
        for lookup_id, _ in lost:
            self._lost(LockLost(f"the lock on message 0x{lookup_id} was lost before its commit"))

    def _lost(self, error: MqError) -> None:
        log.warning("%s: %s; it may be handled again", self.consumer.name, error)
