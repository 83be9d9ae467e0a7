"""Schedules: messages at certain times, once each, however many workers run.

A schedule is one message, the tick, in a transactional queue of its own. It is delayed until the next time; whoever
receives it sends, in the same transaction, the message that is due and the tick of the time after. So a time is served
once or not yet, whatever dies when.
"""

from __future__ import annotations

import contextlib
from datetime import tzinfo
from typing import Any

from mqredis.client import QueueManager
from mqredis.errors import DuplicateMessage, InvalidArgument, QueueExists
from mqredis.models import Access, Message
from mqredis.worker.cron import Cron, Every
from mqredis.worker.unit import Unit

#: For so many seconds no second first tick is accepted: longer than a worker takes from looking for one to sending one.
_FIRST_SECONDS = 60.0


class Schedule:
    """One schedule of a worker."""

    def __init__(
        self,
        name: str,
        when: str | float,
        queue: str,
        body: bytes | str,
        fields: dict[str, Any],
        timezone: str | tzinfo = "UTC",
    ) -> None:
        self.name = name
        #: The queue of the tick.
        self.ticks = f"schedule.{name}"
        self._times = Cron(when, timezone) if isinstance(when, str) else Every(when)
        self._queue = queue
        self._body = body
        self._fields = fields

    def begin(self, manager: QueueManager) -> None:
        """Send the first tick, unless there is a tick.

        Workers that start at once may all find none. Their first ticks have the same dedup key, so that the broker
        takes one of them. The key outlives that tick by its window, since another worker may be about to send.
        """
        with contextlib.suppress(QueueExists):
            manager.create_queue(self.ticks, transactional=True)
        if manager.queue_info(self.ticks).messages:
            return
        now = clock(manager)
        slot = self._times.after(now)
        with (
            contextlib.suppress(DuplicateMessage),
            manager.open(self.ticks, Access.SEND) as queue,
            manager.transaction() as transaction,
        ):
            queue.send(
                b"",
                transaction=transaction,
                properties={"slot": slot},
                delay=slot - now,
                dedup_key="first",
                dedup_window=_FIRST_SECONDS,
            )

    def fire(self, tick: Message, tx: Unit) -> None:
        """The tick is due: send what is scheduled, and the next tick."""
        slot = tick.properties.get("slot")
        if not isinstance(slot, (int, float)) or isinstance(slot, bool):
            raise InvalidArgument(f"the tick of schedule {self.name!r} names no time")
        now = max(clock(tx.manager), slot)
        following = self._times.after(now)
        fields = {**self._fields}
        fields["properties"] = {**fields.get("properties", {}), "scheduled_for": slot}
        tx.send(self._queue, self._body, **fields)
        tx.send(self.ticks, b"", properties={"slot": following}, delay=following - now)


def clock(manager: QueueManager) -> float:
    """The broker's time in seconds since 1970; a test manager's clock may have been moved."""
    now = manager.driver.clock_ms()
    if manager.context.settings.test_clock:
        now += int(manager.driver.command("HGET", manager.context.keys.own[0], "clock") or 0)
    return now / 1000
