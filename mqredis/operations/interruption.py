"""If a caller is cancelled during a read, the messages that the read has locked are released (docs/guarantees.md).
So they are if the handle of the read is closed meanwhile, since its close could not know of them.

``receive``, ``lookup`` and ``wait`` make reads that lock with it. A driver runs ``interrupted`` after the caller of the
operation was cancelled, in the same thread or task, with the token of the call.

The caller never had these messages, so this is no failed attempt, after which a retry policy might delete them.

The call was sent but its reply was lost. Resolving the token also revokes the call: if it has not run, it never
will.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from mqredis.commands import manager
from mqredis.commands.arguments import brings_settlements
from mqredis.commands.replies import OK, text
from mqredis.errors import MqError, OperationCancelled
from mqredis.operations.giveback import unattempted
from mqredis.operations.open_queue import Handle
from mqredis.operations.queue_call import QueueCall
from mqredis.operations.settle import settle
from mqredis.steps import MORE, Call, More, OutcomeKnown, Reply, Steps, perform

if TYPE_CHECKING:
    from mqredis.commands.read import Found

R = TypeVar("R")


def release_after_interruption(handle: Handle, call: Call[Any], token: str, *, locks: bool) -> Steps[None]:
    """Find out the outcome of the interrupted read ``call`` and release what it has locked.

    Afterwards the operation continues with the same slot, so that it can remove a waiter that the call has registered.
    The outcome stays open (for ``resolve``) if the call removed messages, found none, or settled locks, if a later call
    of the slot has replaced its reply, or if the broker did not answer; then locks end with their lease. ``locks``:
    does the read lock what it finds?
    """
    try:
        found = yield from perform(manager.resolve(handle.context.keys, token))
        if found.outcome == "never":
            yield OutcomeKnown(token)
        if found.outcome != "done":
            return
        if found.status == OK:
            if not locks or not found.lookup_ids:
                return
            fence = text(found.payload[0])  # as RETURNS OK of receive.lua and lookup.lua begins
            yield from settle(handle, [(unattempted(), fence, lookup_id) for lookup_id in found.lookup_ids])
    except MqError:
        return
    if brings_settlements(call):
        return  # the caller must resolve the token to learn whether its commits were made
    yield OutcomeKnown(token)


def release_after_close(handle: Handle, found: Found) -> Steps[None]:
    """Release what a read has locked while its handle was closed, and raise OperationCancelled."""
    with suppress(MqError):  # the leases end the locks
        yield from settle(handle, [(unattempted(), found.fence, raw[0].decode()) for raw in found.messages])
    raise OperationCancelled(f"the handle of queue {handle.path!r} was closed during this read")


class ReadCall(QueueCall["Found"]):
    """One call that reads messages through a handle. ``locks``: it locks the messages that it finds."""

    __slots__ = ("handle", "locks")

    def __init__(self, handle: Handle, call: Call[Found], locks: bool) -> None:
        super().__init__(handle.address, call)
        self.handle = handle
        self.locks = locks

    def accept(self, reply: Reply) -> Found | More:
        """As of a QueueCall. MORE, too, if locks have to be released."""
        return MORE if self.locks and self.handle.closed else super().accept(reply)

    def resume(self, reply: Reply | None) -> Steps[Found]:
        """As of a QueueCall. Raises OperationCancelled if the handle of locks was closed."""
        found = yield from super().resume(reply)
        if self.locks and self.handle.closed and found.messages:
            yield from release_after_close(self.handle, found)
        return found

    def interrupted(self, call: Call[Any], token: str) -> Steps[None]:
        """Release the messages that the call has locked."""
        return release_after_interruption(self.handle, call, token, locks=self.locks)
