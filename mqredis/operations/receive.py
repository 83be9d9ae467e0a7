"""Dequeue (MS-MQDMPR 3.1.7.1.10) and Dequeue Begin (3.1.7.1.11): plain, locked, in a transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from mqredis import codec
from mqredis.commands import read
from mqredis.commands.common import OK
from mqredis.commands.read import Found, Waiter
from mqredis.errors import MqError
from mqredis.models import Match, Message
from mqredis.operations import checks
from mqredis.operations.context import Handle, UnitOfWork, lease_of, owner_of
from mqredis.operations.matching import Selection, text_of
from mqredis.operations.reach import reach
from mqredis.operations.regain import regain
from mqredis.operations.settle import Settling
from mqredis.operations.wait import Look, first, until_found
from mqredis.steps import NOW, Asked, Call, Operation, understand

#: When it lapses, and when that was said, on the server's clock in ms.
Lease = tuple[bytes | int, int]


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
        lease: Lease,
    ) -> None:
        self.handle = handle
        #: What came of each message, and its lookup id as the scripts spell it.
        self.found = found
        self.keys = keys
        self.fence = fence
        #: When the call was answered, on the driver's monotonic clock.
        self.now = now
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
    asked: Asked | None = None,
) -> Operation[list[Message]]:
    """Take up to ``count`` messages, waiting for the first. ``asked``: the first look, for who has made it."""
    if asked is None:
        handle.need("receive")
    count = checks.count(count, "max", read.BATCH)
    wanted = text_of(handle, match, selector, timeout)

    mode, found = "tx" if unit else "take", None
    if asked is not None or first(handle, timeout, tag):
        if asked is None:
            owner, grant = owner_of(handle, unit) if unit else ("", "")
            call = read.receive(handle.address, mode, count, owner, grant, "", None, wanted)
            status, payload = yield call
        else:
            call, (status, payload) = asked
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
    asked: Asked | None = None,
) -> Operation[Locks]:
    """Lock up to ``count`` messages, waiting for the first; settle earlier locks in the first look.

    ``asked``: the first look, for who has made it.
    """
    if asked is None:
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
    if asked is not None or first(handle, timeout, tag):
        if asked is None:
            runs = earlier.runs() if pending else ()
            call = read.receive(handle.address, "lock", count, "", lease_ms, "", None, wanted, runs)
            try:
                status, payload = yield call
            except (GeneratorExit, MqError):
                raise
            except BaseException:
                yield from regain(handle, call)
                raise
        else:
            call, (status, payload) = asked
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
        ids = codec.rows(raw).ids.decode()
        keys = [ids[n : n + 16] for n in range(0, len(ids), 16)]
        handle.locks.update(dict.fromkeys(keys, fence))
    sound = codec.sound(handle.address.path, raw)
    locks = Locks(handle, sound, keys, fence, now, (found.deadline, found.now_ms))
    return locks if handle.context.sealer is None else locks.whole()  # a seal may be broken
