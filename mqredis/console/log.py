"""The log of actions of operators, as the page shows it: the queue ``system$;actions``."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, NamedTuple

from mqredis.asyncio import QueueManager
from mqredis.console.sentences import messages_of, sentence
from mqredis.errors import MessageNotFound, QueueNotFound
from mqredis.keys import ACTIONS
from mqredis.models import Access, Message, Seek

# Entries that one page reads at most. Each takes a call of the broker.
READ = 400


class Entry(NamedTuple):
    """What is known about one action."""

    at: datetime
    queue: str
    # "started", "done" or "failed"
    state: str
    # Who did what, to how many messages.
    text: str
    # Lookup ids of messages that it names.
    messages: list[int]


class Latest(NamedTuple):
    """A page of the log, newest first."""

    entries: list[Entry]
    # Lookup id of the last entry that was read, from which on the page with older ones goes; None: there are none.
    older: int | None


async def latest(manager: QueueManager, most: int, before: int | None = None) -> Latest:
    """The newest entries, or those that are older than the one with the lookup id ``before``.

    An action that other calls carried out (``Operator.begin``) has two entries: the last of them is shown.
    """
    found: list[Entry] = []
    seen: set[object] = set()
    read = 0
    try:
        await manager.queue_info(ACTIONS)  # opening a subqueue would create it
        async with await manager.open(ACTIONS, Access.PEEK) as queue:
            while len(found) < most and read < READ:
                seek = Seek.LAST if before is None else Seek.PREVIOUS
                message = await queue.peek_by_lookup_id(before or 0, seek=seek)
                before, read = message.lookup_id, read + 1
                call = message.properties.get("call")
                if call is None or call not in seen:
                    found.append(_entry(message))
                seen.add(call)
    except (QueueNotFound, MessageNotFound):
        return Latest(found, None)
    return Latest(found, before)


def _entry(message: Message) -> Entry:
    told = message.properties
    details: dict[str, Any] = json.loads(message.body)
    name, queue, finished = (
        str(told.get("operator", "")),
        str(told.get("queue", "")),
        bool(told.get("finished")),
    )
    changed = int(str(told.get("changed", 0)))
    return Entry(
        at=message.arrived_at,
        queue=queue,
        state="failed" if "error" in details else "done" if finished else "started",
        text=sentence(name, message.label, queue, changed, finished, details),
        messages=messages_of(details),
    )
