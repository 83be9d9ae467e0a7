"""Columns from bodies that hold JSON, by Spark's own ``from_json``.

Users call it as ``mqredis.spark.json_columns`` (docs/spark.md, Columns). It knows nothing of the broker: any frame with
a column ``body`` will do.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql.types import StructType

from mqredis.errors import InvalidArgument

# Holds the parsed body until its fields are columns of their own.
_PARSED = "__mqredis_json"


def json_columns(frame: Any, schema: str | StructType, **options: str | bool | int) -> Any:
    """Add the fields of JSON bodies to a DataFrame as columns behind its own; works for batches and streams.

    The column ``body`` is read as UTF-8 and parsed by ``pyspark.sql.functions.from_json``. A body that is empty gives
    nulls. A body that is not JSON, and a value that does not fit its type, give nulls with ``mode="PERMISSIVE"``, which
    is Spark's default; they end the job with ``mode="FAILFAST"``.

    :param schema: names and types of the fields, as text (``"id BIGINT, due DATE"``) or as a ``StructType``.
    :param options: Spark's JSON options, for example ``timestampFormat`` or ``columnNameOfCorruptRecord``.
    :raises InvalidArgument: the frame has no column ``body``, the schema is not a list of columns, or a field has the
        name of a column that the frame has already (upper and lower case do not differ).
    """
    from pyspark.sql import functions as f

    present = {name.lower(): name for name in frame.columns}
    if "body" not in present:
        raise InvalidArgument(f"json_columns needs the column body; the frame has {', '.join(frame.columns)}")
    texts = {
        name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in options.items()
    }
    parsed = f.from_json(f.col("body").cast("string"), schema, texts).alias(_PARSED)
    found = frame.select(parsed).schema[_PARSED].dataType
    if not isinstance(found, StructType):
        raise InvalidArgument(f"the schema must be a list of columns, not {found.simpleString()}")
    clashes = [name for name in found.names if name.lower() in present]
    if clashes:
        raise InvalidArgument(
            f"the frame has a column {', '.join(map(repr, clashes))} already; drop or rename that column before "
            "json_columns is called, or parse the body into a struct with from_json"
        )
    return frame.select("*", parsed).select("*", f"{_PARSED}.*").drop(_PARSED)
