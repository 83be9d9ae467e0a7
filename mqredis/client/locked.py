"""A locked message: the second phase of a two-phase read."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Self

from mqredis.errors import DurabilityNotReached
from mqredis.models import Durability, Message
from mqredis.operations import checks
from mqredis.operations import receive as operations
from mqredis.operations.context import UnitOfWork
from mqredis.operations.durable import durably
from mqredis.operations.receive import Locks
from mqredis.operations.transaction import settle_in
from mqredis.steps import Operation

if TYPE_CHECKING:
    from types import TracebackType

    from mqredis.client.queue import Queue
    from mqredis.client.transaction import Transaction


class LockedMessage:
    """A message locked by this reader (MS-MQDMPR 3.1.7.1.11).

    Use it as a context manager: the message leaves the queue when the block ends well, and goes back to its place when
    the block raises. The lock lapses after its lease; then every call here raises LockLost and has no effect.

    One that was locked in a transaction stays with that: commit and abort do nothing (3.1.7.1.12 rule 3), reject and
    extend are the transaction's, and all raise TransactionSequence when it has ended.
    """

    _queue: Queue
    _until: float
    _key: str
    #: The message itself.
    message: Message
    #: Number of this grant; a later grant of the same message has a greater one.
    fence: str
    _unit: UnitOfWork | None
    _settled: bool

    @classmethod
    def _each(cls, queue: Queue, locks: Locks, unit: UnitOfWork | None = None) -> list[Self]:
        """What one call has locked."""
        fence, until = locks.fence, locks.until
        found: list[Self] = []
        for message, key in zip(locks.messages, locks.keys):  # noqa: B905 - of joined segments the first one's key
            lock = cls()  # an __init__ would take as much again
            lock._queue = queue
            lock._until = until
            lock._key = key
            lock.message = message
            lock.fence = fence
            lock._unit = unit
            lock._settled = False
            found.append(lock)
        return found

    @classmethod
    def _in_unit(cls, queue: Queue, message: Message, transaction: Transaction) -> Self:
        """A message that was taken in a transaction."""
        unit = transaction._unit
        until = time.monotonic() + unit.lease_ms / 1000
        return cls._each(queue, Locks([message], unit.fence, until, [f"{message.lookup_id:016x}"]), unit)[0]

    def commit(self, *, durability: Durability | str | None = None) -> None:
        """The message is dealt with: it leaves the queue (Dequeue Message End, 3.1.7.1.12). Raises LockLost.

        ``durability``: how far that must have got, else DurabilityNotReached (the message has left all the same).
        """
        self._settle("c", durability)

    def abort(self) -> None:
        """Give the message back: available again in its old place. Raises LockLost."""
        self._settle("a")

    def reject(self, reason: str = "", *, durability: Durability | str | None = None) -> None:
        """The message cannot be dealt with: it leaves the queue as rejected. Raises as ``commit``.

        ``reason`` stands in the ``reason`` of its dead letter and of its negative acknowledgement, if it leaves any.
        """
        self._settle("j" + checks.reason(reason), durability)

    def extend(self, lease: float | None = None) -> None:
        """Renew the lease to ``lease`` seconds from now (default: the settings'). Raises LockLost."""
        seconds = self._queue._lease(lease)
        now = self._queue._run(self._operation("x", seconds))
        self._until = now + seconds

    @property
    def expires_at(self) -> float:
        """When the lease lapses, on the clock of ``time.monotonic()``."""
        return self._until

    @property
    def settled(self) -> bool:
        """Was the lock ended by commit, abort or reject?"""
        return self._settled

    @property
    def body(self) -> bytes:
        """Body of the message."""
        return self.message.body

    @property
    def lookup_id(self) -> int:
        """Lookup id of the message."""
        return self.message.lookup_id

    def _settle(self, action: str, durability: Durability | str | None = None) -> None:
        operation = self._operation(action, None)
        if durability is not None:
            operation = durably(operation, durability)
        try:
            self._queue._run(operation)
        except DurabilityNotReached:
            self._settled = True
            raise
        self._settled = True

    def _operation(self, action: str, lease: float | None) -> Operation[float]:
        handle = self._queue._handle
        if self._unit is not None:
            return settle_in(self._unit, handle, self.message, action, lease)
        return operations.settle_one(handle, (action, self.fence, self._key), lease)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._settled:
            return
        if kind is None:
            self.commit()
        else:
            self._queue._give_back(self)

    def __repr__(self) -> str:
        return f"<LockedMessage {self.lookup_id:#018x} of {self.message.queue!r} fence {self.fence}>"
