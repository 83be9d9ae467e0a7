"""Starting positions of a query without a checkpoint."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from tests.spark.calls import make, rows, take

pytestmark = pytest.mark.spark


def test_query_starts_at_a_timestamp(mode, redis_server, clocked):
    clocked.create_queue("orders")
    queue = clocked.open("orders")
    moments = []
    for n in range(40):
        queue.send(b"%d" % n, priority=n % 3)
        moments.append(queue.peek(0).arrived_at if n == 0 else None)
        if n in (9, 24):
            clocked.advance_clock(3600)
    first = moments[0]
    assert first is not None
    given = {"url": redis_server.url, "queueManager": clocked.name, "queue": "orders", "readMode": mode}
    second = first.timestamp() + 1800
    spelled = datetime.fromtimestamp(second, UTC).isoformat()
    for text in (spelled, str(int(second * 1000)), spelled.removesuffix("+00:00")):
        reader = make(given, startingTimestamp=text)
        reader.latestOffset(reader.initialOffset(), ReadMaxRows(1))
        assert reader.report["backlog"] == 29
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    bodies = rows(reader, reader.initialOffset(), end)
    assert sorted(map(int, bodies)) == list(range(10, 40))
    if mode == "receive":
        reader.commit(end)
        assert sorted(int(m.body) for m in queue.browse()) == list(range(10))
    late = make(given, startingTimestamp=str(int((first.timestamp() + 9000) * 1000)))
    assert late.latestOffset(late.initialOffset(), ReadAllAvailable()) == late.initialOffset()


def test_query_starts_at_the_end_or_after_an_id(mode, options, qm, fill):
    queue = fill(count=20)
    ids = [m.lookup_id for m in queue.browse()]
    latest = make(options, queue="orders", readMode=mode, startingPosition="latest", pollTimeoutMs="50")
    start = latest.initialOffset()
    assert latest.latestOffset(start, ReadAllAvailable()) == start
    queue.send(b"new", priority=6)
    end, bodies = take(latest, start)
    assert bodies == [b"new"]
    if mode == "receive":
        latest.commit(end)
    behind = str(ids[9] & ((1 << 56) - 1))
    reader = make(options, queue="orders", readMode=mode, startingPosition=behind)
    end, bodies = take(reader, reader.initialOffset())
    assert [body for body in bodies if body != b"new"] == [b"%d" % n for n in range(10, 20)]
    if mode == "receive":
        reader.commit(end)
        assert qm.queue_info("orders").messages == 10
    assert qm.doctor().findings == ()


def test_query_of_exclusive_groups_starts_at_the_front(options, qm):
    qm.create_queue("orders", group_exclusive=True)
    qm.open("orders").send(b"x", group_id="g")
    reader = make(options, queue="orders", startingPosition="latest")
    with pytest.raises(Exception, match="one active message per group"):
        reader.initialOffset()


def test_query_waits_for_a_position_that_is_not_reached_yet(mode, options, fill):
    """Also while another queue gives messages to micro-batches."""
    fill("a", 2)
    fill("b", 2)
    position = json.dumps({"a": 1_000})
    reader = make(options, queues="a,b", readMode=mode, startingPosition=position)
    end, bodies = take(reader, reader.initialOffset())
    assert len(bodies) == 2
    fill("a", 2)
    assert reader.latestOffset(end, ReadAllAvailable()) == end
