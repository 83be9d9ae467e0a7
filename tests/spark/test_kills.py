"""``kill -9`` of the driver at named places and at random: what comes out is what went in, no more and no
less."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import mqredis
from mqredis.spark.crash import VARIABLE
from tests.spark.conftest import CHECKOUT, environment

pytestmark = [pytest.mark.spark, pytest.mark.reliability, pytest.mark.timeout(3600)]

FULL = os.environ.get("MQREDIS_TEST_FULL") == "1"
SOURCE = (
    "after-latest",
    "before-claim",
    "mid-claim",
    "after-claim",
    "mid-read",
    "before-commit",
    "mid-commit",
)
SINK = (
    "before-stage",
    "mid-stage",
    "after-stage",
    "before-publish",
    "mid-publish",
    "after-publish",
    "after-sweep",
)
#: In CI: the places at which an exactly-once pipeline breaks first, in one pipeline that has them all.
SLICE = ("mid-claim", "after-claim", "mid-read", "mid-commit", "mid-stage", "mid-publish", "after-publish")
MESSAGES = 2_000
#: Per micro-batch: more than one page of a claim and of a publication.
TRIGGER = 400


@dataclass
class Pipeline:
    """A driver that is started until it ends by itself."""

    folder: Path
    plan: dict[str, Any]

    def run(self, crash: str = "", kill_after: float = 0) -> bool:
        """Start it once; True if it ended well. ``crash``: kill it at this place; ``kill_after`` seconds
        otherwise."""
        if crash:
            (self.folder / "next").write_text(crash)
        (self.folder / "pids").unlink(missing_ok=True)
        (self.folder / "plan.json").write_text(json.dumps(self.plan))
        log = (self.folder / "driver.log").open("ab")
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.driver", str(self.folder / "plan.json")],
            env={**environment(), VARIABLE: str(self.folder)},
            cwd=CHECKOUT,
            stdout=log,
            stderr=log,
        )
        try:
            code = process.wait(kill_after or 600)
        except subprocess.TimeoutExpired:
            assert kill_after, (self.folder / "driver.log").read_text()[-3000:]
            pids = self.folder / "pids"
            for pid in pids.read_text().split() if pids.exists() else [str(process.pid)]:
                try:
                    os.kill(int(pid), signal.SIGKILL)
                except ProcessLookupError:
                    continue
            code = process.wait()
        finally:
            log.close()
        assert code in (0, -signal.SIGKILL), (self.folder / "driver.log").read_text()[-3000:]
        return code == 0

    def hit(self, crash: str) -> bool:
        """Was the driver killed at this place? Forgets it, so that it can be again."""
        mark = self.folder / f"hit-{crash}"
        found = mark.exists()
        mark.unlink(missing_ok=True)
        return found


@pytest.fixture(params=["source", "sink", "both"] if FULL else ["both"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def pipeline(kind, qm, options, spark, tmp_path) -> Pipeline:
    qm.create_queue("in")
    qm.create_queue("out")
    plan: dict[str, Any] = {"folder": str(tmp_path), "source": None, "sink": None}
    if kind == "sink":
        plan["input"] = str(tmp_path / "input")
    else:
        plan["source"] = {**options, "queue": "in", "maxMessagesPerTrigger": str(TRIGGER), "fetchSize": "100"}
    if kind == "source":
        plan["output"] = str(tmp_path / "output")
    else:
        plan["sink"] = {**options, "queue": "out", "atomicPublishLimit": "150"}
    return Pipeline(tmp_path, plan)


def feed(kind: str, qm: mqredis.QueueManager, spark: Any, pipeline: Pipeline, start: int, count: int) -> None:
    """More input: messages, or for a sink alone Parquet files."""
    if kind == "sink":
        frame = spark.range(start, start + count).selectExpr("cast(cast(id as string) as binary) as body")
        frame.repartition(max(1, count // TRIGGER)).write.mode("append").parquet(pipeline.plan["input"])
    else:
        with qm.open("in") as queue:
            queue.send_many([b"%d" % n for n in range(start, start + count)])


def verify(kind: str, qm: mqredis.QueueManager, spark: Any, pipeline: Pipeline, count: int) -> None:
    if kind == "source":
        found = [int(bytes(row.body)) for row in spark.read.parquet(pipeline.plan["output"]).collect()]
    else:
        with qm.open("out") as queue:
            found = [int(m.body) for m in queue.browse()]
    doubles = [n for n, times in Counter(found).items() if times > 1]
    assert (len(set(range(count)) - set(found)), len(doubles), len(found)) == (0, 0, count)
    if kind != "sink":
        info = qm.queue_info("in")
        assert (info.messages, info.locked) == (0, 0)
    assert qm.doctor().findings == ()
    left = qm._driver.command("KEYS", f"mq:{{{qm.name}}}:stage*")
    assert left == []


def test_named_places(kind, pipeline, qm, spark):
    """The driver dies at each place in turn, several times over a longer stream."""
    places = [
        p
        for p in (SOURCE if kind != "sink" else ()) + (SINK if kind != "source" else ())
        if FULL or p in SLICE
    ]
    sent = 0
    for _ in range(3 if FULL else 1):
        for place in places:
            feed(kind, qm, spark, pipeline, sent, TRIGGER * 2)
            sent += TRIGGER * 2
            if place in ("before-commit", "mid-commit"):
                # Behind the last batch there is nothing to commit; a batch that is logged comes first.
                feed(kind, qm, spark, pipeline, sent, TRIGGER)
                sent += TRIGGER
            pipeline.run(crash=place)
            assert pipeline.hit(place), f"{place} was never reached"
    assert pipeline.run()
    verify(kind, qm, spark, pipeline, sent)


def test_random_moments(kind, pipeline, qm, spark):
    """The driver dies at moments drawn by a seed that the failure shows."""
    seed = random.SystemRandom().randrange(1 << 32)
    draw, kills, sent = random.Random(seed), 0, 0
    for _ in range(100 if FULL else 2):
        feed(kind, qm, spark, pipeline, sent, TRIGGER * 3)
        sent += TRIGGER * 3
        kills += not pipeline.run(kill_after=draw.uniform(4, 14))
    assert pipeline.run()
    print(f"seed {seed}: {kills} kills, {sent} messages")
    verify(kind, qm, spark, pipeline, sent)
