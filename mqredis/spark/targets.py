"""Which queues a read covers: those that its options name, compared for a stream with those in its checkpoint.

The readers, ``starting`` and the pipeline ``archive`` use it on the driver. The keys of queues are in checkpoints
(``batch_id.queue_key``). Each call asks the broker for the queues, so ``queuePattern`` finds new ones with the next
micro-batch.
"""

from __future__ import annotations

from collections.abc import Collection

from mqredis.errors import QueueNotAvailable, QueueNotFound
from mqredis.keys import SYSTEM, kept_by_broker
from mqredis.spark.batch_id import queue_key
from mqredis.spark.connection import SourceError, manager_of
from mqredis.spark.options import Options, listed, matches_pattern, patterns

# A queue manager, and the path of a queue in it.
Target = tuple[str, str]


def read_targets(options: Options) -> list[Target]:
    """Queues that the options name, in order. Raises QueueNotFound."""
    return _named(options, _existing(options), skip_missing=False)


def targets_now(options: Options) -> list[Target]:
    """Queues of a stream that exist now. Raises QueueNotFound, unless failOnDataLoss is false."""
    return _named(options, _existing(options), skip_missing=not options.failOnDataLoss)


def stream_targets(options: Options, known: Collection[str] = ()) -> dict[str, Target]:
    """Queues of a stream by their keys in its offsets.

    ``known``: those of its checkpoint. With failOnDataLoss=false a deleted one is left out. Raises QueueNotFound if a
    queue was deleted, SourceError if the options name other queues.
    """
    existing = _existing(options)
    skip_deleted = bool(known) and not options.failOnDataLoss
    named = {queue_key(*target): target for target in _named(options, existing, skip_deleted)}
    if not known:
        return named
    existing_keys = {queue_key(name, path) for name, paths in existing.items() for path in paths}
    deleted = set(known) - existing_keys
    dropped_from_options = set(known) - set(named) - deleted
    added = {key for key, (_, path) in named.items() if key not in known and not kept_by_broker(path)}
    if deleted and not skip_deleted:
        raise QueueNotFound(
            f"queues in the checkpoint no longer exist: {', '.join(sorted(deleted))}. To continue without their "
            "messages, set failOnDataLoss=false"
        )
    changes = [f"without {', '.join(sorted(dropped_from_options))}"] if dropped_from_options else []
    if added and not options.queuePattern:
        changes.append(f"with {', '.join(sorted(added))}")
    if changes:
        raise SourceError(
            "mqredis: the query was started with other queues than those in its checkpoint: "
            f"{' and '.join(changes)}. Restore the list, or use a new checkpoint"
        )
    return named


def deleted(name: str, path: str) -> QueueNotAvailable:
    """The error of a query that finds its queue deleted, or another one of this name in its place."""
    return QueueNotAvailable(
        f"queue {path!r} of queue manager {name!r} was deleted after the query had claimed messages of it. If it was "
        "created again, set failOnDataLoss=false to continue with the new queue"
    )


def _existing(options: Options) -> dict[str, set[str]]:
    """Paths of all queues of each queue manager."""
    return {
        name: {info.name for info in manager_of(options.address, name).queues()} for name in options.managers
    }


def _named(options: Options, existing: dict[str, set[str]], skip_missing: bool) -> list[Target]:
    """Those of the existing queues that the options name.

    A queue that the broker creates with its first message is left out as long as it does not exist, and so is any other
    with ``skip_missing``. Raises QueueNotFound.
    """
    found: list[Target] = []
    # Is it no error if a pattern matches nothing now?
    may_be_empty = skip_missing
    for name, paths in existing.items():
        if options.queuePattern:
            # In a manager without any queue nothing may come: its name may be wrong.
            may_be_empty = may_be_empty or (
                bool(paths) and any(_may_come(path, paths) for path in patterns(options))
            )
            found += [(name, path) for path in sorted(paths) if matches_pattern(path, options)]
            continue
        for path in listed(options):
            if path in paths:
                found.append((name, path))
            elif not skip_missing and not _may_come(path, paths):
                raise QueueNotFound(f"queue manager {name!r} has no queue {path!r}")
    if options.queuePattern and not found and not may_be_empty:
        where = ", ".join(options.managers)
        raise QueueNotFound(
            f"no queue matches queuePattern {options.queuePattern!r} in queue manager {where}"
        )
    return found


def _may_come(path: str, existing: set[str]) -> bool:
    """Does the broker create this queue with its first message? A subqueue needs its parent."""
    parent = path.partition(";")[0]
    return kept_by_broker(path) and (parent == SYSTEM or parent in existing)
