"""Match options: which message a read takes.

Applications, the command line, the console and Django tasks pass a ``Match`` to reads and to calls of operators;
``operations.matching`` turns it into a filter. A new option is a field here and in ``commands.filters.Filter._match``,
and a letter in lua/matching/filter.lua. Earlier releases do not know that letter, and read filters of waiting readers,
so it needs a new schema number. An identifier also has a letter in lua/matching/index.lua, and a name in
``cli.values.IDS`` (options of reads and sends) and ``_IDS`` of ``console.pages.messages``.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from mqredis.errors import MatchOptionsError
from mqredis.models.fields import as_identifier
from mqredis.models.queue import Model
from mqredis.models.text import PLACE_REASONS, Identifier
from mqredis.models.validation import translated


def _identifier(value: object) -> Identifier | None:
    """Without this, pydantic makes text of a bytearray, and text equals no bytes."""
    return None if value is None else as_identifier(value)


_OptionalIdentifier = Annotated[Identifier | None, BeforeValidator(_identifier)]


class Match(Model):
    """Which message to get: all that is given must agree; None means any (IBM MQ match options).

    So does an empty identifier, or one of zero bytes only. Byte identifiers are compared as if filled up with zero
    bytes. Raises MatchOptionsError with IBM's reason in ``mqrc``: 2250 sequence, 2251 offset, 2247 anything else.
    """

    message_id: _OptionalIdentifier = None
    """Identifier of the message."""
    correlation_id: _OptionalIdentifier = None
    """Correlation id of the message."""
    group_id: _OptionalIdentifier = None
    """Group of the message."""
    sequence: int | None = Field(default=None, ge=1, le=999_999_999, strict=True)
    """Number of the message in its group, from 1."""
    offset: int | None = Field(default=None, ge=0, le=999_999_999, strict=True)
    """Offset of the segment in its message, from 0."""
    token: str | None = None
    """Token of one message on its queue (``Message.token``)."""

    def __init__(self, **fields: Any) -> None:
        with translated(type(self), "match option", _refused):
            super().__init__(**fields)


def _refused(text: str, field: str) -> MatchOptionsError:
    return MatchOptionsError(text, mqrc=PLACE_REASONS.get(field, 2247))
