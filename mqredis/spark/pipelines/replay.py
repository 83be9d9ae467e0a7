"""From the lake back into queues: filtered, paced, and resumable without doubles."""

from __future__ import annotations

import time
from typing import Any

from mqredis.commands import pipelines as commands
from mqredis.spark.connection import context_of, manager_of, run
from mqredis.steps import perform

#: Columns of an archive that make a message again; the others describe what happened to it.
KEPT = (
    "body",
    "label",
    "priority",
    "content_type",
    "properties",
    "correlation_id",
    "group_id",
    "response_queue",
)


def done_so_far(url: str, manager: str, name: str) -> int:
    """How much of the work called ``name`` has been published already."""
    client = manager_of(url, manager)
    return max(0, run(client, perform(commands.sink(context_of(client).keys, f"app-{name}"))).committed)


def replay(
    spark: Any,
    path: str,
    name: str,
    *,
    url: str,
    manager: str = "default",
    queue: str = "",
    where: str = "",
    rate: float = 0,
    chunk: int = 10_000,
) -> int:
    """Send archived messages again; answers how many this call sent.

    :param name: names this replay: a repetition under the same name, also after a crash, goes on where the last one
        ended and sends nothing twice. The lake and ``where`` must be the same then.
    :param queue: where to; default: the queue from which the archived copy came.
    :param where: a condition in Spark SQL over the columns of the archive.
    :param rate: messages a second at most; 0: no limit.
    :param chunk: messages published together.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    frame = spark.read.parquet(path)
    if where:
        frame = frame.where(where)
    origin = f.coalesce(f.col("original_queue"), f.split_part(f.col("queue"), f.lit(";"), f.lit(1)))
    order = Window.orderBy("arrived", "lookup_id", "manager", "queue")
    frame = frame.withColumn("_n", f.row_number().over(order))
    rows = frame.select(
        "_n", f.lit(queue).alias("queue") if queue else origin.alias("queue"), *KEPT
    ).persist()
    try:
        total, done, sent = rows.count(), done_so_far(url, manager, name), 0
        options = {"url": url, "queueManager": manager, "txnAppId": name}
        begun = time.monotonic()
        while done < total:
            upto = min(total, done + chunk)
            part = rows.where((f.col("_n") > done) & (f.col("_n") <= upto)).orderBy("_n").drop("_n")
            part.coalesce(1).write.format("mqredis").options(**options, txnVersion=str(upto)).mode(
                "append"
            ).save()
            sent, done = sent + upto - done, upto
            if rate and done < total:
                time.sleep(max(0.0, sent / rate - (time.monotonic() - begun)))
        return sent
    finally:
        rows.unpersist()
