"""Work of tests in sessions of another kind: ``python -m tests.spark.elsewhere plan.json``. Writes what it found.

A batch read, a stream from queue to queue, a batch write: through Spark Connect, or with executors of their own.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.spark.config import CONFIG, SMALL, patiently


def session(kind: str, folder: str) -> Any:
    builder: Any = SparkSession.builder.appName("elsewhere")
    builder = builder.remote("local[2]") if kind == "connect" else builder.master(kind)
    for name, value in {**CONFIG, **SMALL}.items():
        builder = builder.config(name, value)
    return builder.config("spark.sql.warehouse.dir", folder + "/warehouse").getOrCreate()


def main(plan_path: str) -> None:
    plan = json.loads(Path(plan_path).read_text())
    spark, given = session(plan["kind"], plan["folder"]), plan["options"]
    source = spark.read.format("mqredis").options(**given, queue="in", minPartitions=2)
    found: dict[str, Any] = {"kind": type(spark).__module__, "read": source.load().count()}
    writer = (
        spark.readStream.format("mqredis")
        .options(**given, queue="in", maxMessagesPerTrigger=400, minPartitions=2)
        .load()
        .select("body", "priority")
        .writeStream.format("mqredis")
        .options(**given, queue="out", checkpointLocation=plan["folder"] + "/checkpoint")
        .trigger(availableNow=True)
    )

    def run() -> Any:
        query = writer.start()
        query.awaitTermination()
        return query

    query = patiently(run)
    found["batches"] = [p["numInputRows"] for p in query.recentProgress if p["numInputRows"]]
    frame = spark.range(100).selectExpr("cast(id AS STRING) AS body").repartition(2)
    frame.write.format("mqredis").options(**given, queue="more").mode("append").save()
    try:
        spark.read.format("mqredis").options(**given, queue="none").load().count()
    except Exception as error:  # noqa: BLE001 - what the user sees is what is tested
        found["error"] = str(error)
    (Path(plan["folder"]) / "found.json").write_text(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
