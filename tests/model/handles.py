"""An open queue of the model (OpenQueueDescriptor, 3.1.1.16), with the public interface."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Self

from mqredis.errors import (
    AccessDenied,
    GetInhibited,
    InvalidArgument,
    InvalidHandle,
    IoTimeout,
    MessageLocked,
    MessageNotFound,
    OperationCancelled,
    QueueNotAvailable,
    TransactionSequence,
    TransactionUsage,
    UnsupportedAccess,
    WaiterNotFound,
)
from mqredis.keys import is_journal_or_system
from mqredis.models import Access, Match, Message, Outgoing, Seek, Sent, Share
from mqredis.status import Status
from tests.model import matching, topics
from tests.model.adm import (
    ALLOWS,
    Lock,
    Operation,
    Position,
    Queue,
    Reason,
    State,
    UnitOfWork,
    Waiter,
    as_message,
)
from tests.model.cursors import ModelCursor
from tests.model.reads import Reads
from tests.model.units import ModelHeld, ModelLocked, ModelTransaction

if TYPE_CHECKING:
    from tests.model.manager import ModelManager


def outgoing(body: Any, fields: dict[str, Any]) -> Outgoing:
    """Return a validated message from the arguments of ``send``."""
    made = body if isinstance(body, Outgoing) else Outgoing(body=body, **fields)
    if made.segment and not made.last_segment and not made.body:
        raise InvalidArgument("only the last segment of a message may be empty")
    ids = {name: getattr(made, name) for name in ("message_id", "correlation_id", "group_id")}
    none = {name: None for name, value in ids.items() if matching.normal(value) == matching.NONE}
    return made.replace(segment=made.segment or made.last_segment, **none)


class ModelQueue(Reads):
    """A handle."""

    def __init__(
        self,
        manager: ModelManager,
        queue: Queue,
        access: Access,
        share: Share,
        selector: str | None = None,
    ) -> None:
        self.manager = manager
        self.selector = selector
        self.getting = matching.Logical()
        self.queue = queue
        self.name = queue.name
        self.access = access
        self.share = share
        self.cursors: list[ModelCursor] = []
        self.locks: list[Lock] = []
        self.closed = False
        queue.handles.append(self)

    # ---- sending ----------------------------------------------------------------------------------------

    def send(self, body: Any = b"", *, transaction: ModelTransaction | None = None, **fields: Any) -> Sent:
        return self.send_many([outgoing(body, fields)], transaction=transaction)[0]

    def send_many(self, items: Iterable[Any], *, transaction: ModelTransaction | None = None) -> list[Sent]:
        """All or nothing: one script decides before it applies (law 1)."""
        outs = [outgoing(item, {}) for item in items]
        with self._step("send", transaction) as store:
            unit = transaction.unit if transaction else None
            if self.queue.properties.topic:
                return list(map(self._sent, topics.publish(store, self.queue, outs, unit)))
            store.admit(self.queue, outs, unit)
            return list(map(self._sent, store.enqueue(self.queue, outs, unit)))

    def _sent(self, position: Position) -> Sent:
        stored = position.stored
        token = f"model-{stored.lookup_id}"
        return Sent(
            lookup_id=stored.lookup_id,
            message_id=stored.message_id,
            token=token,
            group_id=stored.out.group_id,
        )

    # ---- reading by lookup id (3.1.7.1.13) --------------------------------------------------------------

    def receive_by_lookup_id(
        self, lookup_id: int, *, seek: Seek = Seek.CURRENT, transaction: Any = None, allow_peek: bool = False
    ) -> Message:
        with self._reading("receive", transaction):
            unit = self.unit(transaction)
            return self.take(self._at(lookup_id, seek, peek=False), unit, allow_peek=allow_peek)

    def lock_by_lookup_id(
        self,
        lookup_id: int,
        *,
        seek: Seek = Seek.CURRENT,
        lease: float | None = None,
        allow_peek: bool = False,
        transaction: Any = None,
    ) -> ModelLocked | ModelHeld:
        if transaction is not None:
            how = {"seek": seek, "transaction": transaction, "allow_peek": allow_peek}
            return ModelHeld(self, self.receive_by_lookup_id(lookup_id, **how), transaction)
        with self._reading("receive"):
            position = self._at(lookup_id, seek, peek=False)
            how = {"two_phase": True, "lease": self.manager.lease(lease)}
            return self.take(position, None, allow_peek=allow_peek, **how)

    def peek_by_lookup_id(self, lookup_id: int, *, seek: Seek = Seek.CURRENT) -> Message:
        with self._reading("peek"):
            return self.as_peeked(self._at(lookup_id, seek, peek=True))

    def _at(self, lookup_id: int, seek: Seek, *, peek: bool) -> Position:
        """Seek Available Message Position With Id (3.1.7.3.3), read as D3, D5 and D6 say.

        A handle with a selector sees available messages that it selects, and nothing else.
        """
        selectors = self.wanted(None, None).selectors
        shows_locked = peek and not selectors
        place: int | None = None if seek in (Seek.FIRST, Seek.LAST) else lookup_id
        anchor = None if place is None else self.queue.positions.get(place)
        if place is not None and anchor is None:
            raise MessageNotFound()

        def admits(position: Position) -> bool:
            if not matching.agrees(position, None, selectors):
                return False
            return peek or not matching.exclusive(self.queue) or not self._active(position)

        if seek is Seek.CURRENT and anchor is not None:
            if self.queue.acceptable(anchor, peek=shows_locked):
                found = anchor if admits(anchor) else None
            elif shows_locked and anchor.state is State.LOCKED:
                raise TransactionUsage()
            else:
                found = None
        else:
            forward = seek in (Seek.FIRST, Seek.NEXT)
            found = self.queue.seek(place, peek=shows_locked, forward=forward)
            while found is not None and not admits(found):
                found = self.queue.seek(found.lookup_id, peek=shows_locked, forward=forward)
        if found is None:
            raise MessageNotFound()
        return found

    def _active(self, position: Position) -> bool:
        return matching.busy(self.queue, matching.group_of(position))

    # ---- the rest of the interface ----------------------------------------------------------------------

    def cursor(self, *, match: Match | None = None, selector: str | None = None) -> ModelCursor:
        with self._step("peek"):
            self.cursors.append(ModelCursor(self, match, selector))
            return self.cursors[-1]

    def move(self, lookup_id: int, target: ModelQueue, *, transaction: Any = None) -> None:
        """Move Message (3.1.7.1.16) behind the checks of MQRR 3.1.4.10."""
        with self.manager.step(lambda: self._may_move(target, transaction)) as store:
            if target.queue.gone:
                raise QueueNotAvailable()
            unit = self.unit(transaction)
            position = self.queue.positions.get(lookup_id)
            if position is None:
                raise MessageNotFound()
            if not self.queue.acceptable(position, peek=False):  # locked, or held back until it is due
                raise MessageLocked()
            if store.expired(position):
                raise MessageNotFound()
            if unit is None:
                store.relocate([position], target.queue)
            else:
                position.state, position.holder = State.LOCKED, unit
                unit.operations.append(Operation("move", position, target.queue))

    def _may_move(self, target: ModelQueue, transaction: ModelTransaction | None) -> None:
        if self.closed:
            raise InvalidHandle()
        if "receive" not in ALLOWS[self.access]:
            raise AccessDenied()
        if target.closed or "move" not in ALLOWS[target.access]:
            raise InvalidHandle()
        if is_journal_or_system(self.name) or is_journal_or_system(target.name):
            raise UnsupportedAccess()
        if self.name == target.name or self.name.partition(";")[0] != target.name.partition(";")[0]:
            raise InvalidArgument(status=Status.STATUS_INVALID_PARAMETER)
        self.usable("receive", transaction)

    def purge(self, *, match: Match | None = None, selector: str | None = None) -> int:
        wanted = self.wanted(match, selector)
        with self._step("receive") as store:
            if wanted.plain:
                return store.purge(self.queue)
            going = [found[0] for found in matching.search(self.queue, wanted, len(self.queue.positions))]
            store.deleted(going, Reason.PURGED)
            return len(going)

    def cancel(self, tag: Any) -> None:
        """Cancel Waiting Message Read Request (3.1.7.1.17): every handle's waiters are searched."""
        with self._step("peek") as store:
            for waiter in self.queue.waiters:
                if waiter.tag is not None and waiter.tag == tag:
                    store.end_wait(waiter, OperationCancelled())
                    return
            raise WaiterNotFound()

    def close(self) -> None:
        """Close Queue (3.1.7.1.6); all waiters end and unended two-phase reads are given back (D23)."""
        with self.manager.step() as store:
            if self.closed:
                return
            self.closed = True
            for waiter in [w for w in self.queue.waiters if w.handle is self]:
                store.end_wait(waiter, OperationCancelled())
            store.end_locks([held for held in self.locks if held.held], delete=False)
            for cursor in self.cursors:
                cursor.closed = True
            self.queue.handles.remove(self)
            store.forget_subqueue(self.queue)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- shared with cursors ----------------------------------------------------------------------------

    def usable(
        self, need: str, transaction: ModelTransaction | None = None, *, reading: bool = False
    ) -> None:
        """Check for errors of the caller before those that others caused; the specification gives no order."""
        if self.closed:
            raise InvalidHandle()
        if need not in ALLOWS[self.access] or (need == "send" and ";" in self.name):
            raise AccessDenied()
        if transaction is not None and transaction.finished:
            raise TransactionSequence()
        if self.queue.gone:
            raise QueueNotAvailable()
        if reading and self.queue.properties.get_inhibited:
            raise GetInhibited()

    def unit(self, transaction: ModelTransaction | None) -> UnitOfWork | None:
        """The open unit of work behind a transaction, fit for this queue."""
        if transaction is None:
            return None
        if not self.queue.properties.transactional:
            raise TransactionUsage()
        if not transaction.unit.open:
            raise TransactionSequence()
        return transaction.unit

    def take(self, position: Position, unit: UnitOfWork | None, **how: Any) -> Any:
        return self.take_all([position], unit, **how)[0]

    def take_all(self, positions: Sequence[Position], unit: UnitOfWork | None, **how: Any) -> list[Any]:
        return [self._wrap(taken) for taken in self.manager.store.take(positions, unit, **how)]

    def as_peeked(self, position: Position) -> Message:
        return as_message(position)

    def wait(self, timeout: float | None, **how: Any) -> Any:
        """Wait For New Message (3.1.7.3.1): the lock on the store is released while this waits."""
        store = self.manager.store
        waiter = Waiter(handle=self, **how)
        self.queue.waiters.append(waiter)
        deadline = None if timeout is None else time.monotonic() + timeout
        while not waiter.done:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                store.end_wait(waiter, IoTimeout())
                break
            store.changed.wait(left)
        if waiter.error is not None:
            raise waiter.error
        return self._wrap(waiter.value)

    def _wrap(self, taken: Any) -> Any:
        if not isinstance(taken, tuple):
            return taken
        self.locks.append(taken[1])
        return ModelLocked(self, *taken)

    def _step(self, need: str, transaction: ModelTransaction | None = None) -> Any:
        return self.manager.step(lambda: self.usable(need, transaction))

    def _reading(self, need: str, transaction: ModelTransaction | None = None) -> Any:
        return self.manager.step(lambda: self.usable(need, transaction, reading=True))
