"""The log of actions: a queue that says who did what, when, and what came of it.

The entry that begins an action is sent with the token of its form as deduplication key. The broker accepts it once, so
an action is carried out once, however often its form is sent, and also if several processes serve the console.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from datetime import datetime
from typing import NamedTuple

from mqredis.asyncio import QueueManager
from mqredis.errors import DuplicateMessage, IoTimeout, MessageNotFound, QueueExists, QueueNotFound
from mqredis.keys import ACTIONS
from mqredis.models import Access, Match, Message, Seek

QUEUE = "console$log"
#: Seconds that an entry is kept, and that a form cannot be sent a second time.
KEPT, WINDOW = 90 * 86_400.0, 86_400.0
_TEXT = 2000


class Entry(NamedTuple):
    """What is known about one action."""

    token: str
    at: datetime
    visitor: str
    action: str
    queue: str
    #: "started", "done" or "failed"
    state: str
    text: str


async def begin(manager: QueueManager, token: str, visitor: str, action: str, queue: str, about: str) -> bool:
    """Write that an action begins; False if a form with this token was sent before."""
    try:
        await _write(manager, token, visitor, action, queue, "started", about, dedup_key=token)
    except DuplicateMessage:
        return False
    return True


async def end(
    manager: QueueManager, token: str, visitor: str, action: str, queue: str, state: str, text: str
) -> None:
    """Write how an action ended: "done" or "failed"."""
    await _write(manager, token, visitor, action, queue, state, text)


async def _write(
    manager: QueueManager,
    token: str,
    visitor: str,
    action: str,
    queue: str,
    state: str,
    text: str,
    dedup_key: str | None = None,
) -> None:
    with contextlib.suppress(QueueExists):
        await manager.create_queue(QUEUE, label="Actions of the console")
    async with await manager.open(QUEUE, Access.SEND) as log:
        await log.send(
            text[:_TEXT],
            label=action,
            correlation_id=token,
            properties={"visitor": visitor, "action": action, "queue": queue, "state": state},
            time_to_be_received=KEPT,
            dedup_key=dedup_key,
            dedup_window=WINDOW if dedup_key else 0.0,
        )


async def outcome(manager: QueueManager, token: str) -> Entry | None:
    """How the action with this token ended, or that it has begun; None if nothing is known about it."""
    found = None
    with contextlib.suppress(QueueNotFound, IoTimeout):
        async with await manager.open(QUEUE, Access.PEEK) as log:
            async for message in log.browse(match=Match(correlation_id=token)):
                found = _entry(message)
    return found


async def latest(manager: QueueManager, most: int) -> list[Entry]:
    """The newest entries, newest first, one for each action."""
    found: dict[str, Entry] = {}
    async for message in _backwards(manager, QUEUE):
        entry = _entry(message)
        found.setdefault(entry.token, entry)
        if len(found) == most:
            break
    return list(found.values())


async def of_operators(manager: QueueManager, most: int) -> list[Message]:
    """The newest entries of ``system$;actions``, which the broker writes for actions of operators; newest first."""
    found: list[Message] = []
    async for message in _backwards(manager, ACTIONS):
        found.append(message)
        if len(found) == most:
            break
    return found


async def _backwards(manager: QueueManager, name: str) -> AsyncIterator[Message]:
    """The messages of a queue from its end; none if there is no such queue."""
    with contextlib.suppress(QueueNotFound, MessageNotFound):
        await manager.queue_info(name)  # opening a subqueue would create it
        async with await manager.open(name, Access.PEEK) as queue:
            message = await queue.peek_by_lookup_id(0, seek=Seek.LAST)
            while True:
                yield message
                message = await queue.peek_by_lookup_id(message.lookup_id, seek=Seek.PREVIOUS)


def _entry(message: Message) -> Entry:
    visitor, action, queue, state = (
        str(message.properties.get(name, "")) for name in ("visitor", "action", "queue", "state")
    )
    text = message.body.decode("utf-8", "replace")
    return Entry(str(message.correlation_id), message.arrived_at, visitor, action, queue, state, text)
