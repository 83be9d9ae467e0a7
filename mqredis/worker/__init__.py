"""Workers: functions that handle the messages of queues. ``docs/worker.md`` shows how.

Applications make a ``Worker``; ``mqredis.django`` makes one for its tasks.
"""

from __future__ import annotations

from mqredis.worker.app import Worker
from mqredis.worker.consumer import Consumer
from mqredis.worker.outcomes import Cancelled, Reject, RetryLater
from mqredis.worker.retry import Retry
from mqredis.worker.unit import AsyncUnit, Unit

__all__ = ["AsyncUnit", "Cancelled", "Consumer", "Reject", "Retry", "RetryLater", "Unit", "Worker"]
