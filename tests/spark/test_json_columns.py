"""Columns from JSON bodies."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

import mqredis
from mqredis.errors import InvalidArgument
from mqredis.spark import json_columns
from tests.spark.test_stream import drain, stream

pytestmark = pytest.mark.spark

ORDER = "id BIGINT, price DECIMAL(10, 2), placed TIMESTAMP, due DATE"
GOOD = b'{"id": 1, "price": 12.30, "placed": "2026-01-31T12:00:00Z", "due": "2026-02-01"}'


@pytest.fixture
def frame(spark: Any, qm: mqredis.QueueManager, options: dict[str, str]) -> Any:
    """A batch read of an empty queue."""
    qm.create_queue("orders")
    return spark.read.format("mqredis").options(**options, queue="orders").load()


def test_body_that_is_not_json_gives_nulls_in_its_row_only(qm, frame):
    queue = qm.open("orders")
    queue.send_many([GOOD, b"not json", b"", b"\xff\xfe", b"[1]", b'{"id": "many"}'])
    rows = json_columns(frame, ORDER).orderBy("lookup_id").collect()
    assert (rows[0].id, rows[0].price) == (1, Decimal("12.30"))
    assert rows[0].placed.astimezone(UTC) == datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert rows[0].due == date(2026, 2, 1)
    assert [(row.id, row.price, row.placed, row.due) for row in rows[1:]] == [(None,) * 4] * 5
    assert [bytes(row.body) for row in rows] == [message.body for message in queue.browse()]


def test_bodies_are_parsed_separately(qm, frame):
    qm.open("orders").send_many([b'{"id": 1', b"}", b'{"id": 2}', b'{"id": 3}{"id": 4}', b'\n{"id":\n5}\n'])
    rows = json_columns(frame, "id BIGINT").orderBy("lookup_id").collect()
    assert [row.id for row in rows] == [None, None, 2, 3, 5]


def test_json_options_of_spark_apply(qm, frame):
    qm.open("orders").send_many([b'{"id": 1, "due": "01.02.2026"}', b"not json"])
    wanted = json_columns(
        frame, "id INT, due DATE, bad STRING", dateFormat="dd.MM.yyyy", columnNameOfCorruptRecord="bad"
    )
    rows = wanted.orderBy("lookup_id").collect()
    assert [(row.id, row.due, row.bad) for row in rows] == [
        (1, date(2026, 2, 1), None),
        (None, None, "not json"),
    ]
    with pytest.raises(Exception, match="MALFORMED_RECORD_IN_PARSING"):
        json_columns(frame, "id INT, due DATE", mode="FAILFAST").collect()


def test_field_named_like_a_column_is_refused(frame):
    with pytest.raises(InvalidArgument, match="has a column 'priority', 'Label' already"):
        json_columns(frame, "id INT, priority STRING, Label STRING")
    found = json_columns(frame.select("body", "arrived"), "priority STRING")
    assert found.columns == ["body", "arrived", "priority"]
    with pytest.raises(InvalidArgument, match="needs the column body"):
        json_columns(frame.select("label"), "id INT")
    with pytest.raises(InvalidArgument, match="must be a list of columns"):
        json_columns(frame, "ARRAY<INT>")


def test_stream_has_json_columns(spark, qm, options, tmp_path):
    qm.create_queue("orders")
    qm.open("orders").send_many([b'{"n": 7, "who": {"name": "a"}}', b"none"])
    frame = json_columns(stream(spark, options, queue="orders"), "n INT, who STRUCT<name: STRING>")
    found: list[Any] = []
    drain(frame.select("n", "who.name"), tmp_path, lambda batch, _: found.extend(batch.collect()))
    assert [tuple(row) for row in found] == [(7, "a"), (None, None)]
