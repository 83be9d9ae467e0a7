"""What a locked message is to the blocking and the asynchronous reader alike."""

from __future__ import annotations

from typing import Any, Self

from mqredis.models import Message
from mqredis.operations import receive
from mqredis.operations.context import UnitOfWork
from mqredis.operations.receive import Locks
from mqredis.operations.transaction import settle_in
from mqredis.steps import Operation


class Locked:
    """A message, its grant, and how it ends; the faces add what runs that."""

    _queue: Any
    _until: float
    _key: str
    #: The message itself.
    message: Message
    #: Number of this grant; a later grant of the same message has a greater one.
    fence: str
    _unit: UnitOfWork | None
    _settled: bool

    @classmethod
    def _each(cls, queue: object, locks: Locks, unit: UnitOfWork | None = None) -> list[Self]:
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
    def _of_unit(cls, queue: object, message: Message, unit: UnitOfWork, now: float) -> Self:
        """A message that was taken in a transaction."""
        until = now + unit.lease_ms / 1000
        return cls._each(queue, Locks([message], unit.fence, until, [f"{message.lookup_id:016x}"]), unit)[0]

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

    def _operation(self, action: str, lease: float | None) -> Operation[float]:
        handle = self._queue._handle
        if self._unit is not None:
            return settle_in(self._unit, handle, self.message, action, lease)
        return receive.settle_one(handle, (action, self.fence, self._key), lease)

    def __repr__(self) -> str:
        return f"<LockedMessage {self.lookup_id:#018x} of {self.message.queue!r} fence {self.fence}>"
