"""The columns of a list of messages, which a visitor may choose: fields of messages, and properties.

``pages.messages`` uses it. A new field of ``models.Message`` is a column by itself; names of columns are in bookmarks,
and docs/console.md shows some. tests/console/test_columns.py shows every field. Values of some fields have a look of
their own: templates/messages.html.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from mqredis.errors import InvalidArgument
from mqredis.models import Message, StoredMessage
from mqredis.operations.failed import POISON, SYSTEM_DEAD_LETTERS
from mqredis.operations.giveback import REPORT

# In front of the name of a property.
PROPERTY = "prop:"
# Columns on one page.
MOST = 20

# Fields of messages that can be columns. "error" and "size" are no fields, but what the console makes of them.
NAMES = (
    *(name for name in Message.FIELDS if name not in ("lookup_id", "queue", "properties")),
    "error",
    "size",
)
DEFAULT = ("priority", "arrived_at", "label", "correlation_id", "delivery_count", "size", "body")
FAILED = ("arrived_at", "error", "label", "correlation_id", "attempts", "size", "body")
DEAD = ("arrived_at", "error", "original_queue", "label", "correlation_id", "size", "body")

_TITLES = {
    "arrived_at": "Arrived",
    "sent_at": "Sent",
    "expires_at": "Expires",
    "delivery_count": "Deliveries",
}


class Column(NamedTuple):
    """One column: the name of a field, or of a property."""

    name: str
    is_property: bool = False

    @property
    def title(self) -> str:
        """What stands above it."""
        if self.is_property:
            return self.name
        return _TITLES.get(self.name) or self.name.replace("_", " ").capitalize()

    def number(self, found: Sequence[StoredMessage]) -> bool:
        """Whether it has numbers in these messages, whose digits stand below each other."""
        if not self.is_property:
            return self.name == "size" or type(Message.FIELDS.get(self.name)) is int  # no flag, and no choice
        values = [value for stored in found if (value := self.value(stored)) is not None]
        return bool(values) and all(type(value) in (int, float) for value in values)

    def value(self, stored: StoredMessage) -> Any:
        """What a message has there; None: nothing."""
        message = stored.message
        if self.is_property:
            return message.properties.get(self.name)
        if self.name == "size":
            return stored.bytes
        if self.name == "error":
            return message.properties.get(f"{REPORT}error") or message.reason
        return getattr(message, self.name)


def default(queue: str) -> tuple[str, ...]:
    """The names of the columns of a queue for which a visitor has chosen none."""
    if queue in SYSTEM_DEAD_LETTERS:
        return DEAD
    return FAILED if queue.endswith(POISON) else DEFAULT


def chosen(text: str, queue: str) -> list[Column]:
    """The columns with these names, separated by commas; without names those of the queue. Raises InvalidArgument."""
    names = [each.strip() for each in text.split(",") if each.strip()] or list(default(queue))
    if len(names) > MOST:
        raise InvalidArgument(f"columns: {len(names)} are too many; a page shows {MOST}")
    return [_column(name) for name in dict.fromkeys(names)]


def _column(name: str) -> Column:
    if name.startswith(PROPERTY) and len(name) > len(PROPERTY):
        return Column(name.removeprefix(PROPERTY), True)
    if name not in NAMES:
        raise InvalidArgument(
            f"columns: messages have no field {name!r:.60}. A property is written {PROPERTY}{name:.40}; "
            "the help below lists the fields"
        )
    return Column(name)
