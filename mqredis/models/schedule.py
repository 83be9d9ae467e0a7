"""The report of a schedule for operators.

``operations.schedules`` makes them; ``QueueManager`` returns them, and ``cli.schedules`` and the console show them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from mqredis.models.message import Message


@dataclass(frozen=True, slots=True)
class ScheduleInfo:
    """A schedule that is stored in the broker (``QueueManager.schedules``)."""

    name: str
    """Name of the schedule."""
    queue: str
    """Name of the queue to which its message is sent."""
    cron: str | None
    """The cron expression of its times; None: it has an interval."""
    interval: float | None
    """Seconds between two times, counted from 1970; None: it has a cron expression."""
    timezone: str
    """Time zone of the cron expression."""
    message: Message
    """The message that it sends, without an id or a time. Its body is ``message.body``."""
    next_at: datetime | None
    """Its next time; None: it is paused."""
    last_at: datetime | None
    """When it last sent its message; None: never."""
    declared: bool
    """Does the code of a worker declare it? Such a schedule is served by the workers that declare it, others by all."""
    overdue: bool
    """Its time has come, and no worker has served it yet."""
    damaged: bool
    """Its message is missing in the broker, or cannot be read: ``message`` is empty, and the schedule sends nothing
    until it is removed and created again."""

    @property
    def paused(self) -> bool:
        """True if it sends nothing until it is resumed."""
        return self.next_at is None
