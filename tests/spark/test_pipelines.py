"""The predefined pipelines."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from inspect import Parameter, signature
from typing import Any

import pyarrow as pa
import pytest

import mqredis
from mqredis import QueueNotFound, RetryPolicy
from mqredis.spark.pipelines import analyse, archive, replay, report
from mqredis.spark.pipelines.analyse import step_width
from mqredis.spark.pipelines.command import parser
from mqredis.spark.pipelines.replay import SORT_COLUMNS, Publisher, chunks

pytestmark = pytest.mark.spark

NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)


def test_archive_then_replay(spark, qm, options, fill, tmp_path, redis_server):
    queue = fill(count=200, journaling=True)
    assert len(queue.receive_many(200, 0)) == 200
    where = {"url": redis_server.url, "manager": qm.name}
    lake = str(tmp_path / "lake")
    archive(spark, lake, **where)
    assert qm.queue_info("orders;journal").messages == 0
    frame = spark.read.parquet(lake)
    assert sorted(int(bytes(row.body)) for row in frame.collect()) == list(range(200))
    assert [row.queue for row in frame.select("queue").distinct().collect()] == ["orders;journal"]
    archive(spark, lake, **where)
    assert spark.read.parquet(lake).count() == 200

    assert (
        replay(spark, lake, "again", where="cast(cast(body as string) as int) < 150", chunk=70, **where)
        == 150
    )
    assert [m.text for m in queue.browse()] == [str(n) for n in range(150)]
    assert (
        replay(spark, lake, "again", where="cast(cast(body as string) as int) < 150", chunk=70, **where) == 0
    )
    qm.create_queue("elsewhere")
    assert replay(spark, lake, "other", queue="elsewhere", rate=10_000, chunk=100, **where) == 200
    assert qm.queue_info("elsewhere").messages == 200


# One of these zones has another day than UTC at any time.
@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Pacific/Pago_Pago"])
def test_archive_has_days_in_utc(spark, qm, fill, tmp_path, redis_server, zone):
    fill(count=1, journaling=True).receive(0)
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        with qm.open("orders;journal") as journal:
            arrived = journal.peek(0).arrived_at
        archive(spark, str(tmp_path / "lake"), url=redis_server.url, manager=qm.name)
        (row,) = spark.read.parquet(str(tmp_path / "lake")).collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    assert row.day == arrived.astimezone(UTC).date()


def test_analyse(spark, qm, options, fill, tmp_path, redis_server):
    queue = fill(count=30, journaling=True)
    queue.receive_many(10, 0)
    queue.lock(0).abort()
    bad = fill("bad", 2, retry=RetryPolicy(immediate=0))
    for _ in range(2):
        bad.lock(0).abort()
    spark.range(3).createOrReplaceTempView("mqredis_analysed")  # of another analysis in the same session
    tables = analyse(spark, tmp_path / "report", url=redis_server.url, manager=qm.name)
    assert spark.table("mqredis_analysed").count() == 3
    sizes = [(row["queue"], row["messages"], row["available"]) for row in tables["queues"]]
    assert sizes == [("orders", 20, 20), ("orders;journal", 10, 10), ("bad;poison", 2, 2)]
    assert all(0 <= row["oldest_seconds"] < 600 for row in tables["queues"])
    arrived = {row["queue"]: 0 for row in tables["arrivals"]}
    for row in tables["arrivals"]:
        arrived[row["queue"]] += row["messages"]
    assert arrived["orders"] == 30
    assert sum(row["messages"] for row in tables["departures"] if row["queue"] == "orders") == 10
    assert [row["messages"] for row in tables["depth"] if row["queue"] == "orders"][-1] == 20
    orders = {"queue": "orders", "deliveries": 1, "messages": 1}
    assert [row for row in tables["redeliveries"] if row["queue"] == "orders"] == [orders]
    assert ("orders", 10) in [(row["queue"], row["messages"]) for row in tables["latency"]]
    assert [(row["found_in"], row["messages"]) for row in tables["dead letters"]] == [("bad;poison", 2)]
    page = (tmp_path / "report" / "index.html").read_text()
    for title in ("Depth over time", "Arrivals", "Time in queue", "Queues by size", "Dead letters by reason"):
        assert f"<h2>{title}</h2>" in page
    assert "orders;journal" in page
    assert analyse(spark, url=redis_server.url, manager=qm.name, queues=["bad"])["queues"] == []


def test_ages_follow_the_clock_of_the_broker(spark, redis_server, clocked):
    """It may differ from that of Spark's machine. The log of actions is not a queue of the user."""
    clocked.create_queue("orders")
    clocked.advance_clock(86_400)
    clocked.open("orders").send(b"x")
    clocked.operator("ada").create_schedule("hourly", 3600, "orders", b"x", paused=True)
    assert "system$;actions" in [info.name for info in clocked.queues()]
    (row,) = analyse(spark, url=redis_server.url, manager=clocked.name)["queues"]
    assert 0 <= row["oldest_seconds"] < 600


def test_report_counts_omitted_rows_and_escapes_names():
    rows = [
        {
            "queue": f"<q{n}>",
            "messages": 1000 + n,
            "available": 0,
            "locked": 0,
            "delayed": 0,
            "oldest_seconds": 90.0,
        }
        for n in range(30, 0, -1)
    ]
    steps = [{"queue": f"<q{n}>", "time": 60 * at, "messages": n} for n in range(1, 9) for at in (0, 3)]
    none: list[dict[str, Any]] = []
    tables = {"queues": rows, "arrivals": steps, "departures": none, "depth": steps}
    page = report.page(
        "<m>", {**tables, "latency": none, "redeliveries": none, "dead letters": none}, 60, NOW
    )
    assert "<q1>" not in page
    assert "&lt;m&gt;" in page
    assert "10 more rows with 10\u202f055 messages not shown." in page
    assert page.count("3 other queues") == 2 * 2
    assert "1.5 min" in page
    assert '<p class="none">None.</p>' in page


@pytest.mark.parametrize("seconds, width", [(0, 1), (95, 1), (96, 5), (3_600, 60), (86_400 * 30, 86_400)])
def test_time_axis_has_few_steps(seconds, width):
    assert step_width(seconds) == width


def test_archive_includes_new_queues_and_counts_all_batches(spark, qm, options, fill, tmp_path, redis_server):
    where, lake = {"url": redis_server.url, "manager": qm.name}, str(tmp_path / "lake")
    qm.create_queue("early")
    assert archive(spark, lake, **where).wait() == 0
    fill(count=13, journaling=True).receive_many(13, 0)
    known = "spark.sql.streaming.numRecentProgressUpdates"
    spark.conf.set(known, "2")
    try:
        assert archive(spark, lake, messages_per_trigger=3, **where).wait() == 13
    finally:
        spark.conf.unset(known)
    fill("later", count=5, journaling=True).receive_many(5, 0)
    assert archive(spark, lake, **where).wait() == 5
    rows = spark.read.parquet(lake).groupBy("queue").count().collect()
    assert {row["queue"]: row["count"] for row in rows} == {"orders;journal": 13, "later;journal": 5}
    shutil.rmtree(tmp_path / "lake" / "_checkpoint")
    fill(count=2).receive_many(2, 0)
    assert archive(spark, lake, queues=["orders;journal"], **where).wait() == 2
    assert spark.read.parquet(lake).count() == 20
    with pytest.raises(QueueNotFound, match="no queue matches queuePattern 'none'"):
        archive(spark, lake, queues=["none"], **where)


def test_archive_error_for_a_deleted_queue_says_what_to_do(spark, qm, options, fill, tmp_path, redis_server):
    where, lake = {"url": redis_server.url, "manager": qm.name}, str(tmp_path / "lake")
    for name in ("orders", "later"):
        fill(name, count=5, journaling=True).receive_many(5, 0)
    archive(spark, lake, **where)
    qm.delete_queue("later")
    with pytest.raises(
        Exception, match=r"queues in the checkpoint no longer exist: .*/later;journal.*failOnDataLoss=false"
    ):
        archive(spark, lake, **where)
    fill(count=3).receive_many(3, 0)
    assert archive(spark, lake, fail_on_data_loss=False, **where).wait() == 3


TYPED: dict[str, Any] = {
    "text": "zwei",
    "whole": -(1 << 63),
    "real": 0.1,
    "yes": True,
    "no": False,
    "raw": b"\xff",
    "none": None,
}


def send_rich(queue: mqredis.Queue) -> None:
    """A message with every field that a copy keeps."""
    queue.send(
        b"rich", label="l", priority=6, content_type="text/x", message_id=b"\x01\xff", correlation_id=b"\x02",
        group_id="g", sequence=4, offset=7, last_in_group=True, properties=TYPED, response_queue="replies",
        app_tag=12, body_type=8, extension=b"\x03", recoverable=False,
    )  # fmt: skip


def kept(message: mqredis.Message) -> tuple[object, ...]:
    """Return the fields that a copy of a message keeps."""
    names = (
        "body", "label", "priority", "content_type", "message_id", "correlation_id", "group_id", "sequence", "offset",
        "last_in_group", "properties", "response_queue", "app_tag", "body_type", "extension", "recoverable",
    )  # fmt: skip
    return tuple(getattr(message, name) for name in names)


def test_replay_keeps_types_and_identifiers(spark, qm, options, fill, tmp_path, redis_server):
    where, lake = {"url": redis_server.url, "manager": qm.name}, str(tmp_path / "lake")
    queue = fill(count=3, journaling=True)
    send_rich(queue)
    sent = [kept(message) for message in queue.browse()]
    queue.receive_many(4, 0)
    archive(spark, lake, **where)
    assert replay(spark, lake, "again", **where) == 4
    assert [kept(message) for message in queue.browse()] == sent


def test_frame_that_was_read_can_be_written(spark, qm, options, fill):
    queue = fill(count=3)
    send_rich(queue)
    qm.create_queue("copy")
    frame = spark.read.format("mqredis").options(**options, queue="orders").load()
    frame.write.format("mqredis").options(**options, queue="copy").mode("append").save()
    assert [kept(message) for message in qm.open("copy").browse()] == [
        kept(message) for message in queue.browse()
    ]
    frame.write.format("mqredis").options(**options).mode("append").save()  # to the queues of the column
    assert qm.queue_info("orders").messages == 8
    changed = frame.where("label = 'l'").selectExpr(
        "body", "'new' AS message_id", "headers", "system_headers"
    )
    qm.open("copy").purge()
    changed.write.format("mqredis").options(**options, queue="copy").mode("append").save()
    message = qm.open("copy").peek(0)
    assert (message.message_id, message.properties, message.body_type) == ("new", TYPED, 8)


def test_replay_reads_the_lake_once_and_resumes_after_a_kill(
    spark, qm, options, fill, tmp_path, redis_server, monkeypatch
):
    where, lake = {"url": redis_server.url, "manager": qm.name}, str(tmp_path / "lake")
    queue = fill(count=500, journaling=True)
    for _ in range(2):
        queue.receive_many(250, 0)
    archive(spark, lake, **where)
    frame = spark.read.parquet(lake).repartition(1).sortWithinPartitions(*SORT_COLUMNS).select("body")
    batches = [pa.RecordBatch.from_pandas(frame.toPandas())]
    publisher = Publisher(redis_server.url, qm.name, "again", "orders", 60, 0)
    published = publisher.publish(iter([batches[0].slice(0, 200), batches[0].slice(200, 50)]))
    monkeypatch.setattr("mqredis.spark.sink.kill_point", dies_in("after-publish", times=3))
    with pytest.raises(RuntimeError, match="the executor is gone"):
        list(published)
    monkeypatch.undo()
    assert qm.queue_info("orders").messages == 180
    assert replay(spark, lake, "again", queue="orders", chunk=90, **where) == 320
    assert [message.text for message in queue.browse()] == [str(n) for n in range(500)]
    assert replay(spark, lake, "again", queue="orders", chunk=90, **where) == 0


def dies_in(place: str, times: int) -> Callable[[str], None]:
    """Return a crash point that ends the process at its n-th call."""
    left = iter(range(times - 1))

    def point(name: str) -> None:
        if name == place and next(left, None) is None:
            raise RuntimeError("the executor is gone")

    return point


def test_chunks_are_cut_across_batches():
    batches = [pa.RecordBatch.from_pydict({"n": list(range(at, at + 7))}) for at in (0, 7, 14)]
    found = [(start, part["n"].to_pylist()) for start, part in chunks(iter(batches), 5, 6)]
    assert found == [(6, [*range(6, 11)]), (11, [*range(11, 16)]), (16, [*range(16, 21)])]
    assert list(chunks(iter(batches), 5, 21)) == []


def test_every_pipeline_has_a_command():
    lines = (
        "archive p", "analyse", "replay p n --rate 5", "migrate celery k q --source-url redis://x", "publications",
        "recover n", "withdraw n",
    )  # fmt: skip
    for line in lines:
        assert parser().parse_args(line.split()).pipeline == line.split()[0]


def test_commands_have_the_defaults_of_their_functions():
    for line, pipeline in (("archive p", archive), ("replay p n", replay), ("analyse", analyse)):
        given = vars(parser().parse_args(line.split()))
        for name, parameter in signature(pipeline).parameters.items():
            if name in given and parameter.default is not Parameter.empty:
                assert given[name] == parameter.default, name
