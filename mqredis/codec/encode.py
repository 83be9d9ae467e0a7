"""Encodes messages as arguments of scripts.

``operations.send``, ``schedules`` and ``actions`` use it through ``mqredis.codec``, and so do ``spark.rows`` and
``spark.pipelines.migrate``. All of them but the first take off the digit of the priority, and ``rows`` the correlation
id at the end, by their places. ``models.outgoing`` makes the record itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from mqredis.models.outgoing import Outgoing


def encode(message: Outgoing, transaction: str = "") -> tuple[bytes, bytes | None]:
    """Encode one message for ``send.lua``: a digit for its priority and its record, and a large body separately.

    Raises InvalidArgument for a lone surrogate.
    """
    return message._record(transaction)


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
        line, body = message._record(transaction)
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
