"""Spark: rows a second of reads, writes and streams, as ratios to what the Data Source API itself can do.

``python -m bench.spark [--rows N] [--runs N]``. The ceilings are an Arrow source and an Arrow sink in Python that do no
work, measured in the same session and in turn; Spark's own range and Parquet sources stand beside them, and so does a
plain source (``bench/spark_plain.py``): what Redis and the API give to whoever needs no broker. The goals are 1.2 times
what the prototype reached on which it is modelled, in rows a second, and 1.2 times what it reaches in this run. The
first are about the best of two or three runs, so they are judged by the best of ours; the median stands beside it, and
where the ceiling misses a goal, too, that is said.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import mqredis
from bench import spark_plain
from tests.spark.config import CONFIG
from tests.support.server import RedisServer

BODY = 200
ROWS = 600_000
TRIGGER = 100_000
#: Works of some seconds each are not counted before the JVM has compiled what they run: of a stream the first took 17
#: seconds of processors, the second 10, those behind it 8 to 9.
READ_WARM, STREAM_WARM = 4, 3
COLUMNS = "lookup_id BIGINT, queue STRING, label STRING, body BINARY, priority INT"
READ, WRITE = "batch read, five columns", "DataFrame to queue, one unit of work"
STREAM = "queue to Parquet, exactly once"
#: 1.2 times what a throw-away prototype reached at best on two cores with five or six columns; of a stream that was the
#: rate of its triggers, without start and end.
GOALS = {READ: 396_000, STREAM: 120_000, WRITE: 110_000}
FACTOR = 1.2
#: The same by the plain source.
PLAIN = {READ: "plain source, read", STREAM: "plain source, to Parquet", WRITE: "plain source, to queue"}


def idle_source(rows: int) -> Any:
    """A source and a sink that do nothing: the price of the API. A closure, so that workers get it by value."""
    import pyarrow as pa
    from pyspark.sql.datasource import (
        DataSourceArrowWriter,
        DataSourceReader,
        DataSourceStreamReader,
        InputPartition,
        WriterCommitMessage,
    )
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

    def batches(count: int) -> Iterator[Any]:
        size = 5_000
        arrays = [
            pa.array(range(size), pa.int64()),
            pa.array(["orders"] * size),
            pa.array([""] * size),
            pa.array([b"x" * 200] * size, pa.binary()),
            pa.array([3] * size, pa.int32()),
        ]
        for _ in range(count // size):
            yield pa.RecordBatch.from_arrays(arrays, spark_plain.NAMES)

    class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
        def initialOffset(self) -> dict[str, int]:  # noqa: N802
            return {"rows": 0}

        def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
            pass

        def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:  # noqa: ARG002, N802
            return {"rows": min(rows, start["rows"] + TRIGGER)}

        def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
            return [InputPartition((end["rows"] - start["rows"]) // 2)] * 2

        def read(self, partition: Any) -> Iterator[Any]:
            return batches(partition.value)

        def commit(self, end: dict[str, int]) -> None:
            pass

    class Reader(DataSourceReader):
        def partitions(self) -> list[InputPartition]:
            return [InputPartition(n) for n in range(2)]

        def read(self, partition: Any) -> Iterator[Any]:  # noqa: ARG002
            return batches(rows // 2)

    class Writer(DataSourceArrowWriter):
        def write(self, iterator: Any) -> Any:
            for _ in iterator:
                pass
            return Done()

    class Done(WriterCommitMessage):
        pass

    return spark_plain.data_source("idle", Reader, StreamReader, Writer)


@dataclass
class Measured:
    """Rows a second of each run; of a stream its triggers of full size behind the first, too, and Spark's phases."""

    rates: list[float] = field(default_factory=list)
    triggers: list[float] = field(default_factory=list)  # the median of each run
    phases: list[dict[str, int]] = field(default_factory=list)  # ms, one for each of these triggers
    cores: list[float] = field(
        default_factory=list
    )  # CPU seconds of each run: Spark, its Python processes, the server


def cpu_seconds() -> float:
    """CPU time of everything that this process has started, and of itself."""
    parents, used = {}, {}
    for each in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            words = each.read_text().rpartition(")")[2].split()
            parents[each.parent.name] = words[1]
            used[each.parent.name] = sum(int(word) for word in words[11:15])
    family = {str(os.getpid())}
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    return sum(used.get(pid, 0) for pid in family) / os.sysconf("SC_CLK_TCK")


class Bench:
    """One session, one server."""

    def __init__(self, spark: Any, server: RedisServer, rows: int, runs: int, folder: Path) -> None:
        self.spark, self.rows, self.runs, self.folder = spark, rows, runs, folder
        self.options = {"url": server.url, "queueManager": "bench", "queue": "orders"}
        self.qm = mqredis.connect(server.url, manager="bench")
        self.number = 0
        self.url = server.url
        spark.dataSource.register(idle_source(rows))
        spark.dataSource.register(spark_plain.source(server.url, TRIGGER))

    def empty(self) -> None:
        """A new queue."""
        if "orders" in {info.name for info in self.qm.queues()}:
            self.qm.delete_queue("orders")
        self.qm.create_queue("orders")

    def prepare(self, work: str) -> None:
        """What a work that is no ceiling needs before it: an empty queue, or a full one, and no other in the server."""
        spark_plain.clear(self.url)
        self.empty()
        if work == PLAIN[STREAM]:
            self.write_plain(self.bodies())
        elif work not in (WRITE, PLAIN[WRITE]):
            self.write(self.bodies())

    def write_plain(self, frame: Any) -> None:
        frame.write.format("plain").mode("append").save()

    def bodies(self) -> Any:
        return self.spark.range(0, self.rows, 1, 2).selectExpr(f"cast(repeat('x', {BODY}) AS BINARY) AS body")

    def write(self, frame: Any) -> None:
        frame.write.format("mqredis").options(**self.options, atomicPublishLimit=self.rows).mode(
            "append"
        ).save()

    def noop(self, frame: Any) -> None:
        frame.write.format("noop").mode("overwrite").save()

    def stream(self, columns: str = "") -> list[Any]:
        options = {**self.options, "maxMessagesPerTrigger": TRIGGER}
        source = self.spark.readStream.format("mqredis").options(**options)
        frame = (source.schema(columns) if columns else source).load()
        return self.into_parquet(frame.select("lookup_id", "queue", "label", "body", "priority"))

    def into_parquet(self, frame: Any) -> list[Any]:
        """Run a stream to its end; its micro-batches."""
        self.number += 1
        place = self.folder / f"stream{self.number}"
        writer = frame.writeStream.format("parquet").option("path", str(place / "out"))
        writer = writer.option("checkpointLocation", str(place / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        found = [p for p in query.recentProgress if p["numInputRows"]]
        assert sum(p["numInputRows"] for p in found) == self.rows, "not every row came"
        return found

    def run(self) -> dict[str, Measured]:
        """Everything: each work to warm up, then in turn with its ceiling."""
        spark = self.spark
        found: dict[str, Measured] = {}
        read = spark.read.format("mqredis")
        parquet = str(self.folder / "parquet")
        self.bodies().write.mode("overwrite").parquet(parquet)
        self.prepare(READ)
        spark_plain.fill_packed(self.url, self.rows, BODY)
        found |= self.turns(
            {
                "API ceiling, read": lambda: self.noop(spark.read.format("idle").load()),
                READ: lambda: self.noop(read.schema(COLUMNS).options(**self.options).load()),
                PLAIN[READ]: lambda: self.noop(spark.read.format("plain").load()),
                "batch read, all columns": lambda: self.noop(
                    spark.read.format("mqredis").options(**self.options).load()
                ),
                "batch read, ids only": lambda: self.noop(
                    spark.read.format("mqredis").schema("lookup_id BIGINT").options(**self.options).load()
                ),
                "Parquet, read": lambda: self.noop(spark.read.parquet(parquet)),
                "range, read": lambda: self.noop(self.bodies()),
            },
            warm=READ_WARM,
        )
        found |= self.turns(
            {
                "API ceiling, write": lambda: self.bodies().write.format("idle").mode("append").save(),
                WRITE: lambda: self.write(self.bodies()),
                PLAIN[WRITE]: lambda: self.write_plain(self.bodies()),
            },
            self.prepare,
        )
        return found | self.turns(
            {
                "API ceiling, stream to Parquet": lambda: self.into_parquet(
                    spark.readStream.format("idle").load()
                ),
                STREAM: lambda: self.stream(COLUMNS),
                PLAIN[STREAM]: lambda: self.into_parquet(spark.readStream.format("plain").load()),
                "all columns to Parquet, exactly once": self.stream,
            },
            self.prepare,
            STREAM_WARM,
        )

    def turns(
        self,
        works: dict[str, Callable[[], Any]],
        prepare: Callable[[str], None] = lambda _: None,
        warm: int = 1,
    ) -> dict[str, Measured]:
        """Run these in turn, so that what else the machine does meets all of them. The first ``warm`` do not count."""
        found = {name: Measured() for name in works}
        for number in range(-warm, self.runs):
            for name, work in works.items():
                if not name.startswith("API ceiling"):
                    prepare(name)
                used, begun = cpu_seconds(), time.perf_counter()
                progress = work()
                seconds, used = time.perf_counter() - begun, cpu_seconds() - used
                if number >= 0:
                    note(found[name], self.rows / seconds, used, progress or [])
        return found


def note(measured: Measured, rate: float, used: float, progress: list[Any]) -> None:
    """Add a run. The first trigger of a stream starts it up; what comes behind is its steady state."""
    measured.rates.append(rate)
    measured.cores.append(used)
    steady = [each for each in progress[1:] if each["numInputRows"] == TRIGGER]
    phases = [dict(each["durationMs"]) for each in steady]
    if phases:
        measured.triggers.append(TRIGGER * 1000 / statistics.median(p["triggerExecution"] for p in phases))
    measured.phases += phases


def ceiling_of(name: str) -> str:
    """The ceiling that a work is compared with."""
    if "to Parquet" in name:
        return "API ceiling, stream to Parquet"
    return "API ceiling, write" if "write" in name or "to queue" in name else "API ceiling, read"


def figure(name: str, measured: Measured) -> list[float]:
    """What a goal is about: of a stream its steady triggers, otherwise whole runs."""
    return measured.triggers if "to Parquet" in name else measured.rates


def verdict(name: str, found: dict[str, Measured]) -> str:
    """Was a goal reached, and if not, could it be? By the best of this run's values."""
    goal, ours = GOALS[name], max(figure(name, found[name]))
    top = max(figure(name, found[ceiling_of(name)]))
    if ours >= goal:
        return "met, by the median, too" if statistics.median(figure(name, found[name])) >= goal else "met"
    return "limit: the ceiling of this run is below the goal" if top < goal else "missed"


def page(found: dict[str, Measured], rows: int, runs: int) -> Iterator[str]:
    """What was measured, for reading."""

    def spread(values: list[float]) -> str:
        return f"{statistics.median(values):9,.0f} ({min(values):,.0f}-{max(values):,.0f})"

    yield f"{rows:,} rows, {runs} runs in turn, warm: median (lowest-highest) rows a second"
    for name, measured in found.items():
        top = statistics.median(found[ceiling_of(name)].rates)
        ratio = statistics.median(measured.rates) / top
        used = statistics.median(measured.cores) / rows * 1e6
        yield f"{name:40} {spread(measured.rates):30} {ratio:5.2f} of the ceiling {used:6.2f} CPU us a row"
    yield f"\ntriggers of {TRIGGER:,} behind the first: median of each run"
    streams = {name: each for name, each in found.items() if each.triggers}
    for name, measured in streams.items():
        yield f"{name:40} {spread(measured.triggers)}"
    if streams:
        yield "\nms of such a trigger, median of all; Spark's own names"
        phases = sorted({key for each in streams.values() for one in each.phases for key in one})
        for name, measured in streams.items():
            split = (
                f"{key} {statistics.median(p.get(key, 0) for p in measured.phases):.0f}" for key in phases
            )
            yield f"{name:40} {', '.join(split)}"
    yield "\ngoals"
    for name, goal in GOALS.items():
        if figure(name, found[name]):
            mine, ceiling = (figure(each, found[each]) for each in (name, ceiling_of(name)))
            best = f"best {max(mine):,.0f}, median {statistics.median(mine):,.0f} of {goal:,}"
            yield f"{name:40} {best}; ceiling {max(ceiling):,.0f}: {verdict(name, found)}"
            plain = figure(name, found[PLAIN[name]])
            if not plain:
                continue
            ratio = statistics.median(mine) / statistics.median(plain)
            lowest, highest = min(mine) / max(plain), max(mine) / min(plain)
            said = "met" if ratio >= FACTOR else "missed"
            yield f"{'':40} {ratio:.2f} ({lowest:.2f}-{highest:.2f}) times the plain source's, of {FACTOR}: {said}"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rows", type=int, default=ROWS)
    arguments.add_argument("--runs", type=int, default=3)
    arguments.add_argument("--json", action="store_true")
    given = arguments.parse_args()
    from pyspark.sql import SparkSession

    checkout = Path(__file__).resolve().parents[1]
    os.environ["PYTHONPATH"] = os.pathsep.join(
        filter(None, [str(checkout), os.environ.get("PYTHONPATH", "")])
    )
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with RedisServer() as server, tempfile.TemporaryDirectory() as folder:
        builder: Any = SparkSession.builder.master("local[2]").appName("mqredis bench")
        for name, value in CONFIG.items():
            if "JavaOptions" not in name:
                builder = builder.config(name, value)
        spark = builder.getOrCreate()
        bench = Bench(spark, server, given.rows, given.runs, Path(folder))
        found = bench.run()
        spark.stop()
    if given.json:
        print(json.dumps({name: asdict(measured) for name, measured in found.items()}))
        return
    print("\n".join(page(found, given.rows, given.runs)))


if __name__ == "__main__":
    main()
