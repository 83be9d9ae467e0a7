"""Dedup keys: one message per key at a time, and none before the window since its arrival ends."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from mqredis.models import Outgoing
from tests.model.adm import Position, Queue, Reason

if TYPE_CHECKING:
    from tests.model.store import Store


def taken(store: Store, queue: Queue, outs: Iterable[Outgoing]) -> bool:
    """Return whether one of these duplicates a stored message or another one of the batch."""
    seen: set[str] = set()
    for key in (out.dedup_key for out in outs if out.dedup_key is not None):
        if key in seen or queue.main.dedup.get(key, -math.inf) > store.now():
            return True
        seen.add(key)
    return False


def hold(store: Store, queue: Queue, outs: Iterable[Outgoing]) -> None:
    """Record the keys of accepted messages. A topic stores no messages, so only the window applies there."""
    for out in outs:
        if out.dedup_key is not None:
            topic = queue.properties.topic
            queue.main.dedup[out.dedup_key] = store.now() + out.dedup_window if topic else math.inf


def gone(store: Store, position: Position, reason: Reason) -> None:
    """A message was removed: its key stays in use until its window ends; that of an aborted send is free at once."""
    asked = position.stored.asks
    if asked.dedup_key is None:
        return
    until = position.stored.arrived + asked.dedup_window
    if reason is Reason.ABORTED or until <= store.now():
        del position.queue.main.dedup[asked.dedup_key]
    else:
        position.queue.main.dedup[asked.dedup_key] = until
