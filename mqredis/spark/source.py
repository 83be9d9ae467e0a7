"""The data source ``mqredis``: what Spark asks first. Checks options on the driver. Readers connect when they plan; a
writer with the option ``queue`` connects at once, to refuse a wrong queue before a job starts.

Spark makes one for each read or write, once ``mqredis.spark`` or ``pyspark_mqredis`` has registered it.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from mqredis.spark import batch, options, schema, sink
from mqredis.spark.browse import BrowseReader
from mqredis.spark.connection import source_errors
from mqredis.spark.options import Options
from mqredis.spark.receive_reader import ReceiveReader


class DefaultSource(DataSource):
    """Queues of mqredis as tables and streams. Options and columns: docs/spark.md."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "mqredis"

    def schema(self) -> str:
        """All columns that the options ask for."""
        with source_errors():
            parsed = self._parse()
            options.check_source(parsed)
            return schema.full(parsed.includeHeaders, parsed.includeBody)

    def reader(self, schema: StructType) -> batch.BatchReader:
        """A batch read."""
        with source_errors():
            parsed = self._parse()
            options.check_source(parsed)
            return batch.reader(parsed, schema)

    def streamReader(self, schema: StructType) -> ReceiveReader | BrowseReader:  # noqa: N802 - Spark's name
        """A streaming read: it receives messages exactly once, or browses them. A checkpoint belongs to one of these
        modes (``offsets``), so the option ``readMode`` cannot be changed for a query that has one."""
        with source_errors():
            parsed = self._parse()
            options.check_stream(parsed)
            return (
                BrowseReader(parsed, schema) if parsed.readMode == "browse" else ReceiveReader(parsed, schema)
            )

    def writer(self, schema: StructType, overwrite: bool) -> Any:
        """A batch write."""
        with source_errors():
            parsed = self._parse()
            sink.check(parsed, schema, overwrite)
            if parsed.queue and not parsed.txnAppId:
                sink.refuse_abandoned(parsed, {parsed.queue})
            return sink.BatchWriter(parsed)

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:  # noqa: N802 - Spark's name
        """A streaming write."""
        with source_errors():
            parsed = self._parse()
            sink.check(parsed, schema, overwrite)
            return sink.StreamWriter(parsed)

    def _parse(self) -> Options:
        return options.parse(dict(self.options))
