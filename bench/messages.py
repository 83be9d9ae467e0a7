"""The messages that each peer carries, and the shapes in which mqredis sends them.

A message has a body, a label, an id and four properties. A peer that carries only bytes packs them as JSON
(``envelope``). Readers check what they read: the body alone in shape a, everything in all other shapes. The peers and
the programs of this folder use it; peers/bullmq.mjs has the same message in JavaScript.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

Properties = dict[str, str | int | float | bool]


@dataclass(frozen=True)
class Shape:
    """How mqredis sends and reads a message."""

    letter: str
    about: str
    text: bool = True
    """A text body and a label, of which the reader reads everything; else bytes, of which it reads the body."""
    time_to_live: float | None = None
    """Time to live in seconds."""
    quota: bool = False
    """Has the queue a quota of messages and one of bytes?"""
    named: bool = False
    """Has each message a message id and a group id?"""
    functions: bool = True
    """The scripts are called by FCALL; else by EVALSHA, as on Redis 6.2."""
    observed: bool = False
    """Are the Prometheus meter and OpenTelemetry on?"""


SHAPES = {
    shape.letter: shape
    for shape in (
        Shape("a", "bytes body, correlation id, 4 properties; the body is read", text=False),
        Shape("b", "text body, label, correlation id, 4 properties; everything is read"),
        Shape("c", "as b, with a time to live", time_to_live=3600.0),
        Shape("d", "as b, in a queue with quotas", quota=True),
        Shape("e", "as b, with a message id and a group id", named=True),
        Shape("f", "as b, scripts called by EVALSHA", functions=False),
        Shape("g", "as b, with Prometheus meter and OpenTelemetry", observed=True),
    )
}
LABEL = "order"
PHRASE = "The quick brown fox jumps over the lazy dog. "


def body(size: int) -> str:
    """A text of ``size`` bytes."""
    return (PHRASE * (size // len(PHRASE) + 1))[:size]


def correlation_id(number: int) -> str:
    """The id of message ``number``."""
    return f"c-{number:012d}"


def properties(number: int) -> Properties:
    """The properties of message ``number``: four values of different types."""
    return {"region": "EU-west", "customer": number, "amount": 129.95, "urgent": False}


def envelope(number: int, text: str) -> str:
    """Message ``number`` as one JSON text, for peers that carry only bytes."""
    fields = {"id": correlation_id(number), "label": LABEL, "body": text, "properties": properties(number)}
    return json.dumps(fields)


def check_envelope(data: str | bytes, text: str) -> None:
    """Read all parts of an envelope. Raises AssertionError if it differs from the one that was sent."""
    fields = json.loads(data)
    check(fields["body"], text, fields["label"], fields["id"], fields["properties"])


def check(got: object, text: str, label: str, identity: str | bytes | None, values: object) -> None:
    """Raises AssertionError if these are not the fields of a message that was sent with this text.

    :param identity: "c-" where a peer does not give its handlers the id of a message.
    """
    assert got == text, f"another body: {got!r:.80}"
    assert label == LABEL
    assert isinstance(identity, str)
    assert identity.startswith("c-")
    assert isinstance(values, dict)
    assert values["amount"] == 129.95
