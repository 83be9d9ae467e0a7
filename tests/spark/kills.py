"""``kill -9`` of a Spark driver, at named places and at random: the output equals the input.

The tests run a few kills, the reliability checks all of them.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import mqredis
from mqredis.spark.kill_points import VARIABLE
from tests.spark.config import spark_home
from tests.spark.conftest import CHECKOUT, environment
from tests.spark.recipes import NAMES, OUTPUT, written

# Places in the driver and in its tasks where it may die (mqredis/spark/kill_points.py).
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
PLACES = {"source": SOURCE, "sink": SINK, "both": SOURCE + SINK}
# Per micro-batch: more than one page of a claim and of a publication.
TRIGGER = 1_200


@dataclass
class Pipeline:
    """A driver that is started until it ends by itself.

    ``kind``: what of it is ours (source, sink or both), or a recipe of docs/spark.md, which may lose its checkpoint.
    """

    kind: str
    folder: Path
    qm: mqredis.QueueManager
    url: str
    sent: int = 0
    plan: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("in", OUTPUT):
            self.qm.create_queue(name)
        given = {"url": self.url, "queueManager": self.qm.name}
        self.plan = {"folder": str(self.folder), "source": None, "sink": None, "recipe": None}
        if self.kind == "sink":
            self.plan["input"] = str(self.folder / "input")
            (self.folder / "input").mkdir(parents=True)
        else:
            limits = {"maxMessagesPerTrigger": str(TRIGGER), "fetchSize": "300"}
            self.plan["source"] = {**given, "queue": "in", **limits}
        self.plan["output"] = str(self.folder / "output")
        if self.kind in NAMES:
            self.plan["recipe"] = self.kind
            self.plan["source"]["consumerName"] = "nightly"
        if self.kind != "source":
            self.plan["sink"] = {**given, "queue": OUTPUT, "atomicPublishLimit": "500"}

    def feed(self, batches: int) -> None:
        """More input: messages, or for a sink alone files, one for each micro-batch."""
        for _ in range(batches):
            bodies = [b"%d" % n for n in range(self.sent, self.sent + TRIGGER)]
            self.sent += TRIGGER
            if self.kind == "sink":
                table = pa.table({"body": pa.array(bodies, pa.binary())})
                place = self.folder / "input" / f"{self.sent}.parquet"
                pq.write_table(table, place.with_suffix(".new"))
                place.with_suffix(".new").rename(place)
            else:
                with self.qm.open("in") as queue:
                    for at in range(0, TRIGGER, 400):
                        queue.send_many(bodies[at : at + 400])

    def run(self, crash: str = "", kill_after: float = 0) -> bool:
        """Start it once; True if it ended well. ``crash``: it dies at this place; ``kill_after``: so many seconds after
        its session was there."""
        if crash:
            (self.folder / "next").write_text(crash)
        (self.folder / "pids").unlink(missing_ok=True)
        (self.folder / "plan.json").write_text(json.dumps(self.plan))
        with (self.folder / "driver.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.driver", str(self.folder / "plan.json")],
                env={**environment(), "SPARK_HOME": spark_home(), VARIABLE: str(self.folder)},
                cwd=CHECKOUT,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            try:
                if kill_after:
                    self._session(process)
                code = process.wait(kill_after or 600)
            except subprocess.TimeoutExpired:
                assert kill_after, self.log()
                code = self._kill(process)
        if code:
            # Workers of a dead driver end by themselves; what comes next must not meet them.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        assert code in (0, -signal.SIGKILL), self.log()
        return code == 0

    def _session(self, process: subprocess.Popen[bytes]) -> None:
        """Wait until the driver has a session: what comes before is not ours, and takes its time."""
        for _ in range(6000):
            if (self.folder / "pids").exists():
                return
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.1)
                return
        raise AssertionError(f"no session: {self.log()}")

    def _kill(self, process: subprocess.Popen[bytes]) -> int:
        for pid in (self.folder / "pids").read_text().split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        return process.wait()

    def log(self) -> str:
        """The end of what the drivers said."""
        return (self.folder / "driver.log").read_text()[-3000:]

    def die(self, place: str) -> None:
        """Let it die at a place, with enough input to come there."""
        # Behind the last batch there is nothing to commit; a batch that is logged comes first.
        self.feed(3 if place in ("before-commit", "mid-commit") else 2)
        self.run(crash=place)
        mark = self.folder / f"hit-{place}"
        assert mark.exists(), f"{place} was never reached: {self.log()}"
        mark.unlink()

    def lose_checkpoint(self) -> None:
        """Delete what Spark knows of the query."""
        shutil.rmtree(self.folder / "checkpoint", ignore_errors=True)

    def verify(self) -> None:
        """Let it end by itself; then output equals input, and nothing is left behind."""
        assert self.run(), self.log()
        if self.kind == "source":
            found = list(self._files())
        else:
            name = self.kind if self.kind in NAMES else "write_queue"
            found = written(name, self.folder / "output", self.qm)
        doubles = [n for n, times in Counter(found).items() if times > 1]
        lost = set(range(self.sent)) - set(found)
        assert (len(lost), len(doubles), len(found)) == (0, 0, self.sent)
        if self.kind != "sink":
            info = self.qm.queue_info("in")
            assert (info.messages, info.locked) == (0, 0)
        assert self.qm.doctor().findings == ()
        assert self.qm._driver.command("KEYS", f"mq:{{{self.qm.name}}}:stage*") == []

    def _files(self) -> Iterator[int]:
        """What Spark's file sink says it has written: the folder also holds files of tries that failed."""
        names: set[str] = set()
        for part in (self.folder / "output" / "_spark_metadata").iterdir():
            if part.name.split(".")[0].isdigit():
                lines = part.read_text().splitlines()[1:]
                names.update(json.loads(line)["path"].removeprefix("file://") for line in lines)
        for name in names:
            yield from (int(body) for body in pq.read_table(name)["body"].to_pylist())
