"""The SequentialIDs at which a query without a checkpoint begins, and those at which a batch read or the trigger
AvailableNow ends.

The readers and ``planning`` call it on the driver. A query with a checkpoint asks for ``sequence`` alone, for queues
that were added: it takes these from their first message on, whatever startingPosition says. ``claim_release.lua``
relies on ``sequence``: a reader that was forgotten begins at a new one.
"""

from __future__ import annotations

from mqredis.client import QueueManager
from mqredis.commands.claims import Backlog
from mqredis.errors import QueueNotFound
from mqredis.keys import AVAILABLE, RECORDS
from mqredis.models.record_parts import arrival_ms
from mqredis.spark.batch_id import queue_key
from mqredis.spark.connection import backlog, manager_of
from mqredis.spark.fetch import part
from mqredis.spark.lookup_ids import BANDS, band_of, sequential, sequential_of
from mqredis.spark.options import Options, milliseconds, positions
from mqredis.spark.targets import targets_now

# Messages that are received under a search are passed over; after so many it begins further in front.
_TRIES = 16


def sequence(seen: Backlog) -> int:
    """The sequence before the first claim of a query: the last one that this reader has received.

    A reader that the queue does not know begins at the server's time in milliseconds. So a sequence is never used
    again for other messages, also not when the queue was deleted, or the reader was forgotten by
    ``release(forget=True)``.
    """
    return seen.claim.committed if seen.claim else seen.now_ms


def position(manager: QueueManager, path: str, options: Options, last: str) -> int:
    """The SequentialID behind which a query begins in a queue; ``last``: the last one given out."""
    if options.startingTimestamp:
        return _before(manager, path, milliseconds(options.startingTimestamp), int(last, 16))
    return _named("startingPosition", options.startingPosition, manager.name, path, int(last, 16), "earliest")


def end(manager: QueueManager, path: str, options: Options, last: str) -> int:
    """The last SequentialID that a batch read shows of a queue."""
    if options.endingTimestamp:
        return _before(manager, path, milliseconds(options.endingTimestamp), int(last, 16))
    return _named("endingPosition", options.endingPosition, manager.name, path, int(last, 16), "latest")


def ends_now(options: Options) -> dict[str, str]:
    """The SequentialIDs at which a query with the trigger AvailableNow ends, by the keys of its queues."""
    found = {}
    for name, path in targets_now(options):
        try:
            found[queue_key(name, path)] = backlog(manager_of(options.address, name), path).last
        except QueueNotFound:
            if options.failOnDataLoss:
                raise
    return found


def bound(ends: dict[str, str] | None, key: str) -> str:
    """The last SequentialID that a query takes of a queue; "": no limit.

    :param ends: those of :func:`ends_now`, which has nothing of queues that were created since; None: another trigger.
    """
    return "" if ends is None else ends.get(key, sequential(0))


def _named(option: str, text: str, manager: str, path: str, last: int, default: str) -> int:
    chosen = positions(option, text)
    found = chosen.get(f"{manager}/{path}") or chosen.get(path) or chosen.get("", default)
    return {"earliest": 0, "latest": last}[found] if found in ("earliest", "latest") else int(found)


def _before(manager: QueueManager, path: str, ms: int, last: int) -> int:
    """The SequentialID in front of the first available message that arrived at ``ms`` or later.

    Binary search in each band (mqredis/spark/lookup_ids.py), where times of arrival rise with the SequentialIDs.
    """
    key, found = part(manager, path, AVAILABLE), last
    for band in BANDS:
        low = manager.driver.command("ZLEXCOUNT", key, "-", f"({band_of(band)}")
        high = manager.driver.command("ZLEXCOUNT", key, "-", f"({band_of(band + 1)}")
        tries = 0
        while low < high:
            middle = (low + high) // 2
            lid = (manager.driver.command("ZRANGE", key, middle, middle) or [b""])[0]
            record = manager.driver.command("HGET", part(manager, path, RECORDS), lid) if lid else None
            if record is None:
                tries += 1
                high = middle if tries < _TRIES else low
            elif arrival_ms(record) < ms:
                low = middle + 1
            else:
                found, high = min(found, sequential_of(lid) - 1), middle
    return found
