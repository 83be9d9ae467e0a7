"""Dead letters and poison messages, grouped by why they failed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from starlette.responses import Response

from mqredis.asyncio import QueueManager
from mqredis.console.visit import Visit
from mqredis.errors import QueueNotFound
from mqredis.keys import DEAD_LETTER, TRANSACTIONAL_DEAD_LETTER
from mqredis.models import Message

#: The subqueue of messages that could not be handled.
POISON = ";poison"
#: Messages of one queue that are grouped; of more the first are.
LOOKED_AT = 1000
#: Groups shown of one queue.
GROUPS = 20


@dataclass
class Group:
    """Messages that failed for the same reason."""

    reason: str
    error: str
    origin: str
    first: datetime
    last: datetime
    count: int = 0

    @property
    def selector(self) -> str:
        """A selector that chooses the messages of the group."""
        terms = [("$reason", self.reason), ("failure_error", self.error), ("$original_queue", self.origin)]
        return " AND ".join(f"{name} = {_quoted(text)}" for name, text in terms if text)


@dataclass
class Failed:
    """A queue of failed messages."""

    name: str
    messages: int
    groups: list[Group]
    #: Messages that were looked at for the groups.
    looked_at: int


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


async def failures(visit: Visit) -> Response:
    """Every queue of failed messages that has some."""
    state = await visit.console.poller(visit.name).state(fresh=True)
    manager = await visit.manager()
    queues = {row.depth.name + POISON: row.depth.poison for row in state.rows}
    for name in (DEAD_LETTER, TRANSACTIONAL_DEAD_LETTER):
        if name in state.queues:
            queues[name] = state.queues[name].depth.messages
    wanted = visit.query.get("queue") or None
    found = [
        await _grouped(manager, name, messages)
        for name, messages in queues.items()
        if messages and wanted in (None, name)
    ]
    return visit.page("failures.html", queues=found, most=LOOKED_AT)


async def _grouped(manager: QueueManager, name: str, total: int) -> Failed:
    groups: dict[tuple[str, str, str], Group] = {}
    looked_at, place = 0, None
    try:
        while looked_at < LOOKED_AT:
            page = await manager.messages(name, after=place, limit=200)
            for stored in page:
                _add(groups, stored.message)
            looked_at += len(page)
            place = page.next
            if place is None:
                break
    except QueueNotFound:  # deleted meanwhile
        pass
    found = sorted(groups.values(), key=lambda group: -group.count)
    return Failed(name, total, found[:GROUPS], looked_at)


def _add(groups: dict[tuple[str, str, str], Group], message: Message) -> None:
    reason = message.reason or ""
    error = str(message.properties.get("failure_error", ""))
    origin = message.original_queue or ""
    at = message.arrived_at
    group = groups.setdefault((reason, error, origin), Group(reason, error, origin, at, at))
    group.count += 1
    group.first, group.last = min(group.first, at), max(group.last, at)
