"""QueueManager of the data model and its events: enqueue, take, delete, make available, purge, delete queue.

All time is the store's own manual clock (seconds). What leaves or comes together does so before any of it leaves a
trace, so that a quota is never exceeded by a message that is on its way out.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from mqredis.errors import (
    DuplicateMessage,
    ManagerQuotaExceeded,
    MessageTimedOut,
    MessageTooLarge,
    MqError,
    PutInhibited,
    QueueNotAvailable,
    QueueQuotaExceeded,
    TransactionSequence,
    TransactionUsage,
)
from mqredis.models import Message, Outgoing, QueueProperties
from tests.model import dedup, retry, traces
from tests.model.adm import (
    Lock,
    Operation,
    Position,
    Queue,
    Reason,
    State,
    Stored,
    UnitOfWork,
    Waiter,
    as_message,
    exceeds,
)

EPOCH = datetime(2024, 1, 1, tzinfo=UTC)
MASK = (1 << 56) - 1
# The largest message of a journal or a queue of the system.
LARGEST = 67_108_864


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
        # What goes to another queue: the manager's quota counts it once.
        self.leaving: Position | None = None
        self.queues: dict[str, Queue] = {}
        self.units: dict[str, UnitOfWork] = {}
        self.locks: list[Lock] = []

    def now(self) -> float:
        return self.clock

    def instant(self, seconds: float) -> datetime:
        return EPOCH + timedelta(seconds=seconds)

    def find(self, name: str, *, make: bool = False) -> Queue | None:
        """A queue by name. The broker makes those that it keeps by itself: journals, dead letters, ;retry, ;poison."""
        queue = self.queues.get(name)
        if queue is None and make:
            owner, _, part = name.partition(";")
            if owner == "system$" or part == "journal":
                own = QueueProperties(transactional=part == "deadxact", max_message_bytes=LARGEST)
                queue = Queue(self, name, own)
            else:
                parent = self.queues[owner]
                queue = Queue(self, name, parent.own, parent)
            self.queues[name] = queue
        return queue

    # ---- Enqueue Message (3.1.7.1.9) --------------------------------------------------------------------

    def admit(self, queue: Queue, outs: list[Outgoing], unit: UnitOfWork | None) -> None:
        """Check in the order of the specification whether a batch is accepted; it is accepted or refused as a whole."""
        try:
            self.check(queue, outs, unit)
        except MqError as error:
            traces.refused(self, queue, outs, unit, error)
            raise

    def check(self, queue: Queue, outs: list[Outgoing], unit: UnitOfWork | None) -> None:
        self.check_form(queue, outs, unit)
        drafts = [self.draft(out, unit) for out in outs]
        if self.throttled or self.full(drafts):
            raise ManagerQuotaExceeded()
        if queue.full(drafts):
            raise QueueQuotaExceeded()
        if dedup.taken(self, queue, outs):
            raise DuplicateMessage()

    def check_form(self, queue: Queue, outs: list[Outgoing], unit: UnitOfWork | None) -> None:
        """Check that the queue accepts messages of this kind and that they are valid."""
        if (unit is not None) != queue.properties.transactional:
            raise TransactionUsage()
        if queue.properties.put_inhibited:
            raise PutInhibited()
        if unit is not None and not unit.open:
            raise TransactionSequence()
        for draft in (self.draft(out, unit) for out in outs):
            if draft.size > queue.properties.max_message_bytes:
                raise MessageTooLarge()
            limit = draft.out.time_to_reach_queue
            if limit is not None and draft.out.sent_seconds_ago > limit:
                raise MessageTimedOut()

    def full(self, more: Sequence[Stored]) -> bool:
        """Return whether the quota of the manager would be exceeded, which is checked before that of the queue."""
        every = (p for q in self.queues.values() for p in q.positions.values())
        held = (p.stored for p in every if p is not self.leaving)
        return exceeds(held, more, self.quota_messages, self.quota_bytes)

    def draft(self, out: Outgoing, unit: UnitOfWork | None) -> Stored:
        """A message that has no number yet."""
        sent = self.now() - out.sent_seconds_ago
        if unit is not None:
            out = out.replace(recoverable=True)
        return Stored(
            out=out,
            lookup_id=0,
            message_id=out.message_id,
            sent=sent,
            arrived=self.now(),
            due=self.now() + out.delay,
            expires=None if out.time_to_be_received is None else sent + out.time_to_be_received,
            transaction_id=unit.id if unit else None,
        )

    def number(self, stored: Stored, high: int) -> None:
        """LookupIdentifier, and a message id made from it if its sender gave none."""
        self.sequential_id += 1
        stored.lookup_id = (high << 56) | (self.sequential_id & MASK)
        if stored.message_id is None:
            stored.message_id = f"mq-{stored.lookup_id:016x}"

    def enqueue(self, queue: Queue, outs: list[Outgoing], unit: UnitOfWork | None) -> list[Position]:
        """Insert admitted messages: number them, place them, lock them or make them available."""
        drafts = [self.draft(out, unit) for out in outs]
        for stored in drafts:
            self.number(stored, 0 if unit is not None else 7 - stored.out.priority)
        dedup.hold(self, queue, outs)
        return self.place(queue, drafts, unit)

    def place(self, queue: Queue, drafts: Sequence[Stored], unit: UnitOfWork | None) -> list[Position]:
        """Numbered messages into a queue; outside a transaction their sender hears of it at once."""
        positions = [Position(stored, queue) for stored in drafts]
        queue.positions.update((p.lookup_id, p) for p in positions)
        if unit is None:
            traces.accepted(self, positions)
            self.available(positions)
            return positions
        for position in positions:
            position.state, position.holder, position.sending = State.LOCKED, unit, True
            unit.operations.append(Operation("enqueue", position))
        return positions

    # ---- the two events that end a stay (3.1.7.2.1-2) ---------------------------------------------------

    def deleted(self, positions: Sequence[Position], reason: Reason) -> None:
        """Message Position Deleted, with its effects on dedup keys, statistics and copies."""
        positions = [p for p in positions if p.state is not State.DELETED]
        for position in positions:
            self.drop(position)
            dedup.gone(self, position, reason)
            if reason is not Reason.ABORTED:
                position.queue.left += 1
            if reason not in (Reason.ABORTED, Reason.RECEIVED):
                position.queue.reasons[reason] += 1
        for position in positions:
            traces.left(self, position, reason)

    def drop(self, position: Position) -> None:
        """Remove a position from its list, without waking a reader."""
        position.state, position.holder = State.DELETED, None
        position.queue.positions.pop(position.lookup_id, None)

    def available(self, positions: Sequence[Position]) -> None:
        """Message Position Available: waiters are served first come, first served over all handles (D44)."""
        late = [p for p in positions if self.expired(p)]
        for position in positions:
            position.state, position.holder = State.AVAILABLE, None
            position.allow_peek = position.sending = False
            position.ready = position.stored.due <= self.now()
        self.deleted(late, Reason.EXPIRED)
        for position in positions:
            if position.state is State.AVAILABLE and position.ready:
                self.feed(position)

    def feed(self, position: Position) -> None:
        """Give a message to waiters in order: to peeks, until a destructive read takes it."""
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
        """Return the result for the reader; a destructive read takes the position."""
        if not waiter.destructive:
            return as_message(position)
        return self.take([position], waiter.unit, two_phase=waiter.two_phase, lease=waiter.lease)[0]

    def end_wait(self, waiter: Waiter, error: Exception | None = None) -> None:
        """Remove a waiter from its queue; if an error is given, the waiter gets it."""
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
        positions: Sequence[Position],
        unit: UnitOfWork | None = None,
        *,
        two_phase: bool = False,
        lease: float | None = None,
        allow_peek: bool = False,
    ) -> list[Any]:
        """Lock or delete positions for a reader; the delivery is counted now (law 6)."""
        taken: list[Message | tuple[Message, Lock]] = []
        for position in positions:
            position.stored.deliveries += 1
            message = as_message(position)
            if unit is not None:
                position.state, position.holder, position.allow_peek = State.LOCKED, unit, allow_peek
                unit.operations.append(Operation("dequeue", position))
            elif two_phase:
                lock = Lock(position, self.now() + (lease or 0), lease or 0)
                position.state, position.holder, position.allow_peek = State.LOCKED, lock, allow_peek
                self.locks.append(lock)
                taken.append((message, lock))
                continue
            taken.append(message)
        if unit is None and not two_phase:
            self.deleted(positions, Reason.RECEIVED)
        return taken

    def end_locks(self, locks: Sequence[Lock], *, delete: bool, reason: Reason = Reason.RECEIVED) -> None:
        """Dequeue Message End (3.1.7.1.12) of locks that are still held."""
        for lock in locks:
            lock.held = False
            self.locks.remove(lock)
        positions = [lock.position for lock in locks]
        if not delete:
            self.unlock(positions)
            return
        self.deleted([p for p in positions if p.state is State.LOCKED], reason)
        self.deleted([p for p in positions if p.state is State.PURGE_PENDING], Reason.PURGED)

    def unlock(self, positions: Sequence[Position], *, aborted: bool = False, lapsed: bool = False) -> None:
        """Return messages to their places, unless the queue was purged meanwhile or its retry policy says otherwise."""
        held = [p for p in positions if p.state is State.LOCKED]
        purged = [p for p in positions if p.state is State.PURGE_PENDING]
        judged = [p for p in held if retry.judges(p)]
        for position in held:
            position.stored.aborts += aborted
        back = [p for p in held if p not in judged]
        for position in back:
            position.queue.retried += retry.delivered(position)
        self.available(back)
        for position in judged:
            retry.judge(self, position, lapsed)
        self.deleted(purged, Reason.PURGED)

    # ---- moves, purge, delete ---------------------------------------------------------------------------

    def relocate(self, positions: Sequence[Position], target: Queue) -> None:
        """Move Message (3.1.7.1.16): same message, same id, so the same place in the order."""
        placed = []
        for position in positions:
            self.drop(position)
            position.queue.left += 1
            stored = position.stored
            if position.queue.name.endswith(";poison"):
                stored.forgive()
                stored.uncounted = stored.deliveries
            stored.moves += 1
            stored.aborts = 0
            stored.last_moved = self.now()
            placed.append(Position(stored, target))
            target.positions[stored.lookup_id] = placed[-1]
        self.available(placed)

    def purge(self, queue: Queue) -> int:
        """Purge Queue (3.1.7.1.7); uncommitted sends survive (D18)."""
        for position in queue.positions.values():
            if position.state is State.LOCKED and not position.sending:
                position.state = State.PURGE_PENDING
        going = [p for p in queue.walk(None) if p.state is State.AVAILABLE]
        going.sort(key=lambda p: (not p.ready, p.stored.due if not p.ready else 0))
        self.deleted(going, Reason.PURGED)
        return len(going)

    def delete(self, queue: Queue) -> int:
        """Delete Queue (3.1.7.1.4): every position goes, waiters end (D22), subqueues and its journal go with it."""
        family = [queue, *(q for name, q in self.queues.items() if name.startswith(f"{queue.name};"))]
        count = 0
        for each in family:
            positions = list(each.walk(None))
            count += len(positions)
            free = [p for p in positions if p.state is State.AVAILABLE]
            read = [p for p in positions if p.state is not State.AVAILABLE and not p.sending]
            self.deleted([p for p in free if p.ready], Reason.QUEUE_DELETED)
            self.deleted([p for p in free if not p.ready], Reason.QUEUE_DELETED)
            self.deleted(sorted(read, key=lambda p: p.holder.deadline), Reason.QUEUE_DELETED)
            # What was never committed was never there.
            self.deleted([p for p in positions if p.sending], Reason.ABORTED)
        for each in family:
            for waiter in list(each.waiters):
                self.end_wait(waiter, QueueNotAvailable())
            for position in list(each.positions.values()):
                self.drop(position)  # copies that came while it was being deleted
            each.gone = True
            self.queues.pop(each.name, None)
        return count

    def forget_subqueue(self, queue: Queue) -> None:
        """Remove a subqueue without handles, messages and open moves to it (section 6.5)."""
        moves = (operation.target for unit in self.units.values() for operation in unit.operations)
        if queue.parent is not None and not (
            queue.positions or queue.handles or queue.gone or queue in moves
        ):
            queue.gone = True
            self.queues.pop(queue.name, None)
