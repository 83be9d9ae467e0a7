"""Random sequences of claim calls by two pipelines on one queue, compared with a model after each call.

The sequences contain commits that stop between two pages, takeovers, releases and purges. Each committed message is
received exactly once; the others stay claimed or become available again.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field, replace
from random import Random

import pytest

import mqredis
from mqredis.errors import ClaimLost
from tests.support.backend import Backend
from tests.support.claims import locked
from tests.support.pipeline import Pipeline

SEEDS = range(4)
STEPS = 70


@dataclass
class Side:
    """A pipeline and the expected state of its claim."""

    pipeline: Pipeline
    open: list[bytes] = field(default_factory=list)  # claimed and not committed
    claimed: bool = False  # also true if the claim found no message
    committed: int = 0
    lineages: int = 1
    released: bool = False

    @property
    def next(self) -> int:
        return self.committed + 1


@dataclass
class RandomRun:
    """The expected state of the queue."""

    rng: Random
    sides: list[Side]
    available: list[bytes] = field(default_factory=list)  # in the order of their ids
    received: set[bytes] = field(default_factory=set)
    purged: set[bytes] = field(default_factory=set)  # purged while they were claimed
    sent: int = 0

    @property
    def any(self) -> Pipeline:
        return self.sides[0].pipeline

    def key(self, part: str) -> str:
        return f"mq:{{{self.any.qm.name}}}:q:orders:{part}"

    def fill(self, side: Side) -> None:
        count = self.rng.choice((1, 400, 900))
        side.pipeline.fill(count)
        self.sent += count
        self.available = self.any.raw.zrange(self.key("a"), 0, -1)

    def claim(self, side: Side) -> None:
        if side.released:  # only a new checkpoint may claim again
            with pytest.raises(ClaimLost, match="released"):
                side.pipeline.claim(side.next)
            self.take_over(side)
            return
        count = self.rng.choice((1, 300, 900))
        side.pipeline.claim(side.next, count, first=side.committed == 0)
        self.takes(side, count)

    def take_over(self, side: Side) -> None:
        if not side.pipeline.raw.hexists(*side.pipeline.field):
            return
        old, side.lineages = side.pipeline, side.lineages + 1
        side.pipeline = replace(old, lineage=f"n{side.lineages}")
        side.pipeline.claim(side.next, 300, first=True)
        side.released = False
        self.takes(side, 300)
        with pytest.raises(ClaimLost, match="another checkpoint"):
            old.commit(side.next)

    def takes(self, side: Side, count: int) -> None:
        """Expect the first available messages for a new claim, and the same messages as before for a repeated one."""
        if not side.claimed:
            side.open, self.available = self.available[:count], self.available[count:]
            side.claimed = True
        assert side.pipeline.read(side.next) == side.open

    def page(self, side: Side) -> None:
        """Make one commit call, for the open batch or for the one that is committed already."""
        if not side.pipeline.raw.hexists(*side.pipeline.field):
            return
        sequence = side.next if side.claimed and self.rng.random() < 0.7 else side.committed
        done = side.pipeline.page(sequence).done
        assert done is (side.pipeline.known.committed == sequence)
        if done and sequence == side.next:
            assert not self.received & set(side.open)
            self.received.update(side.open)
            side.open, side.claimed, side.committed = [], False, sequence

    def release(self, side: Side) -> None:
        if not side.pipeline.raw.hexists(*side.pipeline.field):
            return
        side.pipeline.release()
        assert side.pipeline.known.draining == 0
        back = [lid for lid in side.open if lid not in self.purged]
        self.purged.difference_update(side.open)
        self.available = sorted([*self.available, *back])
        side.open, side.claimed, side.released = [], False, True

    def purge(self, side: Side) -> None:
        with side.pipeline.qm.open("orders") as queue:
            assert queue.purge() == len(self.available)
        self.available = []
        for each in self.sides:
            self.purged.update(each.open)

    def check(self) -> None:
        raw = self.any.raw
        assert raw.zrange(self.key("a"), 0, -1) == self.available
        held = locked(raw, self.key("l").removesuffix(":l"))
        open_ = {lid for side in self.sides for lid in side.open}
        assert open_ <= held
        assert held - open_ <= self.received

    def end(self) -> None:
        """Commit everything; the journal has one copy of each message received, without those purged before."""
        for side in self.sides:
            side.pipeline.commit(side.next if side.claimed else 0)
            self.received.update(side.open)
            side.open = []
        self.check()
        assert not locked(self.any.raw, self.key("l").removesuffix(":l"))
        with self.any.qm.open("orders;journal") as journal:
            copies = Counter(message.original_lookup_id for message in journal.browse())
        assert copies == Counter(int(lid, 16) for lid in self.received - self.purged)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_claim_calls_match_the_model(backend: Backend, seed: int) -> None:
    raw = backend.client()
    name = f"claim-runs-{os.getpid()}-{seed}"
    with mqredis.connect(backend.client(), manager=name) as qm:
        qm.create_queue("orders", journaling=True)
        qm.open("orders;journal").close()
        rng = Random(seed)
        run = RandomRun(rng, [Side(Pipeline(qm, raw, owner)) for owner in ("lake", "sea")])
        print(f"seed {seed}")
        run.fill(run.sides[0])
        for number in range(STEPS):
            steps = (
                run.fill,
                run.claim,
                run.page,
                run.page,
                run.page,
                run.take_over,
                run.release,
                run.purge,
            )
            step = rng.choices(steps, (4, 8, 4, 2, 2, 3, 2, 2))[0]
            print(step.__name__)
            step(rng.choice(run.sides))
            run.check()
            if number % 14 == 13:
                assert qm.doctor().findings == ()
        run.end()
        assert qm.doctor().findings == ()
    raw.close()
