"""send.lua: MS-MQDMPR 3.1.7.1.9 Enqueue Message."""

from __future__ import annotations

from collections.abc import Sequence

from mqredis.commands.common import OK, Address, check, joined
from mqredis.steps import Arg, Call, Payload

#: Messages one call takes at most.
BATCH = 256


def send(
    queue: Address,
    messages: Sequence[tuple[bytes, bytes | None]],
    transaction: str = "",
    fence: str = "",
    topic: bool = False,
) -> Call[tuple[str, str]]:
    """Put encoded messages (:func:`mqredis.codec.encode`) into a queue, or into those that subscribed: all, or none."""
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
) -> Call[tuple[str, str]]:
    """Put messages into a queue whose priorities stand by themselves. A large body follows the text of its message."""
    args: Sequence[Arg]
    if (
        len(texts) == 1 and not transaction and not topic
    ):  # of a single message the empty arguments are left out
        args = (queue.generation, priorities, *texts)
        return Call("send", queue.call, args, _parse, True, 2)
    args = (queue.generation, transaction, fence, priorities, *texts)
    fixed = 0 if transaction else 4 if len(priorities) == 1 else 3
    return Call("publish" if topic else "send", queue.call, args, _parse, True, fixed)


def _parse(status: int, payload: Payload) -> tuple[str, str]:
    """The lookup ids, one behind the other in the order of the messages, and the fence of the transaction."""
    if status != OK:
        check(status)
    return joined(payload[0]).decode(), payload[1].decode() if len(payload) > 1 else ""
