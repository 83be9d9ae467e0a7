"""``spark.readStream.format("mqredis")``: which reader serves a query.

``source`` calls it. A checkpoint belongs to one mode (``offsets``), so the option cannot be changed for a query that
has one.
"""

from __future__ import annotations

from pyspark.sql.types import StructType

from mqredis.spark.browse import BrowseReader
from mqredis.spark.options import Options
from mqredis.spark.receive_reader import ReceiveReader

StreamReader = ReceiveReader | BrowseReader


def reader(options: Options, schema: StructType) -> StreamReader:
    """The reader for the option ``readMode``: it receives messages exactly once, or browses them."""
    return BrowseReader(options, schema) if options.readMode == "browse" else ReceiveReader(options, schema)
