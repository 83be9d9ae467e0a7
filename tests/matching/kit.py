"""Messages as the cases of this folder write them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import mqredis
from mqredis import Grouping, Outgoing

LOGICAL = Grouping.LOGICAL_ORDER
ALL = Grouping.ALL_MESSAGES_AVAILABLE
COMPLETE = Grouping.COMPLETE_MESSAGE
SEGMENTS = Grouping.ALL_SEGMENTS_AVAILABLE


def bodies(messages: Iterable[Any]) -> list[str]:
    return [message.body.decode() for message in messages]


def drain(queue: Any, **wanted: Any) -> list[str]:
    """Receive until the queue is empty; return the bodies."""
    found: list[str] = []
    while True:
        try:
            found.append(queue.receive(0, **wanted).body.decode())
        except mqredis.IoTimeout:
            return found


def in_group(text: str) -> Outgoing:
    """``Y2/3``: group Y, sequence 2 of 3; without ``/n`` the message is not marked as the last."""
    name, _, size = text.partition("/")
    group, sequence = name[0].lower(), int(name[1:])
    return Outgoing(
        body=name.encode(), group_id=group, sequence=sequence, last_in_group=str(sequence) == size
    )


def put(queue: Any, *items: str, **how: Any) -> None:
    """Send ``A`` plain, ``A:c1`` with a correlation id, ``Y2/3`` in a group."""
    for item in items:
        if item[1:2].isdigit():
            queue.send(in_group(item), **how)
        else:
            body, _, correlation = item.partition(":")
            queue.send(body.encode(), correlation_id=correlation or None, **how)
