"""The short way of the plainest reads and sends: one call by plain functions, without the operation's generators.

For each the question, or nothing where the operation is to go its usual way; and what was answered, or nothing where
the operation has to go on with that answer: nothing was found, more queues have to be named, something is wrong.
What is unusual is decided there alone (docs/decisions/0041).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mqredis.commands import read
from mqredis.commands import send as commands
from mqredis.commands.common import OK
from mqredis.models import Message, Sent
from mqredis.operations.context import Handle, UnitOfWork, owner_of
from mqredis.operations.receive import Locks, noted
from mqredis.operations.send import Prepared, sent
from mqredis.operations.settle import forget
from mqredis.operations.wait import first
from mqredis.steps import Answer, Call, Way, understand

#: A way, and the arguments that this call has there.
Ask = tuple[Way[Any], tuple[bytes, ...]]


def _way(handle: Handle, name: str) -> Way[Any]:
    way = handle.ways.get(name)
    if way is None or way.keys is not handle.address.call:
        make, at, count = _WAYS[name]
        way = handle.ways[name] = Way(make(handle), at, count)
    return way


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
_WAYS: dict[str, tuple[Callable[[Handle], Call[Any]], int, int]] = {
    "lock": (_lock, 0, 0),
    "next": (_next, 11, 2),
    "take": (_take, 0, 0),
    "take in": (_take_in, 3, 2),
    "send": (_send, 3, 2),
    "send in": (_send, 1, 4),
    "commit": (_commit, 3, 2),
}


def _looks(handle: Handle, timeout: float | None) -> bool:
    """Does a read begin with a look for whatever comes first? Raises what ``receive`` would."""
    handle.need("receive")
    plain = handle.selector is None and handle.context.sealer is None and not handle.parts
    return plain and first(handle, timeout, None)


def locking(handle: Handle, timeout: float | None, settle: Sequence[Any]) -> Ask | None:
    """Lock the first message, and commit the lock in ``settle``, if there is one."""
    if not _looks(handle, timeout) or type(settle) not in _PLAIN or len(settle) > 1:
        return None
    if not settle:
        return _way(handle, "lock"), ()
    lock = settle[0]
    grant = getattr(lock, "_grant", None)
    if grant is None or grant.handle is not handle or grant.unit is not None:
        return None
    return _way(handle, "next"), (grant.fence.encode(), lock._key.encode())


_PLAIN = (list, tuple)


def locked(handle: Handle, ask: Ask, answer: Answer, settle: Sequence[Any], now: float) -> Locks | None:
    """What was locked, at this monotonic time."""
    status, payload = answer
    if status != OK:
        return None
    found = understand(ask[0], status, payload)
    if found.lost or not found.messages:
        return None
    for lock in settle:
        forget(handle, "c", lock._grant.fence, lock._key)
        lock._settled = True
    return noted(handle, found, now)


def taking(handle: Handle, timeout: float | None, unit: UnitOfWork | None) -> Ask | None:
    """Take the first message, perhaps in a transaction."""
    if not _looks(handle, timeout):
        return None
    if unit is None:
        return _way(handle, "take"), ()
    owner, grant = owner_of(handle, unit)
    return _way(handle, "take in"), (owner.encode(), grant.encode())


def taken(handle: Handle, ask: Ask, answer: Answer, unit: UnitOfWork | None) -> Message | None:
    """What was taken."""
    status, payload = answer
    if status != OK:
        return None
    found = understand(ask[0], status, payload)
    if not found.messages:
        return None
    if unit is not None:
        unit.touched(found.fence, handle)
    return handle.context.messages(handle.address.path, found.messages, taken=unit is None)[0]


def putting(handle: Handle, prepared: Prepared, unit: UnitOfWork | None) -> Ask | None:
    """Send one message."""
    line, large = prepared[1]
    if large is not None:
        return None
    if unit is None:
        return _way(handle, "send"), (line[:1], line[1:])
    owner, grant = owner_of(handle, unit)
    return _way(handle, "send in"), (owner.encode(), grant.encode(), line[:1], line[1:])


def put(handle: Handle, prepared: Prepared, ask: Ask, answer: Answer, unit: UnitOfWork | None) -> Sent | None:
    """What the sender is answered."""
    status, payload = answer
    if status != OK:
        return None
    return sent(handle, prepared[0], understand(ask[0], status, payload), unit)
