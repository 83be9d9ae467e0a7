"""Redrive: send dead letters and journal copies back to their original queue as new messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.model.adm import DEDUP, Position, Queue, Reason, State, Stored

if TYPE_CHECKING:
    from tests.model.store import Store


def redrive(
    store: Store, source: Queue, wanted: Callable[[Position], bool], to: str | None, limit: int | None
) -> int:
    """Times restart and the requests of the message apply again, but a dedup key in use is not taken twice."""
    went = 0
    for position in list(source.walk(None)):
        if limit is not None and went >= limit:
            break
        if position.state is not State.AVAILABLE or not position.ready or not wanted(position):
            continue
        home = source.main.name if source.name.endswith(";poison") else ""
        origin = position.stored.origin.get("original_queue", home)
        target = store.queues.get(to or origin.partition(";")[0])
        if target is None or target is source or target.properties.put_inhibited or target.properties.topic:
            continue
        made = revived(store, position.stored, transactional=target.properties.transactional)
        # It leaves one queue of the manager for another, so the manager's quota has room for it, and for
        # what it leaves; and its family's, if it stays in that.
        store.leaving = position
        if not store.full([made]) and not target.full([made], leaving=position):
            store.number(made, 7 - made.out.priority if target.ordered_by_priority else 0)
            target.positions[made.lookup_id] = Position(made, target)
            store.available([target.positions[made.lookup_id]])
            store.deleted([position], Reason.REDRIVEN)
            went += 1
        store.leaving = None
    return went


def revived(store: Store, stored: Stored, *, transactional: bool) -> Stored:
    """The message of which this is a copy."""
    out = stored.out.replace(sent_seconds_ago=0.0, message_id=stored.message_id)  # now it is written down
    now = store.now()
    own = stored.transaction_id or "redrive"
    return Stored(
        out=out,
        lookup_id=0,
        message_id=stored.message_id,
        sent=now,
        arrived=now,
        due=now + out.delay,
        expires=None if out.time_to_be_received is None else now + out.time_to_be_received,
        asleep=frozenset(DEDUP),
        transaction_id=own if transactional else None,
        first=stored.first,
        last=stored.last,
    )
