"""A multiple-element name: each destination in turn, the first refusal ends it (3.1.7.1.5, 3.1.7.1.27)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Self

from mqredis.errors import InvalidArgument
from mqredis.models import Journal, Sent

if TYPE_CHECKING:
    from tests.model.handles import ModelQueue


class ModelSeveral:
    """A handle for sending to several queues."""

    def __init__(self, elements: list[ModelQueue]) -> None:
        self.elements = elements

    def send(self, body: Any = b"", *, transaction: Any = None, **fields: Any) -> Sent:
        """Send to each queue; messages sent before a refusal stay, unless a transaction is aborted."""
        if transaction is not None and fields.get("journal", Journal.NONE) & Journal.DEAD_LETTER:
            raise InvalidArgument()
        copies = [element.send(body, transaction=transaction, **fields) for element in self.elements]
        return copies[0].replace(copies=tuple(copies))

    def send_many(self, items: Iterable[Any], *, transaction: Any = None) -> list[Sent]:
        """Send the messages one by one."""
        return [self.send(item, transaction=transaction) for item in items]

    def close(self) -> None:
        """Close every element."""
        for element in self.elements:
            element.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
