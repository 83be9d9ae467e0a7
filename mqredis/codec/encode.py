"""Encodes messages as arguments of scripts.

``operations.send``, ``schedules`` and ``actions`` use it through ``mqredis.codec``, and so do ``spark.rows`` and
``spark.pipelines.migrate``. All of them but the first take off the digit of the priority, and ``rows`` the correlation
id at the end, by their places. The form of a record is described in ``lua/core/record.lua``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from mqredis.errors import InvalidArgument
from mqredis.models import record_parts
from mqredis.models.fields import EXPRESS, PRIORITY, SPECIAL, write_fields
from mqredis.models.outgoing import Outgoing
from mqredis.models.text import escape

# Larger bodies, in bytes, are stored outside of the record, so that scans never read them.
INLINE_BODY_BYTES = 4096
_FLAG_DIGITS = record_parts.FLAG_DIGITS.decode()
_SPECIAL, _NAMED, _LARGE = record_parts.SPECIAL, record_parts.SPECIAL | record_parts.NAMED, record_parts.LARGE


def encode(message: Outgoing, transaction: str = "") -> tuple[bytes, bytes | None]:
    """Encode one message for ``send.lua``: a digit for its priority and its record, and a large body separately.

    ``transaction``: id of the transaction that it is sent in. Raises InvalidArgument for a lone surrogate.
    """
    text, correlation, about, body = message._text, message._correlation, message._about, message._body
    if text is None:
        text, correlation, about = write_fields(message._given)
    if transaction:
        if about & EXPRESS:  # in a transaction every message is recoverable (PROPID_M_DELIVERY)
            text = text.replace("\x03d0", "")
        text = f"{text}\x03T{transaction if transaction.isprintable() else escape(transaction)}"
    priority = message._given["priority"] if about & PRIORITY else 3
    # The correlation id comes last, so that a script finds its end without a search, if it is a text and the
    # message has no special field. A correlation id of bytes counts as a special field.
    if about & SPECIAL or correlation.startswith("\x03cx"):
        flag = _SPECIAL
    elif correlation:
        flag = _NAMED
    else:
        flag = 0
    try:
        if len(body) <= INLINE_BODY_BYTES:
            return f"{priority}{_FLAG_DIGITS[flag]}{text}{correlation}\0".encode() + body, None
        return f"{priority}{_FLAG_DIGITS[flag | _LARGE]}{text}{correlation}\0".encode(), body
    except UnicodeEncodeError:
        raise InvalidArgument("a property, label or identifier holds a lone surrogate") from None


@dataclass(slots=True)
class Batch:
    """Many messages, encoded as arguments of ``send.lua``."""

    priorities: list[bytes] = field(default_factory=list)
    """The priority of each message, as a digit."""
    texts: list[bytes] = field(default_factory=list)
    """The record of each message, without a large body."""
    large: dict[int, bytes] = field(default_factory=dict)
    """Large bodies, by the index of their message."""

    def size(self, at: int) -> int:
        """How many bytes a message takes."""
        return 1 + len(self.texts[at]) + len(self.large.get(at, b""))

    def sizes(self) -> list[int]:
        """How many bytes each message takes, without the digit of its priority."""
        sizes = [*map(len, self.texts)]
        for at, body in self.large.items():
            sizes[at] += len(body)
        return sizes

    def part(self, start: int, stop: int) -> tuple[bytes, list[bytes]]:
        """The priorities of the messages from ``start`` to ``stop``, and their texts, each with its large body."""
        texts = self.texts[start:stop]
        for at in sorted(self.large, reverse=True):
            if start <= at < stop:
                texts.insert(at - start + 1, self.large[at])
        return b"".join(self.priorities[start:stop]), texts


def encode_each(messages: Iterable[Outgoing], transaction: str, max_bytes: int) -> Batch:
    """Encode messages until one takes more than ``max_bytes``; include that one and stop."""
    batch = Batch()
    texts, priorities, large = batch.texts, batch.priorities, batch.large
    for message in messages:
        line, body = encode(message, transaction)
        if body is not None:
            large[len(texts)] = body
            size = len(line) + len(body)
        else:
            size = len(line)
        texts.append(line[1:])
        priorities.append(line[:1])
        if size > max_bytes:
            break
    return batch
