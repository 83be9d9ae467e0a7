"""QueueManager of the data model and its events: enqueue, take, delete, make available, commit, abort, purge.

All time is the store's own manual clock (seconds); leases and timers are served whenever somebody comes by.
"""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import Any

from mqredis.errors import (
    ManagerQuotaExceeded,
    MessageTimedOut,
    MessageTooLarge,
    PutInhibited,
    QueueNotAvailable,
    QueueQuotaExceeded,
    TransactionSequence,
    TransactionUsage,
)
from mqredis.models import Message, MessageClass, Outgoing
from tests.model.adm import (
    Lock,
    Operation,
    Position,
    Queue,
    State,
    Stored,
    UnitOfWork,
    Waiter,
    as_message,
    size,
)

EPOCH = datetime(2024, 1, 1, tzinfo=UTC)
MASK = (1 << 56) - 1


class Store:
    """QueueManager (3.1.1.1): what all clients of one manager share."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.changed = threading.Condition(threading.RLock())
        self.clock = 0.0
        self.sequential_id = 0
        self.throttled = False
        self.quota_messages: int | None = None
        self.quota_bytes: int | None = None
        self.queues: dict[str, Queue] = {}
        self.units: dict[str, UnitOfWork] = {}
        self.locks: list[Lock] = []
        self.removals: list[tuple[str, int, int]] = []  # queue, lookup id, reason: what MPD announced

    def now(self) -> float:
        return self.clock

    def instant(self, seconds: float) -> datetime:
        return EPOCH + timedelta(seconds=seconds)

    # ---- Enqueue Message (3.1.7.1.9) --------------------------------------------------------------------

    def admit(self, queue: Queue, outs: list[Outgoing], unit: UnitOfWork | None) -> None:
        """Refuse what may not enter, in the order of the text; a batch is one thing, in or out."""
        if (unit is not None) != queue.properties.transactional:
            raise TransactionUsage()
        if queue.properties.put_inhibited:
            raise PutInhibited()
        for out in outs:
            if len(out.body) > queue.properties.max_message_bytes:
                raise MessageTooLarge()
            if out.time_to_reach_queue is not None and out.sent_seconds_ago > out.time_to_reach_queue:
                raise MessageTimedOut()
        count, room = len(outs), sum(map(size, outs))
        everything = list(self.queues.values())
        if self.throttled or exceeds(everything, count, room, self.quota_messages, self.quota_bytes):
            raise ManagerQuotaExceeded()
        p = queue.properties
        if exceeds(queue.family(), count, room, p.quota_messages, p.quota_bytes):
            raise QueueQuotaExceeded()

    def enqueue(self, queue: Queue, out: Outgoing, unit: UnitOfWork | None) -> Position:
        """Insert an admitted message: number it, place it, lock it or make it available."""
        self.sequential_id += 1
        high = 0 if unit is not None else 7 - out.priority
        sent = self.now() - out.sent_seconds_ago
        stored = Stored(
            out=out,
            lookup_id=(high << 56) | (self.sequential_id & MASK),
            message_id=out.message_id if out.message_id is not None else f"model-{self.sequential_id}",
            sent=sent,
            arrived=self.now(),
            due=self.now() + out.delay,
            expires=None if out.time_to_be_received is None else sent + out.time_to_be_received,
            transaction_id=unit.id if unit else None,
        )
        position = Position(stored, queue)
        queue.positions[stored.lookup_id] = position
        if unit is None:
            self.available(position)
        else:
            position.state, position.holder, position.sending = State.LOCKED, unit, True
            unit.operations.append(Operation("enqueue", position))
        return position

    # ---- the two events that end a stay (3.1.7.2.1-2) ---------------------------------------------------

    def deleted(self, position: Position, reason: int) -> None:
        """Message Position Deleted."""
        if position.state is State.DELETED:
            return
        self.drop(position)
        self.removals.append((position.queue.name, position.lookup_id, reason))

    def drop(self, position: Position) -> None:
        """Take a position off its list without telling anybody."""
        position.state, position.holder = State.DELETED, None
        position.queue.positions.pop(position.lookup_id, None)
        self.forget_subqueue(position.queue)

    def available(self, position: Position) -> None:
        """Message Position Available: waiters are served first come, first served over all handles (D44)."""
        position.state, position.holder = State.AVAILABLE, None
        position.allow_peek = position.sending = False
        if self.expired(position):
            self.deleted(position, MessageClass.NACK_RECEIVE_TIMEOUT)
            return
        position.ready = position.stored.due <= self.now()
        if position.ready:
            self.feed(position)

    def feed(self, position: Position) -> None:
        """Hand a message to those who wait: peekers in turn, until a destructive reader takes it."""
        for waiter in list(position.queue.waiters):
            if position.state is not State.AVAILABLE:
                break
            self.satisfy(waiter, position)
        self.changed.notify_all()

    def satisfy(self, waiter: Waiter, position: Position) -> None:
        """Waiting Message Read Satisfied (3.1.7.3.6)."""
        self.end_wait(waiter)
        if waiter.unit is not None and not waiter.unit.open:
            waiter.error = TransactionSequence()
            return
        if waiter.cursor is not None:
            waiter.cursor.message_available(position)
        waiter.value = self.read(waiter, position)

    def read(self, waiter: Waiter, position: Position) -> Any:
        """What the reader gets; a destructive one takes the position."""
        if not waiter.destructive:
            return as_message(position)
        return self.take(position, waiter.unit, two_phase=waiter.two_phase, lease=waiter.lease)

    def end_wait(self, waiter: Waiter, error: Exception | None = None) -> None:
        """Remove a waiter from its queue; with an error, that is what it gets."""
        waiter.done, waiter.error = True, error
        waiter.handle.queue.waiters.remove(waiter)
        if error is not None and waiter.cursor is not None:
            waiter.cursor.wait_time_expired()
        self.changed.notify_all()

    def expired(self, position: Position) -> bool:
        return position.stored.expires is not None and position.stored.expires <= self.now()

    # ---- Dequeue Message, step 4 ------------------------------------------------------------------------

    def take(
        self,
        position: Position,
        unit: UnitOfWork | None = None,
        *,
        two_phase: bool = False,
        lease: float | None = None,
        allow_peek: bool = False,
    ) -> Message | tuple[Message, Lock]:
        """Lock or delete a position for a reader; the delivery is counted now (law 6)."""
        position.stored.deliveries += 1
        message = as_message(position)
        if unit is not None:
            position.state, position.holder, position.allow_peek = State.LOCKED, unit, allow_peek
            unit.operations.append(Operation("dequeue", position))
        elif two_phase:
            lock = Lock(position, self.now() + (lease or 0))
            position.state, position.holder = State.LOCKED, lock
            self.locks.append(lock)
            return message, lock
        else:
            self.deleted(position, MessageClass.ACK_RECEIVE)
        return message

    def end_lock(self, lock: Lock, *, delete: bool, reason: int = MessageClass.ACK_RECEIVE) -> None:
        """Dequeue Message End (3.1.7.1.12) of a lock that is still held."""
        lock.held = False
        self.locks.remove(lock)
        position = lock.position
        if position.state is State.PURGE_PENDING:
            self.deleted(position, MessageClass.NACK_QUEUE_PURGED)
        elif position.state is State.LOCKED:
            if delete:
                self.deleted(position, reason)
            else:
                self.available(position)

    # ---- transactions (3.1.4.3-5) -----------------------------------------------------------------------

    def commit(self, unit: UnitOfWork) -> None:
        """Transaction Commit."""
        self.close_unit(unit)
        sends = [o.position for o in unit.operations if o.kind == "enqueue"]
        if sends:
            sends[0].stored.first = sends[-1].stored.last = True
        for op in unit.operations:
            if op.position.state is State.DELETED:
                continue
            if op.kind == "enqueue":
                self.available(op.position)
            elif op.kind == "dequeue":
                self.deleted(op.position, op.reason)
            else:
                assert op.target is not None
                self.relocate(op.position, op.target)

    def abort(self, unit: UnitOfWork) -> None:
        """Transaction Abort: every message back in its place, uncommitted sends gone without a trace."""
        self.close_unit(unit)
        for op in unit.operations:
            position = op.position
            if position.state is State.DELETED:
                continue
            if op.kind == "enqueue":
                self.drop(position)
            elif position.state is State.PURGE_PENDING:
                self.deleted(position, MessageClass.NACK_QUEUE_PURGED)
            else:
                if op.kind == "dequeue":
                    position.stored.aborts += 1
                self.available(position)

    def close_unit(self, unit: UnitOfWork) -> None:
        if not unit.open:
            raise TransactionSequence()
        unit.open = False
        del self.units[unit.id]

    # ---- moves, purge, delete ---------------------------------------------------------------------------

    def relocate(self, position: Position, target: Queue) -> None:
        """Move Message (3.1.7.1.16): same message, same id, so the same place in the order."""
        self.drop(position)
        stored = position.stored
        stored.moves += 1
        stored.aborts = 0
        stored.last_moved = self.now()
        placed = Position(stored, target)
        target.positions[stored.lookup_id] = placed
        self.available(placed)

    def purge(self, queue: Queue) -> int:
        """Purge Queue (3.1.7.1.7); uncommitted sends survive (D18)."""
        count = 0
        for position in list(queue.positions.values()):
            if position.state is State.AVAILABLE:
                self.deleted(position, MessageClass.NACK_QUEUE_PURGED)
                count += 1
            elif position.state is State.LOCKED and not position.sending:
                position.state = State.PURGE_PENDING
        return count

    def delete(self, queue: Queue) -> None:
        """Delete Queue (3.1.7.1.4): every position goes, waiters end (D22), subqueues go with it."""
        for sub in [q for q in self.queues.values() if q.parent is queue]:
            self.delete(sub)
        queue.gone = True
        for waiter in list(queue.waiters):
            self.end_wait(waiter, QueueNotAvailable())
        for position in list(queue.positions.values()):
            self.deleted(position, MessageClass.NACK_QUEUE_DELETED)
        self.queues.pop(queue.name, None)

    def forget_subqueue(self, queue: Queue) -> None:
        """A subqueue goes when it is empty, nobody has it open and no open move aims at it (section 6.5)."""
        aimed = any(o.target is queue for u in self.units.values() for o in u.operations)
        if queue.parent is not None and not (queue.positions or queue.handles or queue.gone or aimed):
            queue.gone = True
            self.queues.pop(queue.name, None)

    # ---- time -------------------------------------------------------------------------------------------

    def serve(self) -> None:
        """Everything that is due: lapsed leases, expired messages, delayed messages."""
        for unit in sorted(self.units.values(), key=lambda u: u.deadline):
            if unit.deadline <= self.now():
                self.abort(unit)
        for lock in sorted(self.locks, key=lambda held: held.deadline):
            if lock.deadline <= self.now():
                self.end_lock(lock, delete=False)
        for queue in list(self.queues.values()):
            for position in list(queue.walk(None)):
                if position.state is not State.AVAILABLE:
                    continue
                if self.expired(position):
                    self.deleted(position, MessageClass.NACK_RECEIVE_TIMEOUT)
                elif not position.ready and position.stored.due <= self.now():
                    position.ready = True
                    self.feed(position)


def exceeds(queues: list[Queue], count: int, room: int, messages: int | None, octets: int | None) -> bool:
    """Would ``count`` more messages of ``room`` bytes be more than a quota? Exact fit is no excess."""
    held = [p for q in queues for p in q.positions.values()]
    if messages is not None and len(held) + count > messages:
        return True
    return octets is not None and sum(size(p.stored.out) for p in held) + room > octets
