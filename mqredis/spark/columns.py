"""From what the store keeps to Arrow columns, many messages at once and only the columns that are wanted.

``mqredis.codec.decode`` reads one message; this reads the same records by the column, since a Python object
for each message would halve the rate. A test holds the two together.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json

from mqredis.codec import unescape
from mqredis.spark.schema import STATE_COLUMNS

_FIELDS = re.compile(r"([\x01\x03])([^\x01\x03]*)")
_PLAIN = b"0\0"
#: Columns that need the head of a record.
HEAD_COLUMNS = frozenset(
    {
        "message_id", "correlation_id", "group_id", "sequence", "priority", "label", "content_type", "properties",
        "sent", "expires", "class", "reason", "original_queue", "original_lookup_id", "response_queue", "app_tag",
    }
)  # fmt: skip
#: Columns that need nothing but the id.
ID_COLUMNS = frozenset({"lookup_id", "state", "queue", "manager"})

Head = dict[str, str]


@dataclass(slots=True)
class Rows:
    """Messages as the store keeps them, all of one queue and in one state."""

    ids: Sequence[bytes]
    records: Sequence[bytes]
    states: Sequence[bytes | None] | None
    large: dict[bytes, bytes]
    manager: str
    queue: str
    state: str


def needs_record(columns: Collection[str]) -> bool:
    """Do these columns need more than ids?"""
    return not set(columns) <= ID_COLUMNS | STATE_COLUMNS


def is_special(record: bytes) -> bool:
    """Has the broker something to do for this message (flag bit 1)?"""
    return record[13:14] in b"13579bdf"


def has_large(record: bytes) -> bool:
    """Is its body kept apart (flag bit 8)?"""
    return record[13:14] in b"89abcdef"


def expires_ms(record: bytes) -> int | None:
    """When a message expires, in ms since the epoch."""
    if not is_special(record):
        return None
    head, _ = _parse(record[14 : record.index(b"\0", 14)])
    if "e" not in head:
        return None
    return int(record[:13]) - int(head.get("S", 0)) + int(head["e"])


def _parse(head: bytes) -> tuple[Head, list[str]]:
    """System fields of a head, and its user properties as they are kept."""
    fields: Head = {}
    properties: list[str] = []
    for kind, text in _FIELDS.findall(head.decode()):
        if kind == "\x03":
            fields[text[0]] = text[1:]
        else:
            properties.append(text)
    return fields, properties


def property_text(value: str) -> str | None:
    """A user property as a text: what ``str`` makes of it; bytes as hex digits."""
    kind, rest = value[:1], value[1:]
    if kind == "s":
        return unescape(rest)
    return {"t": "true", "f": "false", "n": None}.get(kind, rest)


def _identifier(text: str) -> str:
    return unescape(text[1:]) if text[:1] == "s" else "0x" + text[1:]


class Builder:
    """Makes record batches of one schema."""

    def __init__(self, schema: pa.Schema, json_schema: pa.Schema | None) -> None:
        self.schema = schema
        self.names = frozenset(schema.names)
        self.json_schema = json_schema
        self.with_body = "body" in self.names or json_schema is not None
        self.with_heads = bool(self.names & HEAD_COLUMNS)
        self.with_states = bool(self.names & STATE_COLUMNS)
        self.with_records = needs_record(self.names)

    def build(self, rows: Rows) -> pa.RecordBatch:
        """One record batch."""
        count = len(rows.ids)
        columns: dict[str, Any] = {}
        if self.with_records:
            self._records(rows, columns)
        if self.with_states:
            self._states(rows, columns)
        if "lookup_id" in self.names:
            raw = bytes.fromhex(b"".join(rows.ids).decode())
            columns["lookup_id"] = pa.array(np.frombuffer(raw, ">u8").astype("int64"))
        for name, value in (("state", rows.state), ("queue", rows.queue), ("manager", rows.manager)):
            if name in self.names:
                columns[name] = pa.repeat(pa.scalar(value), count)
        arrays = [_fit(columns[field.name], field.type) for field in self.schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    # ---- records -------------------------------------------------------------------------------

    def _records(self, rows: Rows, columns: dict[str, Any]) -> None:
        records = rows.records
        plain = all(record[13:15] == _PLAIN for record in records)
        arrived = None
        if self.names & {"arrived", "sent", "expires"}:
            arrived = pa.array([record[:13].decode() for record in records]).cast(pa.int64())
            columns["arrived"] = _time(arrived)
        if self.with_body:
            if plain:
                bodies = pa.array([record[15:] for record in records], pa.binary())
            else:
                bodies = pa.array(
                    [
                        rows.large.get(lid, b"")
                        if has_large(record)
                        else record[record.index(b"\0", 14) + 1 :]
                        for lid, record in zip(rows.ids, records, strict=True)
                    ],
                    pa.binary(),
                )
            columns["body"] = bodies
            if self.json_schema is not None:
                decoded = decode_json(bodies, self.json_schema)
                columns.update({field.name: decoded.column(field.name) for field in self.json_schema})
        if not self.with_heads:
            return
        heads: list[Head] = [{}] * len(records)
        properties: list[list[str]] = [[]] * len(records)
        if not plain:
            for n, record in enumerate(records):
                stop = record.index(b"\0", 14)
                if stop > 14:
                    heads[n], properties[n] = _parse(record[14:stop])
        self._heads(rows, heads, properties, arrived, columns)

    def _heads(
        self,
        rows: Rows,
        heads: list[Head],
        properties: list[list[str]],
        arrived: Any,
        columns: dict[str, Any],
    ) -> None:
        def put(name: str, key: str, convert: Callable[[str], object], default: object, kind: Any) -> None:
            if name in self.names:
                used = any(key in head for head in heads)
                columns[name] = (
                    pa.array([convert(h[key]) if key in h else default for h in heads], kind)
                    if used
                    else pa.repeat(pa.scalar(default, kind), len(heads))
                )

        text, whole, long = pa.string(), pa.int32(), pa.int64()
        if "message_id" in self.names:
            columns["message_id"] = pa.array(
                [
                    _identifier(head["m"]) if "m" in head else "mq-" + lid.decode()
                    for lid, head in zip(rows.ids, heads, strict=True)
                ],
                text,
            )
        put("correlation_id", "c", _identifier, None, text)
        put("group_id", "g", _identifier, None, text)
        put("sequence", "n", int, 1, whole)
        put("priority", "p", int, 3, whole)
        put("label", "l", unescape, "", text)
        put("content_type", "y", unescape, "application/octet-stream", text)
        put("class", "C", int, 0, whole)
        put("reason", "R", unescape, None, text)
        put("original_queue", "O", unescape, None, text)
        put("original_lookup_id", "I", lambda value: int(value, 16), None, long)
        put("response_queue", "r", unescape, None, text)
        put("app_tag", "t", int, 0, long)
        if self.names & {"sent", "expires"}:
            ago = pa.array([int(head.get("S", 0)) for head in heads], long)
            sent = pc.subtract(arrived, ago)
            columns["sent"] = _time(sent)
            life = pa.array([int(head["e"]) if "e" in head else None for head in heads], long)
            columns["expires"] = _time(pc.add(sent, life))
        if "properties" in self.names:
            columns["properties"] = _maps(properties)

    def _states(self, rows: Rows, columns: dict[str, Any]) -> None:
        states = rows.states or [None] * len(rows.ids)
        counts = [state.split(b" ", 3) if state else (b"0", b"0", b"0") for state in states]
        for n, name in enumerate(("delivery_count", "abort_count", "move_count")):
            if name in self.names:
                columns[name] = pa.array([int(count[n]) for count in counts], pa.int32())


def _time(ms: Any) -> Any:
    return pc.multiply(ms, 1000).cast(pa.timestamp("us", tz="UTC"))


def _maps(properties: list[list[str]]) -> Any:
    if not any(properties):
        empty = pa.array([0] * (len(properties) + 1), pa.int32())
        return pa.MapArray.from_arrays(empty, pa.array([], pa.string()), pa.array([], pa.string()))
    names: list[str] = []
    values: list[str | None] = []
    offsets = [0]
    for row in properties:
        for text in row:
            name, _, value = text.partition("\x02")
            names.append(unescape(name))
            values.append(property_text(value))
        offsets.append(len(names))
    return pa.MapArray.from_arrays(
        pa.array(offsets, pa.int32()), pa.array(names, pa.string()), pa.array(values, pa.string())
    )


def _fit(array: Any, kind: Any) -> Any:
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    return array if array.type == kind else array.cast(kind)


def decode_json(bodies: Any, schema: pa.Schema) -> pa.Table:
    """JSON objects as columns. A body that is not one, or whose values do not fit, becomes nulls."""
    lines = [body.as_py() for body in bodies]
    text = b"\n".join(line.replace(b"\n", b" ").replace(b"\r", b" ").strip() or b"{}" for line in lines)
    options = arrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    try:
        table = arrow_json.read_json(
            pa.BufferReader(text),
            read_options=arrow_json.ReadOptions(use_threads=False, block_size=max(len(text) + 1, 1024)),
            parse_options=options,
        )
        if table.num_rows == len(lines):
            return table.cast(schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        pass  # one bad body spoils all of them: take them one by one
    return pa.Table.from_pylist([_one(line, schema) for line in lines], schema=schema)


def _one(body: bytes, schema: pa.Schema) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except ValueError:
        return {}
    if not isinstance(value, dict):
        return {}
    found: dict[str, Any] = {}
    for field in schema:
        try:
            found[field.name] = pa.array([value.get(field.name)], field.type)[0].as_py()
        except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, ValueError, OverflowError):
            found[field.name] = None
    return found
