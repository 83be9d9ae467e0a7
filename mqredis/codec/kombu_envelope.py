"""What kombu knows of a message beside its body: encoding, headers and properties. A message has it as one property.

The transport (``mqredis.kombu.envelope``) writes and reads it. The pipeline ``spark.pipelines.migrate`` writes it into
the tasks that it copies from another broker, so that workers of Celery execute them; it runs where kombu is not
installed. Messages with the property may be in queues for long: what an earlier release has written must remain
readable.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

# The property of the message. Its value is the envelope as JSON.
PROPERTY = "kombu"


@dataclass(frozen=True, slots=True)
class Envelope:
    """The parts of a kombu message that a message of the broker has no fields for."""

    is_text: bool = False
    """Does kombu have the body as a str? (The broker has it as UTF-8.)"""
    content_encoding: str | None = None
    headers: dict[str, Any] = field(default_factory=dict)
    """AMQP's headers: for a task of Celery its name, id, ETA and so on."""
    properties: dict[str, Any] = field(default_factory=dict)
    """AMQP's properties, such as ``correlation_id``, ``reply_to`` and ``delivery_info``."""

    def value(self) -> dict[str, Any]:
        """The value whose JSON is the property."""
        return {
            "text": self.is_text,
            "content-encoding": self.content_encoding,
            "headers": self.headers,
            "properties": self.properties,
        }

    @classmethod
    def parse(cls, value: object) -> Envelope:
        """From the value of the JSON. Other senders may write anything: parts of another type are left out."""
        parts = _dict(value)
        return cls(
            is_text=bool(parts.get("text")),
            content_encoding=parts.get("content-encoding"),
            headers=_dict(parts.get("headers")),
            properties=_dict(parts.get("properties")),
        )


def _dict(value: object) -> dict[str, Any]:
    return dict(value) if isinstance(value, dict) else {}
