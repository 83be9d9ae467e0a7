"""Messages as JSON, and back: what ``--json``, ``export`` and ``import`` write and read.

``messages``, ``reading``, ``transfer``, ``schedules`` and ``show`` use it.

A body is ``body`` (text) if it is UTF-8, else ``body_base64``. Bytes elsewhere are ``{"base64": "..."}``. Lookup ids
are text with 0x and 16 hex digits, because JSON readers lose digits of large numbers. Users keep exported files: what
an earlier release has written must remain readable, so a field that gets another name is read under both
(``from_json``). A new field of ``models.Message`` is written by itself, and read back if ``models.Outgoing`` has a
field of this name; one that only a received message has stands in ``_OF_SENT`` of ``schedules``, too.
``reading.exported`` adds ``available_at``.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import Enum
from typing import Any

from mqredis.errors import InvalidArgument
from mqredis.models import Message, Outgoing
from mqredis.models.lookup_ids import hex_id, lookup_id_of

# Fields that ``import`` takes from a row as they are; ``from_json`` makes the life span and the delay from times. No
# row has ``sent_seconds_ago`` and ``dedup_window``, since Message does not show them.
_SENT = tuple(
    name
    for name in Outgoing.FIELDS
    if name
    not in ("body", "time_to_be_received", "time_to_reach_queue", "sent_seconds_ago", "delay", "dedup_window")
)
# Fields that a message has only in a group.
_FLAGS = frozenset({"last_in_group", "segment", "last_segment"})


def _out(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, Mapping):
        return {name: _out(item) for name, item in value.items()}
    if isinstance(value, datetime):
        return value.isoformat()
    return int(value) if isinstance(value, Enum) and isinstance(value, int) else value


def to_json(message: Message) -> dict[str, Any]:
    """A message with every field that is not at its default."""
    row: dict[str, Any] = {"lookup_id": hex_id(message.lookup_id), "queue": message.queue}
    try:
        row["body"] = message.body.decode("utf-8")
    except UnicodeDecodeError:
        row["body_base64"] = base64.b64encode(message.body).decode()
    for name, default in Message.FIELDS.items():
        if name in ("lookup_id", "queue", "body"):
            continue
        value = getattr(message, name)
        if value != default:
            row[name] = hex_id(value) if name == "original_lookup_id" else _out(value)
    return row


def _in(value: Any) -> Any:
    return _bytes(value["base64"]) if isinstance(value, Mapping) and set(value) == {"base64"} else value


def _bytes(text: Any) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise InvalidArgument("base64 is damaged") from None


def from_json(row: Any) -> Outgoing | None:
    """The message of a row of ``export``; None if it has expired since. Generated message ids are dropped."""
    if not isinstance(row, Mapping):
        raise InvalidArgument("each line must be a JSON object")
    if not row.keys() & {"body", "body_base64"}:
        raise InvalidArgument("it has neither body nor body_base64, so export did not write it")
    values = {name: _in(row[name]) for name in _SENT if name in row and name != "properties"}
    if "properties" in row:
        properties = row["properties"]  # a mapping, even if the only property has the name base64
        if isinstance(properties, Mapping):
            properties = {name: _in(value) for name, value in properties.items()}
        values["properties"] = properties
    body = _bytes(row["body_base64"]) if "body_base64" in row else row.get("body", "")
    values["body"] = body.encode("utf-8") if isinstance(body, str) else body
    generated = lookup_id_of(values.get("message_id"))
    if generated is not None and row.get("lookup_id") == hex_id(int(generated, 16)):
        del values["message_id"]
    if "group_id" not in values:
        values = {name: value for name, value in values.items() if name not in _FLAGS}
    if row.get("expires_at") is not None:
        left = _left(row, "expires_at")
        if left <= 0:
            return None
        values["time_to_be_received"] = left
    if row.get("available_at") is not None:
        values["delay"] = max(_left(row, "available_at"), 0.0)
    return Outgoing(**values)


def _left(row: Mapping[str, Any], name: str) -> float:
    """Seconds until the ISO 8601 time in a field."""
    text = row[name]
    try:
        when = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        raise InvalidArgument(f"{name} is {text!r:.40}, not a time") from None
    left = (when.replace(tzinfo=when.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
    return left if math.isfinite(left) else 0.0
