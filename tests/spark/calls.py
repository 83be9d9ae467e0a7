"""Streaming readers without a Spark session, called directly as Spark would call them."""

from __future__ import annotations

from typing import Any

from pyspark.sql.streaming.datasource import ReadAllAvailable

from mqredis.spark import options as parsing
from mqredis.spark.browse import BrowseReader
from mqredis.spark.options import check_stream
from mqredis.spark.receive_reader import ReceiveReader
from mqredis.spark.schema import SCHEMA


def make(options: dict[str, str], **more: str) -> Any:
    """A streaming reader, as Spark gets it."""
    parsed = parsing.parse({"pollTimeoutMs": "0", **options, **more})
    check_stream(parsed)
    return BrowseReader(parsed, SCHEMA) if parsed.readMode == "browse" else ReceiveReader(parsed, SCHEMA)


def rows(reader: Any, start: dict[str, Any], end: dict[str, Any], column: str = "body") -> list[Any]:
    """Return what the tasks of one micro-batch read."""
    found = []
    for part in reader.partitions(start, end):
        for batch in reader.read(part):
            found += batch.column(column).to_pylist()
    return found


def take(reader: Any, start: dict[str, Any], limit: Any = None) -> tuple[dict[str, Any], list[bytes]]:
    end = reader.latestOffset(start, limit or ReadAllAvailable())
    return end, rows(reader, start, end)
