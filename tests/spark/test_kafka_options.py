"""Options and metrics known from Spark's Kafka source."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from mqredis.spark import metrics
from tests.spark.calls import make, rows, take
from tests.spark.test_stream import Collected, drain, stream

pytestmark = pytest.mark.spark


def test_micro_batch_waits_for_the_minimum_of_messages(mode, options, fill):
    queue = fill(count=3)
    given = {"queue": "orders", "readMode": mode, "pollTimeoutMs": "1"}
    reader = make(options, **given, minOffsetsPerTrigger="5", maxTriggerDelay="1h")
    start = reader.initialOffset()
    assert reader.latestOffset(start, ReadAllAvailable()) == start
    assert reader.reportLatestOffset()["backlog"] == 3
    queue.send_many([b"3", b"4"])
    assert take(reader, start)[1] == [b"%d" % n for n in range(5)]
    late = make(options, **given, minMessagesPerTrigger="50", maxTriggerDelay="0s")
    fill(count=1)
    assert len(take(late, late.initialOffset())[1]) == (1 if mode == "receive" else 6)


def test_available_now_query_does_not_wait_for_the_minimum_of_messages(spark, options, fill, tmp_path):
    fill(count=3)
    sink = Collected()
    drain(stream(spark, options, queue="orders", minMessagesPerTrigger="50"), tmp_path, sink)
    assert sink.all == ["0", "1", "2"]


def low(lookup_id: int) -> int:
    """The SequentialID in a lookup id."""
    return lookup_id & ((1 << 56) - 1)


def bodies(spark, options, **more):
    """Return the bodies of a batch read, sorted."""
    frame = spark.read.format("mqredis").options(**options, **more).load().select("body").collect()
    return sorted(int(bytes(row.body)) for row in frame)


def test_batch_read_between_positions(spark, options, qm, fill):
    queue = fill(count=10)
    other = fill("other", count=4)
    queue.send(b"10", priority=6)
    queue.send(b"11", delay=600.0)
    lock = queue.lock(0)
    ids = sorted(low(m.lookup_id) for m in queue.browse())
    given = {"queue": "orders"}
    assert bodies(spark, options, **given, startingPosition=str(ids[6])) == [7, 8, 9, 10, 11]
    assert bodies(spark, options, **given, endingPosition=str(ids[6])) == [0, 1, 2, 3, 4, 5, 6]
    assert bodies(spark, options, **given, startingPosition="latest") == []
    assert bodies(spark, options, **given, endingPosition="earliest") == []
    by_queue = json.dumps({"orders": ids[7], f"{qm.name}/other": low(next(other.browse()).lookup_id)})
    assert bodies(spark, options, queues="orders,other", startingPosition=by_queue) == [1, 2, 3, 8, 9, 10, 11]
    lock.abort()


def test_batch_read_between_timestamps(spark, redis_server, clocked):
    clocked.create_queue("orders")
    queue = clocked.open("orders")
    for n in range(3):
        queue.send(b"%d" % n)
        clocked.advance_clock(3600)
    first = queue.peek(0).arrived_at.timestamp()
    given = {"url": redis_server.url, "queueManager": clocked.name, "queue": "orders"}
    moments = [datetime.fromtimestamp(first + 1800 + 3600 * n, UTC).isoformat() for n in range(2)]
    assert bodies(spark, given, startingTimestamp=moments[0], endingTimestamp=moments[1]) == [1]
    assert bodies(spark, given, endingTimestamp=moments[0]) == [0]


def test_stream_starts_at_a_position_per_queue(mode, options, fill):
    ids = [low(m.lookup_id) for m in fill("a", 5).browse()]
    fill("b", 5)
    reader = make(
        options, queues="a,b", readMode=mode, startingPosition=json.dumps({"a": ids[3], "b": "latest"})
    )
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    assert rows(reader, start, end) == [b"4"]


def test_metrics_report_lag_and_age(spark, options, qm, fill, tmp_path):
    fill(count=10)
    fill("other", count=2)

    def sink(frame, batch):
        frame.count()

    query = drain(stream(spark, options, queues="orders,other", maxMessagesPerTrigger="6"), tmp_path, sink)
    assert metrics(query) == {
        "lag": 0, "oldest_age_seconds": 0.0, "queues": {f"{qm.name}/orders": 0, f"{qm.name}/other": 0},
    }  # fmt: skip
    first = next(p for p in query.recentProgress if p["numInputRows"])
    seen = metrics(first)
    assert seen["lag"] == 6 == sum(seen["queues"].values())
    assert seen["oldest_age_seconds"] > 0


@pytest.mark.parametrize(
    "path", ["system$;deadletter", "system$;deadxact", "orders;poison", "orders;journal"]
)
@pytest.mark.parametrize("option", ["queue", "queuePattern"])
def test_journal_or_poison_queue_without_messages_is_empty(spark, mode, options, qm, option, path):
    with pytest.raises(Exception, match="no queue"):
        make(options, queuePattern=path, readMode=mode).initialOffset()  # a manager without any queue
    qm.create_queue("orders")
    assert spark.read.format("mqredis").options(**options, **{option: path}).load().count() == 0
    reader = make(options, **{option: path}, readMode=mode, pollTimeoutMs="1")
    start = reader.initialOffset()
    assert reader.latestOffset(start, ReadAllAvailable()) == start
    reader.prepareForTriggerAvailableNow()
    assert reader.latestOffset(start, ReadAllAvailable()) == start
    with pytest.raises(Exception, match=r"no queue .*'none;poison'"):
        make(options, **{option: "none;poison"}, readMode=mode).initialOffset()


def test_stream_includes_a_journal_created_by_its_first_message(options, qm):
    qm.create_queue("orders", journaling=True)
    queue = qm.open("orders")
    reader = make(options, queue="orders;journal")
    start = reader.initialOffset()
    assert reader.latestOffset(start, ReadAllAvailable()) == start
    queue.send(b"copy")
    queue.receive(0)
    end, found = take(reader, start)
    assert found == [b"copy"]
    reader.commit(end)
    assert qm.queue_info("orders;journal").messages == 0


@pytest.mark.parametrize(
    "more, text",
    [
        (
            {"minMessagesPerTrigger": "9", "maxMessagesPerTrigger": "5"},
            "must not be more than maxMessagesPerTrigger",
        ),
        ({"maxTriggerDelay": "soon"}, "a number and one of ms, s, m, h, d"),
        ({"endingPosition": "7"}, "belong to batch reads"),
        ({"startingPosition": "{x"}, "no JSON object"),
        ({"startingPosition": '{"orders": "soon"}'}, "earliest, latest or a SequentialID"),
    ],
)
def test_invalid_options_are_refused(more, text):
    from mqredis.spark.schema import SCHEMA
    from mqredis.spark.source import DefaultSource

    given = {
        name.lower(): value for name, value in {"url": "redis://nowhere", "queue": "orders", **more}.items()
    }
    with pytest.raises(Exception, match=text):
        DefaultSource(given).streamReader(SCHEMA)
