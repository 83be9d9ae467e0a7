"""The log of actions of operators: the queue ``system$;actions``.

``console.pages`` has the route. The page is not live; ``before`` in the address is a place of the broker.

operations/actions.py and lua/admin/operator.lua write the entries: the properties "operator", "queue", "changed",
"finished" and "call", and a body of JSON. ``mqredis actions`` reads them by itself (``cli.operator``).
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, NamedTuple

from starlette.responses import Response

from mqredis.asyncio import QueueManager
from mqredis.console.sentences import messages_of, of_other_calls, sentence
from mqredis.console.visit import Visit
from mqredis.errors import QueueNotFound
from mqredis.keys import ACTIONS
from mqredis.models import Message

# Entries on the page, and those that it reads at most.
ROWS, READ = 50, 400


class Entry(NamedTuple):
    """What is known about one action."""

    at: datetime
    queue: str
    # "started", "done" or "failed": also a class of static/console.css
    state: str
    # Who did what, to how many messages.
    text: str
    # Lookup ids of messages that it names.
    messages: list[int]


class Latest(NamedTuple):
    """A page of the log, newest first."""

    entries: list[Entry]
    # Where the page with older entries begins; None: there are none.
    older: str | None


async def actions(visit: Visit) -> Response:
    """The latest actions of operators, newest first: in this console, by the command line and in programs."""
    before = visit.query.get("before") or None
    found = await latest(await visit.manager(), ROWS, before)
    older = found.older and visit.here(before=found.older)
    return visit.page("actions.html", entries=found.entries, older=older, first=before is None, queue=ACTIONS)


async def latest(manager: QueueManager, most: int, before: str | None = None) -> Latest:
    """The newest entries, or those behind ``before``, which is ``older`` of another page. Raises InvalidArgument.

    An action that other calls carried out (``Operator.begin``) has two entries: the last of them is shown, and on the
    next page also the first, if it stands there.
    """
    found: list[Entry] = []
    seen: set[object] = set()
    read = 0
    while len(found) < most and read < READ:
        limit = min(most - len(found), READ - read)
        try:
            page = await manager.messages(ACTIONS, after=before, limit=limit, reverse=True)
        except QueueNotFound:  # nothing was done yet
            return Latest(found, None)
        for stored in page:
            call = stored.message.properties.get("call")
            if call is None or call not in seen:
                found.append(_entry(stored.message))
            seen.add(call)
        read += limit
        before = page.next
        if before is None:
            break
    return Latest(found, before)


def _entry(message: Message) -> Entry:
    about = message.properties
    details: dict[str, Any] = json.loads(message.body)
    name, queue = str(about.get("operator", "")), str(about.get("queue", ""))
    changed, finished = int(str(about.get("changed", 0))), bool(about.get("finished"))
    if "call" in about:
        text = of_other_calls(name, message.label, queue, details)
    else:
        text = sentence(name, message.label, queue, changed, finished, details)
    return Entry(
        at=message.arrived_at,
        queue=queue,
        state="failed" if "error" in details else "done" if finished else "started",
        text=text,
        messages=messages_of(details),
    )
