"""Reads messages by their ids, a few thousand for each round trip, with plain read-only commands.

The tasks of readers use it (``batch``, ``browse`` and ``claim_slice``); planning on the driver uses ``Place``, ``part``
and ``fields`` (``starting`` and ``unavailable``, too).

A script would copy every body once more. Without a script the read is not atomic, which does no harm: the messages of a
claim do not change, and a snapshot leaves out a message of which a part was received meanwhile (``batch``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from mqredis import codec
from mqredis.client import QueueManager
from mqredis.keys import QUEUE_PARTS, RECORDS, STATES
from mqredis.models.record_parts import FLAG_AT, LARGE_FLAGS, SPECIAL_FLAGS
from mqredis.selector import Selector, header_of
from mqredis.spark.columns import FIRST_DELIVERY, Builder, Rows, expires_ms, flags
from mqredis.spark.connection import SourceError

# Large bodies that one command reads, each up to megabytes.
_BODIES = 64


@dataclass(frozen=True, slots=True)
class Place:
    """A queue in a queue manager. Partitions carry it to the executors."""

    url: str
    manager: str
    path: str
    generation: str
    """Of the queue with this path: a queue that was deleted and created again has another one."""


def part(manager: QueueManager, path: str, name: str) -> str:
    """The key of a part of a queue. ``name``: one of mqredis.keys.QUEUE_PARTS."""
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
        """The messages of these ids; None if none is left.

        ``strict``: the ids are those of a claim, so a missing message is data loss (SourceError). Else missing messages
        are left out, also if only a large body is missing that is wanted; and those that have expired by ``now_ms`` (0:
        none has), and those that do not match the selector.
        """
        if not ids:
            return None
        builder = self.builder
        records: Sequence[bytes] = ()
        states: Sequence[bytes | None] | None = None
        if builder.with_records or not strict:
            found = fields(self.manager, self._messages, ids)
            if strict:
                if None in found:
                    raise self._lost(found.count(None))
                records = [record for record in found if record is not None]
            else:
                ids, records = self._selected(*_present(ids, found, now_ms))
        large = self._large_bodies(ids, records) if builder.with_body else {}
        if None in large.values():
            if strict:
                raise self._lost(list(large.values()).count(None))
            kept = [pair for pair in zip(ids, records, strict=True) if large.get(pair[0], b"") is not None]
            ids, records = [lid for lid, _ in kept], [record for _, record in kept]
        if not ids:
            return None
        if builder.with_states:
            states = fields(self.manager, self._states, ids)
            # Messages of a packed page of a claim, or of a lock in the queue's header (lua/core/locks.lua), have no
            # state, since all would say the same.
            if state == "locked":
                states = [text or FIRST_DELIVERY for text in states]
        place = self.place
        return builder.build(
            Rows(ids, records, states, large, place.manager, place.path, state, self.batch_id)
        )

    def _lost(self, count: int) -> SourceError:
        return SourceError(
            f"mqredis: {count} claimed messages of queue {self.place.path!r} are gone: the server has lost data. Start "
            "with a new checkpoint, or set failOnDataLoss=false"
        )

    def _large_bodies(self, ids: Sequence[bytes], records: Sequence[bytes]) -> dict[bytes, bytes | None]:
        """The bodies that are not in their records, by id. None: it was removed meanwhile."""
        if LARGE_FLAGS.isdisjoint(flags(records)):
            return {}
        apart = [lid for lid, record in zip(ids, records, strict=True) if record[FLAG_AT] in LARGE_FLAGS]
        found: dict[bytes, bytes | None] = {}
        for at in range(0, len(apart), _BODIES):
            page = apart[at : at + _BODIES]
            # The field of a large body (mqredis/models/record_parts.py).
            bodies = fields(self.manager, self._messages, [b"^" + lid for lid in page])
            found.update(zip(page, bodies, strict=True))
        return found

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
    if SPECIAL_FLAGS.isdisjoint(flags(there)):
        return ids, there
    kept = [(lid, record) for lid, record in zip(ids, there, strict=True) if _lives(record, now_ms)]
    return [lid for lid, _ in kept], [record for _, record in kept]


def _lives(record: bytes, now_ms: int) -> bool:
    expires = expires_ms(record)
    return expires is None or expires > now_ms


def walk(manager: QueueManager, key: str, low: bytes, high: bytes, size: int) -> Iterator[list[bytes]]:
    """Pages of at most ``size`` ids of available messages, from ``low`` to before ``high`` (b"+": the end)."""
    start = b"[" + low
    stop = high if high == b"+" else b"(" + high
    while True:
        ids: list[bytes] = manager.driver.command("ZRANGEBYLEX", key, start, stop, "LIMIT", 0, size)
        if not ids:
            return
        yield ids
        if len(ids) < size:
            return
        start = b"(" + ids[-1]
