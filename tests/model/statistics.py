"""Statistics of a queue, without ages and rates, which depend on the clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mqredis.models import QueueStatistics
from tests.model.adm import Queue, Reason, State

if TYPE_CHECKING:
    from tests.model.store import Store


def statistics(store: Store, queue: Queue) -> QueueStatistics:
    """What is in a queue and passed through it; of each priority only whether a message is there."""
    positions = list(queue.positions.values())
    free = [p for p in positions if p.state is State.AVAILABLE]
    ready = [p for p in free if p.ready]
    name = queue.name.partition(";")[0]
    beside = {part: store.queues.get(f"{name};{part}") for part in ("journal", "retry", "poison", "lapsed")}
    held = {part: [p.stored.size for p in q.positions.values()] if q else [] for part, q in beside.items()}
    held["retry"] += held.pop("lapsed")
    sizes_beside: dict[str, Any] = {f"{part}_messages": len(sizes) for part, sizes in held.items()}
    sizes_beside |= {f"{part}_bytes": sum(sizes) for part, sizes in held.items()}
    return QueueStatistics(
        name=queue.name,
        ready=len(ready),
        delayed=len(free) - len(ready),
        locked=len(positions) - len(free),
        messages=len(positions),
        bytes=sum(p.stored.size for p in positions),
        waiters=len(queue.waiters),
        **sizes_beside,
        total_in=queue.left + len(positions),
        total_out=queue.left,
        expired=queue.reasons[Reason.EXPIRED],
        purged=queue.reasons[Reason.PURGED],
        rejected=queue.reasons[Reason.REJECTED],
        poisoned=queue.reasons[Reason.POISON],
        dropped=queue.reasons[Reason.DROPPED],
        retried=queue.retried,
        dead=queue.dead_letters,
        oldest_seconds={7 - (p.lookup_id >> 56): 0.0 for p in ready},
        rate_in=0.0,
        rate_out=0.0,
        rate_seconds=0.0,
    )
