"""Checks: ``kill -9`` of a Spark driver. They are registered only if Java and PySpark are installed."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import mqredis
from tests.reliability.check import Run, check
from tests.spark.kills import PLACES, Pipeline
from tests.spark.recipes import NAMES
from tests.support.server import RedisServer


@contextmanager
def pipeline(kind: str) -> Iterator[Pipeline]:
    """A pipeline on a server of its own."""
    with (
        RedisServer() as server,
        tempfile.TemporaryDirectory() as folder,
        mqredis.connect(server.url, manager="killed") as qm,
    ):
        yield Pipeline(kind, Path(folder), qm, server.url)


@check("spark places", "the driver dies at each named place of source, sink and both: output equals input")
def places(run: Run) -> None:
    """Each place three times over a longer stream; a small run takes its share of them, which the seed chooses."""
    rng, wanted = run.rng("places"), {kind: list(names) * run.size(3) for kind, names in PLACES.items()}
    if run.scale < 1 / 3:
        there = [(kind, place) for kind, names in PLACES.items() for place in names]
        wanted = {kind: [] for kind in PLACES}
        for kind, place in rng.sample(there, run.size(3 * len(there), 2)):
            wanted[kind].append(place)
    for kind, names in wanted.items():
        if not names:
            continue
        with pipeline(kind) as killed:
            for place in names:
                killed.die(place)
                run.add("kills")
            killed.verify()
            run.add("messages", killed.sent)


@check("spark kills", "the driver is killed at random moments, queue to queue: output equals input")
def moments(run: Run) -> None:
    """Kill at random moments from the start of the session to the end of the last batch."""
    rng, wanted = run.rng("moments"), run.size(100, 2)
    with pipeline("both") as killed:
        while int(run.counts.get("kills", 0)) < wanted:
            killed.feed(3)
            if not killed.run(kill_after=rng.uniform(0.5, 9)):
                run.add("kills")
        killed.verify()
        run.add("messages", killed.sent)


@check(
    "spark checkpoints",
    "each recipe of docs/spark.md for another sink, the driver killed at random and its checkpoint deleted: output "
    "equals input",
)
def checkpoints(run: Run) -> None:
    """Two of three kills are followed by the loss of the checkpoint."""
    rng = run.rng("checkpoints")
    for name in NAMES:
        with pipeline(name) as killed:
            kills = 0
            while kills < run.size(10, 2):
                killed.feed(3)
                if killed.run(kill_after=rng.uniform(1, 9)):
                    continue
                kills += 1
                run.add("kills")
                if rng.random() < 2 / 3:
                    killed.lose_checkpoint()
                    run.add("checkpoints deleted")
            killed.verify()
            run.add("messages", killed.sent)
