"""Fields of a message that a look shows to be valid: pydantic takes several times as long."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mqredis.unvalidated import PENDING, rest

#: Fields that may be any text.
_TEXTS = frozenset(("correlation_id", "message_id", "group_id", "response_queue", "dedup_key"))
_VALUES = frozenset((str, int, float, bool, bytes, type(None)))


#: Given the fields: what a message with them has, as ``lazy`` takes it, which is the same dict; None: that is for
#: pydantic to say, and nothing was changed.
Plain = Callable[[dict[str, Any]], dict[str, Any] | None]


def plain_with(defaults: dict[str, Any]) -> Plain:
    """The look at the fields of a message whose other fields have these defaults."""
    full, bare = rest(defaults), rest(defaults, "properties")  # with properties given, and without

    def plain(fields: dict[str, Any]) -> dict[str, Any] | None:
        for name, value in fields.items():
            kind = type(value)
            if name == "properties":
                if kind is not dict:
                    return None
                for key, item in value.items():
                    kind = type(item)
                    if type(key) is not str or kind not in _VALUES or (kind is float and item - item != 0.0):
                        return None  # not even a number, or infinite
            elif name in _TEXTS:
                if kind is not str:
                    return None
            elif name == "body":
                if kind is not bytes:
                    return None
            elif name == "content_type":
                if kind is not str or len(value) > 255:
                    return None
            elif name == "priority":
                if kind is not int or not 0 <= value <= 7:
                    return None
            else:
                return None
        if "properties" in fields:
            fields["properties"] = fields["properties"].copy()
            fields[PENDING] = full
        else:
            fields["properties"] = {}
            fields[PENDING] = bare
        return fields

    return plain
