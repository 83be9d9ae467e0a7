"""The columns of a queue, as documented in docs/spark.md. All are nullable: Spark is strict about the
rest.

The readers, the data source, ``filters``, the conversions of rows and the pipeline ``replay`` use it. A new column also
needs its values in ``columns`` (and, by its kind, a place in ID_COLUMNS or STATE_COLUMNS and in ``filters``), a row in
docs/spark.md (tests/spark/test_documentation.py compares), and, if it can be written back, ``rows.COLUMNS``. Queries,
tables and archives of users hold the names and types, so these stay: ``replay`` makes messages again from archives of
earlier releases.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from mqredis.errors import InvalidArgument

_STRING, _INT, _LONG, _TIME = StringType(), IntegerType(), LongType(), TimestampType()
# Values with their types: mqredis/spark/headers.py.
HEADERS = MapType(_STRING, StructType([StructField("type", _STRING), StructField("value", _STRING)]))

SCHEMA = StructType(
    [
        StructField("lookup_id", _LONG),
        StructField("message_id", _STRING),
        StructField("correlation_id", _STRING),
        StructField("group_id", _STRING),
        StructField("sequence", _INT),
        StructField("priority", _INT),
        StructField("label", _STRING),
        StructField("body", BinaryType()),
        StructField("content_type", _STRING),
        StructField("properties", MapType(_STRING, _STRING)),
        StructField("headers", HEADERS),
        StructField("system_headers", HEADERS),
        StructField("sent", _TIME),
        StructField("arrived", _TIME),
        StructField("expires", _TIME),
        StructField("state", _STRING),
        StructField("delivery_count", _INT),
        StructField("abort_count", _INT),
        StructField("move_count", _INT),
        StructField("class", _INT),
        StructField("reason", _STRING),
        StructField("original_queue", _STRING),
        StructField("original_lookup_id", _LONG),
        StructField("response_queue", _STRING),
        StructField("app_tag", _LONG),
        StructField("queue", _STRING),
        StructField("manager", _STRING),
        StructField("batch_id", _STRING),
    ]
)
FIELDS = {field.name: field for field in SCHEMA.fields}
# Columns that come from the state record of a message.
STATE_COLUMNS = frozenset({"delivery_count", "abort_count", "move_count"})


def ddl(without: Collection[str] = ()) -> str:
    """The schema as text for ``.schema(...)``."""
    kept = [field for field in SCHEMA.fields if field.name not in without]
    return ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in kept)


def full(with_headers: bool, with_body: bool) -> str:
    """The schema of a source with these options, as text: Spark parses it, and hands it to the reader."""
    hidden = set() if with_headers else {"properties", "headers", "system_headers"}
    if not with_body:
        hidden.add("body")
    return ddl(hidden)


def selected(schema: StructType) -> StructType:
    """The columns of a reader's schema, all nullable: every column, or those that ``.schema(...)`` named.

    Raises InvalidArgument for a column that a message does not have, for another type than the column has, and for a
    column that is declared without nulls: Spark would refuse the rows then, in the tasks.
    """
    for field in schema.fields:
        own = FIELDS.get(field.name)
        if own is None:
            raise InvalidArgument(
                f"the source has no column {field.name!r}; it has {', '.join(FIELDS)}. "
                "mqredis.spark.json_columns makes columns from the fields of JSON bodies"
            )
        if own.dataType != field.dataType:
            raise InvalidArgument(
                f"column {field.name!r} is {own.dataType.simpleString()}, not {field.dataType.simpleString()}"
            )
        if not field.nullable:
            raise InvalidArgument(f"column {field.name!r} is nullable: declare it without NOT NULL")
    return StructType([StructField(field.name, field.dataType, True) for field in schema.fields])


def arrow(schema: StructType) -> Any:
    """The exact Arrow schema that Spark expects."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, timezone="UTC")
