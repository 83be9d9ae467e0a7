"""Readers and writers without a Spark session, called directly."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import datasource as ds
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import BinaryType, StructField, StructType

import mqredis
from mqredis.spark import batch, recover
from mqredis.spark import options as parsing
from mqredis.spark.fetch import fields
from mqredis.spark.planning import share
from mqredis.spark.receive_reader import ReceiveReader
from mqredis.spark.schema import SCHEMA
from mqredis.spark.sink import BatchWriter

pytestmark = pytest.mark.spark

NARROW = StructType([StructField("queue", SCHEMA["queue"].dataType), StructField("body", BinaryType())])


def make(options: dict[str, str], **more: str) -> ReceiveReader:
    return ReceiveReader(parsing.parse({**options, "pollTimeoutMs": "0", **more}), NARROW)


def take(reader: ReceiveReader, start: dict[str, Any], limit: int = 0) -> tuple[dict[str, Any], list[bytes]]:
    """One micro-batch, without its commit."""
    end = reader.latestOffset(start, ReadMaxRows(limit) if limit else ReadAllAvailable())
    rows = [batch for part in reader.partitions(start, end) for batch in reader.read(part)]
    return end, [body for batch in rows for body in batch.column("body").to_pylist()]


def test_several_queue_managers(redis_server, options):
    with (
        mqredis.connect(redis_server.url, manager="one") as one,
        mqredis.connect(redis_server.url, manager="two") as two,
    ):
        for number, manager in enumerate((one, two)):
            manager.create_queue("orders")
            manager.open("orders").send_many([b"%d" % number] * 30)
        given = {"url": redis_server.url, "queueManagers": "one,two", "queue": "orders"}
        reader = make(given)
        end, bodies = take(reader, reader.initialOffset(), 20)
        assert sorted(bodies) == [b"0"] * 10 + [b"1"] * 10
        end, bodies = take(reader, end)
        assert len(bodies) == 40
        reader.commit(end)
        assert [manager.queue_info("orders").messages for manager in (one, two)] == [0, 0]
        waiting = make({**given, "pollTimeoutMs": "300"})
        assert waiting.latestOffset(end, ReadAllAvailable()) == end
        two.open("orders").send(b"late")
        assert take(waiting, end)[1] == [b"late"]


def test_received_messages_go_to_the_journal(qm, options, fill):
    fill(count=600, journaling=True)
    reader = make(options, queue="orders")
    end, bodies = take(reader, reader.initialOffset())
    assert len(bodies) == 600
    reader.commit(end)
    assert qm.queue_info("orders").messages == 0
    assert qm.queue_info("orders;journal").messages == 600
    assert qm.doctor().findings == ()


def test_purged_claims_stay_readable_and_are_removed_when_received(qm, options, fill):
    queue = fill(count=300)
    reader = make(options, queue="orders")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadMaxRows(100))
    parts = reader.partitions(start, end)
    assert queue.purge() == 200
    assert sum(batch.num_rows for part in parts for batch in reader.read(part)) == 100
    assert qm.doctor().findings == ()
    reader.commit(end)
    assert qm.queue_info("orders").messages == 0


def test_deleted_queue_is_data_loss(qm, options, fill):
    fill(count=10)
    fill("other", 10)
    reader = make(options, queue="orders")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    qm.delete_queue("orders")
    qm.create_queue("orders")
    with pytest.raises(Exception, match="QUEUE_NOT_AVAILABLE"):
        reader.partitions(start, end)
    careless = make(options, queue="orders", failOnDataLoss="false")
    assert [row for part in careless.partitions(start, end) for row in careless.read(part)] == []


def test_claims_pass_the_doctor_and_outlive_their_client(qm, options, fill):
    fill(count=1000)
    reader = make(options, queue="orders")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadMaxRows(700))
    reader.partitions(start, end)
    assert qm.doctor().findings == ()
    assert (qm.queue_info("orders").locked, qm.queue_info("orders").ready) == (700, 300)
    later = {**end, "queues": {key: {**plan, "s": plan["s"] + 2} for key, plan in end["queues"].items()}}
    other = make(options, queue="orders")
    with pytest.raises(Exception, match="does not know the batch before"):
        other.partitions(start, later)


@pytest.mark.parametrize("transactional", [False, True])
def test_publication_passes_the_doctor(qm, options, transactional):
    qm.create_queue("target", transactional=transactional)
    given = {**options, "queue": "target", "atomicPublishLimit": "100", "txnAppId": "load", "txnVersion": "0"}
    writer = BatchWriter(parsing.parse(given))
    schema = pa.schema([("body", pa.binary()), ("correlation_id", pa.string())])
    rows = {"body": [b"x" * (5000 if n % 7 == 0 else 5) for n in range(450)], "correlation_id": ["c"] * 450}
    staged = writer.write(iter([pa.RecordBatch.from_pydict(rows, schema=schema)]))
    assert qm.queue_info("target").messages == 0
    assert qm.doctor().findings == ()
    writer.commit([staged])
    writer.commit([staged])
    assert [m.body for m in qm.open("target").browse()] == rows["body"]
    assert qm.doctor().findings == ()
    assert qm.open("target").peek(0, match=mqredis.Match(correlation_id="c")).body == rows["body"][0]


def test_messages_are_published_with_their_priorities(qm, options):
    qm.create_queue("target")
    rows = {
        "body": [b"", b"\x03p7\0", b"\0\x03p0\0", b"\x03p7"],
        "priority": pa.array([None, None, 1, 7], pa.int32()),
        "label": ["p", "\x03p", "label", ""],
    }
    writer = BatchWriter(parsing.parse({**options, "queue": "target"}))
    writer.commit([writer.write(iter([pa.RecordBatch.from_pydict(rows)]))])
    found = [(m.body, m.priority, m.lookup_id >> 56) for m in qm.open("target").browse()]
    assert found == [(b"\x03p7", 7, 0), (b"", 3, 4), (b"\x03p7\0", 3, 4), (b"\0\x03p0\0", 1, 6)]


def test_operator_finishes_an_open_publication(qm, options, monkeypatch):
    qm.create_queue("target")
    given = {**options, "queue": "target", "atomicPublishLimit": "100", "txnAppId": "load", "txnVersion": "0"}
    writer = BatchWriter(parsing.parse(given))
    bodies = [b"%d" % n for n in range(450)]
    staged = writer.write(iter([pa.RecordBatch.from_pydict({"body": bodies})]))

    def dies(place: str) -> None:
        if place == "mid-publish":
            raise RuntimeError("the driver is gone")

    monkeypatch.setattr("mqredis.spark.sink.kill_point", dies)
    with pytest.raises(RuntimeError, match="the driver is gone"):
        writer.commit([staged])
    seen = qm.queue_info("target").messages
    assert 0 < seen < 450
    assert recover(qm, "app-load") == 450 - seen
    assert recover(qm, "app-load") == 0
    assert [m.body for m in qm.open("target").browse()] == bodies
    assert qm.doctor().findings == ()


def test_task_that_ran_several_times_writes_once(qm, options):
    """One attempt died and two finished (speculation): only the one that Spark reports is published."""
    qm.create_queue("target")
    writer = BatchWriter(parsing.parse({**options, "queue": "target"}))
    bodies = [b"%d" % n for n in range(3000)]
    part = pa.RecordBatch.from_pydict({"body": bodies})

    def dies() -> Iterator[pa.RecordBatch]:
        yield part
        raise RuntimeError("the executor is gone")

    with pytest.raises(RuntimeError, match="the executor is gone"):
        writer.write(dies())
    writer.write(iter([part]))
    twin = writer.write(iter([part]))
    stages = f"mq:{{{qm.name}}}:stage*"
    assert len(qm._driver.command("KEYS", stages)) > 3
    writer.commit([twin])
    assert [m.body for m in qm.open("target").browse()] == bodies
    assert qm._driver.command("KEYS", stages) == []
    assert qm.doctor().findings == ()


def test_aborted_job_refuses_late_tasks(qm, options):
    qm.create_queue("target")
    writer = BatchWriter(parsing.parse({**options, "queue": "target"}))
    rows = [pa.RecordBatch.from_pydict({"body": [b"x"]})]
    staged = writer.write(iter(rows))
    writer.abort([None])
    with pytest.raises(Exception, match="this task is late"):
        writer.write(iter(rows))
    with pytest.raises(Exception, match="staged messages are gone"):
        writer.commit([staged])
    assert qm.queue_info("target").messages == 0


def test_trigger_limit_is_shared_by_backlog():
    assert share({"a": 300, "b": 100}, 100) == {"a": 75, "b": 25}
    assert share({"a": 1, "b": 0, "c": 2}, 2) == {"a": 1, "b": 0, "c": 1}
    assert share({"a": 5}, 0) == {"a": 5}


def test_message_received_before_its_large_body_is_read_is_left_out(qm, options, fill, monkeypatch):
    queue = fill(count=1)
    queue.send(b"x" * 100_000)

    def late(manager: Any, key: str, names: Any) -> Any:
        if names[0].startswith(b"^"):
            queue.purge()
        return fields(manager, key, names)

    monkeypatch.setattr("mqredis.spark.fetch.fields", late)
    reader = batch.PushingReader(parsing.parse({**options, "queue": "orders"}), SCHEMA)
    found = [len(body) for part in reader.partitions() for some in reader.read(part) for body in bodies(some)]
    assert len(found) == 1
    assert found[0] < 100_000
    assert found[0] > 0


def bodies(rows: Any) -> list[bytes]:
    return rows.column("body").to_pylist()


@pytest.mark.parametrize(
    "condition, calls, count",
    [
        ([], 4, 1000),
        ([("GreaterThanOrEqual", 950)], 1, 50),
        ([("LessThan", 50)], 1, 50),
        ([("GreaterThan", 400), ("LessThanOrEqual", 450)], 1, 50),
        ([("In", (3, 203))], 1, 2),
    ],
)
def test_filters_on_ids_reduce_the_calls(options, fill, condition, calls, count, monkeypatch):
    """Of 1,000 messages only pages of 250 that can match are fetched."""
    fill(count=1000)
    given = {**options, "queue": "orders", "fetchSize": "250"}
    whole = batch.PushingReader(parsing.parse(given), SCHEMA)
    everything = [some for part in whole.partitions() for some in whole.read(part)]
    ids = sorted(number for some in everything for number in some.column("lookup_id").to_pylist())
    reader = batch.PushingReader(parsing.parse(given), SCHEMA)
    named = {
        kind: tuple(ids[n] for n in value) if isinstance(value, tuple) else ids[value]
        for kind, value in condition
    }
    reader.pushFilters([getattr(ds, kind)(("lookup_id",), value) for kind, value in named.items()])
    fetched = []

    def counted(manager: Any, key: str, names: Any) -> Any:
        fetched.append(key)
        return fields(manager, key, names)

    monkeypatch.setattr("mqredis.spark.fetch.fields", counted)
    found = [some.num_rows for part in reader.partitions() for some in reader.read(part)]
    assert sum(found) == count
    assert len([key for key in fetched if key.endswith(":m")]) == calls
