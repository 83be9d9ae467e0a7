"""Transaction Commit and Abort (3.1.4.4, 3.1.4.5): queue by queue, in the order in which it came to them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mqredis.errors import TransactionSequence
from tests.model import traces
from tests.model.adm import Operation, Position, Queue, Reason, State, UnitOfWork

if TYPE_CHECKING:
    from tests.model.store import Store


def commit(store: Store, unit: UnitOfWork) -> None:
    """Commit: sent messages appear, received ones are removed, moves take effect."""
    close(store, unit)
    sends = [o.position for o in unit.operations if o.kind == "enqueue"]
    if sends:
        sends[0].stored.first = sends[-1].stored.last = True
    for operations in by_queue(unit):
        sent = kind_of(operations, "enqueue")
        traces.accepted(store, sent)
        store.available(sent)
        # A purge that came meanwhile is too late: the commit wins.
        for reason in (Reason.RECEIVED, Reason.REJECTED):
            store.deleted(kind_of(operations, "dequeue", reason), reason)
        moves: dict[Queue, list[Position]] = {}
        for op in operations:
            if op.kind == "move" and op.position.state is not State.DELETED:
                assert op.target is not None
                moves.setdefault(op.target, []).append(op.position)
        for target, positions in moves.items():
            if target.gone:
                store.unlock(positions)
            else:
                store.relocate(positions, target)


def abort(store: Store, unit: UnitOfWork) -> None:
    """Abort: release every message and remove uncommitted sends."""
    close(store, unit)
    for operations in by_queue(unit):
        store.deleted(kind_of(operations, "enqueue"), Reason.ABORTED)
        store.unlock(kind_of(operations, "dequeue", Reason.RECEIVED), aborted=True)
        store.unlock(kind_of(operations, "dequeue", Reason.REJECTED), aborted=True)
        store.unlock(kind_of(operations, "move"))


def close(store: Store, unit: UnitOfWork) -> None:
    """Close the unit of work."""
    if not unit.open:
        raise TransactionSequence()
    unit.open = False
    del store.units[unit.id]


def by_queue(unit: UnitOfWork) -> Iterator[list[Operation]]:
    """Return its operations, grouped by queue."""
    queues = dict.fromkeys(o.position.queue for o in unit.operations)
    for queue in queues:
        yield [o for o in unit.operations if o.position.queue is queue]


def kind_of(operations: list[Operation], kind: str, reason: Reason = Reason.RECEIVED) -> list[Position]:
    """The messages of these operations that are still there."""
    return [
        o.position
        for o in operations
        if o.kind == kind and o.reason is reason and o.position.state is not State.DELETED
    ]
