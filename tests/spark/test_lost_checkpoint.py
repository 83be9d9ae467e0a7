"""After a deleted checkpoint the recipes of docs/spark.md neither lose nor duplicate messages."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from mqredis.commands.address import Address
from mqredis.errors import InvalidArgument
from mqredis.operations import pipelines
from mqredis.spark import batch_numbers, claims, release
from tests.spark.calls import make, rows, take
from tests.spark.recipes import NAMES, OUTPUT, recipe, written
from tests.spark.test_stream import drain, finish, stream

pytestmark = pytest.mark.spark

SEED = 20261124


class Fails:
    """Calls a recipe, and fails before or after the call in the batch with this number."""

    def __init__(self, write: Callable[[Any, int], None], batch: int, after: bool) -> None:
        self.write, self.batch, self.after = write, batch, after

    def __call__(self, frame: Any, batch: int) -> None:
        if batch == self.batch and not self.after:
            frame.count()
            raise RuntimeError("before the write")
        self.write(frame, batch)
        if batch == self.batch:
            raise RuntimeError("after the write")


@pytest.mark.parametrize("name", NAMES)
def test_named_reader_survives_repeated_loss_of_its_checkpoint(spark, options, qm, tmp_path, name):
    rng, sent = Random(SEED), 0
    for queue in ("a", "b", OUTPUT):
        qm.create_queue(queue)
    write = recipe(name, tmp_path / "table", {**options, "queue": OUTPUT})
    given = {"queues": "a,b", "consumerName": "nightly", "maxMessagesPerTrigger": "40"}
    for after in (True, False, True):
        for queue, count in (("a", 90), ("b", 50)):
            qm.open(queue).send_many([b"%d" % n for n in range(sent, sent + count)])
            sent += count
        failing = Fails(write, rng.randrange(3), after)
        with pytest.raises(Exception, match=r"(after|before) the write"):
            drain(stream(spark, options, **given), tmp_path / "checkpoint", failing)
        shutil.rmtree(tmp_path / "checkpoint")
    drain(stream(spark, options, **given), tmp_path / "checkpoint", write)
    found = written(name, tmp_path / "table", qm)
    doubled = [n for n, times in Counter(found).items() if times > 1]
    assert (len(set(range(sent)) - set(found)), doubled) == (0, []), f"seed {SEED}"
    assert (qm.queue_info("a").messages, qm.queue_info("b").messages) == (0, 0)


def test_unnamed_reader_is_continued_by_the_id_of_its_checkpoint(spark, options, fill, qm, tmp_path):
    fill(count=100)
    name, given = "write_parquet", {"queue": "orders", "maxMessagesPerTrigger": "40"}
    write = recipe(name, tmp_path / "table", options)
    with pytest.raises(Exception, match="after the write"):
        drain(stream(spark, options, **given), tmp_path / "lost", Fails(write, 1, True))
    (claim,) = claims(qm)
    again = stream(spark, options, **given, consumerName=claim.owner)
    drain(again, tmp_path / "new", write)
    assert written(name, tmp_path / "table", qm) == list(range(100))
    assert qm.queue_info("orders").messages == 0


def test_file_sink_that_skips_batches_is_an_error_and_removes_nothing(spark, options, fill, qm, tmp_path):
    fill(count=100)

    def run(name: str, checkpoint: str, folder: str) -> None:
        given = {"queue": "orders", "maxMessagesPerTrigger": "40", "consumerName": name}
        writer = stream(spark, options, **{k: v for k, v in given.items() if v}).writeStream.format("parquet")
        writer = writer.option("path", str(tmp_path / folder))
        writer = writer.option("checkpointLocation", str(tmp_path / checkpoint))
        finish(writer.trigger(availableNow=True))

    for name in ("", "nightly"):
        run(name, f"first{name}", f"out{name}")
        fill(count=50)
        for checkpoint in ("second", "second", "third"):
            with pytest.raises(Exception, match="the sink has skipped batch"):
                run(name, checkpoint + name, f"out{name}")
        assert (qm.queue_info("orders").ready, qm.queue_info("orders").locked) == (50, 0)
        run(name, f"fourth{name}", f"more{name}")
        assert spark.read.parquet(str(tmp_path / f"more{name}")).count() == 50
        fill(count=100)


def test_redelivered_batch_keeps_its_id(options, fill, qm):
    fill("a", 20)
    fill("b", 20)
    given = {"queues": "a,b", "consumerName": "nightly"}
    reader = make(options, **given)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadMaxRows(20))
    first = sorted(
        zip(rows(reader, start, end, "batch_id"), rows(reader, start, end, "lookup_id"), strict=True)
    )
    plan = end["queues"][f"{qm.name}/a"]
    # The driver ends in the middle of its commit: queue a is received, queue b is not.
    qm.run(pipelines.commit(Address(qm.context.keys, "a", plan["g"]), "nightly", end["lineage"], plan["s"]))
    reader.stop()
    again = make(options, **given)
    start = again.initialOffset()
    end = again.latestOffset(start, ReadMaxRows(20))
    second = sorted(
        zip(rows(again, start, end, "batch_id"), rows(again, start, end, "lookup_id"), strict=True)
    )
    assert [row for row in second if "/b/" in row[0]] == [row for row in first if "/b/" in row[0]]
    ids = [{text for text, _ in found if "/a/" in text} for found in (first, second)]
    assert [len(some) for some in ids] == [1, 1]
    assert not ids[0] & ids[1]


@pytest.mark.parametrize("how", ["forget", "recreate"])
def test_batch_ids_are_not_reused(options, fill, qm, how):
    queue = fill(count=30)
    given = {"queue": "orders", "consumerName": "nightly"}
    reader = make(options, **given)
    end, _ = take(reader, reader.initialOffset(), ReadMaxRows(10))
    end, _ = take(reader, end, ReadMaxRows(10))
    (claim,) = claims(qm)
    reader.stop()
    if how == "forget":
        release(qm, "orders", "nightly", forget=True)
    else:
        qm.delete_queue("orders")
        queue = fill(count=30)
    again = make(options, **given)
    start = again.initialOffset()
    end = again.latestOffset(start, ReadMaxRows(10))
    (number,) = {int(text.rpartition("/")[2]) for text in rows(again, start, end, "batch_id")}
    assert number > claim.sequence
    assert queue.peek(0) is not None


def test_batch_numbers(spark, options, fill, qm):
    fill("a/b", 3)
    browse = make(options, queue="a/b", readMode="browse")
    start = browse.initialOffset()
    end = browse.latestOffset(start, ReadMaxRows(2))
    (text,) = set(rows(browse, start, end, "batch_id"))
    assert text == f"{qm.name}/a%2Fb/{end['lineage']}/{end['queues'][f'{qm.name}/a%2Fb']}"
    table = pa.table({"batch_id": ["m/q/x/7", "m/r/x/8", "m/q/x/7"]})
    assert batch_numbers(table) == {"m/q/x": 7, "m/r/x": 8}
    assert batch_numbers(spark.createDataFrame(table.to_pandas())) == {"m/q/x": 7, "m/r/x": 8}
    with pytest.raises(InvalidArgument, match="no column batch_id"):
        batch_numbers(pa.table({"body": ["x"]}))
    batch = spark.read.format("mqredis").options(**options, queue="a/b").load()
    with pytest.raises(InvalidArgument, match="not read by a stream"):
        batch_numbers(batch)
