"""Spark: rows a second of reads, writes and streams, as ratios to what the Data Source API itself can do.

``python -m bench.spark [--rows N] [--runs N]``. The ceilings are an Arrow source and an Arrow sink in Python that do no
work, measured in the same session; Spark's own range and Parquet sources stand beside them. The best run counts.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mqredis
from tests.spark.config import CONFIG
from tests.support.server import RedisServer

BODY = 200
ROWS = 200_000
TRIGGER = 100_000
COLUMNS = "lookup_id BIGINT, queue STRING, label STRING, body BINARY, priority INT"
#: 1.2 times what a throw-away prototype reached on two cores with five or six columns; of a stream that was the rate of
#: its triggers, without start and end.
GOALS = {
    "batch read, five columns": 396_000,
    "queue to Parquet, exactly once": 120_000,
    "DataFrame to queue, one unit of work": 110_000,
}


def idle_source(rows: int) -> Any:
    """A source and a sink that do nothing: the price of the API. A closure, so that workers get it by value."""
    import pyarrow as pa
    from pyspark.sql.datasource import (
        DataSource,
        DataSourceArrowWriter,
        DataSourceReader,
        DataSourceStreamReader,
        InputPartition,
        WriterCommitMessage,
    )
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

    def batches(count: int) -> Iterator[Any]:
        size = 5_000
        names = ["id", "queue", "label", "body", "priority"]
        arrays = [
            pa.array(range(size), pa.int64()),
            pa.array(["orders"] * size),
            pa.array([""] * size),
            pa.array([b"x" * 200] * size, pa.binary()),
            pa.array([3] * size, pa.int32()),
        ]
        for _ in range(count // size):
            yield pa.RecordBatch.from_arrays(arrays, names)

    class Idle(DataSource):
        @classmethod
        def name(cls) -> str:
            return "idle"

        def schema(self) -> str:
            return "id BIGINT, queue STRING, label STRING, body BINARY, priority INT"

        def reader(self, schema: Any) -> Any:  # noqa: ARG002
            return Reader()

        def streamReader(self, schema: Any) -> Any:  # noqa: ARG002, N802 - Spark's name
            return StreamReader()

        def writer(self, schema: Any, overwrite: bool) -> Any:  # noqa: ARG002
            return Writer()

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

    return Idle


def best(runs: int, work: Callable[[], object], prepare: Callable[[], None] = lambda: None) -> float:
    """Seconds of the fastest run."""
    times = []
    for _ in range(runs):
        prepare()
        begun = time.perf_counter()
        work()
        times.append(time.perf_counter() - begun)
    return min(times)


class Bench:
    """One session, one server."""

    def __init__(self, spark: Any, server: RedisServer, rows: int, runs: int, folder: Path) -> None:
        self.spark, self.rows, self.runs, self.folder = spark, rows, runs, folder
        self.options = {"url": server.url, "queueManager": "bench", "queue": "orders"}
        self.qm = mqredis.connect(server.url, manager="bench")
        self.number = 0
        spark.dataSource.register(idle_source(rows))

    def empty(self) -> None:
        """A new queue."""
        if "orders" in {info.name for info in self.qm.queues()}:
            self.qm.delete_queue("orders")
        self.qm.create_queue("orders")

    def filled(self) -> None:
        """A new queue with messages."""
        self.empty()
        self.write(self.bodies())

    def bodies(self) -> Any:
        return self.spark.range(0, self.rows, 1, 2).selectExpr(f"cast(repeat('x', {BODY}) AS BINARY) AS body")

    def write(self, frame: Any) -> None:
        frame.write.format("mqredis").options(**self.options, atomicPublishLimit=self.rows).mode(
            "append"
        ).save()

    def noop(self, frame: Any) -> None:
        frame.write.format("noop").mode("overwrite").save()

    def stream(self, columns: str = "") -> None:
        options = {**self.options, "maxMessagesPerTrigger": TRIGGER}
        source = self.spark.readStream.format("mqredis").options(**options)
        frame = (source.schema(columns) if columns else source).load()
        self.last = self.into_parquet(frame.select("lookup_id", "queue", "label", "body", "priority"))

    def into_parquet(self, frame: Any) -> list[Any]:
        """Run a stream to its end; its micro-batches."""
        self.number += 1
        place = self.folder / f"stream{self.number}"
        writer = frame.writeStream.format("parquet").option("path", str(place / "out"))
        writer = writer.option("checkpointLocation", str(place / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        return [p for p in query.recentProgress if p["numInputRows"]]

    def run(self) -> dict[str, float]:
        """Rows a second of everything."""
        spark, rows = self.spark, self.rows
        parquet = str(self.folder / "parquet")
        self.bodies().write.mode("overwrite").parquet(parquet)
        read = spark.read.format("mqredis")
        self.filled()
        found = {
            "API ceiling, read": best(self.runs, lambda: self.noop(spark.read.format("idle").load())),
            "API ceiling, write": best(
                self.runs, lambda: self.bodies().write.format("idle").mode("append").save()
            ),
            "API ceiling, stream to Parquet": best(
                self.runs, lambda: self.into_parquet(spark.readStream.format("idle").load())
            ),
            "Parquet, read": best(self.runs, lambda: self.noop(spark.read.parquet(parquet))),
            "range, read": best(self.runs, lambda: self.noop(self.bodies())),
            "batch read, five columns": best(
                self.runs, lambda: self.noop(read.schema(COLUMNS).options(**self.options).load())
            ),
            "batch read, all columns": best(
                self.runs, lambda: self.noop(spark.read.format("mqredis").options(**self.options).load())
            ),
            "batch read, ids only": best(
                self.runs,
                lambda: self.noop(
                    spark.read.format("mqredis").schema("lookup_id BIGINT").options(**self.options).load()
                ),
            ),
            "DataFrame to queue, one unit of work": best(
                self.runs, lambda: self.write(self.bodies()), self.empty
            ),
            "all columns to Parquet, exactly once": best(self.runs, self.stream, self.filled),
            "queue to Parquet, exactly once": best(self.runs, lambda: self.stream(COLUMNS), self.filled),
        }
        return {name: rows / seconds for name, seconds in found.items()}


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
        rates = bench.run()
        spark.stop()
    if given.json:
        print(json.dumps(rates))
        return
    for name, rate in rates.items():
        kind = "write" if "write" in name or "to queue" in name else "read"
        kind = "stream to Parquet" if "to Parquet" in name else kind
        ratio = rate / rates[f"API ceiling, {kind}"]
        goal = f"   {rate / GOALS[name]:5.2f} of {GOALS[name]:,}" if name in GOALS else ""
        print(f"{name:42} {rate:12,.0f} rows/s   {ratio:5.2f} of the ceiling{goal}")
    steady = [p["numInputRows"] / p["durationMs"]["triggerExecution"] * 1000 for p in bench.last]
    print("its triggers in the last run, rows/s:", ", ".join(f"{rate:,.0f}" for rate in steady))
    if steady[1:]:
        middle, wanted = statistics.median(steady[1:]), GOALS["queue to Parquet, exactly once"]
        print(f"the median behind the first: {middle:,.0f} rows/s   {middle / wanted:5.2f} of {wanted:,}")


if __name__ == "__main__":
    main()
