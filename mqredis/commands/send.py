"""send.lua: MS-MQDMPR 3.1.7.1.9 Enqueue Message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mqredis.commands.common import OK, Address, check, joined
from mqredis.steps import Arg, Call, Payload

#: Messages one call takes at most.
BATCH = 256


@dataclass(slots=True)
class Accepted:
    """Ids of the messages, in the order given, and the fence of the transaction."""

    lookup_ids: list[str]
    fence: str


def send(
    queue: Address,
    messages: Sequence[tuple[bytes, bytes | None]],
    transaction: str = "",
    fence: str = "",
    topic: bool = False,
) -> Call[Accepted]:
    """Put encoded messages (:func:`mqredis.codec.encode`) into a queue, or into those that subscribed: all, or none."""
    one = len(messages) == 1
    if one:
        line, large = messages[0]
        body = (line[1:],) if large is None else (line[1:], large)
        args: Sequence[Arg] = (queue.generation, transaction, fence, chr(line[0]), *body)
    else:
        args = [queue.generation, transaction, fence, b"".join([line[:1] for line, _ in messages])]
        for line, large in messages:
            args.append(line[1:])
            if large is not None:
                args.append(large)
    script = "publish" if topic else "send"
    return Call(script, queue.call, args, _parse, True, 0 if transaction else 4 if one else 3)


def _parse(status: int, payload: Payload) -> Accepted:
    if status != OK:
        check(status)
    ids = joined(payload[0]).decode()
    several = [ids] if len(ids) == 16 else [ids[n : n + 16] for n in range(0, len(ids), 16)]
    return Accepted(several, payload[1].decode())
