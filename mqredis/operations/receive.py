"""Dequeue (MS-MQDMPR 3.1.7.1.10) and Dequeue Begin (3.1.7.1.11): plain, locked, in a transaction.

``Queue`` makes them, and ``request``, which waits for replies. ``several``, ``groups``, ``cursor``, ``browser`` and
``lookup`` use ``fetch`` and ``record_locks``. A ``Locks`` becomes the ``grant`` of its ``LockedMessage``s
(``operations.locked``); kombu takes its parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mqredis import codec
from mqredis.commands import read
from mqredis.commands.arguments import Mode
from mqredis.commands.read import Found
from mqredis.commands.replies import OK
from mqredis.commands.waiting import TAKES, Waiter
from mqredis.models import Match, Message
from mqredis.models.lookup_ids import split_ids
from mqredis.operations import checks
from mqredis.operations.context import lease_of
from mqredis.operations.earlier_locks import NO_LOCKS, EarlierLocks
from mqredis.operations.interruption import release_after_close, release_after_interruption
from mqredis.operations.matching import Selection, filter_text
from mqredis.operations.open_queue import Handle
from mqredis.operations.queue_call import complete
from mqredis.operations.unit_of_work import UnitOfWork, owner_of
from mqredis.operations.wait import Reader, polls_first, until_found
from mqredis.steps import MORE, Call, More, Operation, Reply, Steps, understand


class Locks:
    """Messages locked by one call, and what they share: the fence and the lease."""

    # An instance is made for each read that locks, and most of them set none of these.
    made: list[Message] | None = None
    """The messages, once they were made: at once if they are sealed or joined of segments, else when they are asked
    for."""
    queue: Any = None
    """The open queue, a Queue of either interface. ``Locked._each`` sets it, and ``unit``."""
    unit: UnitOfWork | None = None
    """The transaction that ends the locks."""

    def __init__(
        self,
        handle: Handle,
        found: Sequence[codec.Checked],
        keys: Sequence[str],
        fence: str,
        *,
        lease_ms: str | int,
        until: float,
    ) -> None:
        self.handle = handle
        # The record of each message, and its lookup id as the scripts spell it.
        self.found = found
        self.keys = keys
        self.fence = fence
        # The lease that was asked for. A lock that was handed over has less left of it when the reply is read.
        self.lease_ms = lease_ms
        # When the lease lapses, on the monotonic clock.
        self.until = until

    @property
    def messages(self) -> list[Message]:
        """The messages."""
        return self.with_messages().made or []

    def with_messages(self) -> Locks:
        """These locks with all their messages made, which is quicker together than one by one."""
        if self.made is None:
            context = self.handle.context
            messages = codec.build_each(self.handle.address.path, context.incarnation, self.found)
            self.made = messages if context.sealer is None else context.unsealed(messages)
        return self


def fetch(
    waiter: Waiter | None,
    place: str,
    handle: Handle,
    mode: Mode,
    match: bytes = b"",
    count: int = 1,
    unit: UnitOfWork | None = None,
    lease: str = "",
    earlier: EarlierLocks = NO_LOCKS,
    cursor_at: Callable[[str], str] = read.behind,
    idle: Waiter | None = None,
) -> Call[Found]:
    """The call of one fetch of a read. The loop of waits takes it with all but the first two arguments bound
    (``wait.Fetch``).

    ``mode``: ``take``, ``lock``, or ``tx`` for a receive in a transaction. ``lease``: of the locks, in ms. ``earlier``:
    locks that the fetch settles on its way. ``cursor_at``: as of ``peek.peeking``. ``idle``: takes the place of the
    waiter in a fetch that registers none.
    """
    owner, grant = owner_of(handle, unit) if unit else ("", lease)
    runs = earlier.pending_runs()
    cursor, waiter = cursor_at(place), waiter or idle
    call = read.receive(handle.address, mode, count, owner, grant, cursor, waiter, match, runs)
    return earlier.sent_with(handle, call) if runs else call


class Receive(Operation[list[Message]]):
    """Take up to ``count`` messages, waiting for the first; in the transaction ``unit``, if there is one.

    The outcome of an interrupted call stays open: for ``resolve``, or until the transaction ends.
    """

    __slots__ = ("_call", "_wanted", "count", "handle", "match", "selector", "tag", "timeout", "unit")

    def __init__(
        self,
        handle: Handle,
        count: int,
        timeout: float | None,
        unit: UnitOfWork | None = None,
        tag: str | None = None,
        match: Match | None = None,
        selector: Selection = None,
    ) -> None:
        self.handle = handle
        self.count = count
        self.timeout = timeout
        self.unit = unit
        self.tag = tag
        self.match = match
        self.selector = selector

    def request(self) -> Call[Found] | None:
        """The first fetch, unless it has to register a waiter."""
        handle = self.handle
        handle.need("receive")
        self.count = checks.count(self.count, "max", read.BATCH)
        self._wanted = filter_text(handle, self.match, self.selector, self.timeout)
        if not polls_first(handle, self.timeout, self.tag):
            return None
        self._call = self._fetch(None, "")
        return self._call

    def accept(self, reply: Reply) -> list[Message] | More:
        """The messages, if the first fetch has found any."""
        if reply[0] != OK:
            return MORE  # nothing was found, more queues are needed, or the call was refused
        found = understand(self._call, reply)
        return self._result(found) if found.messages else MORE

    def resume(self, reply: Reply | None) -> Steps[list[Message]]:
        """Wait for messages."""
        handle, unit, found = self.handle, self.unit, None
        if reply is not None:
            found = yield from complete(self, handle.address, self._call, reply)
        reader = Reader(handle, self._fetch, self._wanted, steady=unit is None, unit=unit)
        found = yield from until_found(reader, TAKES, self.timeout, self.tag, found=found)
        return self._result(found)

    def _fetch(self, waiter: Waiter | None, place: str) -> Call[Found]:
        """Each fetch: the first one, and those of the loop of waits."""
        unit = self.unit
        return fetch(waiter, place, self.handle, "tx" if unit else "take", self._wanted, self.count, unit)

    def _result(self, found: Found) -> list[Message]:
        handle, unit = self.handle, self.unit
        if unit:
            unit.touched(found.fence, handle)
        return handle.context.messages(handle.address.path, found.messages, taken=unit is None)


class Lock(Operation[Locks]):
    """Lock up to ``count`` messages, waiting for the first; settle earlier locks in the first fetch."""

    __slots__ = (
        "_call",
        "_lease",
        "_wanted",
        "count",
        "earlier",
        "handle",
        "lease",
        "match",
        "selector",
        "tag",
        "timeout",
    )

    def __init__(
        self,
        handle: Handle,
        count: int,
        timeout: float | None,
        lease: float | None = None,
        tag: str | None = None,
        earlier: EarlierLocks = NO_LOCKS,
        match: Match | None = None,
        selector: Selection = None,
    ) -> None:
        self.handle = handle
        self.count = count
        self.timeout = timeout
        self.lease = lease
        self.tag = tag
        self.earlier = earlier
        self.match = match
        self.selector = selector

    def request(self) -> Call[Found] | None:
        """The first fetch, unless it has to register a waiter, or there is more to settle than one call takes."""
        handle, earlier = self.handle, self.earlier
        handle.need("receive")
        self.count = checks.count(self.count, "max", read.BATCH)
        context = handle.context
        self._lease = context.lease if self.lease is None else str(lease_of(context, self.lease))
        self._wanted = filter_text(handle, self.match, self.selector, self.timeout)
        if not polls_first(handle, self.timeout, self.tag) or earlier.pending() > read.BATCH:
            return None
        self._call = self._fetch(None, "")
        return self._call

    def accept(self, reply: Reply) -> Locks | More:
        """The locks, if the first fetch has found any messages."""
        if reply[0] != OK or self.handle.closed:
            return MORE  # nothing was found, more queues are needed, the call was refused, or locks must be released
        found = understand(self._call, reply)
        return record_locks(self.handle, found, self._lease) if found.messages else MORE

    def resume(self, reply: Reply | None) -> Steps[Locks]:
        """Wait for messages; settle before what one call does not take."""
        handle, earlier, found = self.handle, self.earlier, None
        if reply is not None:
            found = yield from complete(self, handle.address, self._call, reply)
            if handle.closed and found.messages:
                yield from release_after_close(handle, found)
        while earlier.pending() > read.BATCH:
            yield from earlier.settle_some(handle)
        reader = Reader(handle, self._fetch, self._wanted, steady=True, lease=self._lease, locks=True)
        found = yield from until_found(reader, TAKES, self.timeout, self.tag, found=found)
        return record_locks(handle, found, self._lease)

    def _fetch(self, waiter: Waiter | None, place: str) -> Call[Found]:
        """Each fetch: the first one, and those of the loop of waits."""
        lease, earlier = self._lease, self.earlier
        return fetch(waiter, place, self.handle, "lock", self._wanted, self.count, None, lease, earlier)

    def interrupted(self, call: Call[Any], token: str) -> Steps[None]:
        """Release what the call has locked."""
        return release_after_interruption(self.handle, call, token, locks=True)


def record_locks(handle: Handle, found: Found, lease: str) -> Locks:
    """Note what was locked, so that closing the handle can give it back. ``lease``: that of the call, in ms."""
    fence, raw = found.fence, found.messages
    if len(raw) == 1:
        keys = [raw[0][0].decode()]
        handle.locks[keys[0]] = fence
        sound: Sequence[codec.Checked] = (codec.check(handle.address.path, raw[0]),)
    else:
        keys = split_ids(codec.rows(raw).ids.decode())
        handle.locks.update(dict.fromkeys(keys, fence))
        sound = codec.check_each(handle.address.path, raw)
    locks = Locks(
        handle,
        sound,
        keys,
        fence,
        lease_ms=lease,
        until=handle.context.clock() + (found.deadline - found.now_ms) / 1000,
    )
    return locks if handle.context.sealer is None else locks.with_messages()  # a seal may be broken
