"""Fields of a message that a look shows to be valid: pydantic takes several times as long."""

from __future__ import annotations

from typing import Any

from mqredis.unvalidated import PENDING, rest

#: The defaults of an Outgoing; its module gives them.
DEFAULTS: dict[str, Any] = {}
#: What is pending of one with properties, and without.
_FULL, _BARE = rest(DEFAULTS), rest(DEFAULTS, "properties")
#: Fields that may be any text.
_TEXTS = frozenset(("correlation_id", "message_id", "group_id", "response_queue", "dedup_key"))
_VALUES = frozenset((str, int, float, bool, bytes, type(None)))


def plain(fields: dict[str, Any]) -> dict[str, Any] | None:
    """What an Outgoing with these fields has, as ``lazy`` takes it; None: that is for pydantic to say."""
    values: dict[str, Any] = {PENDING: _BARE}
    for name, value in fields.items():
        kind = type(value)
        if name == "properties":
            if kind is not dict:
                return None
            for key, item in value.items():
                kind = type(item)
                if type(key) is not str or kind not in _VALUES or (kind is float and item - item != 0.0):
                    return None  # not even a number, or infinite
            value = value.copy()
            values[PENDING] = _FULL
        elif name == "body":
            if kind is not bytes:
                return None
        elif name in _TEXTS:
            if kind is not str:
                return None
        elif name == "content_type":
            if kind is not str or len(value) > 255:
                return None
        elif name == "priority":
            if kind is not int or not 0 <= value <= 7:
                return None
        else:
            return None
        values[name] = value
    if "properties" not in values:
        values["properties"] = {}
    return values
