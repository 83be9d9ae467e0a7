"""Peek (MS-MQDMPR 3.1.7.1.15) and the pages of a browse.

``Queue`` makes them: ``Queue.browse`` reads one ``page`` after the other, as ``redrive`` does. ``cursor`` and
``browser`` read with ``peeking``.
"""

from __future__ import annotations

from collections.abc import Callable

from mqredis.commands import read
from mqredis.commands.read import Found
from mqredis.commands.waiting import PEEKS, Waiter
from mqredis.errors import TransactionUsage
from mqredis.models import Match, Message
from mqredis.models.lookup_ids import format_id
from mqredis.operations.matching import Selection, filter_text
from mqredis.operations.open_queue import Handle
from mqredis.operations.queue_call import QueueCall
from mqredis.operations.unit_of_work import UnitOfWork
from mqredis.operations.wait import Fetch, Reader, until_found
from mqredis.steps import Call, Steps, procedure

# Messages a browse fetches at once.
PAGE = 64


def peeking(
    handle: Handle,
    match: bytes = b"",
    step: str = "current",
    *,
    cursor_at: Callable[[str], str] = read.behind,
    marks: bool = False,
) -> Fetch:
    """Return what makes the call of each fetch of a peek (``wait``).

    ``match``: the filter. ``step``: ``current`` or ``next``, seen from the cursor; ``after``: without a cursor, the
    first message behind the id that ``cursor_at`` is given. ``cursor_at``: returns the cursor for the id behind which
    a search goes on, "" at first. ``marks``: the peek sets browse marks.
    """

    def fetch(waiter: Waiter | None, place: str) -> Call[Found]:
        return read.peek(
            handle.address,
            cursor=cursor_at(place),
            step="after" if place else step,
            waiter=waiter,
            match=match,
            marks=marks,
        )

    return fetch


@procedure
def peek(
    handle: Handle,
    timeout: float | None,
    match: Match | None = None,
    selector: Selection = None,
    unit: UnitOfWork | None = None,
) -> Steps[Message]:
    """Peek at the first message; wait up to ``timeout`` seconds for one (None: for ever).

    Raises IoTimeout, OperationCancelled; TransactionUsage with a ``unit``.
    """
    handle.need("peek")
    if unit is not None:
        raise TransactionUsage(
            f"a peek of queue {handle.path!r} takes nothing, so it cannot be part of a transaction: leave "
            "transaction= out"
        )
    wanted = filter_text(handle, match, selector, timeout)
    reader = Reader(handle, peeking(handle, wanted), wanted)
    found = yield from until_found(reader, PEEKS, timeout)
    return handle.context.messages(handle.path, found.messages)[0]


@procedure
def page(
    handle: Handle,
    after: int | None,
    count: int = PAGE,
    match: Match | None = None,
    selector: Selection = None,
) -> Steps[list[Message]]:
    """The next available messages after a lookup id, in delivery order; none at the end."""
    handle.need("peek")
    wanted = filter_text(handle, match, selector, 0)
    place = "" if after is None else format_id(after)
    while True:
        # A page of one would be a plain peek (lua/peek.lua), which also shows locked messages that peeks may see.
        call = read.peek(handle.address, max(count, 2), cursor=read.behind(place), step="after", match=wanted)
        found = yield from QueueCall(handle.address, call)
        if found.messages or not found.place:
            return handle.context.messages(handle.path, found.messages)[:count]
        place = found.place
