"""What a locked message is to the blocking and the asynchronous reader alike.

``LockedMessage`` of both interfaces is a subclass. Workers, kombu and ``otel.patches`` use the properties (``key``,
``grant``, ``queue``), and workers ``mark_renewed`` and ``mark_settled``. ``settle`` and ``earlier_locks``, which run
for each message of a batch, read ``_key`` and ``_grant`` themselves, and ``note_outcome`` sets ``_settled``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn, Self

from mqredis import codec
from mqredis.errors import InvalidArgument, LockLost
from mqredis.models import Message
from mqredis.models.lookup_ids import format_id
from mqredis.operations.receive import Locks
from mqredis.operations.settle import Settle, lock_lost
from mqredis.operations.transaction import settle_in
from mqredis.operations.unit_of_work import UnitOfWork, lapsed
from mqredis.steps import Operation


def lost_of(locks: Sequence[Locked], error: LockLost) -> LockLost:
    """The error of :meth:`Locked._lost` for the lock that ``error`` is about."""
    lookup_id, _ = error.details["lost"]
    return next((lock._lost(error) for lock in locks if lock._key == lookup_id), error)


class _Made:
    """Makes the message of a lock when it is first asked for.

    It has no ``__set__``, so Python finds a message that was made in the lock itself, and does not come here again.
    """

    def __get__(self, lock: Any, _: object = None) -> Any:
        if lock is None:
            return self
        handle = lock._grant.handle
        message = codec.build(handle.address.path, handle.context.incarnation, lock._found)
        return vars(lock).setdefault("message", message)  # threads that ask at once find the same


class Locked:
    """A message, its grant, and how it ends; the faces add what runs that."""

    lookup_id: int
    """Lookup id of the message."""
    body: bytes
    """Body of the message."""
    message: Message = _Made()  # type: ignore[assignment]
    """The message itself."""

    _grant: Locks
    _key: str
    _found: codec.Checked
    # When the lease lapses, since ``extend`` has set another one than that of the grant.
    _until: float | None = None
    _settled = False

    @classmethod
    def _each(cls, queue: object, locks: Locks, unit: UnitOfWork | None = None) -> list[Self]:
        """The locked messages of one call."""
        locks.queue, locks.unit = queue, unit
        each: list[Self] = []
        if locks.made is None:
            for key, found in zip(locks.keys, locks.found, strict=True):
                lock = cls()  # an __init__ would take as much again
                lock._grant = locks
                lock._key = key
                lock._found = found
                lock.lookup_id, _, _, lock.body = found
                each.append(lock)
        else:
            for key, message in zip(locks.keys, locks.made):  # noqa: B905 - of joined segments the first one's key
                lock = cls()
                lock._grant = locks
                lock._key = key
                lock.message = message
                lock.lookup_id, lock.body = message.lookup_id, message.body
                each.append(lock)
            locks.made = None
        locks.keys = locks.found = ()  # a lock that the caller keeps must not keep the bodies of the others
        return each

    @classmethod
    def _in_transaction(cls, queue: Any, message: Message, unit: UnitOfWork) -> Self:
        """A message that was taken in a transaction now."""
        locks = Locks(
            queue._handle,
            (),
            [format_id(message.lookup_id)],
            unit.fence,
            lease_ms=unit.lease_ms,
            until=unit.lapses,
        )
        locks.made = [message]
        return cls._each(queue, locks, unit)[0]

    @property
    def fence(self) -> str:
        """Number of this grant; a later grant of the same message has a greater one."""
        return self._grant.fence

    @property
    def expires_at(self) -> float:
        """When the lease lapses, on the clock of ``time.monotonic()``."""
        unit = self._grant.unit
        if unit is not None:
            return unit.lapses
        until = self._until
        return self._grant.until if until is None else until

    @property
    def settled(self) -> bool:
        """Was the lock ended by commit, abort or reject?"""
        return self._settled

    # ---- for integrations (docs/extending.md) -----------------------------------------------------

    @property
    def key(self) -> str:
        """Lookup id of the message, in 16 hex digits."""
        return self._key

    @property
    def grant(self) -> Locks:
        """What the messages that were locked by one call share: handle, queue, fence and lease."""
        return self._grant

    @property
    def queue(self) -> Any:
        """The open queue that the message was locked through."""
        return self._grant.queue

    @property
    def _unit(self) -> UnitOfWork | None:
        return self._grant.unit

    def _operation(self, action: str, lease: float | None) -> Operation[float]:
        handle = self._grant.handle
        if self._unit is not None:
            return settle_in(self._unit, handle, self.message, action, lease)
        return Settle(handle, (action, self.fence, self._key), lease)

    def _lost(self, error: LockLost) -> LockLost:
        """The refusal ``error`` of the broker, with what this lock knows: it was settled before, or its lease ended."""
        handle = self._grant.handle
        if self._settled:
            cause, advice = "commit, abort or reject has settled it before", ""
        else:
            # The lease may also be over by the server's clock alone, as after ``advance_clock``.
            cause = lapsed(
                handle.context, self.expires_at, "its lease is over, or another client has taken it away"
            )
            advice = "; call extend() in time, or lock with a longer lease"
        return lock_lost(handle.path, error.details["lost"], cause, advice)

    def __reduce__(self) -> NoReturn:
        raise InvalidArgument(
            f"{self!r} cannot be pickled or copied, since only its client can end the lock: pass on its message"
        )

    def __repr__(self) -> str:
        return f"<LockedMessage {self.lookup_id:#018x} of {self.message.queue!r} fence {self.fence}>"


def mark_renewed(lock: Locked, until: float) -> None:
    """Note that an operation has renewed the lease of this lock, to this moment of the monotonic clock."""
    lock._until = until


def mark_settled(lock: Locked) -> None:
    """Note that an operation has settled this lock. Its ``settled`` is true from now on."""
    lock._settled = True
