"""The end of locks: commit, abort, reject, renew (MS-MQDMPR 3.1.7.1.12).

Locked messages (``operations.locked``), ``browser``, ``worker.lock_loop``, ``worker.prefetch``, ``kombu.locks`` and
``cli.common`` make them; a closed handle and a closed client give their locks back with them, and an interrupted read
what it has locked.
``earlier_locks`` has the commits that a read carries out on its way.

asyncio carries out several settlements of one handle with one call (``Settle.fitting`` and ``joined``, called by
``drivers.coalescing``). tests/conformance/test_lock.py has the rules, tests/coalescing those of joint calls, and
tests/matching/test_groups.py the logical order that ``forget`` keeps.

A settlement names the lock of one stored message: action, fence, lookup id (``commands.settlement``). ``handle.locks``
holds the fence of each lock, by lookup id, until it is settled. A message that was joined from segments has a lock for
each segment: ``handle.parts`` holds their lookup ids, by the fence and the id of the first one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from mqredis.commands import read, settlement
from mqredis.commands.replies import OK
from mqredis.commands.settlement import (
    ABORT,
    AVAILABLE,
    FAIL,
    GONE,
    LOCKED,
    RENEW,
    RETURN,
    Lost,
    Settlement,
)
from mqredis.errors import InvalidHandle, InvariantBroken, LockLost
from mqredis.operations.context import lease_of
from mqredis.operations.open_queue import Handle
from mqredis.operations.queue_call import QueueCall, complete
from mqredis.status import Status
from mqredis.steps import (
    MORE,
    Call,
    More,
    Operation,
    Reply,
    Shareable,
    Steps,
    procedure,
    understand,
)

if TYPE_CHECKING:
    from mqredis.operations.locked import Locked


@procedure
def settle(
    handle: Handle, settlements: Sequence[Settlement], lease: float | None = None
) -> Steps[settlement.Settled]:
    """Commit, abort, reject or renew locks (3.1.7.1.12), as many with each call as it takes.

    ``lease``: of renewed locks, in seconds; None: that of the settings. Raises nothing for locks that were lost: the
    result names them.
    """
    settled = settlement.Settled(0, [])
    for start in range(0, len(settlements), read.BATCH):
        batch = settlements[start : start + read.BATCH]
        if handle.parts:
            # After the split, so that one call has all segments of a message.
            batch = with_segments(handle, batch)
        done = yield from settle_segments(handle, batch, lease)
        settled.now_ms = done.now_ms
        settled.lost += done.lost
    return settled


@procedure
def settle_segments(
    handle: Handle, settlements: Sequence[Settlement], lease: float | None = None
) -> Steps[settlement.Settled]:
    """Settle locks, each of which is that of one stored message, with one call."""
    call = settlement.settle(handle.address, settlements, lease_of(handle.context, lease))
    settled = yield from QueueCall(handle.address, call)
    forget_all(handle, settlements, settled.lost)
    return settled


def settle_locks(
    queue: Any, action: str, locks: Iterable[Locked], lease: float | None = None
) -> Operation[settlement.Settled]:
    """Settle those of these locks that are of this queue, a Queue of either interface."""
    each = [(action, lock._grant.fence, lock._key) for lock in locks if lock._grant.queue is queue]
    return settle(queue.handle, each, lease)


def give_back_all(handle: Handle, action: str = ABORT) -> Operation[settlement.Settled]:
    """Give back every lock of this handle. ``action``: ABORT, or another one of ``giveback``."""
    # Another thread may lock or settle meanwhile. Python runs no other code in `copy`, as it may in list(items()).
    held = handle.locks.copy()
    return settle(handle, [(action, fence, lookup_id) for lookup_id, fence in held.items()])


def forget_all(handle: Handle, settlements: Sequence[Settlement], lost: Sequence[Lost]) -> None:
    """The locks that were settled, or are lost, need not be given back when the handle is closed. Those whose messages
    are available again ended as if their reader had given them back."""
    returned = {lookup_id for lookup_id, became in lost if became == AVAILABLE}
    for action, fence, key in settlements:
        if key in returned:
            forget(handle, ABORT, fence, key)
        elif action != RENEW:
            forget(handle, action, fence, key)


def forget(handle: Handle, action: str, fence: str, lookup_id: str) -> None:
    """This lock need not be given back when the handle is closed."""
    locks = handle.locks
    if handle.parts:
        handle.parts.pop((fence, lookup_id), None)
    if locks.get(lookup_id) == fence:
        locks.pop(lookup_id, None)  # another thread may have settled it, too
        if handle.group_position.log:
            if action[0] in (ABORT, RETURN, FAIL):
                handle.group_position.back((lookup_id, fence))
            else:
                handle.group_position.settle((lookup_id, fence))


def with_segments(handle: Handle, settlements: Sequence[Settlement]) -> list[Settlement]:
    """With every segment of the messages that were joined."""
    return [
        (action, fence, part)
        for action, fence, lookup_id in settlements
        for part in handle.parts.get((fence, lookup_id), (lookup_id,))
    ]


class Settle(Shareable[float]):
    """Settle one lock. The result is the monotonic time of the reply.

    Raises LockLost if the lock is not held any more.
    """

    __slots__ = ("_call", "_settlements", "handle", "lease", "settlement")

    def __init__(self, handle: Handle, settlement: Settlement, lease: float | None = None) -> None:
        still_open(handle)
        self.handle = handle
        self.settlement = settlement
        self.lease = lease

    @property
    def shareable(self) -> Settle | None:
        """A renewal has a lease of its own, and a message that was joined from segments is several locks."""
        return None if self.handle.parts or self.settlement[0] == RENEW else self

    @property
    def batchers(self) -> dict[type, Any]:
        """Those of the handle."""
        return self.handle.batchers

    @classmethod
    def fitting(cls, operations: Sequence[Settle]) -> int:
        """As many as are of different messages."""
        seen: set[str] = set()
        for operation in operations:
            if operation.settlement[2] in seen:
                break
            seen.add(operation.settlement[2])
        return len(seen)

    @classmethod
    def joined(cls, operations: Sequence[Settle]) -> Operation[list[float | LockLost]]:
        """One call for all of these locks."""
        return settle_each(operations[0].handle, [operation.settlement for operation in operations])

    def request(self) -> Call[settlement.Settled]:
        """The settlement, with every segment of a message that was joined."""
        handle = self.handle
        one = (self.settlement,)
        self._settlements = with_segments(handle, one) if handle.parts else one
        lease_ms = lease_of(handle.context, self.lease)
        self._call = settlement.settle(handle.address, self._settlements, lease_ms)
        return self._call

    def accept(self, reply: Reply) -> float | More:
        """The time; MORE if the script needs more queues or has refused the call."""
        return self._result(understand(self._call, reply)) if reply[0] == OK else MORE

    def resume(self, reply: Reply | None) -> Steps[float]:
        """Name the queues that the script needs, and repeat the call. Raises the error of a refusal."""
        if reply is None:
            reply = yield from self.make(self._call)
        return self._result((yield from complete(self, self.handle.address, self._call, reply)))

    def _result(self, settled: settlement.Settled) -> float:
        forget_all(self.handle, self._settlements, settled.lost)
        if settled.lost:
            raise lock_lost(self.handle.path, settled.lost[0])
        return self.handle.context.clock()


def still_open(handle: Handle) -> None:
    """Raise InvalidHandle if the locks of this handle were given back by its close."""
    if handle.closed:
        raise InvalidHandle(f"the handle of queue {handle.path!r} was closed, which gave this message back")


@procedure
def settle_each(handle: Handle, settlements: Sequence[Settlement]) -> Steps[list[float | LockLost]]:
    """Settle locks of different messages, none of them joined, with one call: for each the monotonic time of the reply,
    or that it is lost."""
    settled = yield from settle_segments(handle, settlements)
    now = handle.context.clock()
    lost = dict(settled.lost)
    keys = [key for _, _, key in settlements]
    if not lost.keys() <= set(keys):
        raise InvariantBroken(f"settle answered {[*lost]!s:.80}, which it was not asked about")
    return [lock_lost(handle.path, (key, lost[key])) if key in lost else now for key in keys]


_BECAME = {
    AVAILABLE: "the message is available again",
    LOCKED: "another reader holds the message",
    GONE: "the message is gone, or in a subqueue such as ;retry or ;poison",
}


def lock_lost(
    path: str, lost: Lost, cause: str = "it was settled before, or its lease is over", advice: str = ""
) -> LockLost:
    """The error for a lock that is not held any more, on a message of queue ``path``; ``details["lost"]`` is ``lost``.

    Raises InvariantBroken if the letter in ``lost`` is unknown.
    """
    lookup_id, why = lost
    became = _BECAME.get(why)
    if became is None:
        raise InvariantBroken(f"settle answered {why!r:.80} of message 0x{lookup_id}")
    # MS-MQDMPR has TRANSACTION_SEQUENCE if the message is available or gone (D33 in docs/semantics.md). LOCK_LOST, for
    # a message that another reader may hold, is our own status.
    status = Status.LOCK_LOST if why == LOCKED else Status.TRANSACTION_SEQUENCE
    text = f"the lock on message 0x{lookup_id} of queue {path!r} is lost: {cause}, and {became}{advice}"
    return LockLost(text, status=status, lost=lost)
