"""A Spark driver that the kill tests start, kill and start again: ``python -m tests.spark.driver
plan.json``."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.spark.config import CONFIG, SMALL, patiently
from tests.spark.recipes import recipe


def main(plan_path: str) -> None:
    plan = json.loads(Path(plan_path).read_text())
    builder = SparkSession.builder.master("local[2]").appName("killed")
    for name, value in {**CONFIG, **SMALL}.items():
        builder = builder.config(name, value)
    spark = builder.config("spark.sql.warehouse.dir", plan["folder"] + "/warehouse").getOrCreate()
    machine: Any = spark._jvm
    java = machine.java.lang.ProcessHandle.current().pid()
    pids = Path(plan["folder"]) / "pids"
    (pids.parent / "pids.new").write_text(f"{java} {os.getpid()}")
    (pids.parent / "pids.new").rename(pids)
    if plan["source"]:
        frame = spark.readStream.format("mqredis").options(**plan["source"]).load()
        frame = frame if plan["recipe"] else frame.select("body")
    else:
        frame = spark.readStream.schema("body BINARY").option("maxFilesPerTrigger", 1).parquet(plan["input"])
    writer = frame.writeStream.option("checkpointLocation", plan["folder"] + "/checkpoint")
    if plan["recipe"]:
        writer = writer.foreachBatch(recipe(plan["recipe"], Path(plan["output"]), plan["sink"]))
    elif plan["sink"]:
        writer = writer.format("mqredis").options(**plan["sink"])
    else:
        writer = writer.format("parquet").option("path", plan["output"])
    patiently(lambda: writer.trigger(availableNow=True).start().awaitTermination())


if __name__ == "__main__":
    main(sys.argv[1])
