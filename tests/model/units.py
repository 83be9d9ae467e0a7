"""Transaction and locked message of the model, with the public interface."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, Self

from mqredis.errors import (
    InvalidArgument,
    InvalidHandle,
    LockLost,
    MessageNotFound,
    NotSupported,
    QueueNotAvailable,
    TransactionSequence,
    TransactionUsage,
)
from mqredis.models import Message
from mqredis.status import Status
from tests.model import units_of_work
from tests.model.adm import Lock, Reason, State, UnitOfWork

if TYPE_CHECKING:
    from tests.model.handles import ModelQueue
    from tests.model.manager import ModelManager
    from tests.model.matching import Logical


_FENCES = count(1)


class ModelTransaction:
    """A unit of work; its context manager commits on success and aborts on error."""

    def __init__(self, manager: ModelManager, unit: UnitOfWork) -> None:
        self.manager = manager
        self.unit = unit
        self.id = unit.id
        self.finished = False  # as its owner knows it
        self.readers: list[Logical] = []  # handles that read in logical order in it

    def prepare(self) -> None:
        with self.manager.step():
            self._open(finish=not self.unit.open)

    def commit(self, *, retaining: bool = False) -> None:
        if retaining:
            raise NotSupported()
        with self.manager.step() as store:
            units_of_work.commit(store, self._open(finish=True))
            for reader in self.readers:
                reader.settle(self)

    def abort(self) -> None:
        with self.manager.step() as store:
            units_of_work.abort(store, self._open(finish=True))
            self._undo()

    def _undo(self) -> None:
        for reader in self.readers:
            reader.back(self)

    def extend(self, lease: float | None = None) -> None:
        with self.manager.step() as store:
            unit = self._open()
            unit.deadline = max(unit.deadline, store.now() + self.manager.lease(lease))

    def reject(self, queue: ModelQueue, message: Message) -> None:
        """Mark a message received in this transaction as rejected (MQRR 3.1.4.14)."""
        with self.manager.step():
            unit = self._open()
            for op in unit.operations:
                if op.kind != "dequeue" or op.position.lookup_id != message.lookup_id:
                    continue
                if not op.position.queue.gone:  # with its queue went the message
                    op.reason = Reason.REJECTED
                    return
            if message.lookup_id not in queue.queue.positions:
                raise MessageNotFound()
            raise TransactionUsage()

    def _open(self, *, finish: bool = False) -> UnitOfWork:
        known, self.finished = self.finished, self.finished or finish
        if not self.unit.open:
            if finish and not known:  # its lease was over: only now its owner gets to know
                self._undo()
            raise TransactionSequence()
        return self.unit

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if self.unit.open:
            (self.abort if kind else self.commit)()


class ModelLocked:
    """A two-phase read: commit deletes the message, abort releases it, reject dead-letters it."""

    def __init__(self, handle: ModelQueue, message: Message, lock: Lock) -> None:
        self.handle = handle
        self.manager = handle.manager
        self.message = message
        self.lock = lock
        self.parts: list[ModelLocked] = []  # the other segments of a message that was joined
        self.fence = str(next(_FENCES))
        self.settled = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.message, name)

    def commit(self) -> None:
        self._end(delete=True)

    def abort(self) -> None:
        try:
            self._end(delete=False)
        except LockLost:
            self.handle.getting.back(self)
            raise
        self.handle.getting.back(self)

    def reject(self) -> None:
        self._end(delete=True, reason=Reason.REJECTED)

    def extend(self, lease: float | None = None) -> None:
        if lease is not None and lease <= 0:
            raise InvalidArgument("a lease is longer than 0 seconds")
        with self.manager.step() as store:
            for lock in [self, *self.parts]:
                held = lock._held()
                held.deadline = store.now() + (held.lease if lease is None else self.manager.lease(lease))

    def _end(self, **how: Any) -> None:
        with self.manager.step() as store:
            self._held()
            for lock in [self, *self.parts]:
                if lock.lock.held:
                    store.end_locks([lock.lock], **how)
            if how.get("delete"):
                self.handle.getting.settle(self)
            self.settled = True

    def _held(self) -> Lock:
        if self.handle.closed:
            raise InvalidHandle()
        if self.lock.position.queue.gone:
            raise QueueNotAvailable()
        if not self.lock.held:
            others = self.lock.position.state in (State.LOCKED, State.PURGE_PENDING)
            raise LockLost(status=Status.LOCK_LOST if others else Status.TRANSACTION_SEQUENCE)
        return self.lock

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if self.lock.held and self.lock.position.state is not State.DELETED:
            (self.abort if kind else self.commit)()


class ModelHeld:
    """A two-phase read in a transaction, which keeps the message whatever its reader says (3.1.7.1.12 rule 3)."""

    def __init__(self, handle: Any, message: Message, transaction: ModelTransaction) -> None:
        self.handle, self.message, self.transaction = handle, message, transaction

    def __getattr__(self, name: str) -> Any:
        return getattr(self.message, name)

    def commit(self) -> None:
        if self.handle.closed:
            raise InvalidHandle()
        with self.transaction.manager.step():
            self.transaction._open()

    abort = commit

    def reject(self) -> None:
        self.transaction.reject(self.handle, self.message)

    def extend(self, lease: float | None = None) -> None:
        self.transaction.extend(lease)
