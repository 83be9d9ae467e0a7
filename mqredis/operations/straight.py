"""The short way of the plainest reads and sends: one call by plain functions, without the operation's generators.

For each the question, or nothing where the operation is to go its usual way; and what was answered, or nothing where
the operation has to go on with that answer: nothing was found, more queues have to be named, something is wrong.
What is unusual is decided there alone (docs/decisions/0041).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mqredis import codec
from mqredis.commands import read, transactions
from mqredis.commands import send as commands
from mqredis.commands.common import OK
from mqredis.models import Message, Sent
from mqredis.operations.context import Handle, UnitOfWork, owner_of
from mqredis.operations.receive import Locks
from mqredis.operations.send import Prepared, sent
from mqredis.operations.settle import forget
from mqredis.operations.transaction import ended
from mqredis.operations.wait import first
from mqredis.steps import Answer, Asked, Call, Way

#: A way, and the arguments that this call has there.
Ask = tuple[Way[Any], tuple[bytes, ...]]


def _lock(handle: Handle) -> Call[read.Found]:
    return read.receive(handle.address, "lock", 1, "", handle.context.lease)


def _next(handle: Handle) -> Call[read.Found]:
    return read.receive(handle.address, "lock", 1, "", handle.context.lease, settle=("c", "", ""))


def _take(handle: Handle) -> Call[read.Found]:
    return read.receive(handle.address, "take", 1)


def _take_in(handle: Handle) -> Call[read.Found]:
    return read.receive(handle.address, "tx", 1, "id", "fence")


def _send(handle: Handle) -> Call[commands.Accepted]:
    return commands.send_texts(handle.address, b"3", (b"",), topic=handle.topic)


def _commit(handle: Handle) -> Call[read.Settled]:
    return read.settle(handle.address, (("c", "", ""),), handle.context.lease_ms)


#: By name: a call of it, and where those arguments are that differ.
WAYS: dict[str, tuple[Callable[[Handle], Call[Any]], int, int]] = {
    "lock": (_lock, 0, 0),
    "next": (_next, 11, 2),
    "take": (_take, 0, 0),
    "take in": (_take_in, 3, 2),
    "send": (_send, 3, 2),
    "send in": (_send, 1, 4),
    "commit": (_commit, 3, 2),
}


def _way(handle: Handle, name: str) -> Way[Any]:
    way = handle.ways.get(name)
    if way is None or way.keys is not handle.address.call:
        make, at, count = WAYS[name]
        way = handle.ways[name] = Way(make(handle), at, count)
    return way


def _reads(handle: Handle, timeout: Any) -> bool:
    """Does a read begin with a look for whatever comes first? Raises what it would raise before."""
    handle.need("receive")
    if handle.parts or handle.selector is not None or handle.context.sealer is not None:
        return False
    return (type(timeout) is int and timeout == 0) or first(handle, timeout, None)


def asked(ask: Ask, answer: Answer) -> Asked:
    """For the operation that goes on with this answer."""
    way, differing = ask
    return way.call(differing), answer


def locking(handle: Handle, count: object, timeout: Any, settle: Sequence[Any]) -> Ask | None:
    """Lock the first message, and commit the lock in ``settle``, if there is one."""
    if type(count) is not int or type(settle) is not tuple:
        return None
    if not settle:
        return (_way(handle, "lock"), ()) if _reads(handle, timeout) else None
    lock = settle[0]
    grant = getattr(lock, "_grant", None)
    if len(settle) > 1 or grant is None or grant.handle is not handle or grant.unit is not None:
        return None
    if not _reads(handle, timeout):
        return None
    return _way(handle, "next"), (grant.fence.encode(), lock._key.encode())


def locked(handle: Handle, answer: Answer, settle: Sequence[Any], now: float) -> Locks | None:
    """What was locked, at this monotonic time."""
    if answer[0] != OK or (one := read.alone(answer[1])) is None:
        return None
    fence, deadline, now_ms, lookup_id, state, record = one
    for lock in settle:
        forget(handle, "c", lock._grant.fence, lock._key)
        lock._settled = True
    key = lookup_id.decode()
    handle.locks[key] = fence
    found = codec.alone(handle.address.path, lookup_id, state, record)
    return Locks(handle, (found,), (key,), fence, now, (deadline, now_ms))


def taking(handle: Handle, timeout: Any, unit: UnitOfWork | None) -> Ask | None:
    """Take the first message, perhaps in a transaction."""
    if not _reads(handle, timeout):
        return None
    if unit is None:
        return _way(handle, "take"), ()
    owner, grant = owner_of(handle, unit)
    return _way(handle, "take in"), (owner.encode(), grant.encode())


def taken(handle: Handle, answer: Answer, unit: UnitOfWork | None) -> Message | None:
    """What was taken."""
    if answer[0] != OK or (one := read.alone(answer[1])) is None:
        return None
    fence, _, _, lookup_id, state, record = one
    if unit is not None:
        unit.touched(fence, handle)
    return codec.decode(
        handle.address.path, handle.context.incarnation, lookup_id, state, record, unit is None
    )


def putting(handle: Handle, prepared: Prepared, unit: UnitOfWork | None) -> Ask | None:
    """Send one message that was prepared."""
    line, large = prepared[1]
    if large is not None:
        return None
    if unit is None:
        return _way(handle, "send"), (line[:1], line[1:])
    owner, grant = owner_of(handle, unit)
    return _way(handle, "send in"), (owner.encode(), grant.encode(), line[:1], line[1:])


def put(handle: Handle, prepared: Prepared, answer: Answer, unit: UnitOfWork | None) -> Sent | None:
    """What the sender is answered."""
    if answer[0] != OK or (one := commands.alone(answer[1])) is None:
        return None
    return sent(handle, prepared[0], *one, unit)


def settling(handle: Handle, fence: str, key: str) -> Ask | None:
    """Commit one lock."""
    if handle.closed or handle.parts:
        return None
    return _way(handle, "commit"), (fence.encode(), key.encode())


def settled(handle: Handle, answer: Answer, fence: str, key: str) -> bool:
    """Was it committed?"""
    payload: Any = answer[1]
    if answer[0] != OK or not payload or len(payload) != 1 or type(payload[0]) is not int:
        return False
    forget(handle, "c", fence, key)
    return True


def ending(unit: UnitOfWork) -> Ask | None:
    """Commit a transaction."""
    if unit.finished or not unit.fence:
        return None
    keys = unit.context.keys.call(*unit.paths)
    if keys.end is None:
        keys.end = Way(transactions.end(unit.context.keys, "", "", "commit", unit.paths), 0, 2)
    return keys.end, (unit.id.encode(), unit.fence.encode())


def committed(unit: UnitOfWork, answer: Answer) -> bool:
    """Was it?"""
    if answer[0] != OK:
        return False
    ended(unit, "commit")
    return True
