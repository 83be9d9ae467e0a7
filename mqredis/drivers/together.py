"""Calls of several tasks in one, as databases commit for several at once (docs/decisions/0033)."""

from __future__ import annotations

import asyncio
import copy
import time
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from contextvars import Context
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from mqredis.commands.read import Settlement
from mqredis.errors import (
    BrokerUnavailable,
    DurabilityNotReached,
    EnqueueRefused,
    OutcomeUnknown,
    QueueNotAvailable,
    TransactionUsage,
)
from mqredis.models import Sent
from mqredis.operations import send, settle, straight
from mqredis.operations.context import Handle
from mqredis.steps import Operation

if TYPE_CHECKING:
    from mqredis.drivers.aio import AsyncDriver
    from mqredis.drivers.session import Run

W = TypeVar("W")
A = TypeVar("A")
E = TypeVar("E", bound=Exception)

#: So many wishes one call carries at most.
MOST = 256
#: Errors that say what has become of the call: done, or refused by the script.
_ANSWERS = (EnqueueRefused, QueueNotAvailable, TransactionUsage, DurabilityNotReached)


class Waiting(Generic[W, A]):
    """What one caller wants done, and waits for."""

    __slots__ = ("alone", "future", "left", "since", "wish")

    def __init__(self, wish: W, future: asyncio.Future[A]) -> None:
        self.wish = wish
        self.future = future
        self.since = time.monotonic()
        #: A call with it was refused: it goes by itself now.
        self.alone = False
        #: Its caller was cancelled.
        self.left = False


class Together(Generic[W, A]):
    """What the tasks of one event loop want of a handle: one call at a time, and what comes meanwhile gathers for the
    next.

    ``many`` does what several want, with an answer or an error for each; ``fit`` says how many of these one call takes.
    """

    def __init__(
        self,
        driver: AsyncDriver,
        many: Callable[[Sequence[W]], Operation[Sequence[A | Exception]]],
        fit: Callable[[Sequence[W]], int],
    ) -> None:
        self._driver = driver
        self._many = many
        self._fit = fit
        self.loop = asyncio.get_running_loop()
        self.under_way = False
        self._gathered: deque[Waiting[W, A]] = deque()
        self._task: asyncio.Task[None] | None = None

    def ended(self) -> None:
        """What one wanted by himself is done, or has failed."""
        self.under_way = bool(self._gathered) and self._go_on()

    async def join(self, wish: W) -> A:
        """With the next call."""
        one: Waiting[W, A] = Waiting(wish, self.loop.create_future())
        self._gathered.append(one)
        try:
            return await one.future
        except asyncio.CancelledError:
            one.left = True
            raise

    def _go_on(self) -> bool:
        """What was under way has ended: what has gathered goes now. Is there anything?"""
        gathered = self._gathered
        while gathered and gathered[0].future.done():
            gathered.popleft()
        if not gathered or self.loop.is_closed():
            return False
        # A task of its own, which no caller's cancellation ends; and of no caller's context.
        self._task = self.loop.create_task(self._carry(), name="mqredis-together", context=Context())
        return True

    async def _carry(self) -> None:
        try:
            while batch := self._next():
                await self._call(batch)
        finally:
            self.under_way = self._go_on()

    def _next(self) -> list[Waiting[W, A]]:
        """Those that go now, taken out."""
        gathered = self._gathered
        batch: list[Waiting[W, A]] = []
        while gathered and len(batch) < MOST and not (batch and gathered[0].alone):
            one = gathered.popleft()
            if one.future.done():
                continue  # cancelled: it was never sent
            batch.append(one)
            if one.alone:
                break
        stop = self._fit([one.wish for one in batch]) if len(batch) > 1 else len(batch)
        gathered.extendleft(reversed(batch[stop:]))
        return batch[:stop]

    async def _call(self, batch: list[Waiting[W, A]]) -> None:
        """One call for all of them; each is told what became of his, or waits for a call of its own."""
        runs: list[Run] = []
        answered = True
        try:
            operation = self._many([one.wish for one in batch])
            self._tell(batch, await self._driver.run(operation, self._deadline(batch[0]), runs.append))
        except GeneratorExit:
            raise  # the loop is gone
        except Exception as error:  # noqa: BLE001 - each caller gets it
            answered = isinstance(error, _ANSWERS)
            self._tell(batch, self._failed(batch, error))
        except BaseException:  # somebody has cancelled a task that is ours, or interrupted it
            token = runs[0].unknown if runs else ""
            text = "the task that made the call was cancelled; ask resolve(token)"
            self._tell(batch, [OutcomeUnknown(text, token=token) if token else None for _ in batch])
            if runs:
                runs[0].slot.session.give(runs[0].slot)
            raise
        if runs:
            await self._part(batch, runs[0], answered)

    def _deadline(self, one: Waiting[W, A]) -> float:
        """When its caller is to be answered."""
        return one.since + self._driver.core.patience

    def _failed(self, batch: list[Waiting[W, A]], error: Exception) -> Sequence[Exception | None]:
        """What each is told; None: he goes again, since nothing was done."""
        if isinstance(error, EnqueueRefused) and len(batch) > 1:
            # One may be to blame for all: each by itself, in order.
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

    def _tell(self, batch: list[Waiting[W, A]], answers: Sequence[A | Exception | None]) -> None:
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
        self._gathered.extendleft(reversed(again))

    async def _part(self, batch: list[Waiting[W, A]], run: Run, answered: bool) -> None:
        """Give the slot back, once those who were answered have gone on. Who was cancelled before that may ask what
        became of it, so the slot keeps its answer. What they want next goes together."""
        try:
            await asyncio.sleep(0)
        finally:
            slot = run.slot
            lost = sum(one.left for one in batch) if answered else 0
            for _ in range(lost):
                self._driver.core.remember(slot.latest())
            if not lost:
                slot.session.give(slot)


def _fresh(error: E) -> E:
    """Another one like it: what one caller does to his is not to show in another's."""
    found = copy.copy(error)
    found.__cause__ = error.__cause__
    return found


class Gathering:
    """What is gathered for a handle in one event loop."""

    def __init__(self, driver: AsyncDriver, handle: Handle) -> None:
        self.loop = asyncio.get_running_loop()
        self._driver = driver
        self._handle = handle
        self.sends = Together(driver, partial(send.put_each, handle), send.fit)
        self.settlements = Together(driver, partial(settle.settle_each, handle), settle.apart)

    async def _alone(self, prepared: send.Prepared) -> Sent:
        handle, driver, turn, asked = self._handle, self._driver, self.sends, None
        turn.under_way = True
        try:
            if (ask := straight.putting(handle, prepared, None)) is not None:
                answer = await driver.straight(*ask, self.loop)
                if answer is not None:
                    if (sent := straight.put(handle, prepared, answer, None)) is not None:
                        return sent
                    asked = straight.asked(ask, answer)
            return await driver.run(send.put_one(handle, prepared, None, asked))
        finally:
            turn.ended()

    def send(self, prepared: send.Prepared) -> Coroutine[Any, Any, Sent]:
        """Send a message, with those of others if they are waiting for a call."""
        sends = self.sends
        if not sends.under_way:
            return self._alone(prepared)
        if send.shares(prepared):
            return sends.join(prepared)
        return self._driver.run(send.put_one(self._handle, prepared))

    async def _settle_alone(self, settlement: Settlement) -> float:
        handle, driver, turn, asked = self._handle, self._driver, self.settlements, None
        action, fence, key = settlement
        turn.under_way = True
        try:
            if action == "c" and (ask := straight.settling(handle, fence, key)) is not None:
                answer = await driver.straight(*ask, self.loop)
                if answer is not None:
                    if straight.settled(handle, answer, fence, key):
                        return time.monotonic()
                    asked = straight.asked(ask, answer)
            return await driver.run(settle.settle_one(handle, settlement, None, asked))
        finally:
            turn.ended()

    def settle(self, settlement: Settlement) -> Coroutine[Any, Any, float]:
        """Settle a lock in the same way: when that was, on the monotonic clock."""
        if not self.settlements.under_way:
            return self._settle_alone(settlement)
        settle.still_open(self._handle)
        return self.settlements.join(settlement)
