"""Pages of the messages of a queue, in delivery order, from a place that stays where it is while the queue moves."""

from __future__ import annotations

from typing import NamedTuple

from mqredis.asyncio import Queue
from mqredis.commands import read
from mqredis.models import Match, Message
from mqredis.operations.context import Handle
from mqredis.operations.matching import text_of
from mqredis.operations.queue_call import QueueCall
from mqredis.steps import Steps, procedure

#: Calls that one page may take. Each call looks at a bounded number of messages, so a page that finds little ends, too.
CALLS = 50


class Page(NamedTuple):
    """Messages that were found, and where the search goes on."""

    messages: list[Message]
    #: Lookup id behind which the next page begins; None: the queue has no more messages.
    place: int | None
    #: The search has used up its calls before the page was full.
    unfinished: bool


async def page(
    queue: Queue, after: int | None, count: int, match: Match | None = None, selector: str | None = None
) -> Page:
    """Up to ``count`` available messages that agree, behind a lookup id. Raises InvalidArgument and its children."""
    return await queue.manager.run(_page(queue.handle, after, count, match, selector))


async def count(
    queue: Queue, most: int, match: Match | None = None, selector: str | None = None
) -> tuple[int, bool]:
    """How many available messages agree, and whether there may be more than were counted (``most``)."""
    found, place = 0, None
    while found < most:
        part = await page(queue, place, 256, match, selector)
        found += len(part.messages)
        place = part.place
        if place is None or part.unfinished:
            return found, place is not None
    return found, True


@procedure
def _page(
    handle: Handle, after: int | None, count: int, match: Match | None, selector: str | None
) -> Steps[Page]:
    handle.need("peek")
    wanted = text_of(handle, match, selector, 0)
    place = "" if after is None else f"{after:016x}"
    messages: list[Message] = []
    for _ in range(CALLS):
        more = count - len(messages)
        call = read.peek(
            handle.address, min(more, 256), cursor=read.behind(place), step="after", match=wanted
        )
        found = yield from QueueCall(handle.address, call)
        messages += handle.context.messages(handle.path, found.messages)
        if found.messages:
            place = f"{messages[-1].lookup_id:016x}"
        elif found.place:
            place = found.place
        else:
            return Page(messages, None, False)
        if len(messages) >= count:
            return Page(messages, int(place, 16), False)
    return Page(messages, int(place, 16), True)
