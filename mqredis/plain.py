"""Fields of a message that a look shows to be valid: pydantic takes several times as long."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

from pydantic import BaseModel

from mqredis.properties import text_of
from mqredis.unvalidated import PENDING, defaults_of, put

#: Fields that may be any text.
_TEXTS = frozenset(("message_id", "group_id", "response_queue", "dedup_key"))

_ABSENT: Any = object()

#: Given the fields: what a message with them has, as ``lazy`` takes it, which is the same dict; None: that is for
#: pydantic to say, and nothing was changed.
Plain = Callable[[dict[str, Any]], dict[str, Any] | None]


#: Where what is pending of such a message has the text of its properties, or None once somebody may have changed them;
#: and whether it has body, correlation id, perhaps properties, and nothing else.
TEXT, USUAL = 4, 5


def plain_with(defaults: dict[str, Any]) -> Plain:
    """The look at the fields of a message whose other fields have these defaults."""

    def plain(fields: dict[str, Any]) -> dict[str, Any] | None:
        few, properties, text = 0, None, ""
        for name, value in fields.items():
            kind = type(value)
            if name == "properties":
                if kind is not dict or (found := text_of(value)) is None:
                    return None
                properties, text = value, found
            elif name == "correlation_id":
                if kind is not str:
                    return None
                few += 1
            elif name == "body":
                if kind is not bytes:
                    return None
                few += 1
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
        if properties is not None:
            del fields["properties"]
            properties = properties.copy()
        fields[PENDING] = _whole, _one, defaults, properties, text, few == 2 == len(fields)
        return fields

    return plain


def init_with(cls: type[BaseModel], plain: Plain) -> Callable[..., None]:
    """The ``__init__`` of this class of messages."""
    defaults = defaults_of(cls)

    # Fields that most messages have are named: all in one dict would be gone through for each message.
    def init(
        self: BaseModel,
        /,
        *,
        body: Any = _ABSENT,
        correlation_id: Any = _ABSENT,
        properties: Any = _ABSENT,
        **fields: Any,
    ) -> None:
        if (
            type(body) is bytes
            and type(correlation_id) is str
            and type(properties) is dict
            and not fields
            and type(self) is cls
            and (text := text_of(properties)) is not None
        ):
            pending = _whole, _one, defaults, properties.copy(), text, True
            put(self, {"body": body, "correlation_id": correlation_id, PENDING: pending})
            return
        named = ("body", body), ("correlation_id", correlation_id), ("properties", properties)
        fields.update((name, value) for name, value in named if value is not _ABSENT)
        if type(self) is cls and (found := plain(fields)) is not None:
            put(self, found)
        else:
            BaseModel.__init__(self, **fields)

    made: Any = init
    made.__name__, made.__qualname__ = "__init__", f"{cls.__qualname__}.__init__"
    made.__pydantic_base_init__ = True  # what is validated as a model needs no detour over it
    made.__signature__ = signature(
        BaseModel.__init__
    )  # pydantic makes of it one with the fields of the class
    return init


def _properties(fields: dict[str, Any], pending: Any) -> dict[str, Any]:
    """The properties, which are the message's own: whoever asks for them may change them."""
    properties: dict[str, Any] = fields.setdefault("properties", {} if pending[3] is None else pending[3])
    return properties


def _one(fields: dict[str, Any], pending: Any, name: str) -> Any:
    if name == "properties":
        found = _properties(fields, pending)
        fields[PENDING] = (*pending[:TEXT], None, False)
        return found
    return pending[2][name]


def _whole(fields: dict[str, Any], pending: Any) -> tuple[dict[str, Any], set[str]]:
    there = {**fields, "properties": _properties(fields, pending)}
    del there[PENDING]
    given = set(there)
    if pending[3] is None:
        given.remove("properties")
    return {**pending[2], **there}, given
