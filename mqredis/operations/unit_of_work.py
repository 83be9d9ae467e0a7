"""A transaction as its client knows it: its fence and lease, the queues it has touched, and what its end restores.

The transactions of ``asyncio`` have one each, and ``operations.transaction`` ends it. Each operation that may run in
one takes it, and tells it what the reply says. ``Context`` has all of a client.

``__del__`` runs in the thread that drops the last reference, whatever it is doing, so it only appends to a deque.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mqredis.commands.transactions import Doubt
from mqredis.errors import InvalidArgument, TransactionSequence
from mqredis.operations.open_queue import GroupPosition, Handle

if TYPE_CHECKING:
    from mqredis.operations.context import Context


@dataclass(slots=True, eq=False, weakref_slot=True)
class UnitOfWork:
    """A transaction (MS-MQDMPR 3.1.1.14) as its client knows it."""

    context: Context
    id: str
    lease_ms: int
    fence: str = ""  # "" before its first operation, which begins it
    paths: dict[str, None] = field(default_factory=dict)
    """The queues of its operations, in the order in which its end names them; a dict is an ordered set here."""
    finished: str = ""
    """What it is after its end, for errors: "committed", "aborted", "over" or "in doubt"; "" before it."""
    lapses: float = math.inf
    """When the lease ends at the latest, on ``context.clock``."""
    doubts: Sequence[Doubt] = ()
    """Its calls with an unknown outcome; set when the transaction is about to end."""
    undo: tuple[Callable[[], None], ...] = ()
    """Functions that an abort calls to restore the state of groups that are written in logical order."""
    inherited: bool = False
    """Is it that of the parent process, which ends it?"""
    readers: tuple[GroupPosition, ...] = ()
    """Positions in groups that an abort restores, of handles that read in the unit of work."""

    def __del__(self) -> None:
        """Keep a unit of work that has begun until its client is closed, which aborts it."""
        if self.open:
            self.context.dropped.append(self)

    @property
    def open(self) -> bool:
        """Does the broker know it, and has this process to end it?"""
        return bool(self.fence) and not self.finished and not self.inherited

    def rolled_back(self) -> None:
        """The unit of work was undone."""
        for restore in reversed(self.undo):
            restore()
        self.undo = ()
        for reader in self.readers:
            reader.back(self)

    def committed(self) -> None:
        """The unit of work was committed: its messages will not be returned."""
        for reader in self.readers:
            reader.settle(self)

    def grant(self) -> str:
        """The fence that a call names, or the lease with which it begins the transaction."""
        if self.finished:
            raise TransactionSequence(f"transaction {self.id!r} is {self.finished} already")
        return self.fence or f"+{self.lease_ms}"

    def renewed(self, lease_ms: int) -> None:
        """The lease was begun or renewed just now."""
        self.lapses = self.context.clock() + lease_ms / 1000

    def touched(self, fence: str, handle: Handle) -> None:
        """An operation of this unit of work on this queue succeeded. ``fence``: in its reply, of the transaction.

        The lease runs from the first operation; later ones do not renew it. Raises TransactionSequence if this one
        began it while another task ended it: the broker had not heard of it by then, so this one is no part of it.
        """
        if self.finished and not self.fence:
            raise TransactionSequence(
                f"transaction {self.id!r} was {self.finished} while this call was under way, so what the call did is "
                "undone when the lease ends: wait for the calls in a transaction before you end it"
            )
        if not self.fence:
            self.renewed(self.lease_ms)
        self.fence = fence
        address = handle.address
        if address.path not in self.paths:
            self.paths.update(dict.fromkeys(address.family))


def unit_of(transaction: object) -> UnitOfWork | None:
    """The unit of work behind what a caller gave as ``transaction``, a Transaction of either interface."""
    if transaction is None:
        return None
    unit = getattr(transaction, "unit", None)
    if not isinstance(unit, UnitOfWork):
        raise InvalidArgument(f"transaction must be a mqredis Transaction, not {type(transaction).__name__}")
    return unit


def owner_of(handle: Handle, unit: UnitOfWork | None) -> tuple[str, str]:
    """Id and grant of the transaction a call runs in, or two empty texts."""
    if unit is None:
        return "", ""
    if unit.context is not handle.context and unit.context.keys.tag != handle.context.keys.tag:
        raise InvalidArgument("the transaction belongs to another queue manager")
    return unit.id, unit.grant()


def lapsed(context: Context, until: float, otherwise: str) -> str:
    """When a lease ended, for an error; ``otherwise`` if it should not be over by this process's clock."""
    ago = context.clock() - until
    return f"its lease ended {ago:.1f} s ago" if ago >= 0 else otherwise
