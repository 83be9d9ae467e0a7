"""Peek (MS-MQDMPR 3.1.7.1.15) and the pages of a browse."""

from __future__ import annotations

from mqredis.commands import read
from mqredis.commands.read import Found, Waiter
from mqredis.errors import TransactionUsage
from mqredis.models import Match, Message
from mqredis.operations.context import Handle, UnitOfWork
from mqredis.operations.matching import Selection, text_of
from mqredis.operations.reach import reach
from mqredis.operations.wait import until_found
from mqredis.steps import Call, Operation

#: Messages a browse fetches at once.
PAGE = 64


def peek(
    handle: Handle,
    timeout: float | None,
    match: Match | None = None,
    selector: Selection = None,
    unit: UnitOfWork | None = None,
) -> Operation[Message]:
    """Show the first message, waiting for it."""
    handle.need("peek")
    if unit is not None:
        raise TransactionUsage("a peek takes nothing, so it cannot be part of a transaction")
    wanted = text_of(handle, match, selector, timeout)

    def look(waiter: Waiter | None, place: str = "") -> Call[Found]:
        return read.peek(handle.address, cursor="A" + place if place else "", waiter=waiter, match=wanted)

    found = yield from until_found(handle, look, "P", timeout, match=wanted)
    return handle.context.messages(handle.path, found.messages)[0]


def page(
    handle: Handle,
    after: int | None,
    count: int = PAGE,
    match: Match | None = None,
    selector: Selection = None,
) -> Operation[list[Message]]:
    """The next available messages behind a lookup id, in delivery order; none at the end."""
    handle.need("peek")
    wanted = text_of(handle, match, selector, 0)
    place = "" if after is None else f"{after:016x}"
    while True:
        cursor = "A" + place if place else ""
        call = read.peek(handle.address, count, cursor=cursor, step="after", match=wanted)
        found = yield from reach(handle.address, call)
        if found.messages or not found.place:
            return handle.context.messages(handle.path, found.messages)
        place = found.place
