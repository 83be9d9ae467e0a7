"""One thread of a consumer: read, run the handler, settle, and again.

The locks of handled messages are committed by the call that reads the next ones: one round trip per batch. What a
handler did not finish is given back with a report, and the queue's retry policy decides what becomes of it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from mqredis.client import LockedMessage, Queue, QueueManager, Transaction
from mqredis.commands import read
from mqredis.commands.read import Lost
from mqredis.errors import IoTimeout, LockLost, MqError, OperationCancelled, TransactionSequence
from mqredis.models import Message
from mqredis.operations import giveback, several
from mqredis.operations.settle import ends, settle, settling
from mqredis.operations.transaction import End
from mqredis.steps import Operation
from mqredis.worker.consumer import Consumer
from mqredis.worker.failure import Reporter
from mqredis.worker.keeper import Held
from mqredis.worker.outcomes import (
    Cancelled,
    HandlerCancelled,
    Reject,
    RetryLater,
    TimeLimitExceeded,
    reached,
)
from mqredis.worker.prefetch import Prefetch
from mqredis.worker.unit import AsyncUnit, Unit

if TYPE_CHECKING:
    from mqredis.worker.run import Running

R = TypeVar("R")
log = logging.getLogger("mqredis.worker")

#: A reader that nobody can wake comes back after so many seconds even if nothing arrives: the sign of life for health
#: checks. Where readers are woken, one poll looks for all of them, and tells that they live.
LOOK_SECONDS = 5.0
#: While its queues are never empty, a consumer looks this often for messages whose lease lapsed, in seconds.
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
        self.manager: QueueManager = running.manager
        self.transactional = queues[0].handle.transactional
        self.lease = consumer.lease or running.settings.lease_seconds
        #: It is reading, or waiting for something to read.
        self.reading = False
        # A rate counts single messages.
        single = self.transactional or consumer.payload.many or bool(consumer.rate)
        self.prefetch = Prefetch(1 if single else consumer.prefetch, self.lease, running.keeper)
        self._report = Reporter(running.name, consumer.name, sealed=running.sealed)
        self._done: list[LockedMessage] = []
        self._held: list[LockedMessage] = []
        self._transaction: Transaction | None = None
        #: The pauses at the beginning of the present turn.
        self._pauses = running.pauses
        #: When to look for lapsed messages next; not in the turn after one was handled.
        self._lapsed_next = time.monotonic() + LAPSED_SECONDS
        self._lapsed_last = False

    def turn(self, timeout: float | None) -> bool:
        """Read once and handle what came; False if nothing did. Raises MqError if the broker cannot be read."""
        if self.lapsed and not self._lapsed_last and time.monotonic() >= self._lapsed_next:
            self.flush()  # what was handled does not wait for the handler of another message
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
        """Those of the queues that no operator has paused."""
        pauses = self.running.pauses
        return [queue for queue in queues if not pauses.queue(queue.name)] if pauses else queues

    def _turn(self, queues: list[Queue], timeout: float | None) -> bool:
        """Read from these queues, or if they are empty from those with lapsed messages."""
        self._pauses = self.running.pauses
        queues, lapsed = self._readable(queues), self._readable(self.lapsed)
        if not queues and not lapsed:
            return False
        try:
            if self.transactional:
                return self._turn_in_transaction([*queues, *lapsed], len(queues), timeout)
            return self._turn_with_locks([*queues, *lapsed], len(queues), timeout)
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
        for queue in (*self.queues, *self.lapsed):
            own = ends("c", done, queue)
            while own:
                some, own = own[: read.BATCH], own[read.BATCH :]
                operation = settle(queue.handle, some)
                self._all_lost(reached(partial(self.manager._run, operation)).lost)

    def give_back(self) -> None:
        """Another thread ends this one's work: its messages become available again, which is no failed attempt."""
        try:
            self.flush()
            for lock in list(self._held):
                if not lock.settled:
                    self._give_back(lock.queue, lock, giveback.orderly())
            if self._transaction is not None:
                self._end(partial(self._abort, self._transaction, giveback.orderly()))
        except MqError as error:
            log.warning("%s could not give back its messages: %s", self.consumer.name, error)

    # ---- locks -----------------------------------------------------------------------------------

    def _turn_with_locks(self, queues: list[Queue], regular: int, timeout: float | None) -> bool:
        """``regular``: so many of the queues may give several messages at once."""
        consumer = self.consumer
        done, self._done = self._done, []
        handles = [queue.handle for queue in queues]
        earlier = [settling(queue.handle, [d for d in done if d.grant.queue is queue]) for queue in queues]
        self._done = [d for d in done if d.grant.queue not in queues]
        several_at_once = consumer.batch if consumer.payload.many else self.prefetch.count
        operation = several.lock(
            handles,
            [several_at_once if n < regular else 1 for n in range(len(queues))],
            timeout,
            self.lease,
            earlier,
            (self.running.scope,),
            self._interrupted,
        )
        try:
            at, found = self._read(operation)
        finally:
            for group in earlier:
                if group.lost:
                    self._all_lost((lookup_id, "") for lookup_id in group.lost)
                if group.pending():
                    unsettled = {*group.keys[group.done :]}
                    self._done += [lock for lock in done if lock.key in unsettled]
        consumer.looked = time.monotonic()
        queue = queues[at]
        locks = queue.locked_messages(found.whole())
        if self.prefetch.most > 1 and at < regular:
            self.prefetch.run(
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

    def _interrupted(self) -> bool:
        """Does the worker stop, or has an operator changed what it reads?"""
        return self.running.stopping.is_set() or self.running.pauses is not self._pauses

    def _ending(self) -> bool:
        return self.running.stopping.is_set() or self.running.first is not None or self.paused

    def _handle_one(self, queue: Queue, lock: LockedMessage) -> bool:
        self._handle_locks(queue, [lock])
        return bool(self._done) and self._done[-1] is lock

    def _read(self, operation: Operation[R]) -> R:
        self.reading = True
        try:
            return reached(lambda: self.manager.run(operation))
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
        good, arguments, bad = self._accepted(messages)
        for message, given in bad:
            self._give_back(queue, lock_of.pop(id(message)), given)
        if not good:
            return
        unit = Unit(self.manager, self.running.open, good, None)
        error = self._run(unit, arguments, lambda: self._renew(list(lock_of.values())), unit.flush)
        if error is None:
            self._done += lock_of.values()
            return
        given = self._given(queue, error, good)
        for lock in lock_of.values():
            self._give_back(queue, lock, given)

    def _renew(self, locks: list[LockedMessage]) -> None:
        for lock in locks:
            lock.extend(self.lease)

    def _give_back(self, queue: Queue, lock: LockedMessage, given: str) -> None:
        operation = settle(queue.handle, [(given, lock.fence, lock.key)])
        self._all_lost(reached(partial(self.manager._run, operation)).lost)
        lock._settled = True

    # ---- transactions ----------------------------------------------------------------------------

    def _turn_in_transaction(self, queues: list[Queue], regular: int, timeout: float | None) -> bool:
        consumer = self.consumer
        transaction = self.manager.transaction(lease=self.lease)
        operation = several.receive(
            [queue.handle for queue in queues],
            [consumer.batch if n < regular else 1 for n in range(len(queues))],
            timeout,
            transaction.unit,
            (self.running.scope,),
            self._interrupted,
        )
        at, messages = self._read(operation)
        consumer.looked = time.monotonic()
        self._transaction = transaction
        try:
            self._handle_received(queues[at], messages, transaction)
        finally:
            self._transaction = None
        return True

    def _handle_received(self, queue: Queue, messages: list[Message], transaction: Transaction) -> None:
        good, arguments, bad = self._accepted(messages)
        verdicts = {f"{message.lookup_id:016x}": given for message, given in bad}
        commit = partial(self._commit_transaction, transaction, verdicts)
        if not good:
            self._end(commit)
            return
        unit = Unit(self.manager, self.running.open, good, transaction)
        error = self._run(unit, arguments, lambda: transaction.extend(self.lease), commit)
        if error is not None:
            self._end(partial(self._abort, transaction, self._given(queue, error, good), verdicts))

    def _commit_transaction(self, transaction: Transaction, verdicts: dict[str, str]) -> None:
        if verdicts:
            self.manager.run(End(transaction.unit, "commit", verdicts=verdicts))
        else:
            transaction.commit()

    def _abort(self, transaction: Transaction, given: str, verdicts: dict[str, str] | None = None) -> None:
        self.manager.run(End(transaction.unit, "abort", given=given, verdicts=verdicts))

    def _end(self, action: Callable[[], object]) -> None:
        try:
            reached(action)
        except TransactionSequence as error:
            self._lost(error)

    # ---- common ----------------------------------------------------------------------------------

    def _accepted(
        self, messages: list[Message]
    ) -> tuple[list[Message], list[Any], list[tuple[Message, str]]]:
        """Those that can be handled, with what the handler takes for each; and how the others are given back."""
        good: list[Message] = []
        arguments: list[Any] = []
        bad: list[tuple[Message, str]] = []
        for message in messages:
            try:
                arguments.append(self.consumer.payload.one(message))
                good.append(message)
            except Reject as refused:
                self._rejected(message, refused)
                bad.append((message, self._report.given(refused, 0.0)))
        return good, arguments, bad

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
        running.handlers[held] = (consumer, unit.messages, time.monotonic())
        try:
            argument = arguments if consumer.payload.many else arguments[0]
            if consumer.is_async:
                rest = (AsyncUnit(unit),) if consumer.takes_tx else ()
                held.run_async(consumer.handler(argument, *rest), running.loop())
            else:
                given = (argument, unit) if consumer.takes_tx else (argument,)
                held.run(consumer.handler, *given)
            if held.reason is not None:
                raise Cancelled(str(held.reason))
            reached(commit)
        except Cancelled as cancelled:
            why = held.reason or cancelled
            if isinstance(why, TimeLimitExceeded | HandlerCancelled):
                return why
            log.warning("%s was cancelled: %s", consumer.name, why)
            return cancelled
        except TransactionSequence as lost:
            log.warning("%s lost its message before the commit: %s", consumer.name, lost)
            return Cancelled(str(lost))
        except Exception as error:  # noqa: BLE001 - whatever a handler raises is its failure, not ours
            return error
        finally:
            running.keeper.remove(held)
            del running.handlers[held]
        consumer.handled += len(unit.messages)
        return None

    def _given(self, queue: Queue, error: BaseException, messages: Sequence[Message]) -> str:
        """How messages are given back whose handler ended with this."""
        if isinstance(error, Cancelled):
            return giveback.orderly()
        if isinstance(error, Reject):
            for message in messages:
                self._rejected(message, error)
        elif not isinstance(error, RetryLater):
            self.consumer.failed += 1
            self.running.failed(self.consumer, messages, error)
        delay = self.consumer.retry.delay
        if ";" in queue.name and queue not in self.lapsed:
            self.running.stopping.wait(delay)  # no retry policy keeps it away from its readers meanwhile
        return self._report.given(error, delay)

    def _rejected(self, message: Message, error: Reject) -> None:
        self.consumer.rejected += 1
        log.warning("message %#018x of %s is rejected: %s", message.lookup_id, message.queue, error)

    def _all_lost(self, lost: Iterable[Lost]) -> None:
        for lookup_id, _ in lost:
            self._lost(LockLost(f"the lock on message 0x{lookup_id} was lost before it was settled"))

    def _lost(self, error: MqError) -> None:
        log.warning("%s: %s; it may be handled again", self.consumer.name, error)
