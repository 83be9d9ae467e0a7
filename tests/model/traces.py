"""Journal copies, dead letters and acknowledgements (docs/semantics.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mqredis.errors import MessageTimedOut, MqError, QueueQuotaExceeded, TransactionUsage
from mqredis.models import Acknowledge, Journal, MessageClass, Outgoing
from tests.model.adm import REQUESTS, Position, Queue, Reason, Stored, UnitOfWork

if TYPE_CHECKING:
    from tests.model.store import Store

# The class that tells why a message left or was refused; a received one has none.
CLASSES = {
    Reason.REJECTED: MessageClass.NACK_RECEIVE_REJECTED,
    Reason.POISON: MessageClass.NACK_RECEIVE_REJECTED,
    Reason.EXPIRED: MessageClass.NACK_RECEIVE_TIMEOUT,
    Reason.PURGED: MessageClass.NACK_QUEUE_PURGED,
    Reason.QUEUE_DELETED: MessageClass.NACK_QUEUE_DELETED,
    Reason.TOO_LATE: MessageClass.NACK_REACH_QUEUE_TIMEOUT,
    Reason.QUOTA: MessageClass.NACK_QUEUE_EXCEED_QUOTA,
    Reason.NOT_TRANSACTIONAL_QUEUE: MessageClass.NACK_NOT_TRANSACTIONAL_QUEUE,
    Reason.NOT_TRANSACTIONAL_MESSAGE: MessageClass.NACK_NOT_TRANSACTIONAL_MESSAGE,
}
# Refusals at the door that never make a dead letter.
NO_LETTER = {Reason.NOT_TRANSACTIONAL_QUEUE, Reason.NOT_TRANSACTIONAL_MESSAGE}
# Removals that make one only of messages sent in a transaction.
NO_LETTER_OUTSIDE = {Reason.PURGED, Reason.QUEUE_DELETED}


def accepted(store: Store, positions: Sequence[Position]) -> None:
    """Messages are in the list: positive arrival, and positive source journaling outside transactions."""
    for position in positions:
        asked = position.stored.asks
        if asked.acknowledge & Acknowledge.POSITIVE_ARRIVAL:
            acknowledge(store, position.queue, position.stored, MessageClass.ACK_REACH_QUEUE)
        if asked.journal & Journal.JOURNAL and position.stored.transaction_id is None:
            copy(store, "system$;journal", position.queue, position.stored, Reason.SENT)


def left(store: Store, position: Position, reason: Reason) -> None:
    """A message was removed: target journal, acknowledgement, source journal or dead letter, in this order."""
    if reason in (Reason.ABORTED, Reason.DROPPED, Reason.REDRIVEN):
        return
    queue, stored = position.queue, position.stored
    asked, in_transaction = stored.asks, stored.transaction_id is not None
    received = reason is Reason.RECEIVED
    if received and queue.properties.journaling:
        copy(store, f"{queue.main.name};journal", queue, stored, reason)
    wants = Acknowledge.POSITIVE_RECEIVE if received else Acknowledge.NEGATIVE_RECEIVE
    if asked.acknowledge & wants:
        acknowledge(store, queue, stored, CLASSES.get(reason, MessageClass.ACK_RECEIVE))
    if received:
        if in_transaction and asked.journal & Journal.JOURNAL:
            copy(store, "system$;journal", queue, stored, reason)
    elif reason is Reason.POISON or (
        asked.journal & Journal.DEAD_LETTER and (in_transaction or reason not in NO_LETTER_OUTSIDE)
    ):
        dead_letter(store, queue, stored, reason)


def refused(
    store: Store, queue: Queue, outs: Sequence[Outgoing], unit: UnitOfWork | None, error: MqError
) -> None:
    """A send was refused: besides the error, write the requested acknowledgement and dead letter (8.4)."""
    if queue.properties.topic:
        return
    if isinstance(error, MessageTimedOut):
        reason = Reason.TOO_LATE
    elif isinstance(error, QueueQuotaExceeded):
        reason = Reason.QUOTA
    elif isinstance(error, TransactionUsage):
        reason = Reason.NOT_TRANSACTIONAL_MESSAGE if unit is None else Reason.NOT_TRANSACTIONAL_QUEUE
    else:
        return
    for stored in [store.draft(out, unit) for out in outs]:
        if stored.asks.acknowledge & Acknowledge.NEGATIVE_ARRIVAL:
            acknowledge(store, queue, stored, CLASSES[reason])
        if stored.asks.journal & Journal.DEAD_LETTER and reason not in NO_LETTER:
            dead_letter(store, queue, stored, reason)


def dead_letter(store: Store, queue: Queue, stored: Stored, reason: Reason) -> None:
    """Write a dead letter into the queue that the message names, else into that of the system."""
    system = "system$;deadletter" if stored.transaction_id is None else "system$;deadxact"
    if copy(store, stored.asks.dead_letter_queue or system, queue, stored, reason):
        queue.main.dead_letters += 1


def copy(store: Store, name: str, queue: Queue, stored: Stored, reason: Reason) -> bool:
    """Insert a copy, in which the requests of the message have no effect. Nothing if the queue is deleted or full."""
    if ";" in name and store.queues.get(name) is None:
        store.find(name, make=True)
    marks: dict[str, Any] = {
        "original_queue": queue.name,
        "original_lookup_id": stored.lookup_id or None,
        "original_arrived_at": store.instant(stored.arrived),
        "reason": str(reason),
    }
    made = Stored(
        out=stored.out.replace(message_id=stored.message_id),  # now it is written down
        lookup_id=0,
        message_id=stored.message_id,
        sent=stored.sent,
        arrived=store.now(),
        asleep=frozenset(REQUESTS),
        transaction_id=stored.transaction_id,
        deliveries=stored.deliveries,
        uncounted=stored.uncounted,
        aborts=stored.aborts,
        moves=stored.moves,
        last_moved=stored.last_moved,
        first=stored.first,
        last=stored.last,
        message_class=CLASSES.get(reason, stored.message_class),
        origin=marks,
        failure=None if stored.failure is None else replace(stored.failure, reason=""),
    )
    return insert(store, store.find(name), made, must=reason is Reason.POISON)


def acknowledge(store: Store, queue: Queue, stored: Stored, number: MessageClass) -> None:
    """Send an acknowledgement to the administration queue, if it exists and accepts it; a negative one has the body."""
    target = store.find(stored.asks.administration_queue or "")
    if target is None or target.properties.transactional or target.properties.put_inhibited:
        return
    passed = stored.asks.acknowledge
    out = Outgoing(
        message_id=stored.message_id if Acknowledge.PASS_MESSAGE_ID in passed else None,
        body=stored.out.body if number >= 0x8000 else b"",
        content_type=stored.out.content_type if number >= 0x8000 else Outgoing().content_type,
        correlation_id=(
            stored.out.correlation_id if Acknowledge.PASS_CORRELATION_ID in passed else stored.message_id
        ),
        response_queue=queue.main.name,
        recoverable=stored.out.recoverable,
    )
    made = store.draft(out, None)
    made.message_class = number
    insert(store, target, made)


def insert(store: Store, target: Queue | None, stored: Stored, *, must: bool = False) -> bool:
    """Insert into a journal, dead-letter or administration queue, unless a quota forbids it; no flow control applies.

    ``must``: skip the quota, which was checked before (:func:`tests.model.retry.final`).
    """
    if target is None or target.properties.topic:
        return False
    if not must and (store.full([stored]) or target.full([stored])):
        return False
    store.number(stored, 7 - stored.out.priority if target.ordered_by_priority else 0)
    position = Position(stored, target)
    target.positions[stored.lookup_id] = position
    store.available([position])
    return True
