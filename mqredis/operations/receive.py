"""Dequeue (MS-MQDMPR 3.1.7.1.10) and Dequeue Begin (3.1.7.1.11): plain, locked, in a transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import Any

from mqredis import codec
from mqredis.commands import read
from mqredis.commands.common import OK
from mqredis.commands.read import Found, Lost, Settlement, Waiter
from mqredis.errors import InvalidArgument, InvalidHandle, InvariantBroken, LockLost
from mqredis.models import Match, Message
from mqredis.operations import checks
from mqredis.operations.context import Handle, UnitOfWork, lease_of, owner_of
from mqredis.operations.matching import Selection, text_of
from mqredis.operations.reach import reach
from mqredis.operations.wait import Look, first, until_found
from mqredis.status import Status
from mqredis.steps import NOW, Call, Operation, Payload, understand


class Locks:
    """Messages locked by one call, and what they share: the fence and the lease."""

    #: The messages, once they were made: of sealed ones and of joined ones that is at once.
    made: list[Message] | None = None
    #: The face's queue, and the transaction that ends the locks.
    queue: Any = None
    unit: UnitOfWork | None = None
    _until: float | None = None

    def __init__(
        self,
        handle: Handle,
        found: Sequence[codec.Sound],
        keys: Sequence[str],
        fence: str,
        now: float,
        lease: tuple[bytes | int, int],
    ) -> None:
        self.handle = handle
        #: What came of each message, and its lookup id as the scripts spell it.
        self.found = found
        self.keys = keys
        self.fence = fence
        #: When the call was answered, on the driver's monotonic clock.
        self.now = now
        #: When the lease lapses, and when that was said, on the server's clock in ms.
        self.lease = lease

    @property
    def messages(self) -> list[Message]:
        """The messages."""
        return self.whole().made or []

    def whole(self) -> Locks:
        """The same with its messages made, which is quicker together than one by one when each is asked for."""
        if self.made is None:
            context = self.handle.context
            messages = codec.made_each(self.handle.address.path, context.incarnation, self.found)
            self.made = messages if context.sealer is None else context.unsealed(messages)
        return self

    @property
    def until(self) -> float:
        """When the lease lapses, on the driver's monotonic clock."""
        until = self._until
        if until is None:
            deadline, now = self.lease
            until = self._until = self.now + (int(deadline) - now) / 1000
        return until


@dataclass(slots=True)
class Settling:
    """Earlier locks that a call commits on its way, by their fences and ids.

    ``done`` once the script has, but for those in ``lost``.
    """

    fences: Sequence[str] = ()
    keys: Sequence[str] = ()
    done: int = 0
    lost: frozenset[str] = frozenset()

    def pending(self) -> int:
        """How many are still to be committed."""
        return len(self.keys) - self.done

    def whole(self, handle: Handle) -> None:
        """With every segment of the messages that were joined."""
        every = whole(handle, [*zip(repeat("c"), self.fences, self.keys)])
        self.fences, self.keys = [fence for _, fence, _ in every], [key for _, _, key in every]

    def runs(self) -> Sequence[str]:
        """Those that are pending, as the scripts take them (:func:`mqredis.commands.read.runs`)."""
        fences, keys = self.fences, self.keys
        if self.done:
            fences, keys = fences[self.done :], keys[self.done :]
        if fences.count(fences[0]) == len(keys):  # as of what was locked together
            return "c", fences[0], "".join(keys)
        return read.runs([*zip(repeat("c"), fences, keys)])

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
        stop = self.done + read.BATCH
        batch = [*zip(repeat("c"), self.fences[self.done : stop], self.keys[self.done : stop])]
        settled = yield from settle(handle, batch)
        self.take(handle, len(batch), settled.lost)

    def take(self, handle: Handle, count: int, lost: Sequence[Lost]) -> None:
        """The next ``count`` are settled, but for those that were lost."""
        locks, stop = handle.locks, self.done + count
        fences, keys = self.fences, self.keys
        if count < len(keys):
            fences, keys = fences[self.done : stop], keys[self.done : stop]
        if count == 1:
            _forget(handle, "c", fences[0], keys[0])
        elif not handle.parts and not handle.getting.log and [*locks] == keys and [*locks.values()] == fences:
            locks.clear()  # all that are held, in their order, as mostly
        else:
            for fence, key in zip(fences, keys, strict=True):
                _forget(handle, "c", fence, key)
        self.done = stop
        if lost:
            self.lost = self.lost.union(lookup_id for lookup_id, _ in lost)


def settling(handle: Handle, locks: Sequence[Any]) -> Settling:
    """The commits of these locks, which must be of the same queue."""
    fences: list[str] = []
    keys: list[str] = []
    known: object = None
    fence = ""
    for lock in locks if type(locks) is list else checks.several(locks, "settle"):
        try:
            grant = lock._grant
            if grant is not known:
                known = _ours(lock, grant, handle)
                fence = grant.fence
            keys.append(lock._key)
            fences.append(fence)
        except AttributeError:
            raise _foreign(lock, handle) from None
    return Settling(fences, keys)


def ends(action: str, locks: Sequence[Any], queue: object) -> list[Settlement]:
    """What ends those of these locks that are of this queue."""
    return [(action, lock._grant.fence, lock._key) for lock in locks if lock._grant.queue is queue]


def _ours(lock: object, grant: Any, handle: Handle) -> object:
    """What these locks share. Raises InvalidArgument if it is of another queue, or if they end with a transaction."""
    if grant.handle is not handle and grant.handle.address.path != handle.path:
        raise _foreign(lock, handle)
    if grant.unit is not None:
        raise InvalidArgument("a message that was locked in a transaction ends with that: settle cannot")
    known: object = grant
    return known


def _foreign(lock: object, handle: Handle) -> InvalidArgument:
    return InvalidArgument(f"settle takes locked messages of queue {handle.path!r}, not {lock!r:.80}")


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
    runs = earlier.runs() if earlier and earlier.pending() else ()
    # By place: names cost Python a search each.
    call = read.receive(
        handle.address, mode, count, owner, grant or lease, at(place), waiter or idle, match, runs
    )
    return earlier.along(handle, call, earlier.pending()) if runs and earlier else call


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
    earlier = settling or Settling()
    if handle.parts:
        earlier.whole(handle)
    while (pending := earlier.pending()) > read.BATCH:
        yield from earlier.settle(handle)

    found = None
    if first(handle, timeout, tag):
        runs = earlier.runs() if pending else ()
        call = read.receive(handle.address, "lock", count, "", lease_ms, "", None, wanted, runs)
        status, payload = yield call
        if status == OK:
            found = understand(call, status, payload)
        else:
            found = yield from reach(handle.address, call, (status, payload))
        if pending:
            earlier.take(handle, pending, found.lost)
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
    fence, raw = found.fence, found.messages
    if len(raw) == 1:
        keys = [raw[0][0].decode()]
        handle.locks[keys[0]] = fence
    else:
        keys = b" ".join([one[0] for one in raw]).decode().split(" ")
        handle.locks.update(dict.fromkeys(keys, fence))
    sound = codec.sound(handle.address.path, raw)
    locks = Locks(handle, sound, keys, fence, now, (found.deadline, found.now_ms))
    return locks if handle.context.sealer is None else locks.whole()  # a seal may be broken


def settle(
    handle: Handle, settlements: Sequence[Settlement], lease: float | None = None
) -> Operation[read.Settled]:
    """Commit, abort, reject or renew locks (3.1.7.1.12)."""
    if handle.parts:
        settlements = whole(handle, settlements)
    call = read.settle(handle.address, settlements, lease_of(handle.context, lease))
    settled = yield from reach(handle.address, call)
    for action, fence, key in settlements:
        if action != "x":
            _forget(handle, action, fence, key)
    return settled


def _forget(handle: Handle, action: str, fence: str, lookup_id: str) -> None:
    """This lock need not be given back when the handle is closed."""
    locks = handle.locks
    if locks.get(lookup_id) == fence:
        del locks[lookup_id]
        if handle.parts or handle.getting.log:
            handle.parts.pop(lookup_id, None)
            if action == "a":
                handle.getting.back((lookup_id, fence))
            else:
                handle.getting.settle((lookup_id, fence))


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
