"""Operations of several tasks in one call, as databases commit for several clients at once."""

from __future__ import annotations

import asyncio
import copy
import time
from collections import deque
from collections.abc import Sequence
from contextvars import Context
from typing import TYPE_CHECKING, Any, Generic, TypeVar

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

#: One call carries at most so many operations.
MOST = 256
#: Errors that tell the outcome of the call: it was done, or refused by the script.
_OUTCOMES = (EnqueueRefused, QueueNotAvailable, TransactionUsage, DurabilityNotReached)


class PendingCall(Generic[R]):
    """An operation that waits for the next call, and its caller."""

    __slots__ = ("alone", "future", "left", "operation", "since")

    def __init__(self, operation: Shareable[R], future: asyncio.Future[R]) -> None:
        self.operation = operation
        self.future = future
        self.since = time.monotonic()
        #: A call with it was refused: it goes by itself now.
        self.alone = False
        #: Its caller was cancelled.
        self.left = False


class Batcher(Generic[R]):
    """Operations of one kind on one handle: one call at a time. Those that come meanwhile go in the next call.

    Each caller gets the result, the refusal or the cancellation that it would get by itself.
    """

    def __init__(self, driver: AsyncDriver, kind: type[Shareable[R]]) -> None:
        self.loop = asyncio.get_running_loop()
        self._driver = driver
        self._kind = kind
        #: Is a call of this batcher under way?
        self.under_way = False
        self._waiting: deque[PendingCall[R]] = deque()
        self._task: asyncio.Task[None] | None = None

    async def run(self, operation: Shareable[R]) -> R:
        """Run an operation: at once if none is under way, else with the next call."""
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
        # A task of its own, which the cancellation of a caller does not end, and with the context of no caller.
        self._task = self.loop.create_task(self._carry(), name="mqredis-batcher", context=Context())
        return True

    async def _carry(self) -> None:
        try:
            while batch := self._next():
                await self._call(batch)
        finally:
            self.under_way = self._go_on()

    def _next(self) -> list[PendingCall[R]]:
        """Take out those that go in one call."""
        waiting = self._waiting
        batch: list[PendingCall[R]] = []
        while waiting and len(batch) < MOST and not (batch and waiting[0].alone):
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
        """One call for the batch; each caller gets its result, or waits for a call of its own."""
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
        """When its caller is to be answered."""
        return one.since + self._driver.core.patience

    def _failed(self, batch: list[PendingCall[R]], error: Exception) -> Sequence[Exception | None]:
        """The error of each caller; None: its operation goes again, since nothing was done."""
        if isinstance(error, EnqueueRefused) and len(batch) > 1:
            # One message may be the reason why all were refused: each goes by itself, in order.
            for one in batch:
                one.alone = True
            return [None] * len(batch)
        if isinstance(error, BrokerUnavailable):
            soon = time.monotonic() + self._driver.settings.retry_pause_max_seconds
            if soon >= self._deadline(batch[0]):  # the time of the first is over; that of others may not be
                return [_fresh(error) if soon >= self._deadline(one) else None for one in batch]
        if isinstance(error, DurabilityNotReached):
            short = [_fresh(error) for _ in batch]
            for fallen, result in zip(short, error.result, strict=True):
                fallen.result = result
            return short
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
        """Give the slot back, once the callers have gone on, so that what they do next goes in one call. A caller that
        was cancelled before that may ask for its outcome: then the slot keeps the reply."""
        try:
            await asyncio.sleep(0)
        finally:
            lost = sum(one.left for one in batch) if certain else 0
            for _ in range(lost):
                self._driver.core.remember(run.slot.latest())
            if not lost:
                self._driver.end(run)


def _fresh(error: E) -> E:
    """A copy, since a change that one caller makes to its error must not show in that of another."""
    found = copy.copy(error)
    found.__cause__ = error.__cause__
    return found
