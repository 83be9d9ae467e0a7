"""Random runs of two pipelines on one queue, call by call: a pipeline that stops between two pages, takes over, is
released or meets a purge, what is committed is received once, and what is not comes back or stays."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field, replace
from random import Random

import pytest

import mqredis
from mqredis.errors import ClaimLost
from tests.client.test_claims import Pipeline
from tests.support.backend import Backend
from tests.support.claims import locked

SEEDS = range(4)
STEPS = 70


@dataclass
class Side:
    """One pipeline, and what it must hold."""

    pipeline: Pipeline
    open: list[bytes] = field(default_factory=list)  # what it has claimed and not committed
    claimed: bool = False  # that may be nothing
    committed: int = 0
    lineages: int = 1
    released: bool = False

    @property
    def next(self) -> int:
        return self.committed + 1


@dataclass
class Walk:
    """What the queue must hold."""

    dice: Random
    sides: list[Side]
    available: list[bytes] = field(default_factory=list)  # in the order of their ids
    received: set[bytes] = field(default_factory=set)
    purged: set[bytes] = field(default_factory=set)  # while they were claimed
    sent: int = 0

    @property
    def any(self) -> Pipeline:
        return self.sides[0].pipeline

    def key(self, part: str) -> str:
        return f"mq:{{{self.any.qm.name}}}:q:orders:{part}"

    def fill(self, side: Side) -> None:
        count = self.dice.choice((1, 400, 900))
        side.pipeline.fill(count)
        self.sent += count
        self.available = self.any.raw.zrange(self.key("a"), 0, -1)

    def claim(self, side: Side) -> None:
        if side.released:  # only a new checkpoint may go on
            with pytest.raises(ClaimLost, match="released"):
                side.pipeline.claim(side.next)
            self.take_over(side)
            return
        count = self.dice.choice((1, 300, 900))
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
        """A first claim takes the first messages that are available; a repeated one finds what it has."""
        if not side.claimed:
            side.open, self.available = self.available[:count], self.available[count:]
            side.claimed = True
        assert side.pipeline.read(side.next) == side.open

    def page(self, side: Side) -> None:
        """One call of the commit of what is open, or of what is committed already."""
        if not side.pipeline.raw.hexists(*side.pipeline.field):
            return
        sequence = side.next if side.claimed and self.dice.random() < 0.7 else side.committed
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
        """All is committed: of what was received the journal has one copy each, but of what was purged before."""
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
def test_a_walk(backend: Backend, seed: int) -> None:
    raw = backend.client()
    name = f"walks-{os.getpid()}-{seed}"
    with mqredis.connect(backend.client(), manager=name) as qm:
        qm.create_queue("orders", journaling=True)
        qm.open("orders;journal").close()
        dice = Random(seed)
        walk = Walk(dice, [Side(Pipeline(qm, raw, owner)) for owner in ("lake", "sea")])
        print(f"seed {seed}")
        walk.fill(walk.sides[0])
        for number in range(STEPS):
            steps = (
                walk.fill,
                walk.claim,
                walk.page,
                walk.page,
                walk.page,
                walk.take_over,
                walk.release,
                walk.purge,
            )
            step = dice.choices(steps, (4, 8, 4, 2, 2, 3, 2, 2))[0]
            print(step.__name__)
            step(dice.choice(walk.sides))
            walk.check()
            if number % 14 == 13:
                assert qm.doctor().findings == ()
        walk.end()
        assert qm.doctor().findings == ()
    raw.close()
