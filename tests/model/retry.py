"""The retry policy of a queue: what becomes of a message that its reader gave back or let lapse.

Decided by how often it was delivered. A round is one delivery and the immediate retries; between rounds the message
rests in the subqueue ``retry``; after the last round the policy's end is due.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tests.model.adm import Position, Queue, Reason, State, UnitOfWork

if TYPE_CHECKING:
    from tests.model.store import Store


def judges(position: Position) -> bool:
    """It is the queue's rule about its readers: not about its subqueues, uncommitted sends and open moves."""
    holder = position.holder
    moved = isinstance(holder, UnitOfWork) and any(
        o.position is position and o.kind == "move" for o in holder.operations
    )
    queue = position.queue
    return bool(queue.own.retry) and queue.parent is None and not (position.sending or moved)


def fate(store: Store, position: Position) -> str:
    """again, rest, or the end of the policy."""
    policy = position.queue.own.retry
    assert policy is not None
    count = position.stored.deliveries
    if store.expired(position):
        return "again"  # and it leaves as expired
    if count >= policy.deliveries:
        return policy.final
    return "rest" if count % (1 + policy.immediate) == 0 else "again"


def judge(store: Store, position: Position) -> None:
    """The message is in nobody's hand any more: where does it go?"""
    queue, due = position.queue, fate(store, position)
    position.state, position.holder, position.allow_peek = State.AVAILABLE, None, False
    if due == "again":
        store.available([position])
    elif due == "dead_letter":
        store.deleted([position], Reason.POISON)
    elif due == "reject":
        store.deleted([position], Reason.REJECTED)
    elif due == "drop":
        store.deleted([position], Reason.DROPPED)
    else:
        target = store.find(f"{queue.name};{'retry' if due == 'rest' else 'poison'}", make=True)
        assert target is not None
        store.relocate([position], target)
        if due == "rest":
            queue.resting[position.lookup_id] = store.now() + rest(position)


def rest(position: Position) -> float:
    """How long it rests before the next round, in seconds."""
    policy = position.queue.own.retry
    assert policy is not None
    rounds = position.stored.deliveries / (1 + policy.immediate)
    long = math.floor(policy.delay * 1000 * policy.factor ** (rounds - 1)) / 1000
    return min(policy.max_delay, long)


def back(store: Store, queue: Queue, rested: Sequence[int]) -> None:
    """The rest of these is over: back to their places, except what a reader took from ``;retry`` meanwhile."""
    for lookup_id in rested:
        del queue.resting[lookup_id]
    source = store.queues.get(f"{queue.name};retry")
    if source is not None:
        there = [source.positions[n] for n in rested if n in source.positions]
        store.relocate([p for p in there if p.state is State.AVAILABLE and p.ready], queue)
