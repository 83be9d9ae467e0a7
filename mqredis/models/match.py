"""Which message a read is to find."""

from __future__ import annotations

from typing import Any

from pydantic import Field, ValidationError

from mqredis.errors import MatchOptionsError, complaint
from mqredis.models.queue import Model
from mqredis.models.text import PLACE_REASONS, Identifier


class Match(Model):
    """Which message to get: all that is given must agree; None means any (IBM MQ match options).

    So does an empty identifier, or one of zero bytes only. Byte identifiers are compared as if filled up with zero
    bytes. Raises MatchOptionsError with IBM's reason in ``mqrc``: 2250 sequence, 2251 offset, 2247 anything else.
    """

    message_id: Identifier | None = None
    """Identifier of the message."""
    correlation_id: Identifier | None = None
    """Correlation id of the message."""
    group_id: Identifier | None = None
    """Group of the message."""
    sequence: int | None = Field(default=None, ge=1, le=999_999_999, strict=True)
    """Number of the message in its group, from 1."""
    offset: int | None = Field(default=None, ge=0, le=999_999_999, strict=True)
    """Offset of the segment in its message, from 0."""
    token: str | None = None
    """Token of one message on its queue (``Message.token``)."""

    def __init__(self, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            first = error.errors()[0]
            where = str(first["loc"][0]) if first["loc"] else ""
            mqrc = PLACE_REASONS.get(where, 2247)
            text = complaint(error, type(self).model_fields)
            raise MatchOptionsError(f"match option {text}", mqrc=mqrc) from None
