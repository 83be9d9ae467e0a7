"""Lets Spark find the format ``mqredis`` by its name: it looks for ``DefaultSource`` in modules
``pyspark_*``."""

from __future__ import annotations

from mqredis.spark.source import DefaultSource

__all__ = ["DefaultSource"]
