"""Waiting readers: how a read registers, and cancel.lua and stop_waiting.lua, which remove it.

``mqredis.operations.wait`` and all reads that wait use it.
"""

from __future__ import annotations

from dataclasses import dataclass

from mqredis.commands.address import Address
from mqredis.commands.replies import check
from mqredis.steps import Call

# What a waiting reader does (lua/waiting/waiter_text.lua): it takes a message, takes it at a cursor, or peeks.
TAKES, TAKES_AT_CURSOR, PEEKS = "DCP"


@dataclass(slots=True)
class Waiter:
    """How a read wants to wait: its member in the list of waiters (waiting/waiter_text.lua), and its ticket."""

    member: str = ""
    ticket: str = ""


def cancel(queue: Address, tag: str, status: int) -> Call[None]:
    """End the wait of a reader by its tag (3.1.7.1.17)."""
    return Call("cancel", queue.call, [queue.generation, tag, str(status)], lambda code, _: check(code))


def leave(queue: Address, member: str, match: bytes = b"") -> Call[None]:
    """Give up waiting."""
    return Call("stop_waiting", queue.call, [member, match], lambda code, _: check(code))
