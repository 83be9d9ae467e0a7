"""How many messages the next micro-batch of a receiving query claims from each queue.

``receive_reader`` asks it for each micro-batch; ``browse`` takes ``share`` from it. Spark logs the result before
anything is claimed, so a plan must hold all that the claim needs (but the selector, which the options give): a
restarted driver claims by the log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mqredis.codec.claims import RELEASED
from mqredis.commands import claims as commands
from mqredis.commands.claims import Backlog
from mqredis.errors import ClaimLost
from mqredis.spark import starting
from mqredis.spark.offsets import Offset, Plan


def share(available: dict[str, int], limit: int) -> dict[str, int]:
    """How many messages each queue gives to a micro-batch of ``limit`` (0: all), by its part of the
    backlog."""
    total = sum(available.values())
    if not limit or total <= limit:
        return available
    shares = {key: count * limit // total for key, count in available.items()}
    left = limit - sum(shares.values())
    for key in sorted(available, key=lambda key: available[key] * limit % total, reverse=True)[:left]:
        shares[key] += 1
    return shares


def next_offset(
    begun: Offset, seen: Mapping[str, Backlog], rows: int, most_bytes: int, bounds: Mapping[str, str]
) -> Offset:
    """The offset of the next micro-batch; equal to ``begun`` if there is nothing to take.

    ``rows``, ``most_bytes``: limits of the micro-batch, 0 for none. Queues share both by their part of the backlog.
    ``bounds``: the last SequentialID that the query takes of each queue, "" for no limit. Raises ClaimLost if another
    query with the same consumerName is running.
    """
    shares = share({key: each.available for key, each in seen.items()}, rows)
    total = sum(shares.values())
    offset = Offset(begun.owner, begun.lineage, dict(begun.queues))
    for key, backlog in seen.items():
        claim = backlog.claim
        if claim and claim.lineage != begun.lineage and backlog.alive:
            raise ClaimLost(commands.WHY["running"], why="running")
        initial = starting.sequence(backlog)
        old = begun.queues.get(key) or Plan(initial, initial)
        new = replace(old, sequence=old.sequence + 1, bound=bounds[key], generation=backlog.generation)
        if claim and not old.has_claim and claim.sequence == new.sequence and claim.sealed != RELEASED:
            # A named consumer without its checkpoint: what it had claimed comes first.
            offset.queues[key] = replace(new, wanted=claim.wanted, most_bytes=0)
        elif shares[key]:
            part = max(1, most_bytes * shares[key] // total) if most_bytes else 0
            offset.queues[key] = replace(new, wanted=shares[key], most_bytes=part)
        else:
            offset.queues[key] = old
    return offset


def has_work(begun: Offset, seen: Mapping[str, Backlog]) -> bool:
    """Is there anything to do: messages, or an open claim?"""
    return any(each.available for each in seen.values()) or has_open_claim(begun, seen)


def has_open_claim(begun: Offset, seen: Mapping[str, Backlog]) -> bool:
    """Is there a claim of a named consumer that is still open?"""
    for key, each in seen.items():
        plan = begun.queues.get(key) or Plan()
        if each.claim and each.claim.sequence > max(each.claim.committed, plan.sequence):
            return True
    return False
