"""Operations of several tasks in one call, as databases commit for several clients at once.

``drivers.aio`` uses it for operations that are shareable (``mqredis.steps.Shareable``: ``operations.send.Send`` and
``operations.settle.Settle``), one batcher for each handle and class of operations. All runs in one event loop, so
nothing is locked: no ``await`` stands between a look at ``under_way`` or the queue and its change.

An error of a joint call reaches each caller as a copy, or lets its operation be tried again (``_failed``): a new error
of sends that is no EnqueueRefused has to be weighed there and in ``_OUTCOMES``.
"""

from __future__ import annotations

import asyncio
import copy
import time
from collections import deque
from collections.abc import Sequence
from contextvars import Context
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from mqredis.commands.send import BATCH
from mqredis.errors import (
    BrokerUnavailable,
    DurabilityNotReached,
    EnqueueRefused,
    OutcomeUnknown,
    QueueNotAvailable,
    TransactionUsage,
)
from mqredis.steps import Shareable

if TYPE_CHECKING:
    from mqredis.drivers.aio import AsyncDriver
    from mqredis.drivers.session import Run

R = TypeVar("R")
E = TypeVar("E", bound=Exception)

# Errors that tell the outcome of the call: it was done, or refused by the script.
_OUTCOMES = (EnqueueRefused, QueueNotAvailable, TransactionUsage, DurabilityNotReached)


class PendingCall(Generic[R]):
    """An operation that waits for the next call, and its caller."""

    __slots__ = ("alone", "future", "left", "operation", "since")

    def __init__(self, operation: Shareable[R], future: asyncio.Future[R]) -> None:
        self.operation = operation
        self.future = future
        self.since = time.monotonic()
        # Must the operation go in a call of its own, since a joint call with it was refused?
        self.alone = False
        # Was the caller cancelled?
        self.left = False


class Batcher(Generic[R]):
    """Makes one call at a time for the operations of one kind on one handle. Operations that come during a call go
    together in the next one. With two calls under way messages would not be accepted in the order of their sends, which
    docs/guarantees.md promises.

    Each caller gets the result, the refusal or the cancellation that a call of its own would bring.
    """

    def __init__(self, driver: AsyncDriver, kind: type[Shareable[R]]) -> None:
        self.loop = asyncio.get_running_loop()
        self._driver = driver
        self._kind = kind
        # Is a call of this batcher under way?
        self.under_way = False
        self._waiting: deque[PendingCall[R]] = deque()
        self._task: asyncio.Task[None] | None = None

    async def run(self, operation: Shareable[R]) -> R:
        """Run an operation: at once if no call is under way, else in the next call."""
        if self.under_way:
            return await self._join(operation)
        self.under_way = True
        try:
            return await self._driver.run_alone(operation)
        finally:
            self.under_way = bool(self._waiting) and self._go_on()

    async def _join(self, operation: Shareable[R]) -> R:
        one: PendingCall[R] = PendingCall(operation, self.loop.create_future())
        self._waiting.append(one)
        try:
            return await one.future
        except asyncio.CancelledError:
            one.left = True
            raise

    def _go_on(self) -> bool:
        """Begin the next call, if any operation waits for it."""
        waiting = self._waiting
        while waiting and waiting[0].future.done():
            waiting.popleft()
        if not waiting or self.loop.is_closed():
            return False
        # A separate task, so that the cancellation of a caller does not end it, with an empty context of its own.
        self._task = self.loop.create_task(self._carry(), name="mqredis-batcher", context=Context())
        return True

    async def _carry(self) -> None:
        try:
            while batch := self._next():
                await self._call(batch)
        finally:
            self.under_way = self._go_on()

    def _next(self) -> list[PendingCall[R]]:
        """Take the operations that go in one call out of the queue; as many settlements at most as sends."""
        waiting = self._waiting
        batch: list[PendingCall[R]] = []
        while waiting and len(batch) < BATCH and not (batch and waiting[0].alone):
            one = waiting.popleft()
            if one.future.done():
                continue  # cancelled: it was never sent
            batch.append(one)
            if one.alone:
                break
        stop = self._kind.fitting([one.operation for one in batch]) if len(batch) > 1 else len(batch)
        waiting.extendleft(reversed(batch[stop:]))
        return batch[:stop]

    async def _call(self, batch: list[PendingCall[R]]) -> None:
        """Make one call for the batch. Each caller gets its result, or its operation waits for another call."""
        run: Run | None = None
        certain = True
        try:
            operation = self._kind.joined([one.operation for one in batch])
            run = await self._driver.begin(self._deadline(batch[0]))
            self._answer(batch, await self._driver.carry_out(operation, run))
        except GeneratorExit:
            raise  # the loop is gone
        except Exception as error:  # noqa: BLE001 - each caller gets it
            certain = isinstance(error, _OUTCOMES)
            self._answer(batch, self._failed(batch, error))
        except BaseException:  # this task was cancelled or interrupted from outside
            token = run.unknown if run else ""
            text = "the task that made the call was cancelled; ask resolve(token)"
            self._answer(batch, [OutcomeUnknown(text, token=token) if token else None for _ in batch])
            if run:
                self._driver.end(run)
            raise
        if run:
            await self._part(batch, run, certain)

    def _deadline(self, one: PendingCall[R]) -> float:
        """Until when, on the monotonic clock, the caller has to get a result."""
        return one.since + self._driver.settings.retry_seconds

    def _failed(self, batch: list[PendingCall[R]], error: Exception) -> Sequence[Exception | None]:
        """The error for each caller; None: its operation is tried again, since nothing was done."""
        if isinstance(error, EnqueueRefused) and len(batch) > 1:
            # One message may be the reason why all were refused: each goes in a call of its own, in order.
            for one in batch:
                one.alone = True
            return [None] * len(batch)
        if isinstance(error, BrokerUnavailable):
            # A call gives up shortly before the deadline of its first caller (``Attempt._in_time``), or earlier if the
            # server has never been reached: then nobody's call is tried again.
            soon = time.monotonic() + self._driver.settings.retry_pause_max_seconds
            if soon >= self._deadline(batch[0]):  # the first caller's time is over; others may have time left
                return [_fresh(error) if soon >= self._deadline(one) else None for one in batch]
        if isinstance(error, DurabilityNotReached):
            short = [_fresh(error) for _ in batch]
            for fallen, result in zip(short, error.result, strict=True):
                fallen.result = result
            # A lost lock is lost, whatever level the others have reached.
            return [each.result if isinstance(each.result, Exception) else each for each in short]
        return [_fresh(error) for _ in batch]

    def _answer(self, batch: list[PendingCall[R]], answers: Sequence[R | Exception | None]) -> None:
        again = []
        for one, answer in zip(batch, answers, strict=True):
            if one.future.done():
                continue  # cancelled
            if answer is None:
                again.append(one)
            elif isinstance(answer, Exception):
                one.future.set_exception(answer)
            else:
                one.future.set_result(answer)
        self._waiting.extendleft(reversed(again))

    async def _part(self, batch: list[PendingCall[Any]], run: Run, certain: bool) -> None:
        """Give the slot back after the callers have continued, so that their next operations go in one call.

        A caller that was cancelled before may ask for its outcome, and the slot keeps the reply for that: then the slot
        is not given back.
        """
        try:
            await asyncio.sleep(0)
        finally:
            lost = sum(one.left for one in batch) if certain else 0
            for n in range(lost):
                self._driver.core.outcomes.add(run.slot.latest(), slot=None if n else run.slot)
            if not lost:
                self._driver.end(run)


def _fresh(error: E) -> E:
    """Copy an error, so that each caller may change its own."""
    found = copy.copy(error)
    found.__cause__ = error.__cause__
    return found
