"""send.lua: MS-MQDMPR 3.1.7.1.9 Enqueue Message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mqredis.commands.common import DIGITS, ID, OK, Address, check, joined
from mqredis.steps import Arg, Call, Payload

#: Messages one call takes at most.
BATCH = 256


@dataclass(slots=True)
class Accepted:
    """Ids of the messages, one behind the other in the order given, and the fence of the transaction."""

    ids: str
    fence: str

    @property
    def lookup_ids(self) -> list[str]:
        """The ids one by one."""
        return [self.ids[at : at + ID] for at in range(0, len(self.ids), ID)]


def send(
    queue: Address,
    messages: Sequence[tuple[bytes, bytes | None]],
    transaction: str = "",
    fence: str = "",
    topic: bool = False,
) -> Call[Accepted]:
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
) -> Call[Accepted]:
    """The same of messages whose priorities stand by themselves; a large body follows the text of its message."""
    args: Sequence[Arg]
    if len(texts) == 1 and not transaction and not topic:  # as most: what is left empty is left out
        args = (queue.generation, priorities, *texts)
        return Call("send", queue.call, args, _parse, True, 2)
    args = (queue.generation, transaction, fence, priorities, *texts)
    kept = 0 if transaction else 4 if len(priorities) == 1 else 3
    return Call("publish" if topic else "send", queue.call, args, _parse, True, kept)


def send_plain(queue: Address, priority: bytes, text: bytes) -> Call[Accepted]:
    """The same of one message, in a queue that asks for nothing; else it is answered KEYS_CHANGED without names."""
    args = (queue.generation, priority, text)
    return Call("send_plain", queue.manager.plain(queue.path), args, _parse, True, 2)


def alone(payload: Payload) -> tuple[str, str] | None:
    """The id of one message and the fence of the transaction; None: it is something else."""
    try:
        lookup_id = payload[0]
        if len(lookup_id) == ID and not lookup_id.strip(DIGITS) and len(payload) < 3:
            return lookup_id.decode(), payload[1].decode() if len(payload) == 2 else ""
    except (AttributeError, LookupError, TypeError, ValueError):
        pass
    return None


def _parse(status: int, payload: Payload) -> Accepted:
    if status != OK:
        check(status)
    return Accepted(joined(payload[0]).decode(), payload[1].decode() if len(payload) > 1 else "")
