"""Just enough of the Redis protocol (RESP2 and RESP3) to cut a stream of bytes into frames."""

from __future__ import annotations

import asyncio

# Commands whose answers come as separate frames, out of the order of request and reply.
SUBSCRIBERS = frozenset(
    {b"SUBSCRIBE", b"UNSUBSCRIBE", b"PSUBSCRIBE", b"PUNSUBSCRIBE", b"SSUBSCRIBE", b"SUNSUBSCRIBE"}
)
# First elements of what a subscriber is sent.
MESSAGES = frozenset({b"message", b"pmessage", b"smessage"})
PUBSUB = MESSAGES | {name.lower() for name in SUBSCRIBERS}

_BULK = (b"$", b"=", b"!")
_ITEMS = {b"*": 1, b"~": 1, b">": 1, b"%": 2, b"|": 2}


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    """Read one whole frame, nested ones included; ``IncompleteReadError`` at the end of the stream."""
    line = await reader.readuntil(b"\r\n")
    kind = line[:1]
    if kind in _BULK:
        size = int(line[1:])
        return line if size < 0 else line + await reader.readexactly(size + 2)
    if kind not in _ITEMS:
        return line
    items = max(0, int(line[1:])) * _ITEMS[kind]
    if kind == b"|":  # attributes belong to the reply behind them
        items += 1
    return line + b"".join([await read_frame(reader) for _ in range(items)])


def strings(frame: bytes, limit: int | None = None) -> tuple[bytes, ...]:
    """The first ``limit`` bulk strings of an array frame (a request; a message of a subscription).

    An inline command is split at white space; an array that holds anything else gives what comes before it.
    """
    if frame[:1] not in (b"*", b">"):
        return tuple(frame.split())
    at = frame.index(b"\r\n")
    count = int(frame[1:at])
    at += 2
    found: list[bytes] = []
    for _ in range(count if limit is None else min(count, limit)):
        if frame[at : at + 1] != b"$":
            break
        end = frame.index(b"\r\n", at)
        size = int(frame[at + 1 : end])
        found.append(frame[end + 2 : end + 2 + max(size, 0)])
        at = end + 2 + (size + 2 if size >= 0 else 0)
    return tuple(found)


def is_push(frame: bytes, subscriber: bool) -> bool:
    """Does this frame come by itself, as no answer to a request? ``subscriber``: has it subscribed?"""
    if frame[:1] == b">":
        return True
    return subscriber and frame[:1] == b"*" and bool(set(strings(frame, 1)) & PUBSUB)


def is_message(frame: bytes) -> bool:
    """Is this push a published message (or a notification), not the confirmation of a subscription?"""
    return bool(set(strings(frame, 1)) & MESSAGES)
