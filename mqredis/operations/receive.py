"""Dequeue (MS-MQDMPR 3.1.7.1.10) and Dequeue Begin (3.1.7.1.11): plain, locked, in a transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from mqredis.commands import read
from mqredis.commands.common import OK
from mqredis.commands.read import Found, Lost, Settlement, Waiter
from mqredis.errors import InvalidArgument, InvalidHandle, InvariantBroken, LockLost
from mqredis.models import Match, Message
from mqredis.operations import checks
from mqredis.operations.context import Handle, UnitOfWork, handle_of, lease_of, owner_of
from mqredis.operations.matching import Selection, text_of
from mqredis.operations.reach import reach
from mqredis.operations.wait import Look, first, until_found
from mqredis.status import Status
from mqredis.steps import NOW, Call, Operation, Payload, understand


@dataclass(slots=True)
class Locks:
    """Messages locked by one call: they share fence and lease. ``until`` is on the driver's monotonic clock; ``keys``
    are the lookup ids as the scripts spell them."""

    messages: list[Message]
    fence: str
    until: float
    keys: list[str]


@dataclass(slots=True)
class Settling:
    """Earlier locks that a call settles on its way: ``done`` once the script has, but for those in ``lost``."""

    settlements: Sequence[Settlement]
    done: int = 0
    lost: frozenset[str] = frozenset()

    def pending(self) -> Sequence[Settlement]:
        """Those that are still to be settled."""
        return self.settlements[self.done :] if self.done else self.settlements

    def along(self, handle: Handle, call: Call[Found], count: int) -> Call[Found]:
        """The read that settles the next ``count`` of them on its way, and notes that once it is answered."""
        call.parse = partial(self._taken, handle, call.parse, count)
        return call

    def _taken(
        self,
        handle: Handle,
        parse: Callable[[int, Payload], Found],
        count: int,
        status: int,
        payload: Payload,
    ) -> Found:
        found = parse(status, payload)
        self.take(handle, count, found.lost)
        return found

    def settle(self, handle: Handle) -> Operation[None]:
        """Settle as many as one call takes."""
        batch = self.pending()[: read.BATCH]
        settled = yield from settle(handle, batch)
        self.take(handle, len(batch), settled.lost)

    def take(self, handle: Handle, count: int, lost: Sequence[Lost]) -> None:
        """The next ``count`` are settled, but for those that were lost."""
        _forget(handle, self.settlements[self.done : self.done + count])
        self.done += count
        if lost:
            self.lost = self.lost.union(lookup_id for lookup_id, _ in lost)


def settling(handle: Handle, locks: Sequence[Any]) -> Settling:
    """The commits of these locks, which must be of the same queue."""
    settlements: list[Settlement] = []
    known: object = None
    for lock in locks if type(locks) is list else checks.several(locks, "settle"):
        try:
            if lock._queue is not known or lock._unit is not None:
                known = _queue_of(lock, handle)
            settlements.append(("c", lock.fence, lock._key))
        except AttributeError:
            raise _foreign(lock, handle) from None
    return Settling(settlements)


def _queue_of(lock: Any, handle: Handle) -> object:
    """The queue of a lock. Raises InvalidArgument if it is another one, or if the lock ends with a transaction."""
    owner: object = lock._queue
    if getattr(owner, "_handle", None) is not handle and not _beside(owner, handle):
        raise _foreign(lock, handle)
    if lock._unit is not None:
        raise InvalidArgument("a message that was locked in a transaction ends with that: settle cannot")
    return owner


def _foreign(lock: object, handle: Handle) -> InvalidArgument:
    return InvalidArgument(f"settle takes locked messages of queue {handle.path!r}, not {lock!r:.80}")


def _beside(owner: object, handle: Handle) -> bool:
    """Is it another handle of the same queue?"""
    return owner is not None and handle_of(owner).address.path == handle.path


def settled(settling: Settling, locks: Sequence[Any]) -> None:
    """Note on these locks, which a call was to commit on its way, what it has done."""
    lost, ended = settling.lost, locks[: settling.done]
    if lost:
        for lock in ended:
            lock._settled = lock._key not in lost
    else:
        for lock in ended:
            lock._settled = True


def taking(
    handle: Handle,
    mode: str,
    match: bytes = b"",
    count: int = 1,
    *,
    unit: UnitOfWork | None = None,
    lease: str = "",
    earlier: Settling | None = None,
    at: Callable[[str], str] = read.behind,
    idle: Waiter | None = None,
) -> Look:
    """The look of a read that takes (``take``), locks (``lock``) or receives in a transaction (``tx``).

    ``earlier``: locks that it settles on its way. ``at``: the cursor, given where a search goes on. ``idle``: what
    stands for the waiter in a look that registers nothing.
    """

    # A closure over all this would be made for each message, with a cell for each name: four times what this costs.
    return partial(_look, handle, mode, match, count, unit, lease, earlier, at, idle)


def _look(
    handle: Handle,
    mode: str,
    match: bytes,
    count: int,
    unit: UnitOfWork | None,
    lease: str,
    earlier: Settling | None,
    at: Callable[[str], str],
    idle: Waiter | None,
    waiter: Waiter | None,
    place: str = "",
) -> Call[Found]:
    owner, grant = owner_of(handle, unit) if unit else ("", "")
    pending = earlier.pending() if earlier else ()
    # By place: names cost Python a search each.
    call = read.receive(
        handle.address, mode, count, owner, grant or lease, at(place), waiter or idle, match, pending
    )
    return earlier.along(handle, call, len(pending)) if pending and earlier else call


def receive(
    handle: Handle,
    count: int,
    timeout: float | None,
    unit: UnitOfWork | None = None,
    tag: str | None = None,
    match: Match | None = None,
    selector: Selection = None,
) -> Operation[list[Message]]:
    """Take up to ``count`` messages, waiting for the first."""
    handle.need("receive")
    count = checks.count(count, "max", read.BATCH)
    wanted = text_of(handle, match, selector, timeout)

    mode, found = "tx" if unit else "take", None
    if first(handle, timeout, tag):
        owner, grant = owner_of(handle, unit) if unit else ("", "")
        call = read.receive(handle.address, mode, count, owner, grant, "", None, wanted)
        status, payload = yield call
        if status == OK:
            found = understand(call, status, payload)
        else:
            found = yield from reach(handle.address, call, (status, payload))
    if found is None or not found.messages:
        look = taking(handle, mode, wanted, count, unit=unit)
        found = yield from until_found(
            handle, look, "D", timeout, tag, match=wanted, steady=unit is None, found=found
        )
    if unit:
        unit.touched(found.fence, handle)
    return handle.context.messages(handle.address.path, found.messages, taken=unit is None)


def lock(
    handle: Handle,
    count: int,
    timeout: float | None,
    lease: float | None,
    tag: str | None = None,
    settling: Settling | None = None,
    match: Match | None = None,
    selector: Selection = None,
) -> Operation[Locks]:
    """Lock up to ``count`` messages, waiting for the first; settle earlier locks in the first look."""
    handle.need("receive")
    count = checks.count(count, "max", read.BATCH)
    lease_ms = handle.context.lease if lease is None else str(lease_of(handle.context, lease))
    wanted = text_of(handle, match, selector, timeout)
    earlier = settling or Settling(())
    if handle.parts:
        earlier.settlements = whole(handle, earlier.settlements)
    while len(earlier.settlements) - earlier.done > read.BATCH:
        yield from earlier.settle(handle)

    found = None
    if first(handle, timeout, tag):
        pending = earlier.pending()
        call = read.receive(handle.address, "lock", count, "", lease_ms, "", None, wanted, pending)
        status, payload = yield call
        if status == OK:
            found = understand(call, status, payload)
        else:
            found = yield from reach(handle.address, call, (status, payload))
        if pending:
            earlier.take(handle, len(pending), found.lost)
    if found is None or not found.messages:
        look = taking(handle, "lock", wanted, count, lease=lease_ms, earlier=earlier)
        found = yield from until_found(
            handle, look, "D", timeout, tag, match=wanted, steady=True, lease=lease_ms, found=found
        )
    now: float = yield NOW
    return noted(handle, found, now)


def locked(handle: Handle, found: Found) -> Operation[Locks]:
    """The same as ``noted``, at this time."""
    now: float = yield NOW
    return noted(handle, found, now)


def noted(handle: Handle, found: Found, now: float) -> Locks:
    """Note what was locked, so that closing the handle can give it back."""
    until = now + (found.deadline_ms - found.now_ms) / 1000
    fence = found.fence
    if len(found.messages) == 1:
        keys = [found.messages[0][0].decode()]
        handle.locks[keys[0]] = fence
    else:
        keys = b" ".join([raw[0] for raw in found.messages]).decode().split(" ")
        handle.locks.update(dict.fromkeys(keys, fence))
    return Locks(handle.context.messages(handle.address.path, found.messages), fence, until, keys)


def settle(
    handle: Handle, settlements: Sequence[Settlement], lease: float | None = None
) -> Operation[read.Settled]:
    """Commit, abort, reject or renew locks (3.1.7.1.12)."""
    if handle.parts:
        settlements = whole(handle, settlements)
    call = read.settle(handle.address, settlements, lease_of(handle.context, lease))
    settled = yield from reach(handle.address, call)
    _forget(handle, settlements)
    return settled


def _forget(handle: Handle, settlements: Sequence[Settlement]) -> None:
    """These locks need not be given back when the handle is closed."""
    locks, parts, getting = handle.locks, handle.parts, handle.getting
    plain = not parts and not getting.log
    for action, fence, lookup_id in settlements:
        if action != "x" and locks.get(lookup_id) == fence:
            del locks[lookup_id]
            if plain:
                continue
            parts.pop(lookup_id, None)
            if action == "a":
                getting.back((lookup_id, fence))
            else:
                getting.settle((lookup_id, fence))


def whole(handle: Handle, settlements: Sequence[Settlement]) -> list[Settlement]:
    """With every segment of the messages that were joined."""
    return [
        (action, fence, part)
        for action, fence, lookup_id in settlements
        for part in handle.parts.get(lookup_id, (lookup_id,))
    ]


def settle_one(handle: Handle, settlement: Settlement, lease: float | None = None) -> Operation[float]:
    """Settle one lock; raises LockLost if it is not held any more. Answers the monotonic time of the call."""
    still_open(handle)
    settled = yield from settle(handle, (settlement,), lease)
    if settled.lost:
        raise lock_lost(settled.lost[0][1], int(settlement[2], 16))
    now: float = yield NOW
    return now


def still_open(handle: Handle) -> None:
    """Raise InvalidHandle if the locks of this handle were given back by its close."""
    if handle.closed:
        raise InvalidHandle(f"the handle of queue {handle.path!r} was closed, which gave this message back")


def settle_each(handle: Handle, settlements: Sequence[Settlement]) -> Operation[list[float | LockLost]]:
    """Settle locks of several callers (:func:`apart`): for each the monotonic time of the call, or that it is lost."""
    settled = yield from settle(handle, settlements)
    now: float = yield NOW
    lost = dict(settled.lost)
    keys = [key for _, _, key in settlements]
    if not lost.keys() <= set(keys):
        raise InvariantBroken(f"settle answered {[*lost]!s:.80}, which it was not asked about")
    return [lock_lost(lost[key], int(key, 16)) if key in lost else now for key in keys]


def apart(settlements: Sequence[Settlement]) -> int:
    """How many of them, from the first on, are of different messages: one call takes so many."""
    seen: set[str] = set()
    for _, _, key in settlements:
        if key in seen:
            break
        seen.add(key)
    return len(seen)


def lock_lost(why: str, lookup_id: int) -> LockLost:
    """The exception for a lock that is not held any more. Raises InvariantBroken for a reason that is none."""
    text = {
        "a": "its lease lapsed and the message is available again",
        "f": "its lease lapsed and somebody else holds the message",
        "g": "the message is gone",
    }.get(why)
    if text is None:
        raise InvariantBroken(f"settle answered {why!r:.80} of message {lookup_id:#018x}")
    # Of the text: available or gone (D33) is out of sequence. That somebody else may hold it is ours.
    status = Status.LOCK_LOST if why == "f" else Status.TRANSACTION_SEQUENCE
    return LockLost(f"the lock on message {lookup_id:#018x} is lost: {text}", status=status)
