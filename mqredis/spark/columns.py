"""Converts stored messages to Arrow columns, many at once and only the wanted columns.

``fetch`` fills the columns of all readers with it, and ``batch`` takes ``numbers`` from it.

``mqredis.codec.decode`` creates a Python object for each message, which would halve the rate. tests/spark/test_rows.py
and test_batch.py compare both. The form of a record is described in lua/core/record.lua.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mqredis.models.header import DEFAULT_CONTENT_TYPE
from mqredis.models.lookup_ids import generated_id
from mqredis.models.record_parts import (
    ARRIVAL_DIGITS,
    FLAG_AT,
    HEAD_AT,
    LETTERS,
    NAMED_FLAGS,
    PLAIN_FLAGS,
    SPECIAL_FLAGS,
    arrival_ms,
)
from mqredis.models.text import unescape
from mqredis.spark import headers
from mqredis.spark.headers import Head
from mqredis.spark.schema import STATE_COLUMNS


def _identifier(text: str) -> str:
    return unescape(text[1:]) if text[:1] == "s" else "0x" + text[1:]


class Shown(NamedTuple):
    """A column that shows one field of the head."""

    field: str
    """The name of the field in mqredis/models/fields.py."""
    read: Callable[[str], object]
    """Makes the value of the column from the text in the record."""
    default: object = None
    """The value of a message without the field."""


# What else a new column needs: mqredis/spark/schema.py. The defaults are those of mqredis/models/header.py.
_SHOWN = {
    "message_id": Shown("message_id", _identifier),
    "correlation_id": Shown("correlation_id", _identifier),
    "group_id": Shown("group_id", _identifier),
    "sequence": Shown("sequence", int, 1),
    "priority": Shown("priority", int, 3),
    "label": Shown("label", unescape, ""),
    "content_type": Shown("content_type", unescape, DEFAULT_CONTENT_TYPE),
    "class": Shown("message_class", int, 0),
    "reason": Shown("reason", unescape),
    "original_queue": Shown("original_queue", unescape),
    "original_lookup_id": Shown("original_lookup_id", lambda text: int(text, 16)),
    "response_queue": Shown("response_queue", unescape),
    "app_tag": Shown("app_tag", int, 0),
}
# Columns that are made of the head in another way.
_MADE = frozenset({"properties", "headers", "system_headers", "sent", "expires"})
HEAD_COLUMNS = _MADE | _SHOWN.keys()
# Columns that need nothing but the id.
ID_COLUMNS = frozenset({"lookup_id", "state", "queue", "manager", "batch_id"})

# The letters of the times: how long before its arrival a message was sent, and how long it lives from then, in ms.
_SENT_BEFORE, _LIFE = LETTERS["sent_seconds_ago"], LETTERS["time_to_be_received"]
_flag_of = itemgetter(FLAG_AT)
# Behind the end of any head. pyarrow cannot slice bytes without an end.
_END = 1 << 30
# A state record (lua/core/message_state.lua) begins with the counts of deliveries, aborts and moves. A message without
# one was never delivered; in a page of a claim it is delivered for the first time.
NEVER_DELIVERED, FIRST_DELIVERY = b"0 0 0", b"1 0 0"
_COUNTS = ("delivery_count", "abort_count", "move_count")


@dataclass(slots=True)
class Rows:
    """Messages as the store keeps them, all of one queue and in one state."""

    ids: Sequence[bytes]
    records: Sequence[bytes]
    """Empty if no column needs them (:func:`needs_record`)."""
    states: Sequence[bytes | None] | None
    """The state records; None if no column needs them."""
    large: dict[bytes, bytes | None]
    """Bodies that are not in their records, by id. None: it is gone; its message is not among ``ids``."""
    manager: str
    queue: str
    state: str
    batch_id: str | None = None


def needs_record(columns: Collection[str]) -> bool:
    """Do these columns need more than ids?"""
    return not set(columns) <= ID_COLUMNS | STATE_COLUMNS


def flags(records: Sequence[bytes]) -> set[int]:
    """The flags of these records, as the bytes of their digits (mqredis/models/record_parts.py)."""
    return set(map(_flag_of, records))


def expires_ms(record: bytes) -> int | None:
    """When a message expires, in ms since the epoch."""
    if record[FLAG_AT] not in SPECIAL_FLAGS:
        return None
    head, _ = _parse(record[HEAD_AT : record.index(b"\0", HEAD_AT)])
    if _LIFE not in head:
        return None
    return arrival_ms(record) - int(head.get(_SENT_BEFORE, 0)) + int(head[_LIFE])


def _parse(head: bytes) -> tuple[Head, list[str]]:
    """System fields of a head by their letters, and its user properties as they are kept."""
    fields: Head = {}
    properties: list[str] = []
    for part in head.decode().split("\x03"):
        field, *more = part.split("\x01")  # properties may stand before the first field and behind each
        if field:
            fields[field[0]] = field[1:]
        properties += more
    return fields, properties


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
        """Fill the columns that need records (the form: lua/core/record.lua)."""
        packed = pa.array(rows.records, pa.binary())
        # Of each record what comes before the first NUL, and what comes behind it.
        parts = pc.split_pattern(packed, b"\0", max_splits=1).flatten()
        places = np.arange(0, 2 * len(packed), 2)
        fronts = parts.take(pa.array(places))
        arrived = None
        if self.names & {"arrived", "sent", "expires"}:
            arrived = pc.binary_slice(fronts, 0, ARRIVAL_DIGITS).cast(pa.string()).cast(pa.int64())
            columns["arrived"] = _time(arrived)
        if self.with_body:
            bodies = parts.take(pa.array(places + 1))
            if rows.large:
                apart = [rows.large.get(lid) for lid in rows.ids]
                bodies = pc.coalesce(pa.array(apart, pa.binary()), bodies)
            columns["body"] = bodies
        if self.with_heads:
            heads, ids = _without_ids(pc.binary_slice(fronts, HEAD_AT, _END), rows.records)
            # Messages of one kind have one head, so each is read once.
            self._heads(rows, heads.dictionary_encode(), arrived, columns)
            if ids is not None and "correlation_id" in self.names:
                columns["correlation_id"] = ids

    def _heads(self, rows: Rows, encoded: Any, arrived: Any, columns: dict[str, Any]) -> None:
        """Fill the columns that need heads. ``encoded``: the heads, of which each is read once."""
        parsed = [_parse(head) for head in encoded.dictionary.to_pylist()]
        heads = [head for head, _ in parsed]

        def values(letter: str, read: Callable[[str], object], default: object, kind: Any) -> Any:
            found = pa.array([read(head[letter]) if letter in head else default for head in heads], kind)
            return found.take(encoded.indices)

        for name in self.names & _SHOWN.keys():
            shown, kind = _SHOWN[name], self.schema.field(name).type
            columns[name] = values(LETTERS[shown.field], shown.read, shown.default, kind)
        if "message_id" in self.names:
            ids = pa.array(rows.ids, pa.binary()).cast(pa.string())
            own = pc.binary_join_element_wise(generated_id(""), ids, "")
            columns["message_id"] = pc.coalesce(columns["message_id"], own)
        if self.names & {"sent", "expires"}:
            sent = pc.subtract(arrived, values(_SENT_BEFORE, int, 0, pa.int64()))
            columns["sent"] = _time(sent)
            columns["expires"] = _time(pc.add(sent, values(_LIFE, int, None, pa.int64())))
        if "properties" in self.names:
            columns["properties"] = _maps([properties for _, properties in parsed]).take(encoded.indices)
        if "headers" in self.names:
            typed = headers.array([headers.of_properties(properties) for _, properties in parsed])
            columns["headers"] = typed.take(encoded.indices)
        if "system_headers" in self.names:
            typed = headers.array([headers.of_fields(head) for head in heads])
            columns["system_headers"] = typed.take(encoded.indices)

    def _states(self, rows: Rows, columns: dict[str, Any]) -> None:
        states = pa.array(rows.states or [None] * len(rows.ids), pa.binary())
        encoded = pc.fill_null(states, NEVER_DELIVERED).dictionary_encode()
        counts = [state.split(b" ", len(_COUNTS)) for state in encoded.dictionary.to_pylist()]
        for place, name in enumerate(_COUNTS):
            if name in self.names:
                values = pa.array([int(count[place]) for count in counts], pa.int32())
                columns[name] = values.take(encoded.indices)


def _without_ids(heads: Any, records: Sequence[bytes]) -> tuple[Any, Any]:
    """Heads without their correlation ids, and the ids; None for the ids if they stay in the heads.

    An id is often unique, and would make each head a kind of its own. It is cut off only if it stands last in each head
    that has one, which the flags say.
    """
    found = flags(records)
    if not found & NAMED_FLAGS or found - NAMED_FLAGS - PLAIN_FLAGS:
        return heads, None
    mark = b"\x03" + LETTERS["correlation_id"].encode()
    if found & PLAIN_FLAGS:
        # An empty id, a text ("s"), so that each head has one.
        plain = pa.array([flag in PLAIN_FLAGS for flag in map(_flag_of, records)])
        heads = pc.if_else(plain, pc.binary_join_element_wise(heads, mark + b"s", b""), heads)
    parts = pc.split_pattern(heads, mark, max_splits=1, reverse=True).flatten()
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
            values.append(headers.property_text(value))
        offsets.append(len(names))
    return pa.MapArray.from_arrays(
        pa.array(offsets, pa.int32()), pa.array(names, pa.string()), pa.array(values, pa.string())
    )


def _fit(array: Any, kind: Any) -> Any:
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    return array if array.type == kind else array.cast(kind)
