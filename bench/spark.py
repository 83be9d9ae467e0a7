"""Spark: rows per second of reads, writes and streams, beside an interface that does no work and a plain source.

``python -m bench.spark [--rows N] [--runs N] [--only read|write|stream]``. Each kind of work runs in turn with two
others, in one session:

- its ceiling, an Arrow source or sink in Python that does no work;
- the plain source of ``bench/spark_plain.py``, which keeps none of the promises of a broker.

The goals are ratios of the medians of one run, so they hold on any machine. Wall-clock rates of a busy machine vary
much; the CPU time of a row (Spark, its Python processes and the server) stands beside each of them.
``make bench-spark`` calls it; docs/spark.md (Speed) has the results and the goals.
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
# Works of some seconds each are not counted before the JVM has compiled what they run: of a stream the first took 17
# seconds of processors, the second 10, those behind it 8 to 9.
READ_WARM, STREAM_WARM = 4, 3
COLUMNS = "lookup_id BIGINT, queue STRING, label STRING, body BINARY, priority INT"
READ, MANY = "batch read, five columns", "batch read, five columns, minPartitions=16"
IDLE_MANY = "API ceiling, read, minPartitions=16"
WRITE, KEYED = "DataFrame to queue", "DataFrame to queue, priority and correlation id"
STREAM = "queue to Parquet, exactly once"
# The same work by the plain source.
PLAIN = {
    READ: "plain source, read",
    WRITE: "plain source, to queue",
    KEYED: "plain source, to queue, priority and correlation id",
    STREAM: "plain source, to Parquet",
}
# A work, the work it is compared with, and the ratio of the two rates that is wanted.
GOALS = (
    (READ, PLAIN[READ], 1.0),
    (WRITE, PLAIN[WRITE], 1.2),
    (KEYED, PLAIN[KEYED], 1.2),
    (STREAM, PLAIN[STREAM], 1.2),
    (MANY, READ, 1 / 1.5),
    (IDLE_MANY, "API ceiling, read", 1 / 1.5),  # what of that is Spark's own
)


def idle_source(name: str, rows: int, partitions: int) -> Any:
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
            pa.array([b"x" * BODY] * size, pa.binary()),
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
            return [InputPartition(n) for n in range(partitions)]

        def read(self, partition: Any) -> Iterator[Any]:  # noqa: ARG002
            return batches(rows // partitions)

    class Writer(DataSourceArrowWriter):
        def write(self, iterator: Any) -> Any:
            for _ in iterator:
                pass
            return Done()

    class Done(WriterCommitMessage):
        pass

    return spark_plain.data_source(name, Reader, StreamReader, Writer)


@dataclass
class Measured:
    """Rows a second of each run; of a stream its triggers of full size behind the first, too, and Spark's phases."""

    rates: list[float] = field(default_factory=list)
    triggers: list[float] = field(default_factory=list)  # the median of each run
    phases: list[dict[str, int]] = field(default_factory=list)  # ms, one for each of these triggers
    # CPU seconds of each run: Spark, its Python processes, the server.
    cores: list[float] = field(default_factory=list)


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
        # All bodies differ: the server keeps equal texts in Lua once, which no queue of an application profits from.
        self.input = spark.range(0, rows, 1, 2).selectExpr(
            f"cast(substring(repeat(md5(cast(id AS STRING)), {BODY // 32 + 1}), 1, {BODY}) AS BINARY) AS body",
            "cast(id % 8 AS INT) AS priority",
            "concat('order-', id) AS correlation_id",
        )
        self.input.persist().count()
        spark.dataSource.register(idle_source("idle", rows, 2))
        spark.dataSource.register(idle_source("idle16", rows, 16))
        spark.dataSource.register(spark_plain.source(server.url, TRIGGER))

    def empty(self) -> None:
        """A new queue."""
        if "orders" in {info.name for info in self.qm.queues()}:
            self.qm.delete_queue("orders")
        self.qm.create_queue("orders")

    def prepare(self, work: str) -> None:
        """Prepare a measurement of mqredis: an empty queue, or a full one, and no other queue on the server."""
        spark_plain.clear(self.url)
        self.empty()
        if work == PLAIN[STREAM]:
            self.bodies().write.format("plain").mode("append").save()
        elif "to queue" not in work:
            self.write(self.bodies())

    def bodies(self) -> Any:
        return self.input.select("body")

    def keyed(self) -> Any:
        """Rows with eight priorities, and a correlation id of their own each."""
        return self.input

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

    def run(self, only: str) -> dict[str, Measured]:
        """Run every group of measurements, or the one that ``only`` names."""
        groups = {"read": self.reads, "write": self.writes, "stream": self.streams}
        found: dict[str, Measured] = {}
        for name, group in groups.items():
            if only in ("", name):
                found |= group()
        return found

    def reads(self) -> dict[str, Measured]:
        """Batch reads of one queue."""
        spark = self.spark
        parquet = str(self.folder / "parquet")
        self.bodies().write.mode("overwrite").parquet(parquet)
        self.prepare(READ)
        spark_plain.fill_packed(self.url, self.rows, BODY)

        def read(columns: str = "", **options: int) -> None:
            source = spark.read.format("mqredis").options(**self.options, **options)
            self.noop((source.schema(columns) if columns else source).load())

        return self.turns(
            {
                "API ceiling, read": lambda: self.noop(spark.read.format("idle").load()),
                IDLE_MANY: lambda: self.noop(spark.read.format("idle16").load()),
                READ: lambda: read(COLUMNS),
                PLAIN[READ]: lambda: self.noop(spark.read.format("plain").load()),
                MANY: lambda: read(COLUMNS, minPartitions=16),
                "batch read, all columns": read,
                "batch read, ids only": lambda: read("lookup_id BIGINT"),
                "Parquet, read": lambda: self.noop(spark.read.parquet(parquet)),
                "range, read": lambda: self.noop(self.bodies()),
            },
            warm=READ_WARM,
        )

    def writes(self) -> dict[str, Measured]:
        """Batch writes to an empty queue, each as one unit of work."""

        def into(name: str, frame: Any) -> None:
            frame.write.format(name).mode("append").save()

        return self.turns(
            {
                "API ceiling, write": lambda: into("idle", self.bodies()),
                WRITE: lambda: self.write(self.bodies()),
                PLAIN[WRITE]: lambda: into("plain", self.bodies()),
                "API ceiling, write, priority and correlation id": lambda: into("idle", self.keyed()),
                KEYED: lambda: self.write(self.keyed()),
                PLAIN[KEYED]: lambda: into("plain", self.keyed()),
            },
            self.prepare,
        )

    def streams(self) -> dict[str, Measured]:
        """Streams of a full queue to Parquet."""
        read = self.spark.readStream
        return self.turns(
            {
                "API ceiling, stream to Parquet": lambda: self.into_parquet(read.format("idle").load()),
                STREAM: lambda: self.stream(COLUMNS),
                PLAIN[STREAM]: lambda: self.into_parquet(read.format("plain").load()),
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
        """Run these in turn, so that other load of the machine affects all of them. The first ``warm`` runs do not
        count."""
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
    """Add a run. The first trigger of a stream starts it; the later ones are its steady state."""
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
    if "to queue" not in name and "write" not in name:
        return IDLE_MANY if name == MANY else "API ceiling, read"
    return "API ceiling, write" + (", priority and correlation id" if "priority" in name else "")


def figure(name: str, measured: Measured) -> list[float]:
    """The figure of a goal: steady triggers of a stream, otherwise whole runs."""
    return measured.triggers if "to Parquet" in name and measured.triggers else measured.rates


def page(found: dict[str, Measured], rows: int, runs: int) -> Iterator[str]:
    """The description of a measurement."""

    def rates(values: list[float]) -> str:
        return f"{statistics.median(values):9,.0f} ({min(values):,.0f}-{max(values):,.0f})"

    yield f"{rows:,} rows, {runs} runs in turn, warm: median (lowest-highest) rows a second"
    for name, measured in found.items():
        top = statistics.median(found[ceiling_of(name)].rates)
        ratio = statistics.median(measured.rates) / top
        used = statistics.median(measured.cores) / rows * 1e6
        yield f"{name:48} {rates(measured.rates):30} {ratio:5.2f} of the ceiling {used:6.2f} CPU us a row"
    yield f"\ntriggers of {TRIGGER:,} behind the first: median of each run"
    streams = {name: each for name, each in found.items() if each.triggers}
    for name, measured in streams.items():
        yield f"{name:48} {rates(measured.triggers)}"
    if streams:
        yield "\nms of such a trigger, median of all; Spark's own names"
        phases = sorted({key for each in streams.values() for one in each.phases for key in one})
        for name, measured in streams.items():
            split = (
                f"{key} {statistics.median(p.get(key, 0) for p in measured.phases):.0f}" for key in phases
            )
            yield f"{name:48} {', '.join(split)}"
    yield "\ngoals: ratio of the medians (lowest to highest)"
    for name, other, goal in GOALS:
        if name in found:
            ours, theirs = figure(name, found[name]), figure(other, found[other])
            ratio = statistics.median(ours) / statistics.median(theirs)
            cpu = statistics.median(found[other].cores) / statistics.median(found[name].cores)
            spread = f"{min(ours) / max(theirs):.2f} to {max(ours) / min(theirs):.2f}"
            yield (
                f"{name:48} {ratio:.2f} ({spread}; by CPU time {cpu:.2f}) of {goal:.2f} times "
                f"{other}: {'met' if ratio >= goal else 'missed'}"
            )


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rows", type=int, default=ROWS)
    arguments.add_argument("--runs", type=int, default=3)
    arguments.add_argument("--only", choices=("read", "write", "stream"), default="")
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
        found = bench.run(given.only)
        spark.stop()
    if given.json:
        print(json.dumps({name: asdict(measured) for name, measured in found.items()}))
        return
    print("\n".join(page(found, given.rows, given.runs)))


if __name__ == "__main__":
    main()
