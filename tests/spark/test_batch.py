"""Batch reads and writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import mqredis
from mqredis.commands.address import Address
from mqredis.commands.claims import Order
from mqredis.models import Outgoing
from mqredis.operations import pipelines
from mqredis.spark import unavailable
from mqredis.spark.connection import backlog
from mqredis.spark.fetch import part
from mqredis.spark.lookup_ids import stored_id

pytestmark = pytest.mark.spark


def read(spark: Any, options: dict[str, str], **more: str) -> Any:
    return spark.read.format("mqredis").options(**options, **more).load()


def test_batch_read_equals_a_browse_and_removes_nothing(spark, qm, options, fill):
    queue = fill(count=5000)
    queue.send(
        Outgoing(
            body=b"x" * 10_000, priority=7, label="big", correlation_id="c", message_id=b"\x01\xff", group_id="g",
            sequence=4, properties={"a": 1, "b": "zwei", "c": None, "d": True, "e": 1.5, "f": b"\x00"},
            app_tag=9, content_type="text/plain", time_to_be_received=3600.0, response_queue="replies",
        )
    )  # fmt: skip
    rows = read(spark, options, queue="orders", minPartitions="3").collect()
    browsed = list(queue.browse())
    assert [row.lookup_id for row in rows] == [m.lookup_id for m in browsed]
    assert [bytes(row.body) for row in rows] == [m.body for m in browsed]
    assert [row.message_id for row in rows[1:]] == [m.message_id for m in browsed[1:]]
    big, message = rows[0], browsed[0]
    assert (big.message_id, big.correlation_id, big.group_id, big.sequence) == ("0x01ff", "c", "g", 4)
    assert big.properties == {"a": "1", "b": "zwei", "c": None, "d": "true", "e": "1.5", "f": "00"}
    assert (big.priority, big.label, big.app_tag, big.response_queue) == (7, "big", 9, "replies")
    assert big.arrived.replace(tzinfo=None) == message.arrived_at.replace(tzinfo=None)
    assert big.expires.replace(tzinfo=None) == message.expires_at.replace(tzinfo=None)
    assert (big.state, big.queue, big.manager, big["class"]) == ("available", "orders", qm.name, 0)
    assert qm.queue_info("orders").ready == 5001


def test_locked_and_delayed_messages_have_their_state(spark, qm, options, fill):
    queue = fill(count=10)
    queue.send(b"later", delay=600.0)
    lock = queue.lock(0)
    counts = {
        row.state: row["count"]
        for row in read(spark, options, queue="orders").groupBy("state").count().collect()
    }
    assert counts == {"available": 9, "locked": 1, "delayed": 1}
    locked = read(spark, options, queue="orders").where("state = 'locked'").collect()
    assert [(row.lookup_id, row.delivery_count) for row in locked] == [(lock.lookup_id, 1)]
    assert read(spark, options, queue="orders", states="delayed").count() == 1
    lock.abort()


def test_packed_and_single_locks_are_both_found(qm, fill):
    """Reading a queue expands its packed locks, but others may be packed before the ids are read."""
    queue = fill(count=10)
    queue.receive(0)  # the first call of a session takes another path
    locks = queue.lock_many(4)
    locks.append(queue.lock(0))
    entries = qm.driver.command("HGET", qm.context.keys.own[0], part(qm, "orders", "q")).split(b" ")[7:]
    # Packed locks, then a single one.
    assert [b"," in entry for entry in entries] == [
        False,
        True,
    ]
    assert unavailable.locked(qm, "orders") == [stored_id(lock.lookup_id) for lock in locks]
    assert qm.queue_info("orders").locked == 5
    assert unavailable.locked(qm, "orders") == [stored_id(lock.lookup_id) for lock in locks]


def test_claimed_messages_have_the_state_locked(spark, qm, options, fill):
    queue = fill(count=2300)
    again = queue.lock(0)
    again.abort()
    seen = backlog(qm, "orders")
    place, order = Address(qm.context.keys, "orders", seen.generation), Order(2100)
    assert qm.run(pipelines.claim(place, "lake", "first", 1, order, True)).count == 2100
    rows = read(spark, options, queue="orders").select("state", "lookup_id", "delivery_count").collect()
    locked = {row.lookup_id: row.delivery_count for row in rows if row.state == "locked"}
    assert len(locked) == 2100 == sum(row.state == "locked" for row in rows)
    assert {lid for lid, count in locked.items() if count != 1} == {again.lookup_id}
    assert locked[again.lookup_id] == 2
    assert sum(row.state == "available" for row in rows) == 200 == len(rows) - 2100


def test_filters_are_pushed_down_with_correct_results(spark, options, fill):
    queue = fill(count=300)
    for n in range(8):
        queue.send(b"p", priority=n, label=f"label {n}")
    frame = read(spark, options, queue="orders")
    ids = sorted(row.lookup_id for row in frame.select("lookup_id").collect())
    wanted = frame.where((frame.lookup_id > ids[10]) & (frame.lookup_id <= ids[20]))
    plan = wanted._jdf.queryExecution().executedPlan().toString()
    assert "Filter (" not in plan, plan
    assert sorted(row.lookup_id for row in wanted.collect()) == ids[11:21]
    some = frame.where(frame.lookup_id.isin(ids[7], ids[3], ids[300]))
    assert sorted(row.lookup_id for row in some.collect()) == [ids[3], ids[7], ids[300]]
    assert frame.where(frame.lookup_id < 0).count() == 0
    assert frame.where(frame.lookup_id > ids[-1]).count() == 0
    assert frame.where("priority in (6, 7) and label like 'label%'").count() == 2
    assert frame.where("not priority = 3").count() == 7
    assert frame.where("label = 'label 5' or priority = 0").count() == 2
    assert frame.where("arrived > timestamp'2020-01-01' and correlation_id is null").count() == 308


def test_selector_option_selects_messages(spark, options, fill):
    queue = fill(count=5)
    queue.send(b"eu", properties={"region": "EU", "amount": 12.5}, priority=6)
    queue.send(b"us", properties={"region": "US", "amount": 99.0})
    for text in ("region = 'EU' AND amount BETWEEN 10 AND 20", "JMSPriority > 5 OR region LIKE 'U%'"):
        rows = read(spark, options, queue="orders", selector=text).select("body").collect()
        assert [bytes(row.body) for row in rows] == [m.body for m in queue.browse(selector=text)]
    with pytest.raises(Exception, match="SELECTOR_SYNTAX"):
        read(spark, options, queue="orders", selector="region = = 1").count()


def test_schema_with_fewer_columns_is_respected(spark, options, fill):
    fill(count=20)
    frame = (
        spark.read.format("mqredis")
        .schema("queue STRING, lookup_id BIGINT")
        .options(**options, queue="orders")
    )
    rows = frame.load().collect()
    assert len(rows) == 20
    assert rows[0].asDict().keys() == {"queue", "lookup_id"}


def test_read_of_several_queues_and_of_a_pattern(spark, qm, options, fill):
    fill("a1", 10)
    fill("a2", 20)
    fill("b", 40)
    assert read(spark, options, queues="a1,b").count() == 50
    assert read(spark, options, queuePattern="a*").count() == 30
    qm.open("b").move(qm.open("b").peek(0).lookup_id, qm.open("b;retry"))
    assert read(spark, options, queue="b;retry").count() == 1
    assert read(spark, options, queue="b", subQueue="retry").count() == 1


def test_sql_finds_the_format_by_its_name(spark, options, fill):
    fill(count=7)
    text = ", ".join(f"{name} '{value}'" for name, value in {**options, "queue": "orders"}.items())
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW orders USING mqredis OPTIONS ({text})")
    assert spark.sql("SELECT count(*) AS n FROM orders").collect()[0].n == 7
    spark.sql("INSERT INTO orders (body, label) VALUES (cast('tea' AS BINARY), 'EU')")
    assert read(spark, options, queue="orders").where("label = 'EU'").count() == 1
    with pytest.raises(Exception, match="Use CREATE TEMPORARY VIEW"):
        spark.sql(f"CREATE TABLE orders_table USING mqredis OPTIONS ({text})")


def write(frame: Any, options: dict[str, str], mode: str = "append", **more: str) -> None:
    frame.write.format("mqredis").options(**options, **more).mode(mode).save()


def test_written_rows_arrive_completely_and_in_order(spark, qm, options):
    qm.create_queue("target")
    frame = spark.range(2500).selectExpr("cast(id as string) as body")
    write(frame.repartition(1).sortWithinPartitions("body"), options, queue="target")
    found = list(qm.open("target").browse())
    assert [m.text for m in found] == sorted(str(n) for n in range(2500))
    assert found[0].content_type == "text/plain; charset=utf-8"
    assert keys_left(qm) == []


def keys_left(qm: mqredis.QueueManager) -> list[str]:
    link = qm._driver
    found = link.command("KEYS", f"mq:{{{qm.name}}}:stage*")
    return [key.decode() for key in found if link.command("HKEYS", key) != [b"closed"]]


def test_every_field_of_a_message_can_be_written(spark, qm, options):
    qm.create_queue("one")
    qm.create_queue("two")
    frame = spark.sql(
        """SELECT cast('hello' AS BINARY) AS body, 'one' AS queue, 'l' AS label, 6 AS priority, 'm-1' AS
        message_id, cast('c' AS BINARY) AS correlation_id, 'g' AS group_id, 2 AS sequence, true AS
        last_in_group, map('a', '1', 'b', NULL) AS properties, 60.5D AS time_to_be_received, 'replies' AS
        response_queue, 12L AS app_tag, 'text/x' AS content_type, false AS recoverable
        UNION ALL SELECT cast(repeat('x', 9000) AS BINARY), 'two', NULL, NULL, NULL, NULL, NULL, NULL, NULL,
        NULL, NULL, NULL, NULL, NULL, NULL"""
    )
    write(frame, options)
    one, two = qm.open("one").receive(0), qm.open("two").receive(0)
    assert (one.body, one.label, one.priority, one.message_id, one.correlation_id) == (
        b"hello",
        "l",
        6,
        "m-1",
        b"c",
    )
    assert (one.group_id, one.sequence, one.last_in_group, one.properties) == ("g", 2, True, {"a": "1"})
    assert (one.expires_at - one.arrived_at).total_seconds() == 60.5
    assert (one.response_queue, one.app_tag, one.content_type, one.recoverable) == (
        "replies",
        12,
        "text/x",
        False,
    )
    assert (two.body, two.priority, two.label) == (b"x" * 9000, 3, "")


@pytest.mark.parametrize("limit", ["100000", "300"])
def test_write_to_a_transactional_queue_is_one_transaction(spark, qm, options, limit):
    qm.create_queue("target", transactional=True)
    write(
        spark.range(1000).selectExpr("cast(id as string) as body"),
        options,
        queue="target",
        atomicPublishLimit=limit,
    )
    found = list(qm.open("target").browse())
    assert sorted(int(m.text) for m in found) == list(range(1000))
    assert [m.first_in_transaction for m in found] == [True] + [False] * 999
    assert [m.last_in_transaction for m in found] == [False] * 999 + [True]


@pytest.mark.parametrize("name", ["load", "m/orders;journal/" + 200 * "r"])
@pytest.mark.parametrize("transactional", [False, True])
def test_rerun_with_the_same_version_writes_nothing(spark, qm, options, name, transactional):
    qm.create_queue("target", transactional=transactional)
    frame = spark.range(50).selectExpr("cast(id as string) as body")
    for version in ("1", "1", "2", "1"):
        write(frame, options, queue="target", txnAppId=name, txnVersion=version)
    assert qm.queue_info("target").messages == 100
    assert qm.doctor().findings == ()


def test_failed_job_leaves_nothing(spark, qm, options):
    qm.create_queue("target")
    frame = spark.range(0, 4000, 1, 4).selectExpr(
        "if(id = 3999, raise_error('boom'), cast(id as string)) as body"
    )
    with pytest.raises(Exception, match="boom"):
        write(frame, options, queue="target")
    assert qm.queue_info("target").messages == 0
    assert keys_left(qm) == []


def test_exceeded_quota_fails_the_job_and_leaves_nothing(spark, qm, options):
    qm.create_queue("target", quota_messages=99)
    frame = spark.range(100).selectExpr("cast(id as string) as body")
    with pytest.raises(
        Exception, match=r"ENQUEUE_QUEUE_QUOTA .* nothing of the batch .* quota of queue 'target'"
    ):
        write(frame, options, queue="target")
    with pytest.raises(
        Exception, match=r"DUPLICATE .* nothing of the batch .* that another message of it has"
    ):
        write(frame.limit(9).selectExpr("body", "'k' AS dedup_key"), options, queue="target")
    assert qm.queue_info("target").messages == 0
    assert keys_left(qm) == []
    write(frame.limit(99), options, queue="target")
    assert qm.queue_info("target").messages == 99


def test_errors_are_raised_before_a_job_starts(spark, qm, options, fill):
    fill(count=1)
    ok = spark.range(1).selectExpr("cast(id as string) as body")
    for make, text in [
        (lambda: read(spark, options, queue="none"), "has no queue 'none'"),
        (
            lambda: read(spark, options, queue="orders", maxMesagesPerTrigger="1"),
            "did you mean 'maxMessagesPerTrigger'",
        ),
        (
            lambda: spark.read.format("mqredis").schema("a INT").options(**options, queue="orders").load(),
            "no column 'a'",
        ),
        (
            lambda: (
                spark.read.format("mqredis")
                .schema("priority INT NOT NULL")
                .options(**options, queue="orders")
                .load()
            ),
            "column 'priority' is nullable",
        ),
        (lambda: write(ok, options, queue="none"), "has no queue 'none'"),
        (lambda: write(ok, options, "overwrite", queue="orders"), "only appends"),
    ]:
        with pytest.raises(Exception, match=text):
            attempt(make)


@pytest.mark.parametrize(
    "given, columns, text",
    [
        ({}, "body STRING", "option queue, or a column queue"),
        ({"queue": "orders", "txnAppId": "a"}, "body STRING", "both options txnAppId and txnVersion"),
        ({"queue": "orders"}, "id BIGINT", "needs a column body"),
        ({"queue": "orders"}, "body STRING, extra INT", "no message field 'extra'"),
        ({"queue": "orders"}, "body STRING, priority STRING", "column 'priority' must be"),
        ({"queue": "orders"}, "body STRING, reason STRING", "no message field 'reason'"),
        ({"queue": "orders"}, "body STRING, headers MAP<STRING, STRING>", "column 'headers' must be map"),
        ({"queue": "topic"}, "body STRING", "is a topic"),
        ({"queue": "orders", "queueManagers": "a,b"}, "body STRING", "does not span several"),
        ({"queue": "orders", "subQueue": "journal"}, "body STRING", "belongs to reading"),
    ],
)
def test_invalid_writes_are_refused_before_a_job(spark, qm, options, given, columns, text):
    from mqredis.spark.source import DefaultSource

    qm.create_queue("orders")
    qm.create_queue("topic", topic=True)
    manager = {} if "queueManagers" in given else {"queuemanager": qm.name}
    named = {"url": options["url"], **manager, **{name.lower(): value for name, value in given.items()}}
    schema = spark.createDataFrame([], columns).schema
    with pytest.raises(Exception, match=text):
        DefaultSource(named).writer(schema, False)


def attempt(make: Callable[[], Any]) -> None:
    """Read a frame to its end; a write has happened already."""
    frame = make()
    if frame is not None:
        frame.count()
