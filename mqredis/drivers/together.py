"""Sends of several tasks in one call, as databases commit for several at once (docs/decisions/0033)."""

from __future__ import annotations

import asyncio
import copy
import time
from collections import deque
from collections.abc import Sequence
from contextvars import Context
from typing import TYPE_CHECKING, TypeVar

from mqredis.commands.send import BATCH
from mqredis.errors import (
    BrokerUnavailable,
    DurabilityNotReached,
    EnqueueRefused,
    OutcomeUnknown,
    QueueNotAvailable,
    TransactionUsage,
)
from mqredis.models import Sent
from mqredis.operations.context import Handle
from mqredis.operations.send import Prepared, fitting, put_together

if TYPE_CHECKING:
    from mqredis.drivers.aio import AsyncDriver
    from mqredis.drivers.session import Run

E = TypeVar("E", bound=Exception)

#: Errors that say what has become of the call: done, or refused by the script.
_ANSWERS = (EnqueueRefused, QueueNotAvailable, TransactionUsage, DurabilityNotReached)


class Waiting:
    """A message that is to go with others, and its sender."""

    __slots__ = ("alone", "future", "left", "prepared", "since")

    def __init__(self, prepared: Prepared, future: asyncio.Future[Sent]) -> None:
        self.prepared = prepared
        self.future = future
        self.since = time.monotonic()
        #: A batch with it was refused: it goes by itself now.
        self.alone = False
        #: Its sender was cancelled.
        self.left = False


class Sends:
    """The sends through one handle by the tasks of one event loop: one call at a time, and what comes meanwhile gathers
    for the next.

    Who finds nothing ``under_way`` sends by himself, sets it, and lets what has gathered ``go_on`` when that has ended.
    """

    def __init__(self, driver: AsyncDriver, handle: Handle) -> None:
        self._driver = driver
        self._handle = handle
        self.loop = asyncio.get_running_loop()
        self.under_way = False
        self.gathered: deque[Waiting] = deque()
        self._task: asyncio.Task[None] | None = None

    async def join(self, prepared: Prepared) -> Sent:
        """Send it with the next call."""
        one = Waiting(prepared, self.loop.create_future())
        self.gathered.append(one)
        try:
            return await one.future
        except asyncio.CancelledError:
            one.left = True
            raise

    def go_on(self) -> bool:
        """What was under way has ended: what has gathered goes now. Is there anything?"""
        gathered = self.gathered
        while gathered and gathered[0].future.done():
            gathered.popleft()
        if not gathered or self.loop.is_closed():
            return False
        # A task of its own, which no sender's cancellation ends; and of no sender's context.
        self._task = self.loop.create_task(self._carry(), name="mqredis-sends", context=Context())
        return True

    async def _carry(self) -> None:
        try:
            while batch := self._next():
                await self._send(batch)
        finally:
            self.under_way = self.go_on()

    def _next(self) -> list[Waiting]:
        """Those that go now, taken out."""
        gathered = self.gathered
        batch: list[Waiting] = []
        while gathered and len(batch) < BATCH and not (batch and gathered[0].alone):
            one = gathered.popleft()
            if one.future.done():
                continue  # cancelled: it was never sent
            batch.append(one)
            if one.alone:
                break
        stop = fitting([one.prepared[1] for one in batch])
        gathered.extendleft(reversed(batch[stop:]))
        return batch[:stop]

    async def _send(self, batch: list[Waiting]) -> None:
        """One call for all of them; each is told what became of his, or waits for a call of its own."""
        runs: list[Run] = []
        answered = True
        messages, encoded = zip(*(one.prepared for one in batch), strict=True)
        operation = put_together(self._handle, messages, encoded)
        try:
            self._tell(batch, await self._driver.run(operation, self._deadline(batch[0]), runs.append))
        except Exception as error:  # noqa: BLE001 - each sender gets it
            answered = isinstance(error, _ANSWERS)
            self._tell(batch, self._failed(batch, error))
        except asyncio.CancelledError:  # somebody has cancelled a task that is ours
            token = runs[0].unknown if runs else ""
            text = "the task that sent the message was cancelled; ask resolve(token)"
            self._tell(batch, [OutcomeUnknown(text, token=token) if token else None for _ in batch])
            if runs:
                runs[0].slot.session.give(runs[0].slot)
            raise
        if runs:
            await self._part(batch, runs[0], answered)

    def _deadline(self, one: Waiting) -> float:
        """When its sender is to be answered."""
        return one.since + self._driver.core.patience

    def _failed(self, batch: list[Waiting], error: Exception) -> Sequence[Exception | None]:
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

    def _tell(self, batch: list[Waiting], answers: Sequence[Sent | Exception | None]) -> None:
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
        self.gathered.extendleft(reversed(again))

    async def _part(self, batch: list[Waiting], run: Run, answered: bool) -> None:
        """Give the slot back, once those who were answered have gone on. Who was cancelled before that may ask what
        became of his message, so the slot keeps its answer. What they send next goes together."""
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
    """Another one like it: what one sender does to his is not to show in another's."""
    found = copy.copy(error)
    found.__cause__ = error.__cause__
    return found
