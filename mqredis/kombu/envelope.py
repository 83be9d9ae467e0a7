"""Converts kombu's message dictionaries to messages of the broker, and back.

``channel`` uses it. What a message has no fields for is in a property: mqredis/codec/kombu_envelope.py. The pipeline
``migrate`` makes such messages, too, and has priorities of its own, since those of Celery's Redis transport run the
other way. docs/celery.md tells users of priorities, ``eta``, ``expires`` and the headers of dead letters.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

from kombu.utils.json import dumps, loads

from mqredis.codec.kombu_envelope import PROPERTY, Envelope
from mqredis.models import Journal, Message, Outgoing, PropertyValue

# AMQP's priorities 0-9 on the broker's 0-7. Two pairs share a level: 1 and 2, 7 and 8. The broker's default of
# other senders, 3, is AMQP's 4.
LEVELS = (0, 1, 1, 2, 3, 4, 5, 6, 6, 7)

# Longest delay or life span that is passed on, in seconds.
_LONGEST = 1e9


def pack(
    message: dict[str, Any],
    priority: int,
    *,
    native_delay: bool,
    queue_ttl: float | None = None,
    dead_letters: str | None = None,
) -> Outgoing:
    """A kombu message as it is sent.

    A task of Celery with ``expires`` stays until a worker takes it, as with Celery's Redis transport: the worker does
    not run an expired task, and marks its result REVOKED, which the broker cannot do. Other messages expire in the
    broker. The life span of a message that the broker holds back begins at its ETA, since AMQP counts from its arrival
    in the queue.

    ``queue_ttl``: life span of messages of the queue, in seconds. ``dead_letters``: the queue to which the message goes
    when it is rejected or expires.
    """
    body = message.get("body") or b""
    properties = message["properties"]
    headers = message.get("headers") or {}
    envelope = Envelope(isinstance(body, str), message.get("content-encoding"), headers, properties)
    shown: dict[str, PropertyValue] = {PROPERTY: dumps(envelope.value())}
    if isinstance(headers.get("task"), str):
        shown["task"] = headers["task"][:255]
    delay = _delay(headers.get("eta")) if native_delay else 0.0
    life_span = _life_span(None if headers.get("expires") else properties.get("expiration"), queue_ttl)
    return Outgoing(
        body=body.encode("utf-8", "surrogatepass") if isinstance(body, str) else bytes(body),
        content_type=str(message.get("content-type") or "application/octet-stream")[:255],
        priority=LEVELS[priority],
        properties=shown,
        time_to_be_received=None if life_span is None else delay + life_span,
        delay=delay,
        dead_letter_queue=dead_letters,
        journal=Journal.DEAD_LETTER if dead_letters else Journal.NONE,
    )


def unpack(message: Message, delivery_tag: str) -> dict[str, Any]:
    """A message as kombu's dictionary. A message of a sender without kombu has only a body."""
    envelope = _envelope(message.properties.get(PROPERTY))
    properties = envelope.properties
    info = properties.get("delivery_info")
    info = dict(info) if info and isinstance(info, dict) else {"exchange": "", "routing_key": message.queue}
    info["redelivered"] = redelivered = message.delivery_count > 1
    properties.update(delivery_tag=delivery_tag, delivery_info=info)
    return {
        "body": _text(message.body) if envelope.is_text else message.body,
        "content-type": message.content_type,
        "content-encoding": envelope.content_encoding or "binary",
        "headers": {**envelope.headers, **_death(message)},
        "properties": properties,
        "redelivered": redelivered,
    }


def _envelope(text: object) -> Envelope:
    """The envelope in the property; an empty one if a sender has written what cannot be parsed."""
    if not isinstance(text, str):
        return Envelope()
    try:
        return Envelope.parse(loads(text))
    except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError, RecursionError):
        return Envelope()


def _death(message: Message) -> dict[str, str]:
    """AMQP's headers of a dead letter."""
    if message.original_queue is None or not message.reason:
        return {}
    kind = message.reason.partition(":")[0]
    reason = {"receive_timeout": "expired", "poison": "delivery_limit"}.get(kind, "rejected")
    return {"x-first-death-queue": message.original_queue, "x-first-death-reason": reason}


def _text(body: bytes) -> str | bytes:
    try:
        return body.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return body


def _life_span(expiration: Any, queue_ttl: float | None) -> float | None:
    """AMQP's expiration is milliseconds as text; the shorter of the message's and the queue's counts."""
    try:
        own = float(expiration) / 1000 if expiration is not None else None
    except (TypeError, ValueError):
        own = None
    if own is not None and (not math.isfinite(own) or own > _LONGEST):
        own = None
    spans = [max(span, 0.0) for span in (own, queue_ttl) if span is not None]
    return min(spans) if spans else None


def _delay(eta: Any) -> float:
    """Seconds until a task's ETA, which Celery writes in ISO 8601."""
    if not isinstance(eta, str):
        return 0.0
    try:
        when = datetime.fromisoformat(eta)
    except ValueError:
        return 0.0
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return min(max((when - datetime.now(UTC)).total_seconds(), 0.0), _LONGEST)
