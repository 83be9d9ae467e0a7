"""Steps of a data pipeline in a schedule: claim, commit, release (docs/decisions/pipelines.md)."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from mqredis.commands import claims
from mqredis.commands.claims import Order
from mqredis.steps import Call
from tests.reliability.moves import Step
from tests.reliability.wire import Answer
from tests.reliability.world import Broken, Claimed, Client, World

# A claim does not lapse.
FOREVER = 1 << 60


def _available(world: World, queue: str, now: int) -> list[str]:
    """Return the messages that a claim finds, in delivery order."""
    ledger = world.ledger
    return sorted(
        lid
        for lid in ledger.alive(queue)
        if ledger.state[lid] == "present"
        and lid not in ledger.purged
        and (lid not in ledger.held or ledger.held[lid][1] <= now)
    )


@dataclass
class Claim(Step):
    """A page of a claim. ``lineage``: the checkpoint; ``first``: its first claim, which may take the owner over."""

    queue: str
    sequence: int = 1
    wanted: int = 2
    lineage: str = "x"
    first: bool = True
    owner: str = "o"

    def call(self, world: World, me: Client) -> Call[Any] | None:
        order = Order(self.wanted)
        address = world.address(self.queue)
        return claims.claim(address, self.owner, self.lineage, self.sequence, order, self.first)

    def learn(self, world: World, me: Client, answer: Answer) -> None:
        if answer.refused:
            return
        known = world.claims.get(self.owner)
        if known is None:
            known = Claimed(self.lineage, self.sequence, self.sequence - 1)
            world.claims[self.owner] = known
        elif self.sequence <= known.committed:
            raise Broken(f"claim {self.sequence} was answered behind {known.committed}, which is committed")
        elif known.lineage != self.lineage and not (self.first and self.sequence == known.committed + 1):
            raise Broken(f"a claim of {known.lineage}'s was answered to {self.lineage}")
        elif known.released and (known.lineage == self.lineage or known.ids):
            raise Broken("a claim that was released was answered")
        if known.sequence != self.sequence and known.ids:
            raise Broken(f"claim {self.sequence} began while claim {known.sequence} was open")
        known.lineage, known.sequence, known.released = self.lineage, self.sequence, False
        more = answer.value.count - len(known.ids)
        # Exact enough: leases are minutes, schedules take moments.
        now = int(time.time() * 1000) + world.clock_ms
        there = _available(world, self.queue, now)
        if more < 0 or more > len(there) or answer.value.count > self.wanted:
            raise Broken(
                f"a claim holds {answer.value.count}: {len(known.ids)} before, {len(there)} available"
            )
        for lid in there[:more]:
            world.ledger.hold(lid, f"claim of {self.owner}", FOREVER, now)
        known.ids += there[:more]


@dataclass
class CommitClaim(Step):
    """A page of the commit of all claims up to ``sequence``."""

    queue: str
    sequence: int = 1
    lineage: str = "x"
    owner: str = "o"

    def call(self, world: World, me: Client) -> Call[Any] | None:
        return claims.commit(world.address(self.queue), self.owner, self.lineage, self.sequence)

    def learn(self, world: World, me: Client, answer: Answer) -> None:
        known = world.claims.get(self.owner)
        if answer.refused or not answer.value.done or known is None or known.sequence > self.sequence:
            return
        if known.ids and (known.lineage != self.lineage or known.released):
            raise Broken(f"{self.lineage} committed a claim that is not its own any more")
        known.committed = max(known.committed, known.sequence)
        for lid in known.ids:
            if lid in world.ledger.purged:
                world.ledger.release(lid)
            else:
                world.ledger.settled("c", f"claim of {self.owner}", lid, 0)
        known.ids.clear()


@dataclass
class ReleaseClaim(Step):
    """An operator releases a page of the owner's claim."""

    queue: str
    forget: bool = False
    owner: str = "o"

    def call(self, world: World, me: Client) -> Call[Any] | None:
        return claims.release(world.address(self.queue), self.owner, self.forget)

    def learn(self, world: World, me: Client, answer: Answer) -> None:
        known = world.claims.get(self.owner)
        if answer.refused or known is None:
            return
        count, more = answer.value
        back, known.ids = known.ids[:count], known.ids[count:]
        if len(back) < count or (known.ids and not more):
            raise Broken(f"a release gave {count} back, and {len(known.ids)} are left")
        known.released = known.released or known.sequence > known.committed
        for lid in back:
            world.ledger.release(lid)
        if self.forget and not more:
            del world.claims[self.owner]
