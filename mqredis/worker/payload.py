"""Converts messages to arguments of handlers, by the annotation of the handler's first parameter.

``consumer`` chooses the conversion when a handler is registered.

Only the annotation of a registered function chooses what a body becomes: nothing in a message does. docs/worker.md
lists the annotations. An error of a conversion other than Reject counts as a failed attempt (``Attempts.accept``).
"""

from __future__ import annotations

import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter, ValidationError

from mqredis.errors import complaint
from mqredis.models import Message
from mqredis.worker.outcomes import NotValid


@dataclass(frozen=True, slots=True)
class Payload:
    """How messages become arguments of a handler."""

    convert: Callable[[Message], Any]
    """The argument for a message. Raises Reject with the reason if it is not valid."""
    many: bool = False
    """Does the handler take a list of them?"""


def payload_of(handler: Callable[..., Any], argument: str) -> Payload:
    """Message (or no annotation): as it is; bytes and str: its body; anything else: its body as JSON, validated."""
    annotation = typing.get_type_hints(handler).get(argument, Message)
    if typing.get_origin(annotation) is list:
        (inner,) = typing.get_args(annotation)
        return Payload(_converter(inner), many=True)
    return Payload(_converter(annotation))


def _converter(annotation: Any) -> Callable[[Message], Any]:
    if annotation in (Message, Any):
        return lambda message: message
    if annotation is bytes:
        return lambda message: message.body
    if annotation is str:
        return _text
    adapter: TypeAdapter[Any] = TypeAdapter(annotation)

    def convert(message: Message) -> Any:
        try:
            return adapter.validate_json(message.body)
        except ValidationError as error:
            kind = error.errors(include_url=False, include_input=False)[0]["type"]
            raise NotValid(complaint(error), kind) from None

    return convert


def _text(message: Message) -> str:
    try:
        return message.text
    except UnicodeDecodeError:
        raise NotValid("the body is not UTF-8", "not UTF-8") from None
