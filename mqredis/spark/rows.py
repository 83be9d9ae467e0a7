"""From the columns of a DataFrame to messages as ``send.lua`` and ``stage.lua`` take them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
)

from mqredis import codec
from mqredis.errors import InvalidArgument
from mqredis.models import Outgoing

_TEXT, _BYTES = (StringType,), (StringType, BinaryType)
_WHOLE = (ByteType, ShortType, IntegerType, LongType)
_NUMBER = (*_WHOLE, FloatType, DoubleType)

#: Columns a writer takes, and their types.
COLUMNS: dict[str, tuple[type[DataType], ...]] = {
    "body": _BYTES,
    "queue": _TEXT,
    "content_type": _TEXT,
    "label": _TEXT,
    "priority": _WHOLE,
    "message_id": _BYTES,
    "correlation_id": _BYTES,
    "group_id": _BYTES,
    "sequence": _WHOLE,
    "offset": _WHOLE,
    "last_in_group": (BooleanType,),
    "properties": (MapType, StructType),
    "time_to_be_received": _NUMBER,
    "time_to_reach_queue": _NUMBER,
    "sent_seconds_ago": _NUMBER,
    "delay": _NUMBER,
    "dedup_key": _TEXT,
    "dedup_window": _NUMBER,
    "recoverable": (BooleanType,),
    "acknowledge": _WHOLE,
    "administration_queue": _TEXT,
    "response_queue": _TEXT,
    "dead_letter_queue": _TEXT,
    "journal": _WHOLE,
    "app_tag": _WHOLE,
    "body_type": _WHOLE,
    "extension": (BinaryType,),
}
_RANGES = {
    "priority": (0, 7),
    "sequence": (1, 999_999_999),
    "offset": (0, 999_999_999),
    "acknowledge": (0, 14),
    "journal": (0, 3),
    "app_tag": (0, 0xFFFFFFFF),
    "body_type": (0, 0xFFFFFFFF),
    "time_to_be_received": (0, 1e9),
    "time_to_reach_queue": (0, 1e9),
    "sent_seconds_ago": (0, 1e9),
    "delay": (0, 1e9),
    "dedup_window": (0, 1e9),
}
_LENGTHS = {"label": 249, "content_type": 255}

#: One message: its queue, its text, its body again if that is large.
Encoded = tuple[str, bytes, bytes | None]


def check(schema: StructType, queue: str) -> None:
    """Refuse columns and types that no message has. Raises InvalidArgument."""
    names = [field.name for field in schema.fields]
    if "body" not in names:
        raise InvalidArgument(
            f"a writer needs a column body (string or binary); the rows have {', '.join(names)}"
        )
    for field in schema.fields:
        allowed = COLUMNS.get(field.name)
        if allowed is None:
            raise InvalidArgument(f"no message field {field.name!r}; a writer takes {', '.join(COLUMNS)}")
        if not isinstance(field.dataType, allowed):
            kinds = " or ".join(kind.typeName() for kind in allowed)
            raise InvalidArgument(
                f"column {field.name!r} must be {kinds}, not {field.dataType.simpleString()}"
            )
    if not queue and "queue" not in names:
        raise InvalidArgument("give the option queue, or a column queue")
    if queue and "queue" in names:
        raise InvalidArgument("give either the option queue or a column queue, not both; drop the column")


class _Row:
    """What :func:`mqredis.codec.encode` looks at. A pydantic model for each row would cost more than all the
    rest."""


for _name, _info in Outgoing.model_fields.items():
    setattr(_Row, _name, {} if _name == "properties" else _info.default)


class Encoder:
    """Encodes record batches of one schema."""

    def __init__(self, queue: str, transaction: Callable[[str], str]) -> None:
        self.queue = queue
        self.transaction = transaction  # name of the unit of work in a queue, "" outside one

    def encode(self, batch: pa.RecordBatch) -> Iterator[Encoded]:
        """The messages of a record batch, in order. Raises InvalidArgument."""
        names = batch.schema.names
        columns = {name: batch.column(name) for name in names}
        for name, (low, high) in _RANGES.items():
            if name in columns:
                _in_range(name, columns[name], low, high)
        text = pa.types.is_string(columns["body"].type) or pa.types.is_large_string(columns["body"].type)
        bodies = columns["body"].cast(pa.binary()).to_pylist()
        if names == ["body"] and not text and not self.transaction(self.queue):
            queue, most = self.queue, codec.INLINE_BODY_BYTES
            for body in bodies:
                if body is None or len(body) <= most:
                    yield queue, b"30\0" + (body or b""), None
                else:
                    yield queue, b"38\0", body
            return
        others = {
            name: column.to_pylist() for name, column in columns.items() if name not in ("body", "queue")
        }
        queues = columns["queue"].to_pylist() if "queue" in columns else None
        kind = "text/plain; charset=utf-8" if text else codec.DEFAULT_CONTENT_TYPE
        convert = {name: _CONVERT[name] for name in others if name in _CONVERT}
        for n, body in enumerate(bodies):
            row: Any = _Row()
            row.body = body or b""
            row.content_type = kind
            for name, values in others.items():
                value = values[n]
                if value is not None:
                    setattr(row, name, convert[name](value) if name in convert else value)
            queue = queues[n] if queues else self.queue
            if not queue:
                raise InvalidArgument("a row has no queue: its column queue is null or empty")
            for name, most in _LENGTHS.items():
                if len(getattr(row, name)) > most:
                    raise InvalidArgument(f"column {name!r}: at most {most} characters")
            line, large_body = codec.encode(row, self.transaction(queue))
            yield queue, line, large_body


def _in_range(name: str, column: Any, low: float, high: float) -> None:
    import pyarrow.compute as pc

    found = pc.min_max(column).as_py()
    if found["min"] is not None and not (found["min"] >= low and found["max"] <= high):
        raise InvalidArgument(
            f"column {name!r} holds values from {found['min']} to {found['max']}; allowed are {low} to {high}"
        )


def _properties(value: Any) -> dict[str, Any]:
    pairs = value.items() if isinstance(value, dict) else value
    found = {name: item for name, item in pairs if item is not None}
    if len(found) > codec.MAX_PROPERTIES:
        raise InvalidArgument(f"{len(found)} properties; at most {codec.MAX_PROPERTIES} are allowed")
    return found


_CONVERT: dict[str, Callable[[Any], Any]] = {"properties": _properties, "extension": bytes}
