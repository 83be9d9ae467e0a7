"""The log of actions of operators, as the page shows it: the queue ``system$;actions``."""

from __future__ import annotations

import contextlib
import json
from datetime import datetime
from typing import Any, NamedTuple

from mqredis.asyncio import QueueManager
from mqredis.errors import MessageNotFound, QueueNotFound
from mqredis.keys import ACTIONS
from mqredis.models import Access, Message, Seek


class Entry(NamedTuple):
    """What is known about one action."""

    at: datetime
    operator: str
    action: str
    queue: str
    #: "started", "done" or "failed"
    state: str
    #: Messages that it has changed; None: it does not act on messages.
    changed: int | None
    #: What came of it, else its arguments.
    text: str


async def latest(manager: QueueManager, most: int) -> list[Entry]:
    """The newest entries, newest first; of an action that other calls carry out (``Operator.begin``) the last one."""
    found: list[Entry] = []
    seen: set[object] = set()
    with contextlib.suppress(QueueNotFound, MessageNotFound):
        await manager.queue_info(ACTIONS)  # opening a subqueue would create it
        async with await manager.open(ACTIONS, Access.PEEK) as queue:
            message = await queue.peek_by_lookup_id(0, seek=Seek.LAST)
            while len(found) < most:
                call = message.properties.get("call")
                if call is None or call not in seen:
                    found.append(_entry(message))
                    seen.add(call)
                message = await queue.peek_by_lookup_id(message.lookup_id, seek=Seek.PREVIOUS)
    return found


def _entry(message: Message) -> Entry:
    told = message.properties
    details: dict[str, Any] = json.loads(message.body)
    failed = "error" in details
    outcome = details.get("error") or details.get("result")
    return Entry(
        at=message.arrived_at,
        operator=str(told.get("operator", "")),
        action=message.label,
        queue=str(told.get("queue", "")),
        state="failed" if failed else "done" if told.get("finished") else "started",
        changed=None if "call" in told else int(str(told.get("changed", 0))),
        text=str(outcome) if outcome else json.dumps(details, ensure_ascii=False) if details else "",
    )
