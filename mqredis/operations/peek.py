"""Peek (MS-MQDMPR 3.1.7.1.15) and the pages of a browse."""

from __future__ import annotations

from mqredis.commands import read
from mqredis.commands.read import Found, Waiter
from mqredis.models import Message
from mqredis.operations.context import Handle
from mqredis.operations.wait import until_found
from mqredis.steps import Call, Operation, perform

#: Messages a browse fetches at once.
PAGE = 64


def peek(handle: Handle, timeout: float | None) -> Operation[Message]:
    """Show the first message, waiting for it."""
    handle.need("peek")

    def look(waiter: Waiter | None) -> Call[Found]:
        return read.peek(handle.address, waiter=waiter)

    found = yield from until_found(handle, look, "P", timeout)
    return handle.context.messages(handle.path, found.messages)[0]


def page(handle: Handle, after: int | None, count: int = PAGE) -> Operation[list[Message]]:
    """The next available messages behind a lookup id, in delivery order; none at the end."""
    handle.need("peek")
    place = "" if after is None else f"A{after:016x}"
    found = yield from perform(read.peek(handle.address, count, cursor=place, step="after"))
    return handle.context.messages(handle.path, found.messages)
