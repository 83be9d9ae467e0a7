"""Rows of a DataFrame are encoded to and decoded from the same records as messages."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from mqredis import InvalidArgument, Outgoing, codec
from mqredis.codec import INLINE_BODY_BYTES
from mqredis.models.properties import write_properties
from mqredis.models.record_parts import SPECIAL_FLAGS
from mqredis.spark import columns, headers, schema
from mqredis.spark.rows import Encoder

pytestmark = pytest.mark.spark

Rows = dict[str, list[Any]]

TYPES = {
    "queue": pa.string(),
    "body": pa.binary(),
    "priority": pa.int32(),
    "label": pa.string(),
    "message_id": pa.string(),
    "correlation_id": pa.string(),
    "time_to_be_received": pa.float64(),
    "properties": pa.map_(pa.string(), pa.string()),
}
TEXTS = ["", "a", "order-17", "new\nline", "\x00\x01\x02\x03\x04", "ü" * 20, "x" * 100]


def value(name: str, rng: random.Random) -> Any:
    """A value of a column, often none."""
    if name == "queue":
        return rng.choice(["orders", "billing"])
    if name == "body":
        return rng.choice([None, b"", rng.randbytes(20), bytes(INLINE_BODY_BYTES + 1)])
    if rng.random() < 0.3:
        return None
    if name == "priority":
        return rng.randrange(8)
    if name == "time_to_be_received":
        return rng.choice([1.5, 60.0])
    if name == "properties":
        return [(key, rng.choice(TEXTS)) for key in rng.sample(["a", "b", "c\x02"], rng.randrange(3))]
    return rng.choice(TEXTS)


def encoded(rows: Rows, types: dict[str, Any], queue: str = "", unit: str = "") -> list[Any]:
    """Queue, line and large body of each row, by the encoder."""
    columns = {name: pa.array(values, types[name]) for name, values in rows.items()}
    found = []
    for name, lines, large in Encoder(queue, lambda _: unit).encode(pa.RecordBatch.from_pydict(columns)):
        found += [(name, line, large.get(n)) for n, line in enumerate(lines)]
    return found


def one_by_one(rows: Rows, unit: str) -> list[Any]:
    """Queue, line and large body of each row, encoded as the message that ``Queue.send`` would take."""
    found = []
    for row in zip(*rows.values(), strict=True):
        fields = {name: item for name, item in zip(rows, row, strict=True) if item is not None}
        if "properties" in fields:
            fields["properties"] = dict(fields["properties"])
        queue, body = fields.pop("queue"), fields.pop("body", b"")
        line, large = codec.encode(Outgoing(body, **fields), unit)
        found.append((queue, line[1:], large))
    return found


@pytest.mark.parametrize("unit", ["", "sink.1"])
def test_row_is_encoded_as_the_record_of_its_message(unit: str) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    for _ in range(60):
        others = [name for name in TYPES if name not in ("queue", "body") and rng.random() < 0.5]
        rows = {name: [value(name, rng) for _ in range(30)] for name in ("queue", "body", *others)}
        assert encoded(rows, TYPES, unit=unit) == one_by_one(rows, unit)


def test_correlation_id_of_bytes_stays_bytes() -> None:
    rows: Rows = {
        "queue": ["q"] * 4,
        "body": [b"x"] * 4,
        "correlation_id": [b"\x01\xff", b"", None, b"\x00\x00"],
    }
    assert encoded(rows, {**TYPES, "correlation_id": pa.binary()}) == one_by_one(rows, "")


def test_too_long_correlation_id_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="correlation_id is longer than 255 bytes"):
        encoded({"body": [b"x"], "correlation_id": ["x" * 256]}, TYPES, "orders")


def test_row_without_a_queue_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="a row has no queue"):
        encoded({"queue": ["orders", None], "body": [b"x", b"y"]}, TYPES)


def test_message_with_only_a_correlation_id_has_no_special_flag() -> None:
    rows: Rows = {"body": [b"x", b"x"], "correlation_id": ["order-1", "order-2"]}
    assert not SPECIAL_FLAGS & {line[0] for _, line, _ in encoded(rows, TYPES, "orders")}
    rows = {"body": [b"x", b"x"], "time_to_be_received": [None, 1.0]}
    assert SPECIAL_FLAGS & {line[0] for _, line, _ in encoded(rows, TYPES, "orders")}


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("special", [0.0, 0.1])
def test_correlation_id_is_decoded_from_its_record(share: float, special: float) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    ids, records, wanted = [], [], []
    for number in range(200):
        fields: dict[str, Any] = {"label": rng.choice(TEXTS), "properties": {"a\x03c": rng.choice(TEXTS)}}
        if rng.random() < share:
            fields["correlation_id"] = rng.choice(TEXTS)
        if rng.random() < special:
            fields |= {"time_to_be_received": 5.0, "correlation_id": rng.choice([b"\x01", "text"])}
        line, _ = codec.encode(Outgoing(b"body", **fields))
        ids.append(b"%016x" % number)
        records.append(b"1764000000000" + line[1:])
        message = codec.decode("q", "", ids[-1], b"", records[-1])
        named = message.correlation_id
        shown = "0x" + named.hex() if isinstance(named, bytes) else named
        wanted.append((message.label, shown, [*message.properties.items()]))
    names = ["label", "correlation_id", "properties"]
    shape = schema.arrow(StructType([schema.FIELDS[name] for name in names]))
    batch = columns.Builder(shape).build(columns.Rows(ids, records, None, {}, "m", "q", "available"))
    assert [tuple(row[name] for name in names) for row in batch.to_pylist()] == wanted


def test_headers_know_the_letters_of_property_values() -> None:
    values = {"a": "x", "b": 7, "c": 0.5, "d": True, "e": False, "f": None, "g": b"x"}
    found = headers.of_properties(write_properties(values).split("\x01")[1:])
    kinds = ["string", "bigint", "double", "boolean", "boolean", "void", "binary"]
    assert [kind for _, kind, _ in found] == kinds
    assert [value for _, _, value in found] == ["x", "7", "0.5", "true", "false", None, "78"]
