"""From the columns of a DataFrame to messages as ``send.lua`` and ``stage.lua`` take them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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
from mqredis.errors import InvalidArgument
from mqredis.models import Outgoing
from mqredis.models.outgoing import outgoing
from mqredis.spark import headers
from mqredis.spark.schema import FIELDS, HEADERS

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

#: Messages for one queue in their order: their texts, and by number the bodies of large ones, which stand apart.
Encoded = tuple[str, list[bytes], dict[int, bytes]]
#: Heads that are kept, so that messages of one kind are encoded once.
_KINDS = 1024


def check(schema: StructType, queue: str) -> None:
    """Refuse columns and types that no message has. Raises InvalidArgument."""
    names = [field.name for field in schema.fields]
    if "body" not in names:
        raise InvalidArgument(
            f"a writer needs a column body (string or binary); the rows have {', '.join(names)}"
        )
    ignored = set_by_broker(names)
    for field in schema.fields:
        allowed = COLUMNS.get(field.name)
        if field.name in ignored:
            continue
        if allowed is None:
            raise InvalidArgument(f"no message field {field.name!r}; a writer takes {', '.join(COLUMNS)}")
        if field.name in ("headers", "system_headers") and not _same(field.dataType, HEADERS):
            raise InvalidArgument(f"column {field.name!r} must be {HEADERS.simpleString()}")
        if not isinstance(field.dataType, allowed):
            kinds = " or ".join(kind.typeName() for kind in allowed)
            raise InvalidArgument(
                f"column {field.name!r} must be {kinds}, not {field.dataType.simpleString()}"
            )
    if not queue and "queue" not in names:
        raise InvalidArgument("give the option queue, or a column queue")


def set_by_broker(names: Sequence[str]) -> frozenset[str]:
    """Columns of a frame that was read which a writer leaves out, since the broker sets them anew.

    Only a frame that was read has ``lookup_id``. In another frame a column of such a name is a mistake.
    """
    return frozenset(FIELDS) - frozenset(COLUMNS) if "lookup_id" in names else frozenset()


def _same(one: DataType, other: DataType) -> bool:
    return bool(one.simpleString() == other.simpleString())


class Encoder:
    """Encodes record batches of one schema."""

    def __init__(self, queue: str, transaction: Callable[[str], str]) -> None:
        self.queue = queue
        self.transaction = transaction  # name of the unit of work in a queue, "" outside one
        self._known: dict[tuple[Any, ...], bytes] = {}

    def encode(self, batch: pa.RecordBatch) -> Iterator[Encoded]:
        """The messages of a record batch, in order. Raises InvalidArgument."""
        ignored = set_by_broker(batch.schema.names)
        columns = {name: batch.column(name) for name in batch.schema.names if name not in ignored}
        if self.queue:
            columns.pop("queue", None)
        for name, (low, high) in _RANGES.items():
            if name in columns:
                _in_range(name, columns[name], low, high)
        text = pa.types.is_string(columns["body"].type) or pa.types.is_large_string(columns["body"].type)
        kind = "text/plain; charset=utf-8" if text else codec.DEFAULT_CONTENT_TYPE
        bodies = pc.fill_null(columns["body"].cast(pa.binary()), b"")
        most = pc.max(pc.binary_length(bodies)).as_py() or 0
        names = [name for name in columns if name not in ("body", "queue")]
        if not names and "queue" not in columns and most <= codec.INLINE_BODY_BYTES:
            # Nothing but bodies: what stands before each is the same.
            before = self._before(self.queue, kind, (), ())
            yield self.queue, pc.binary_join_element_wise(before, bodies, b"").to_pylist(), {}
            return
        given = [columns[name].to_pylist() for name in names]
        values = zip(*given, strict=True) if given else iter([()] * len(bodies))
        queues = columns["queue"].to_pylist() if "queue" in columns else [self.queue] * len(bodies)
        lines: list[bytes] = []
        large: dict[int, bytes] = {}
        last = self.queue
        for queue, body, row in zip(queues, bodies.to_pylist(), values, strict=True):
            if not queue:
                raise InvalidArgument("a row has no queue: its column queue is null or empty")
            if queue != last and lines:
                yield last, lines, large
                lines, large = [], {}
            last = queue
            if len(body) > codec.INLINE_BODY_BYTES:
                large[len(lines)] = body
                message = self._message(kind, names, row, body)
                lines.append(codec.encode(message, self.transaction(queue))[0])
            else:
                lines.append(self._before(queue, kind, names, row) + body)
        if lines:
            yield last, lines, large

    def _before(self, queue: str, kind: str, names: Sequence[str], row: tuple[Any, ...]) -> bytes:
        """What stands before the body of a message that is not large."""
        key = (queue, kind, tuple(tuple(item) if type(item) is list else item for item in row))
        try:
            found = self._known.get(key)
        except TypeError:  # a struct or a map within
            return codec.encode(self._message(kind, names, row, b""), self.transaction(queue))[0]
        if found is None:
            found, _ = codec.encode(self._message(kind, names, row, b""), self.transaction(queue))
            if len(self._known) < _KINDS:
                self._known[key] = found
        return found

    def _message(self, kind: str, names: Sequence[str], row: tuple[Any, ...], body: bytes) -> Outgoing:
        """The message of a row. Raises InvalidArgument with the name of the column that is wrong."""
        fields: dict[str, Any] = {"content_type": kind}
        system: dict[str, Any] = {}
        for name, value in zip(names, row, strict=True):
            if value is None:
                continue
            if name == "system_headers":
                system = _system(value)
            elif name == "headers":
                fields["properties"] = _few(headers.values(value, name))
            elif name != "properties" or "properties" not in fields:
                fields[name] = _CONVERT[name](value) if name in _CONVERT else value
        for name, value in system.items():
            # An identifier that is bytes stands in its own column as hex digits. Another text there was given since.
            shown = "0x" + value.hex() if isinstance(value, bytes) else None
            if fields.get(name) in (None, shown):
                fields[name] = value
        if fields.get("sequence") == 1:  # what a reader tells of a message that was sent without one
            del fields["sequence"]
        for name, most in _LENGTHS.items():
            if len(fields.get(name, "")) > most:
                raise InvalidArgument(f"column {name!r}: at most {most} characters")
        return outgoing(body, fields)


def _in_range(name: str, column: Any, low: float, high: float) -> None:
    found = pc.min_max(column).as_py()
    if found["min"] is not None and not (found["min"] >= low and found["max"] <= high):
        raise InvalidArgument(
            f"column {name!r} holds values from {found['min']} to {found['max']}; allowed are {low} to {high}"
        )


def _properties(value: Any) -> dict[str, Any]:
    pairs = value.items() if isinstance(value, dict) else value
    return _few({name: item for name, item in pairs if item is not None})


def _few(properties: dict[str, Any]) -> dict[str, Any]:
    if len(properties) > codec.MAX_PROPERTIES:
        raise InvalidArgument(f"{len(properties)} properties; at most {codec.MAX_PROPERTIES} are allowed")
    return properties


def _system(value: Any) -> dict[str, Any]:
    found = headers.values(value, "system_headers")
    unknown = set(found) - headers.SYSTEM
    if unknown:
        allowed = ", ".join(sorted(headers.SYSTEM))
        raise InvalidArgument(
            f"column 'system_headers': no field {', '.join(sorted(unknown))}; it takes {allowed}"
        )
    return {name: item for name, item in found.items() if item is not None}


_CONVERT: dict[str, Callable[[Any], Any]] = {"properties": _properties, "extension": bytes}
