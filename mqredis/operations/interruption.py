"""A caller that is cancelled in the middle of a read gives back what the read has locked (docs/guarantees.md).

The call was sent and its reply is lost. Asking for its outcome also ends it: if it has not run, it never will.
"""

from __future__ import annotations

from typing import Any, TypeVar

from mqredis.commands import manager, read
from mqredis.commands.common import OK, text
from mqredis.errors import MqError
from mqredis.operations.context import Handle
from mqredis.operations.queue_call import QueueCall
from mqredis.operations.settle import settle
from mqredis.steps import Call, OutcomeKnown, Steps, perform

R = TypeVar("R")


def release_after_interruption(handle: Handle, call: Call[Any], token: str, *, locks: bool) -> Steps[None]:
    """Find out the outcome of the interrupted read ``call`` and release what it has locked.

    Afterwards the operation goes on in the slot of the call, so that it can remove a waiter that the call has
    registered. The token stays unknown, for ``resolve``, where the call has taken messages or settled locks, and where
    the broker does not answer; in that case the lease ends the lock. ``locks``: does the read lock what it finds?
    """
    try:
        became = yield from perform(manager.resolve(handle.context.keys, token))
        if became.outcome == "done":
            if became.status == OK:
                if not locks or not became.lookup_ids:
                    return
                fence = text(became.payload[0])
                held: list[read.Settlement] = [("a", fence, lookup_id) for lookup_id in became.lookup_ids]
                yield from settle(handle, held)
            if call.script == "receive" and read.settles(call.args):
                return  # the caller has to ask whether its commits were done
        elif became.outcome != "never":
            return
    except MqError:
        return
    yield OutcomeKnown(token)


class ReadCall(QueueCall[R]):
    """One call that reads messages through a handle. ``locks``: it locks what it finds."""

    __slots__ = ("handle", "locks")

    def __init__(self, handle: Handle, call: Call[R], locks: bool) -> None:
        super().__init__(handle.address, call)
        self.handle = handle
        self.locks = locks

    def interrupted(self, call: Call[Any], token: str) -> Steps[None]:
        """Release what the call has locked."""
        return release_after_interruption(self.handle, call, token, locks=self.locks)
