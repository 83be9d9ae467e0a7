"""Reads messages by their ids, a few thousand for each round trip, with plain read-only commands.

The readers' tasks use it.

A script would copy every body once more. Without a script the read is not atomic, which does no harm: the messages of a
claim do not change, and in a snapshot a message that was received meanwhile is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from mqredis import codec
from mqredis.client import QueueManager
from mqredis.keys import QUEUE_PARTS, RECORDS, STATES
from mqredis.selector import Selector, header_of
from mqredis.spark.columns import Builder, Rows, any_large, any_special, expires_ms, flags
from mqredis.spark.connection import SourceError

# Rows of one record batch at most: Spark's own limit.
BATCH = 10_000


# What would be told of a message without a state that a pipeline has claimed: how often it was delivered.
CLAIMED = b"1 0 0"


@dataclass(frozen=True, slots=True)
class Place:
    """A queue in a queue manager."""

    url: str
    manager: str
    path: str
    generation: str


def part(manager: QueueManager, path: str, name: str) -> str:
    """One key of a queue."""
    return manager.context.keys.queue(path)[QUEUE_PARTS.index(name)]


def fields(manager: QueueManager, key: str, names: Sequence[bytes]) -> list[bytes | None]:
    """Fields of a hash."""
    found: list[bytes | None] = manager.driver.command("HMGET", key, *names)
    return found


class Reader:
    """Reads messages of one queue into record batches."""

    def __init__(
        self,
        manager: QueueManager,
        place: Place,
        builder: Builder,
        selector: Selector | None = None,
        batch_id: str | None = None,
    ) -> None:
        self.manager = manager
        self.selector = selector
        self.place = place
        self.builder = builder
        self.batch_id = batch_id
        self._messages = part(manager, place.path, RECORDS)
        self._states = part(manager, place.path, STATES)

    def batch(
        self, ids: Sequence[bytes], state: str, *, strict: bool, now_ms: int = 0
    ) -> pa.RecordBatch | None:
        """The messages of these ids. ``strict``: one that is missing is data loss; else it is left out, as is
        what expired before ``now_ms``."""
        if not ids:
            return None
        builder = self.builder
        records: Sequence[bytes] = ()
        states: Sequence[bytes | None] | None = None
        if builder.with_records or not strict:
            found = fields(self.manager, self._messages, ids)
            if strict:
                if None in found:
                    raise SourceError(
                        f"mqredis: {found.count(None)} claimed messages of queue {self.place.path!r} are gone: the "
                        "server has lost data. Start with a new checkpoint, or set failOnDataLoss=false"
                    )
                records = [record for record in found if record is not None]
            else:
                ids, records = self._selected(*_present(ids, found, now_ms))
                if not ids:
                    return None
        if builder.with_states:
            states = fields(self.manager, self._states, ids)
            # In a packed page of a claim: without a state, since all would say the same.
            if state == "locked":
                states = [text or CLAIMED for text in states]
        large: dict[bytes, bytes] = {}
        if builder.with_body and any_large(flags(records)):
            apart = [lid for lid, record in zip(ids, records, strict=True) if any_large(record[13:14])]
            for at in range(0, len(apart), 64):  # each up to megabytes
                some = apart[at : at + 64]
                bodies = fields(self.manager, self._messages, [b"^" + lid for lid in some])
                large.update((lid, body) for lid, body in zip(some, bodies, strict=True) if body is not None)
        place = self.place
        return builder.build(
            Rows(ids, records, states, large, place.manager, place.path, state, self.batch_id)
        )

    def _selected(
        self, ids: Sequence[bytes], records: Sequence[bytes]
    ) -> tuple[Sequence[bytes], Sequence[bytes]]:
        if self.selector is None:
            return ids, records
        kept = []
        for lid, record in zip(ids, records, strict=True):
            message = codec.decode(self.place.path, "", lid, b"", record)
            if self.selector.matches(message.properties, header_of(message)):
                kept.append((lid, record))
        return [lid for lid, _ in kept], [record for _, record in kept]


def _present(
    ids: Sequence[bytes], records: Sequence[bytes | None], now_ms: int
) -> tuple[Sequence[bytes], Sequence[bytes]]:
    """Those that are still there and have not expired; usually all of them."""
    there = [record for record in records if record is not None]
    if len(there) < len(records):
        ids = [lid for lid, record in zip(ids, records, strict=True) if record is not None]
    if not any_special(flags(there)):
        return ids, there
    kept = [(lid, record) for lid, record in zip(ids, there, strict=True) if _lives(record, now_ms)]
    return [lid for lid, _ in kept], [record for _, record in kept]


def _lives(record: bytes, now_ms: int) -> bool:
    expires = expires_ms(record)
    return expires is None or expires > now_ms


def walk(
    manager: QueueManager,
    key: str,
    low: bytes,
    high: bytes,
    size: int,
    keep: Callable[[list[bytes]], list[bytes]],
) -> Iterator[list[bytes]]:
    """Pages of the ids in a position list from ``low`` to before ``high`` (b"+" for the end)."""
    start = b"[" + low
    stop = high if high == b"+" else b"(" + high
    while True:
        ids: list[bytes] = manager.driver.command("ZRANGEBYLEX", key, start, stop, "LIMIT", 0, size)
        if not ids:
            return
        yield keep(ids)
        if len(ids) < size:
            return
        start = b"(" + ids[-1]


def hex_id(lookup_id: int) -> bytes:
    """A lookup id as the store spells it."""
    return b"%016x" % lookup_id
