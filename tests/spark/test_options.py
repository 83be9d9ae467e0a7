"""Invalid options, and those that select queues and limit a micro-batch."""

from __future__ import annotations

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes

from mqredis.spark import options as parsing
from mqredis.spark.batch import pieces
from mqredis.spark.schema import SCHEMA
from tests.spark.calls import make, rows, take

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    "more, text",
    [
        ({"startingPosition": "soon"}, "earliest, latest or a SequentialID"),
        ({"startingPosition": "²"}, "earliest, latest or a SequentialID"),
        ({"startingPosition": str(4 << 56 | 7)}, "earliest, latest or a SequentialID"),  # a lookup id
        ({"startingPosition": '{"order": "latest"}'}, "'order', which is none of the queues to read"),
        ({"startingPosition": '{"shop/orders": "latest"}'}, "which is none of the queues"),
        # A pattern without a subqueue matches no subqueue.
        (
            {"queue": "", "queuePattern": "o*", "startingPosition": '{"orders;x": "latest"}'},
            "which is none of the queues",
        ),
        ({"startingTimestamp": "²"}, "milliseconds since 1970"),
        ({"startingTimestamp": "noon"}, "milliseconds since 1970"),
        ({"startingPosition": "7", "startingTimestamp": "7"}, "not both"),
        ({"selector": "a = = 1"}, "SELECTOR_SYNTAX"),
        ({"readMode": "browse", "consumerName": "a"}, "belongs to readMode=receive"),
        ({"readMode": "browse", "selector": "a = = 1"}, "SELECTOR_SYNTAX"),
        ({"states": "delayed"}, "belongs to batch reads"),
        ({"readMode": "take"}, "receive or browse"),
        ({"maxMessagesPerTrigger": "0"}, "at least 1"),
        ({"maxBytesPerTrigger": "1.5"}, "whole number"),
        ({"failOnDataLoss": "maybe"}, "true or false"),
        ({"queues": "a,b"}, "exactly one of"),
        ({"queueManager": "a", "queueManagers": "a,b"}, "not both"),
        ({"fetchSize": "9000"}, "at most 7000"),
        ({"consumername": "a?b"}, "consumerName"),
        ({"startingOffsets": "earliest"}, "unknown option"),
        ({"body.schema": "id INT"}, "unknown option"),
    ],
)
def test_invalid_options_are_refused_before_a_job(more, text):
    from mqredis.spark.source import DefaultSource

    given = {
        name.lower(): value for name, value in {"url": "redis://nowhere", "queue": "orders", **more}.items()
    }
    with pytest.raises(Exception, match=text):
        DefaultSource(given).streamReader(SCHEMA)


def test_reader_without_headers_or_bodies(options, fill):
    from mqredis.spark.schema import full

    assert "`properties`" not in full(False, True)
    assert "`body`" not in full(True, False)
    fill(count=2)
    from mqredis.spark.source import DefaultSource

    given = {**options, "queue": "orders", "includeheaders": "false", "includebody": "false"}
    names = DefaultSource(given).schema()
    assert "properties" not in names
    assert "`body`" not in names
    assert "`lookup_id`" in names


def test_queues_share_the_byte_limit_of_a_trigger(options, qm):
    for name, count in (("a", 30), ("b", 10)):
        qm.create_queue(name)
        qm.open(name).send_many([b"x" * 985] * count)  # 1,000 bytes with what stands before the body
    reader = make(options, queues="a,b", maxBytesPerTrigger="8000")
    assert isinstance(reader.getDefaultReadLimit(), ReadMaxBytes)
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert sorted(rows(reader, start, end, "queue")) == ["a"] * 6 + ["b"] * 2


def test_pattern_includes_new_queues(mode, options, fill, qm):
    fill("a1", 2)
    reader = make(options, queuePattern="a*", readMode=mode)
    end, bodies = take(reader, reader.initialOffset())
    assert len(bodies) == 2
    fill("a2", 3)
    end, bodies = take(reader, end)
    assert len(bodies) == 3
    assert set(end["queues"]) == {f"{qm.name}/a1", f"{qm.name}/a2"}


@pytest.mark.parametrize("known", [["a1"], []])
def test_available_now_query_takes_nothing_from_queues_created_since(known, mode, options, fill, qm):
    """With and without another queue that the pattern matches when the query starts."""
    for name in ("other", *known):
        fill(name, 2)
    pattern = "a*,other;poison"  # the second part need not match anything yet
    reader = make(options, queuePattern=pattern, readMode=mode)
    start = reader.initialOffset()
    reader.prepareForTriggerAvailableNow()
    fill("a2", 3)
    end, bodies = take(reader, start)
    assert len(bodies) == 2 * len(known)
    if mode == "receive":
        reader.commit(end)
    assert reader.latestOffset(end, ReadAllAvailable()) == end
    assert set(end["queues"]) >= set(start["queues"])
    later = make(options, queuePattern=pattern, readMode=mode)
    later.prepareForTriggerAvailableNow()
    assert len(take(later, end)[1]) == 3


@pytest.mark.parametrize(
    "count, more, parts",
    [
        (0, {}, 0),
        (2_000, {}, 1),
        (2_001, {}, 2),
        (300_000, {}, 2),
        (300_001, {}, 3),
        (3, {"minPartitions": "5"}, 3),
        (2_001, {"minPartitions": "5"}, 5),
        (2_001, {"maxMessagesPerPartition": "500"}, 5),
    ],
)
def test_partitions_are_few_and_large(count, more, parts):
    assert pieces(parsing.parse({"url": "redis://nowhere", "queue": "orders", **more}), count) == parts
