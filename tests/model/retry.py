"""The retry policy of a queue: what happens to a message that its reader released or whose lease lapsed.

Decided by its attempts. A round is one attempt and the immediate retries; between rounds the message rests in the
subqueue ``retry``; after the last round the policy's end is due.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tests.model.adm import Failure, Position, Queue, Reason, State, Stored, UnitOfWork

if TYPE_CHECKING:
    from tests.model.store import Store

# The number of bytes by which a dead letter may be larger than its message.
MARGIN = 1024


def judges(position: Position) -> bool:
    """Return whether the policy applies: not in subqueues, nor to uncommitted sends and open moves."""
    queue = position.queue
    return bool(queue.own.retry) and queue.parent is None and delivered(position)


def delivered(position: Position) -> bool:
    """Return whether a reader holds it: it is neither an uncommitted send nor an open move."""
    holder = position.holder
    moved = isinstance(holder, UnitOfWork) and any(
        o.position is position and o.kind == "move" for o in holder.operations
    )
    return not (position.sending or moved)


def fate(store: Store, position: Position) -> str:
    """Return ``again``, ``rest``, or the result of :func:`final` if the attempts are exhausted."""
    policy = position.queue.own.retry
    assert policy is not None
    count = attempts(position.stored)
    if store.expired(position):
        return "again"  # and it leaves as expired
    if count >= policy.attempts:
        return final(store, position)
    return "rest" if count % (1 + policy.immediate) == 0 else "again"


def attempts(stored: Stored) -> int:
    """Return the number of deliveries since the message left ``;poison``."""
    return stored.deliveries - stored.uncounted


def final(store: Store, position: Position) -> str:
    """Return where a message goes after its last attempt.

    A dead letter for which its queue has no room goes to ``;poison``; without room there it rests again.
    """
    queue, policy = position.queue, position.queue.own.retry
    assert policy is not None
    if policy.final == "dead_letter":
        stored = position.stored
        system = "system$;deadletter" if stored.transaction_id is None else "system$;deadxact"
        name = stored.asks.dead_letter_queue or system
        target = store.find(name, make=";" in name)
        if target is not None and not target.properties.topic and not full(target, position, *target.quota):
            return "dead_letter"
    elif policy.final != "poison":
        return policy.final
    poison = store.find(f"{queue.name};poison", make=True)
    assert poison is not None
    if full(poison, position, queue.own.poison_quota_messages, queue.own.poison_quota_bytes):
        return "rest"
    return "poison"


def full(to: Queue, position: Position, messages: int | None, octets: int | None) -> bool:
    """Return whether a queue for failed messages has no room for one more, including its growth in bytes."""
    held = [p.stored.size for p in to.positions.values()]
    return (messages is not None and len(held) + 1 > messages) or (
        octets is not None and sum(held) + position.stored.size + MARGIN > octets
    )


def fail(store: Store, position: Position, lapsed: bool, *, poison: bool) -> None:
    """Its attempts are exhausted: record the reason."""
    stored = position.stored
    stored.forgive()
    why = "the lease lapsed" if lapsed else "given back"
    reason = ""
    if poison and "reason" not in stored.origin:
        reason = "poison: the lease lapsed" if lapsed else "poison"
    stored.failure = Failure(attempts(stored), store.now(), why, reason)


def judge(store: Store, position: Position, lapsed: bool) -> None:
    """Move a message that its reader has released to where the policy puts it."""
    queue, due = position.queue, fate(store, position)
    queue.retried += due in ("again", "rest")
    position.state, position.holder, position.allow_peek = State.AVAILABLE, None, False
    if due == "again":
        store.available([position])
    elif due == "dead_letter":
        fail(store, position, lapsed, poison=False)
        store.deleted([position], Reason.POISON)
    elif due == "reject":
        fail(store, position, lapsed, poison=False)
        store.deleted([position], Reason.REJECTED)
    elif due == "drop":
        store.deleted([position], Reason.DROPPED)
    else:
        target = store.find(f"{queue.name};{'retry' if due == 'rest' else 'poison'}", make=True)
        assert target is not None
        if due == "poison":
            fail(store, position, lapsed, poison=True)
            queue.reasons[Reason.POISON] += 1
        store.relocate([position], target)
        if due == "rest":
            queue.resting[position.lookup_id] = store.now() + rest(position)


def rest(position: Position) -> float:
    """Return the delay before the next cycle, in seconds."""
    policy = position.queue.own.retry
    assert policy is not None
    count = attempts(position.stored)
    if count >= policy.attempts:
        return max(policy.max_delay, 1.0)  # there was no room for it in ;poison
    rounds = count / (1 + policy.immediate)
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
