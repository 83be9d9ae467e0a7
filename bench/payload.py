"""What every peer carries: a text of 200 bytes and about 100 bytes of properties with an id of its own."""

from __future__ import annotations

import json

BODY = ("The quick brown fox jumps over the lazy dog. " * 5)[:200]
BODY_BYTES = BODY.encode()

Properties = dict[str, str | int | float | bool]


def correlation_id(number: int) -> str:
    """The id of message ``number``."""
    return f"c-{number:012d}"


def properties(number: int) -> Properties:
    """The properties of message ``number``: 4 values of different types."""
    return {"region": "EU-west", "customer": number, "amount": 129.95, "urgent": False}


def envelope(number: int) -> str:
    """Body, properties and id as one JSON text, for peers that carry only bytes."""
    return json.dumps({"id": correlation_id(number), "body": BODY, "properties": properties(number)})


_text = json.JSONEncoder(check_circular=False).encode


def pack(body: bytes, correlation_id: str, properties: Properties) -> bytes:
    """The same as a record of ours (mqredis/codec): who wants the body need not read what stands before it."""
    return f"h\1p\2s{_text(properties)}\3cs{correlation_id}\0".encode() + body


def packed(number: int) -> bytes:
    """Message ``number`` in that form."""
    return pack(BODY_BYTES, correlation_id(number), properties(number))


def check(body: object) -> None:
    """Is this the body that was sent?"""
    if body not in (BODY, BODY_BYTES):
        raise AssertionError(f"a wrong body came back: {body!r:.80}")


def check_envelope(data: str | bytes) -> None:
    """Is this an envelope with the body that was sent?"""
    check(json.loads(data)["body"])


def check_packed(data: bytes) -> None:
    """Is this a record with the body that was sent?"""
    check(data.partition(b"\0")[2])
