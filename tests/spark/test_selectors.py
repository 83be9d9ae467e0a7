"""Streams with a selector."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

import mqredis
from mqredis.models import Outgoing
from tests.spark.calls import make, rows, take

pytestmark = pytest.mark.spark


def coloured(qm: mqredis.QueueManager, count: int, **more: Any) -> mqredis.Queue:
    qm.create_queue("orders", **more)
    queue = qm.open("orders")
    for at in range(0, count, 500):
        queue.send_many(
            [
                Outgoing(body=b"%d" % n, properties={"n": n, "colour": "red" if n % 7 == 0 else "blue"})
                for n in range(at, min(count, at + 500))
            ]
        )
    return queue


def test_selector_receives_only_matching_messages(options, qm):
    coloured(qm, 3000)
    red = [b"%d" % n for n in range(0, 3000, 7)]
    reader = make(options, queue="orders", selector="colour = 'red'")
    end, bodies = take(reader, reader.initialOffset(), ReadMaxRows(300))
    assert bodies == red[:300]
    assert qm.queue_info("orders").locked == 300
    again = make(options, queue="orders", selector="colour = 'red'")
    assert rows(again, again.initialOffset(), end) == bodies
    end, bodies = take(reader, end, ReadMaxRows(300))
    assert bodies == red[300:]
    assert reader.latestOffset(end, ReadAllAvailable()) == end  # nothing red is left: no empty batches
    assert qm.queue_info("orders").messages == 3000 - len(red)
    assert qm.doctor().findings == ()
    qm.open("orders").send(b"late", properties={"colour": "red"})
    assert take(reader, end)[1] == [b"late"]


def test_selector_with_available_now(options, qm):
    queue = coloured(qm, 100)
    reader = make(options, queue="orders", selector="n < 50")
    reader.prepareForTriggerAvailableNow()
    queue.send(b"later", properties={"n": 1})
    end, bodies = take(reader, reader.initialOffset())
    assert bodies == [b"%d" % n for n in range(50)]
    assert reader.latestOffset(end, ReadAllAvailable()) == end
    assert qm.queue_info("orders").messages == 51


def test_selector_respects_exclusive_groups(options, qm):
    qm.create_queue("orders", group_exclusive=True)
    queue = qm.open("orders")
    for n in range(6):
        queue.send(b"%d" % n, group_id="ab"[n % 2], properties={"n": n})
    reader = make(options, queue="orders", selector="n >= 2")
    end, bodies = take(reader, reader.initialOffset())
    assert bodies == [b"2", b"3"]  # one of each group
    end, bodies = take(reader, end)
    assert bodies == [b"4", b"5"]
    assert qm.doctor().findings == ()


def test_browse_stream_applies_its_selector(options, qm):
    coloured(qm, 70)
    reader = make(options, queue="orders", readMode="browse", selector="colour = 'red'")
    end, bodies = take(reader, reader.initialOffset())
    assert bodies == [b"%d" % n for n in range(0, 70, 7)]
    assert reader.latestOffset(end, ReadAllAvailable()) == end
