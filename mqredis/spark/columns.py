"""Converts stored messages to Arrow columns, many at once and only the wanted columns.

The batch reader, the streaming readers and the staging of writes use it.

``mqredis.codec.decode`` creates a Python object for each message, which would halve the rate. A test compares both.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mqredis.codec import unescape
from mqredis.spark import headers
from mqredis.spark.schema import STATE_COLUMNS

_FIELDS = re.compile(r"([\x01\x03])([^\x01\x03]*)")
# Columns that need the head of a record. A new one needs a row in schema.SCHEMA, its name here, and its letter
# (mqredis/models/fields.py) in `_heads`.
HEAD_COLUMNS = frozenset(
    {
        "message_id", "correlation_id", "group_id", "sequence", "priority", "label", "content_type", "properties",
        "headers", "system_headers", "sent", "expires", "class", "reason", "original_queue", "original_lookup_id",
        "response_queue", "app_tag",
    }
)  # fmt: skip
# Columns that need nothing but the id.
ID_COLUMNS = frozenset({"lookup_id", "state", "queue", "manager", "batch_id"})

Head = dict[str, str]


# Flag digits (lua/core/record) of messages that ask the broker for something, or may do so: special, and not only by a
# correlation id beside a body that is not large. And those of messages whose body is kept apart.
_SPECIAL, _LARGE = b"13579bdfprtv", b"89abcdefopqrstuv"
# Flag digits of messages that only a correlation id sets apart, which is a text and stands last in the head. And those
# of messages that nothing sets apart.
_NAMED, _PLAIN = b"hjln", b"0246"
_FLAG = itemgetter(13)
# Behind the end of any head. pyarrow cannot slice bytes without an end.
_END = 1 << 30


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
    batch_id: str | None = None


def needs_record(columns: Collection[str]) -> bool:
    """Do these columns need more than ids?"""
    return not set(columns) <= ID_COLUMNS | STATE_COLUMNS


def flags(records: Sequence[bytes]) -> bytes:
    """The flag digits that occur in these records, each once."""
    return bytes(set(map(_FLAG, records)))


def any_special(found: bytes) -> bool:
    """Does one of them use a feature of the broker (flag bit 1, and not by a correlation id alone)?"""
    return any(flag in _SPECIAL for flag in found)


def any_large(found: bytes) -> bool:
    """Is the body of one of them kept apart (flag bit 8)?"""
    return any(flag in _LARGE for flag in found)


def expires_ms(record: bytes) -> int | None:
    """When a message expires, in ms since the epoch."""
    if not any_special(record[13:14]):
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


def numbers(ids: Sequence[bytes]) -> Any:
    """Lookup ids as an array of 64-bit integers."""
    return np.frombuffer(bytes.fromhex(b"".join(ids).decode()), ">u8").astype("int64")


class Builder:
    """Makes record batches of one schema."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.names = frozenset(schema.names)
        self.with_body = "body" in self.names
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
            columns["lookup_id"] = pa.array(numbers(rows.ids))
        for name in ("state", "queue", "manager", "batch_id"):
            if name in self.names:
                columns[name] = pa.repeat(pa.scalar(getattr(rows, name), pa.string()), count)
        arrays = [_fit(columns[field.name], field.type) for field in self.schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    # ---- records -------------------------------------------------------------------------------

    def _records(self, rows: Rows, columns: dict[str, Any]) -> None:
        packed = pa.array(rows.records, pa.binary())
        # Of each record what comes before the first NUL, and what comes behind it.
        parts = pc.split_pattern(packed, b"\0", max_splits=1).flatten()
        places = np.arange(0, 2 * len(packed), 2)
        fronts = parts.take(pa.array(places))
        arrived = None
        if self.names & {"arrived", "sent", "expires"}:
            arrived = pc.binary_slice(fronts, 0, 13).cast(pa.string()).cast(pa.int64())
            columns["arrived"] = _time(arrived)
        if self.with_body:
            bodies = parts.take(pa.array(places + 1))
            if rows.large:
                apart = [rows.large.get(lid) for lid in rows.ids]
                bodies = pc.coalesce(pa.array(apart, pa.binary()), bodies)
            columns["body"] = bodies
        if self.with_heads:
            heads, ids = _without_ids(pc.binary_slice(fronts, 14, _END), rows.records)
            # Messages of one kind have one head, so each is read once.
            self._heads(rows, heads.dictionary_encode(), arrived, columns)
            if ids is not None and "correlation_id" in self.names:
                columns["correlation_id"] = ids

    def _heads(self, rows: Rows, encoded: Any, arrived: Any, columns: dict[str, Any]) -> None:
        parsed = [_parse(head) for head in encoded.dictionary.to_pylist()]
        heads = [head for head, _ in parsed]

        def put(name: str, key: str, convert: Callable[[str], object], default: object, kind: Any) -> Any:
            values = pa.array([convert(h[key]) if key in h else default for h in heads], kind)
            if name in self.names:
                columns[name] = values.take(encoded.indices)
            return values

        text, whole, long = pa.string(), pa.int32(), pa.int64()
        put("message_id", "m", _identifier, None, text)
        if "message_id" in self.names:
            own = pc.binary_join_element_wise("mq-", pa.array(rows.ids, pa.binary()).cast(text), "")
            columns["message_id"] = pc.coalesce(columns["message_id"], own)
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
            sent = pc.subtract(arrived, put("", "S", int, 0, long).take(encoded.indices))
            columns["sent"] = _time(sent)
            columns["expires"] = _time(pc.add(sent, put("", "e", int, None, long).take(encoded.indices)))
        if "properties" in self.names:
            columns["properties"] = _maps([properties for _, properties in parsed]).take(encoded.indices)
        if "headers" in self.names:
            typed = headers.array([headers.of_properties(properties) for _, properties in parsed])
            columns["headers"] = typed.take(encoded.indices)
        if "system_headers" in self.names:
            typed = headers.array([headers.of_fields(head) for head, _ in parsed])
            columns["system_headers"] = typed.take(encoded.indices)

    def _states(self, rows: Rows, columns: dict[str, Any]) -> None:
        states = pa.array(rows.states or [None] * len(rows.ids), pa.binary())
        encoded = pc.fill_null(states, b"0 0 0").dictionary_encode()
        counts = [state.split(b" ", 3) for state in encoded.dictionary.to_pylist()]
        for n, name in enumerate(("delivery_count", "abort_count", "move_count")):
            if name in self.names:
                values = pa.array([int(count[n]) for count in counts], pa.int32())
                columns[name] = values.take(encoded.indices)


def _without_ids(heads: Any, records: Sequence[bytes]) -> tuple[Any, Any]:
    """Heads without their correlation ids, and the ids; None for the ids if they stay in the heads.

    An id is often unique, and would make each head a kind of its own.
    """
    found = set(flags(records))
    if not found & {*_NAMED} or found - {*_NAMED, *_PLAIN}:
        return heads, None
    if found & {*_PLAIN}:
        # An empty id, so that each head has one.
        plain = pa.array([flag in _PLAIN for flag in map(_FLAG, records)])
        heads = pc.if_else(plain, pc.binary_join_element_wise(heads, b"\x03cs", b""), heads)
    parts = pc.split_pattern(heads, b"\x03c", max_splits=1, reverse=True).flatten()
    places = np.arange(0, len(parts), 2)
    ids = pc.binary_slice(parts.take(pa.array(places + 1)), 1, _END).cast(pa.string())
    if pc.any(pc.match_substring(ids, "\x04")).as_py():
        ids = pa.array([unescape(text) for text in ids.to_pylist()], pa.string())
    return parts.take(pa.array(places)), pc.if_else(pc.equal(ids, ""), None, ids)


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
