"""Timers: leases, expiries, delays, rests, windows of dedup keys (3.1.7.2.7, law 9).

The next call serves it, queue by queue in the order of their names: first the leases, then the timers, each from
the earliest on, and no more than a portion of each at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.model import retry
from tests.model.adm import Position, Queue, Reason, State, UnitOfWork

if TYPE_CHECKING:
    from tests.model.store import Store

# How many leases and how many timers one visit serves.
PORTION = 32


def serve(store: Store) -> None:
    """Serve all due timers."""
    for name in sorted(store.queues):
        while name in store.queues and portion(store, store.queues[name]):
            pass
    for unit in [u for u in store.units.values() if u.deadline <= store.now()]:
        unit.open = False
        del store.units[unit.id]


def portion(store: Store, queue: Queue) -> bool:
    """Serve a portion of one queue; True if there may be more."""
    late = sorted(
        (p.holder.deadline, p.lookup_id, p)
        for p in queue.positions.values()
        if p.holder is not None and p.holder.deadline <= store.now()
    )[:PORTION]
    leases(store, [position for _, _, position in late])
    timers = sorted(due(store, queue), key=lambda timer: timer[:3])[:PORTION]
    gone = [p for _, kind, _, p in timers if kind == "e"]
    ready = [p for _, kind, _, p in timers if kind == "d" and p not in gone]
    rested = [lookup_id for _, kind, lookup_id, _ in timers if kind == "b"]
    for _, kind, key, _ in timers:
        if kind == "k":
            del queue.dedup[key]
    store.deleted(gone, Reason.EXPIRED)
    store.available(ready)
    retry.back(store, queue, rested)
    return PORTION in (len(late), len(timers))


def leases(store: Store, positions: list[Position]) -> None:
    """End lapsed leases: release locks and remove uncommitted sends."""
    for position in positions:
        if position.holder in store.locks:
            position.holder.held = False
            store.locks.remove(position.holder)
    operations = {
        o.position: o for p in positions if isinstance(p.holder, UnitOfWork) for o in p.holder.operations
    }
    received = [p for p in positions if p in operations and operations[p].kind == "dequeue"]
    sent = [p for p in positions if p.sending]
    store.unlock([p for p in positions if p not in received and p not in sent], lapsed=True)
    store.unlock(received, aborted=True, lapsed=True)
    store.deleted(sent, Reason.ABORTED)


def due(store: Store, queue: Queue) -> list[tuple[float, str, Any, Any]]:
    """Return the timers that are due: time, kind, subject."""
    found: list[tuple[float, str, Any, Any]] = []
    for p in queue.positions.values():
        if p.state is State.AVAILABLE and p.stored.expires is not None:
            found.append((p.stored.expires, "e", p.lookup_id, p))
        if p.state is State.AVAILABLE and not p.ready:
            found.append((p.stored.due, "d", p.lookup_id, p))
    found += [(until, "b", lookup_id, None) for lookup_id, until in queue.resting.items()]
    found += [(until, "k", key, None) for key, until in queue.dedup.items()]
    return [timer for timer in found if timer[0] <= store.now()]
