"""Who is cancelled in the middle of a look that locks gives back what it has locked (docs/guarantees.md).

The look was sent and nobody reads its answer. To ask what became of it also ends it: if it has not run, it never will.
"""

from __future__ import annotations

from typing import Any

from mqredis.commands import manager, read
from mqredis.commands.common import OK, text
from mqredis.errors import MqError
from mqredis.operations.context import Handle
from mqredis.operations.settle import settle
from mqredis.steps import Call, Interrupted, Operation, perform


def regain(handle: Handle, call: Call[Any]) -> Operation[None]:
    """Find out what became of ``call``, if it was under way when its caller was cancelled.

    What it has locked is given back, and the operation goes on in the slot of the call, so that it can take back what
    that has registered. What it has taken is only told by ``resolve``: its token stays. So it does where the broker
    does not answer; then the lease ends the lock.
    """
    token: str = yield Interrupted()
    if token:
        yield from regained(handle, call, token)


def regained(handle: Handle, call: Call[Any], token: str) -> Operation[None]:
    """The same of a call that had this token."""
    try:
        became = yield from perform(manager.resolve(handle.context.keys, token))
        if became.outcome == "done":
            if became.status == OK:
                if not read.locks(call) or not became.lookup_ids:
                    return
                fence = text(became.payload[0])
                held: list[read.Settlement] = [("a", fence, lookup_id) for lookup_id in became.lookup_ids]
                yield from settle(handle, held)
            if call.script == "receive" and read.settles(call.args):
                return  # whether its commits were done is for the caller to ask
        elif became.outcome != "never":
            return
    except MqError:
        return
    yield Interrupted(token)
