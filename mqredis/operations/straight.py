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
from mqredis.commands.common import ID, OK
from mqredis.keys import MESSAGE_SCRIPT_PARTS, QUEUE_PARTS
from mqredis.models import Message, Sent
from mqredis.operations.context import Handle, UnitOfWork, owner_of
from mqredis.operations.regain import regained
from mqredis.operations.send import OCTETS, Prepared, sent
from mqredis.operations.settle import forget
from mqredis.operations.transaction import ended
from mqredis.operations.wait import first
from mqredis.status import Status
from mqredis.steps import CUT_OFF, Answer, Asked, Call, Operation, Way

#: The flags of messages that ask for nothing but, perhaps, to be found by their correlation id (codec.encode).
_PLAIN = b"0h"
_KEYS_CHANGED = int(Status.KEYS_CHANGED)
#: The keys of a call that names one queue.
_ONE = MESSAGE_SCRIPT_PARTS + len(QUEUE_PARTS)
#: After so many sends with all keys a handle tries again whether a few are enough.
AGAIN = 256
#: A way, and the arguments that this call has there.
Ask = tuple[Way[Any], tuple[bytes, ...]]


def _lock(handle: Handle) -> Call[read.Found]:
    return read.receive(handle.address, "lock", 1, "", handle.context.lease)


def _next(handle: Handle) -> Call[read.Found]:
    return read.receive(handle.address, "lock", 1, "", handle.context.lease, settle=("c", "", "0" * ID))


def _take(handle: Handle) -> Call[read.Found]:
    return read.receive(handle.address, "take", 1)


def _take_in(handle: Handle) -> Call[read.Found]:
    return read.receive(handle.address, "tx", 1, "id", "fence")


def _send(handle: Handle) -> Call[commands.Accepted]:
    return commands.send_texts(handle.address, b"3", (b"",))


def _plain(handle: Handle) -> Call[commands.Accepted]:
    return commands.send_plain(handle.address, b"3", b"")


def _send_in(handle: Handle) -> Call[commands.Accepted]:
    return commands.send_texts(handle.address, b"3", (b"",), "id", "fence", handle.topic)


def _publish(handle: Handle) -> Call[commands.Accepted]:
    return commands.send_texts(handle.address, b"3", (b"",), topic=True)


def _commit(handle: Handle) -> Call[read.Settled]:
    return read.settle(handle.address, (("c", "", ""),), handle.context.lease_ms)


#: By name: a call of it, where those arguments are that differ, and whether it reads.
WAYS: dict[str, tuple[Callable[[Handle], Call[Any]], int, int, bool]] = {
    "lock": (_lock, 0, 0, True),
    "next": (_next, 3, 2, True),
    "take": (_take, 0, 0, True),
    "take in": (_take_in, 3, 2, True),
    "send all": (_send, 1, 2, False),
    "plain": (_plain, 1, 2, False),
    "send in": (_send_in, 1, 4, False),
    "publish": (_publish, 3, 2, False),
    "commit": (_commit, 3, 2, False),
}


def _way(handle: Handle, name: str) -> Way[Any] | None:
    """A new way, which is there as long as the handle is open and names the same queues: whoever finds it asks for
    nothing that is sure until then. None: such calls go through their operation here. Raises what these would raise."""
    make, at, count, reads = WAYS[_sending(handle, name) if name.startswith("send") else name]
    if reads:
        handle.need("receive")
        if handle.selector is not None or handle.context.sealer is not None:
            return None
    ways = handle.address.ways
    way = ways[name] = Way(make(handle), at, count)
    if handle.closed:  # by another thread, which has cleared them before
        ways.clear()
        return None
    return way


def _sending(handle: Handle, name: str) -> str:
    """Which way a send has. What names more queues than one asks for something."""
    if name == "send in":
        return name
    if handle.topic:
        return "publish"
    return "plain" if name == "send" and len(handle.address.call) == _ONE else "send all"


def _reads(handle: Handle, name: str, timeout: Any) -> Way[Any] | None:
    """The way of a read that begins with a look for whatever comes first. Raises what it would raise before."""
    way = handle.address.ways.get(name) or _way(handle, name)
    if way is None or handle.parts:
        return None
    return way if (type(timeout) is int and timeout == 0) or first(handle, timeout, None) else None


def asked(ask: Ask, answer: Answer) -> Asked | None:
    """For the operation that goes on with this answer; None: it has to make the call itself."""
    way, differing = ask
    return None if way.few and answer[0] == _KEYS_CHANGED else (way.call(differing), answer)


def locking(handle: Handle, count: object, timeout: Any, settle: Sequence[Any]) -> Ask | None:
    """Lock the first message, and commit the lock in ``settle``, if there is one."""
    if type(count) is not int or type(settle) is not tuple:
        return None
    if not settle:
        way = _reads(handle, "lock", timeout)
        return None if way is None else (way, ())
    try:
        (lock,) = settle
        grant = lock._grant
    except (AttributeError, ValueError):
        return None
    if grant.handle is not handle or grant.unit is not None:
        return None
    way = _reads(handle, "next", timeout)
    return None if way is None else (way, (grant.fence.encode(), lock._key.encode()))


def cut(handle: Handle, ask: Ask, error: BaseException) -> Operation[None] | None:
    """What gives back what the call has locked, whose caller was cancelled with this error; None: it was not sent."""
    token: str = vars(error).get(CUT_OFF, "")
    way, differing = ask
    return regained(handle, way.call(differing), token) if token else None


def locked(handle: Handle, answer: Answer, settle: Sequence[Any]) -> read.Sole | None:
    """What was locked."""
    if answer[0] != OK or (one := read.sole(answer[1])) is None:
        return None
    for lock in settle:
        forget(handle, "c", lock._grant.fence, lock._key)
        lock._settled = True
    handle.locks[one[2]] = one[0]
    return one


def taking(handle: Handle, timeout: Any, unit: UnitOfWork | None) -> Ask | None:
    """Take the first message, perhaps in a transaction."""
    way = _reads(handle, "take" if unit is None else "take in", timeout)
    if way is None or unit is None:
        return None if way is None else (way, ())
    owner, grant = owner_of(handle, unit)
    return way, (owner.encode(), grant.encode())


def taken(handle: Handle, answer: Answer, unit: UnitOfWork | None) -> Message | None:
    """What was taken."""
    if answer[0] != OK or (one := read.sole(answer[1])) is None:
        return None
    fence, _, _, found = one
    if unit is not None:
        unit.touched(fence, handle)
    return codec.made(handle.address.path, handle.context.incarnation, found, unit is None)


def putting(handle: Handle, prepared: Prepared, unit: UnitOfWork | None) -> Ask | None:
    """Send one message that was prepared."""
    line, large = prepared[1]
    if large is not None:
        return None
    name = "send in" if unit is not None else "send" if line[1] in _PLAIN else "send all"
    way = handle.address.ways.get(name) or _way(handle, name)
    if way is None:
        return None
    if unit is None:
        if way.left:
            way.left -= 1
            if not way.left:
                handle.address.ways.pop(name, None)
        return way, (OCTETS[line[0]], line[1:])
    owner, grant = owner_of(handle, unit)
    return way, (owner.encode(), grant.encode(), line[:1], line[1:])


def put(handle: Handle, prepared: Prepared, answer: Answer, unit: UnitOfWork | None) -> Sent | None:
    """What the sender is answered."""
    if answer[0] != OK or (one := commands.alone(answer[1])) is None:
        if answer[0] == _KEYS_CHANGED and not answer[1]:
            _name_all(handle)
        return None
    return sent(handle, prepared[0], *one, unit)


def _name_all(handle: Handle) -> None:
    """A plain send was not enough here: the next ones name all keys at once (docs/decisions/0043)."""
    ways = handle.address.ways
    way = ways["send"] = Way(_send(handle), *WAYS["send all"][1:3])
    way.left = AGAIN
    if handle.closed:
        ways.clear()


def settling(handle: Handle, fence: str, key: str) -> Ask | None:
    """Commit one lock."""
    if handle.parts:
        return None
    way = handle.address.ways.get("commit") or _way(handle, "commit")
    return None if way is None else (way, (fence.encode(), key.encode()))


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
