"""From the columns of a DataFrame to messages as ``send.lua`` and ``stage.lua`` take them.

``staging``, ``sink`` and the pipeline ``replay`` use it. ``pipelines.migrate`` makes messages for ``stage.lua`` by
itself. ``check`` runs on the driver, before a job; ``Encoder`` runs in the tasks. Each message must be what
``codec.encode`` makes of its row: tests/spark/test_rows.py compares. A null is a value that was not given. Nothing is
sent before the driver publishes, so an error here fails the whole write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
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
from mqredis.codec import INLINE_BODY_BYTES
from mqredis.errors import InvalidArgument
from mqredis.models import Outgoing
from mqredis.models.fields import FIELDS as MESSAGE_FIELDS
from mqredis.models.header import DEFAULT_CONTENT_TYPE
from mqredis.models.outgoing import outgoing
from mqredis.models.properties import MAX_PROPERTIES
from mqredis.spark import headers
from mqredis.spark.schema import FIELDS, HEADERS

_TEXT, _BYTES = (StringType,), (StringType, BinaryType)
_WHOLE = (ByteType, ShortType, IntegerType, LongType)
_NUMBER = (*_WHOLE, FloatType, DoubleType)

# Columns a writer takes, and their types. The names are those of mqredis/models/fields.py, which says what values are
# allowed, and docs/spark.md lists them; tests/spark/test_documentation.py compares all three.
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
    "headers": (MapType,),
    "system_headers": (MapType,),
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

# Messages for one queue in their order: their texts, and by number the bodies of large ones, which stand apart.
Encoded = tuple[str, list[bytes], dict[int, bytes]]
# Stands for a body that is kept apart from its record.
_LARGE = bytes(INLINE_BODY_BYTES + 1)
# The text of a correlation id in a record, without its mark; None if the id names nothing.
_write_id = MESSAGE_FIELDS["correlation_id"].write


def check(schema: StructType, queue: str) -> None:
    """Refuse columns and types that no message has. Raises InvalidArgument."""
    names = [field.name for field in schema.fields]
    if "body" not in names:
        raise InvalidArgument(
            f"a writer needs a column body (string or binary); the rows have {', '.join(names)}"
        )
    ignored = set_by_broker(names)
    for field in schema.fields:
        allowed, kind = COLUMNS.get(field.name), field.dataType.simpleString()
        if field.name in ignored:
            continue
        if allowed is None:
            raise InvalidArgument(f"no message field {field.name!r}; a writer takes {', '.join(COLUMNS)}")
        if field.name in ("headers", "system_headers") and kind != HEADERS.simpleString():
            raise InvalidArgument(f"column {field.name!r} must be {HEADERS.simpleString()}")
        if not isinstance(field.dataType, allowed):
            kinds = " or ".join(each.typeName() for each in allowed)
            raise InvalidArgument(f"column {field.name!r} must be {kinds}, not {kind}")
    if not queue and "queue" not in names:
        raise InvalidArgument("give the option queue, or a column queue")


def set_by_broker(names: Sequence[str]) -> frozenset[str]:
    """Columns of a frame that was read which a writer leaves out, since the broker sets them anew.

    Only a frame that was read has ``lookup_id``. In another frame a column of such a name is a mistake.
    """
    return frozenset(FIELDS) - frozenset(COLUMNS) if "lookup_id" in names else frozenset()


class _Heads(dict[tuple[Any, ...], bytes]):
    """The beginning of a message, before its correlation id, by the values of its row."""

    def __init__(self, make: Callable[[tuple[Any, ...]], bytes]) -> None:
        self.make = make

    def __missing__(self, row: tuple[Any, ...]) -> bytes:
        self[row] = head = self.make(row)
        return head


class Encoder:
    """Encodes record batches of one schema.

    A message is a head, its correlation id, a zero byte and its body (``mqredis.codec``). ``codec.encode`` makes a head
    once for all rows that differ in nothing but correlation id and body, and Arrow joins the parts of each row.
    """

    def __init__(self, queue: str, transaction: Callable[[str], str]) -> None:
        self.queue = queue
        self.transaction = transaction  # name of the unit of work in a queue, "" outside one

    def encode(self, batch: pa.RecordBatch) -> Iterator[Encoded]:
        """The messages of a record batch, in order. Raises InvalidArgument."""
        ignored = set_by_broker(batch.schema.names)
        columns = {name: batch.column(name) for name in batch.schema.names if name not in ignored}
        if self.queue:
            columns.pop("queue", None)
        body = columns.pop("body")
        is_text = pa.types.is_string(body.type) or pa.types.is_large_string(body.type)
        content_type = "text/plain; charset=utf-8" if is_text else DEFAULT_CONTENT_TYPE
        bodies = pc.fill_null(body.cast(pa.binary()), b"")
        is_large = pc.greater(pc.binary_length(bodies), INLINE_BODY_BYTES)
        large = {n: bodies[n].as_py() for n in pc.indices_nonzero(is_large).to_pylist()}
        values = {name: _values(column) for name, column in columns.items()}
        ids: Any = b""
        # A correlation id in system_headers stands above the column, so then all of it belongs to the head.
        if "correlation_id" in values and "system_headers" not in values:
            values["correlation_id"], ids = _without_ids(values["correlation_id"])
        if large:
            values["body"] = [_LARGE if n in large else b"" for n in range(len(bodies))]
            bodies = pc.if_else(is_large, b"", bodies)
        heads = _Heads(lambda row: self._head(content_type, dict(zip(values, row, strict=True)), ids != b""))
        head = heads.make if any(map(_is_unhashable, columns.values())) else heads.__getitem__
        each = pa.array([*map(head, zip(*values.values(), strict=True))], pa.binary()) if values else head(())
        lines = pc.binary_join_element_wise(each, ids, b"\0", bodies, b"").to_pylist()
        start = 0
        for queue, run in groupby(values.get("queue") or [self.queue] * len(lines)):
            stop = start + len([*run])
            yield queue, lines[start:stop], {n - start: large[n] for n in large if start <= n < stop}
            start = stop

    def _head(self, content_type: str, row: dict[str, Any], id_apart: bool) -> bytes:
        """What stands in a row's message before its zero byte, or before its correlation id where that is apart."""
        queue, body = row.pop("queue", self.queue), row.pop("body", b"")
        if not queue:
            raise InvalidArgument("a row has no queue: its column queue is null or empty")
        line, _ = codec.encode(_message(content_type, row, body), self.transaction(queue))
        sample = (id_apart and row.get("correlation_id") and _write_id(row["correlation_id"])) or ""
        return line[1 : -1 - len(sample)]  # stage.lua reads the priority from the head


def _message(content_type: str, row: Mapping[str, Any], body: bytes) -> Outgoing:
    """The message of a row. Raises InvalidArgument with the name of the column that is wrong."""
    fields: dict[str, Any] = {"content_type": content_type}
    system: dict[str, Any] = {}
    for name, value in row.items():
        if value is None:
            continue
        if name == "system_headers":
            system = _system_headers(value)
        elif name == "headers":
            fields["properties"] = _within_limit(headers.values(value, name))
        elif name != "properties" or "properties" not in fields:
            fields[name] = _CONVERT[name](value) if name in _CONVERT else value
    for name, value in system.items():
        # An identifier that is bytes stands in its own column as hex digits. Another text there was given since.
        shown = "0x" + value.hex() if isinstance(value, bytes) else None
        if fields.get(name) in (None, shown):
            fields[name] = value
    if fields.get("sequence") == 1:  # what a reader tells of a message that was sent without one
        del fields["sequence"]
    return outgoing(body, fields)


def _values(column: Any) -> list[Any]:
    """The Python values of a column. Those of a map are tuples of its pairs."""
    values: list[Any] = column.to_pylist()
    if pa.types.is_map(column.type):
        return [None if value is None else tuple(value) for value in values]
    return values


def _is_unhashable(column: Any) -> bool:
    """Are the values of the column dicts, or do they hold dicts?"""
    kind = column.type
    return bool(pa.types.is_struct(kind) or (pa.types.is_map(kind) and pa.types.is_nested(kind.item_type)))


def _without_ids(ids: list[Any]) -> tuple[list[Any], Any]:
    """For each row a sample that stands for its correlation id in the head, None without one; and the ids as a record
    holds them."""
    try:
        texts = [None if value is None else _write_id(value) for value in ids]
    except ValueError as error:
        raise InvalidArgument(f"column 'correlation_id': {error}") from None
    samples = [text and (b"-" if text[0] == "x" else "-") for text in texts]
    return samples, pc.fill_null(pa.array(texts, pa.string()), "").cast(pa.binary())


def _properties(value: Any) -> dict[str, Any]:
    pairs = value.items() if isinstance(value, dict) else value
    return _within_limit({name: item for name, item in pairs if item is not None})


def _within_limit(properties: dict[str, Any]) -> dict[str, Any]:
    if len(properties) > MAX_PROPERTIES:
        raise InvalidArgument(f"{len(properties)} properties; at most {MAX_PROPERTIES} are allowed")
    return properties


def _system_headers(value: Any) -> dict[str, Any]:
    found = headers.values(value, "system_headers")
    unknown = set(found) - headers.SYSTEM
    if unknown:
        allowed = ", ".join(sorted(headers.SYSTEM))
        raise InvalidArgument(
            f"column 'system_headers': no field {', '.join(sorted(unknown))}; it takes {allowed}"
        )
    return {name: item for name, item in found.items() if item is not None}


_CONVERT: dict[str, Callable[[Any], Any]] = {"properties": _properties, "extension": bytes}
