"""Streaming reads and writes in one session; what happens after kills is in test_kills.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import mqredis
from mqredis.spark import claims, release
from tests.spark.config import patiently

pytestmark = pytest.mark.spark


def stream(spark: Any, options: dict[str, str], **more: str) -> Any:
    return spark.readStream.format("mqredis").options(**options, **more).load()


class Collected:
    """A sink that records the bodies of its batches by batch id."""

    def __init__(self) -> None:
        self.batches: dict[int, list[str]] = {}

    def __call__(self, frame: Any, batch: int) -> None:
        rows = frame.selectExpr("cast(body as string) as body").collect()
        self.batches[batch] = [row.body for row in rows]

    @property
    def all(self) -> list[str]:
        return [body for number in sorted(self.batches) for body in self.batches[number]]


def drain(frame: Any, checkpoint: Path, into: Any) -> Any:
    """Run a query until it has taken what is there."""
    writer = frame.writeStream.foreachBatch(into).option("checkpointLocation", str(checkpoint))
    return finish(writer.trigger(availableNow=True))


def finish(writer: Any) -> Any:
    """Start a query and wait for its end."""

    def run() -> Any:
        query = writer.start()
        query.awaitTermination()
        return query

    return patiently(run)


def test_stream_receives_every_message_once_in_batches(spark, qm, options, fill, tmp_path):
    queue = fill(count=1000)
    sink = Collected()
    query = drain(stream(spark, options, queue="orders", maxMessagesPerTrigger="300"), tmp_path, sink)
    assert [len(batch) for batch in sink.batches.values()] == [300, 300, 300, 100]
    assert sink.all == [str(n) for n in range(1000)]
    info = qm.queue_info("orders")
    assert (info.messages, info.locked) == (0, 0)
    assert json.loads(query.lastProgress["sources"][0]["latestOffset"])["backlog"] == 0
    queue.send_many([b"more"] * 5)
    sink.batches.clear()
    drain(stream(spark, options, queue="orders", maxMessagesPerTrigger="300"), tmp_path, sink)
    assert sink.batches == {4: ["more"] * 5}
    assert qm.queue_info("orders").messages == 0


def test_failed_batch_is_read_again_identically(spark, qm, options, fill, tmp_path):
    queue = fill(count=50)
    seen: list[list[str]] = []

    def fail(frame: Any, batch: int) -> None:
        seen.append([bytes(row.body).decode() for row in frame.collect()])
        raise RuntimeError("the sink is down")

    with pytest.raises(Exception, match="the sink is down"):
        drain(stream(spark, options, queue="orders", maxMessagesPerTrigger="20"), tmp_path, fail)
    (claim,) = claims(qm, "orders")
    assert (claim.messages, claim.state) == (20, "complete")
    queue.send(b"urgent", priority=7)
    sink = Collected()
    drain(
        stream(spark, options, queue="orders", maxMessagesPerTrigger="100", minPartitions="3"), tmp_path, sink
    )
    assert sink.batches[0] == seen[0] == [str(n) for n in range(20)]
    assert sink.batches[1] == ["urgent", *(str(n) for n in range(20, 50))]
    assert qm.queue_info("orders").messages == 0


def test_nothing_is_locked_before_the_offset_is_logged(options, qm, fill):
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    from mqredis.spark import options as parsing
    from mqredis.spark.receive_reader import ReceiveReader
    from mqredis.spark.schema import SCHEMA

    fill(count=10)
    reader = ReceiveReader(parsing.parse({**options, "queue": "orders"}), SCHEMA)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    assert end != start
    assert qm.queue_info("orders").locked == 0
    slices = reader.partitions(start, end)
    assert qm.queue_info("orders").locked == 10
    copy = ReceiveReader(parsing.parse({**options, "queue": "orders"}), SCHEMA)
    assert [s.__dict__ for s in copy.partitions(copy.initialOffset(), end)] == [s.__dict__ for s in slices]
    assert qm.queue_info("orders").locked == 10
    # Spark may skip commit for ever: the next latestOffset receives what its start covers.
    assert copy.latestOffset(end, ReadAllAvailable()) == end
    assert qm.queue_info("orders").messages == 0
    with pytest.raises(Exception, match="received already"):
        reader.partitions(start, end)


def test_claims_do_not_lapse_and_an_operator_can_release_them(redis_server, fill):
    settings = mqredis.Settings(test_clock=True)
    with mqredis.connect(redis_server.url, manager="clocked", settings=settings) as qm:
        from pyspark.sql.streaming.datasource import ReadAllAvailable

        from mqredis.spark import options as parsing
        from mqredis.spark.receive_reader import ReceiveReader
        from mqredis.spark.schema import SCHEMA

        qm.create_queue("orders")
        queue = qm.open("orders")
        queue.send_many([b"x"] * 10)
        given = {"url": redis_server.url, "queueManager": "clocked", "queue": "orders", "pollTimeoutMs": "0"}
        reader = ReceiveReader(parsing.parse(given), SCHEMA)
        start = reader.initialOffset()
        end = reader.latestOffset(start, ReadAllAvailable())
        reader.partitions(start, end)
        qm.advance_clock(90 * 86_400)
        qm.maintain()
        assert qm.queue_info("orders").locked == 10
        owner = claims(qm)[0].owner
        assert release(qm, "orders", owner) == 10
        assert qm.queue_info("orders").ready == 10
        assert queue.peek(0).delivery_count == 1
        with pytest.raises(Exception, match="released this claim"):
            reader.partitions(start, end)
        with pytest.raises(Exception, match="released this claim"):
            reader.commit(end)
        assert qm.queue_info("orders").ready == 10


def test_named_consumer_survives_the_loss_of_its_checkpoint(spark, qm, options, fill, tmp_path):
    fill(count=100)

    def fail(frame: Any, batch: int) -> None:
        frame.count()
        if batch == 1:
            raise RuntimeError("down")

    named = {"queue": "orders", "consumerName": "lake", "maxMessagesPerTrigger": "40"}
    with pytest.raises(Exception, match="down"):
        drain(stream(spark, options, **named), tmp_path / "lost", fail)
    assert qm.queue_info("orders").locked == 40
    sink = Collected()
    drain(stream(spark, options, **named), tmp_path / "new", sink)
    assert sink.all == [str(n) for n in range(40, 100)]
    assert qm.queue_info("orders").messages == 0
    fill(count=1)
    with pytest.raises(Exception, match="has taken over this consumerName"):
        drain(stream(spark, options, **named), tmp_path / "lost", sink)


def test_second_query_with_the_same_name_is_fenced(spark, qm, options, fill, tmp_path):
    queue = fill(count=10)
    sink = Collected()
    named = {"queue": "orders", "consumerName": "lake", "pollTimeoutMs": "200"}
    first = (
        stream(spark, options, **named)
        .writeStream.foreachBatch(sink)
        .option("checkpointLocation", str(tmp_path / "1"))
        .start()
    )
    try:
        first.processAllAvailable()
        queue.send(b"new")
        with pytest.raises(Exception, match="another query with this consumerName is running"):
            drain(stream(spark, options, **named), tmp_path / "2", Collected())
        first.processAllAvailable()
        assert sink.all == [*(str(n) for n in range(10)), "new"]
    finally:
        first.stop()


def test_running_query_receives_new_messages(spark, qm, options, fill, tmp_path):
    queue = fill(count=1)
    sink = Collected()
    query = (
        stream(spark, options, queue="orders", pollTimeoutMs="200")
        .writeStream.foreachBatch(sink)
        .option("checkpointLocation", str(tmp_path))
        .start()
    )
    try:
        for body in ("wakes it", "again"):
            query.processAllAvailable()
            queue.send(body.encode())
        query.processAllAvailable()
        assert sink.all == ["0", "wakes it", "again"]
    finally:
        query.stop()


def test_queues_share_the_limit_of_a_trigger(spark, qm, options, fill, tmp_path):
    fill("a", 300)
    fill("b", 100)
    sink = Collected()
    drain(stream(spark, options, queues="a,b", maxMessagesPerTrigger="100"), tmp_path, sink)
    assert sorted(len(batch) for batch in sink.batches.values()) == [100] * 4
    assert len(sink.all) == 400
    fill("c", 1)
    with pytest.raises(Exception, match=r"other queues than those in its checkpoint: with .*/c"):
        drain(stream(spark, options, queues="a,b,c"), tmp_path, sink)
    with pytest.raises(Exception, match=r"without .*/b"):
        drain(stream(spark, options, queues="a"), tmp_path, sink)


def test_byte_limit_bounds_a_trigger(spark, qm, options, tmp_path):
    qm.create_queue("orders")
    qm.open("orders").send_many([b"x" * 985] * 10)
    sink = Collected()
    drain(stream(spark, options, queue="orders", maxBytesPerTrigger="3000"), tmp_path, sink)
    assert [len(batch) for batch in sink.batches.values()] == [3, 3, 3, 1]


def test_browse_stream_removes_nothing(spark, qm, options, fill, tmp_path):
    queue = fill(count=30)
    queue.send(b"first", priority=7)
    sink = Collected()
    browse = {"queue": "orders", "readMode": "browse", "maxMessagesPerTrigger": "20"}
    drain(stream(spark, options, **browse), tmp_path, sink)
    assert [len(batch) for batch in sink.batches.values()] == [20, 11]
    assert sorted(sink.all) == sorted(["first", *(str(n) for n in range(30))])
    queue.send(b"urgent", priority=6)
    sink.batches.clear()
    drain(stream(spark, options, **browse), tmp_path, sink)
    assert sink.all == ["urgent"]
    assert qm.queue_info("orders").ready == 32
    drain(stream(spark, options, **browse, startingPosition="latest"), tmp_path / "latest", sink)
    assert sink.all == ["urgent"]


def test_stream_from_queue_to_queue(spark, qm, options, fill, tmp_path):
    fill("in", 500)
    qm.create_queue("out")
    frame = stream(spark, options, queue="in", maxMessagesPerTrigger="200").selectExpr(
        "body", "label", "priority"
    )
    writer = frame.writeStream.format("mqredis").options(
        **options, queue="out", checkpointLocation=str(tmp_path)
    )
    finish(writer.trigger(availableNow=True))
    assert [m.text for m in qm.open("out").browse()] == [str(n) for n in range(500)]
    assert qm.queue_info("in").messages == 0


def test_invalid_streams_are_refused(spark, qm, options, fill, tmp_path):
    fill(count=3)
    with pytest.raises(Exception, match="has no queue 'none'"):
        drain(stream(spark, options, queue="none"), tmp_path / "1", Collected())
    with pytest.raises(Exception, match="SELECTOR_SYNTAX"):
        drain(stream(spark, options, queue="orders", selector="a = = 1"), tmp_path / "2", Collected())
    counts = stream(spark, options, queue="orders").groupBy("label").count().selectExpr("label AS body")
    writer = counts.writeStream.format("mqredis").outputMode("complete").trigger(availableNow=True)
    with pytest.raises(Exception, match=r"(?i)only appends|complete"):
        finish(writer.options(**options, queue="orders", checkpointLocation=str(tmp_path / "c")))
