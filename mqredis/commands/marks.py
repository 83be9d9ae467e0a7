"""unmark.lua: removes the marks of a closed browser.

``mqredis.operations.browser`` calls it.
"""

from __future__ import annotations

from mqredis.commands.address import Address
from mqredis.commands.replies import check, number
from mqredis.status import Status
from mqredis.steps import Call, Payload


def forget(queue: Address, browser: str) -> Call[bool]:
    """Remove a few hundred marks of a browser. True if there may be more."""

    def parse(status: int, payload: Payload) -> bool:
        if status == Status.QUEUE_NOT_AVAILABLE:
            return False
        check(status)
        return number(payload[0]) > 0

    return Call("unmark", queue.call, [queue.generation, browser], parse)
