"""send.lua: MS-MQDMPR 3.1.7.1.9 Enqueue Message.

``mqredis.operations.send`` calls it. The asyncio driver joins up to ``BATCH`` sends (``drivers.coalescing``), the
command line (``cli.messages``, ``cli.transfer``) sends batches of so many, and ``durability`` and transactions find
arguments by their places (``commands.arguments``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mqredis.commands.address import Address
from mqredis.commands.replies import OK, check
from mqredis.models.lookup_ids import checked_ids
from mqredis.steps import Arg, Call, Payload

# Messages one call takes at most.
BATCH = 256


class Accepted(NamedTuple):
    """The reply of a send."""

    ids: str
    """The lookup ids, 16 digits each, in the order of the messages."""
    fence: str
    """Fence of the transaction; "" outside of a transaction."""


def send(
    queue: Address,
    messages: Sequence[tuple[bytes, bytes | None]],
    transaction: str = "",
    fence: str = "",
    topic: bool = False,
) -> Call[Accepted]:
    """Put encoded messages (:func:`mqredis.codec.encode`) into a queue, or into all subscribers: all of them, or
    none."""
    texts: list[bytes] = []
    for line, large in messages:
        texts.append(line[1:])
        if large is not None:
            texts.append(large)
    priorities = b"".join([line[:1] for line, _ in messages])
    return send_texts(queue, priorities, texts, transaction, fence, topic)


def send_texts(
    queue: Address,
    priorities: bytes,
    texts: Sequence[bytes],
    transaction: str = "",
    fence: str = "",
    topic: bool = False,
) -> Call[Accepted]:
    """Put messages into a queue, with all priorities in one argument. A large body follows the text of its message."""
    args: Sequence[Arg] = (queue.generation, transaction, fence, priorities, *texts)
    return Call("publish" if topic else "send", queue.call, args, _parse)


def _parse(status: int, payload: Payload) -> Accepted:
    if status != OK:
        check(status)
    return Accepted(checked_ids(payload[0]).decode(), payload[1].decode() if len(payload) > 1 else "")
