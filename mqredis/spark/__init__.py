"""Queues as sources and sinks of Spark, batch and streaming, through PySpark's Data Source API.

``spark.read.format("mqredis")`` finds this package by itself; :func:`register` does it explicitly. Needs the
extra ``mqredis[spark]``; nothing else of mqredis imports pyspark. docs/spark.md describes the functions for users.
"""

from __future__ import annotations

from typing import Any

from mqredis.errors import MissingDependency
from mqredis.models import ClaimInfo
from mqredis.operations.publications import Publication

try:
    import pyspark.sql.streaming.datasource  # noqa: F401 - PySpark before 4.2 has no such module

    from mqredis.spark.admin import claims, publications, recover, release, withdraw
    from mqredis.spark.batch_id import batch_numbers
    from mqredis.spark.json_columns import json_columns
    from mqredis.spark.progress import metrics
    from mqredis.spark.schema import SCHEMA, ddl
    from mqredis.spark.source import DefaultSource
except ImportError as error:
    raise MissingDependency.of("mqredis.spark", "spark", error) from None

__all__ = [
    "SCHEMA", "ClaimInfo", "DefaultSource", "Publication", "batch_numbers", "claims", "ddl", "json_columns", "metrics",
    "publications", "recover", "register", "release", "withdraw",
]  # fmt: skip


def register(spark: Any) -> None:
    """Make the format ``mqredis`` known to a session, also where the shim ``pyspark_mqredis`` is not
    installed."""
    spark.dataSource.register(DefaultSource)
