"""One connection per process, broker and queue manager.

Spark forks and reuses its Python workers, and pickles readers and writers, so these must not hold a connection.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Any, TypeVar

import mqredis
from mqredis import Settings
from mqredis.client import QueueManager
from mqredis.commands.common import Address
from mqredis.commands.pipelines import Backlog
from mqredis.errors import InvalidArgument, MqError, QueueNotFound
from mqredis.operations import pipelines
from mqredis.operations.context import Context
from mqredis.spark.batch_id import queue_key
from mqredis.spark.options import Options, listed, path_of, split
from mqredis.steps import Operation

R = TypeVar("R")

# Documentation page that errors name.
DOCS = "docs/spark.md"
# Least reply and retry timeouts of a job, in seconds.
LEAST_TIMEOUT = 60.0

_managers: dict[tuple[int, str, str], QueueManager] = {}


class SourceError(Exception):
    """A broker error with its status in the text, since Spark keeps only the text."""


@contextmanager
def told() -> Iterator[None]:
    """Raise MqError as SourceError, with the status in its text."""
    try:
        yield
    except MqError as error:
        status = int(error.status)
        name = getattr(error.status, "name", type(error).__name__)
        raise SourceError(f"mqredis {name} (0x{status:08X}): {error}") from error


def manager_of(url: str, name: str) -> QueueManager:
    """This process's client of a queue manager."""
    key = (os.getpid(), url, name)
    found = _managers.get(key)
    if found is None:
        if not url:
            raise InvalidArgument("set the option url, or MQREDIS_URL for the driver and every executor")
        found = _managers[key] = mqredis.connect(
            url, manager=name, settings=_with_long_timeouts(Settings.from_env(url=url))
        )
    return found


def _with_long_timeouts(settings: Settings) -> Settings:
    """Raise the timeouts: a large publication keeps the server busy for a while, and a job should wait for it."""
    names = ("reply_timeout_seconds", "retry_seconds")
    return settings.model_copy(update={name: max(LEAST_TIMEOUT, getattr(settings, name)) for name in names})


def context_of(manager: QueueManager) -> Context:
    """What operations need to know of a client."""
    return manager.context


def run(manager: QueueManager, operation: Operation[R]) -> R:
    """Run an operation."""
    return manager.run(operation)


def command(manager: QueueManager, *args: str | bytes | int) -> Any:
    """Run a plain read-only command."""
    return manager.driver.command(*args)


def fields(manager: QueueManager, key: str, names: Sequence[bytes]) -> list[bytes | None]:
    """HMGET of many fields."""
    found: list[bytes | None] = manager.driver.command("HMGET", key, *names)
    return found


def address(manager: QueueManager, path: str, generation: str) -> Address:
    """The address of a queue's data."""
    return Address(context_of(manager).keys, path, generation)


def look(manager: QueueManager, path: str, owner: str = "", bound: str = "", after: str = "") -> Backlog:
    """Return the backlog of a queue. Raises QueueNotFound."""
    return run(manager, pipelines.look(context_of(manager), path, owner, bound, False, after))


def _parent(path: str) -> str:
    return path.partition(";")[0]


def targets(options: Options, skip_missing: bool = False) -> list[tuple[str, str]]:
    """Queue manager and path of every queue that the options name, in order.

    ``skip_missing``: leave out queues that do not exist. Raises QueueNotFound.
    """
    found: list[tuple[str, str]] = []
    expected = skip_missing  # may it be that no queue is there yet?
    for name, names in existing(options).items():
        if options.queuePattern:
            expected = expected or _expects(names, options)
            wanted = sorted(path for path in names if _fits(path, options))
        else:
            wanted = []
            for path in listed(options):
                if path in names:
                    wanted.append(path)
                elif not (skip_missing or (created_on_demand(path) and _parent(path) in (*names, "system$"))):
                    raise QueueNotFound(f"queue manager {name!r} has no queue {path!r}")
        found += [(name, path) for path in wanted]
    if options.queuePattern and not found and not expected:
        where = ", ".join(options.managers)
        raise QueueNotFound(
            f"no queue matches queuePattern {options.queuePattern!r} in queue manager {where}"
        )
    return found


def created_on_demand(path: str) -> bool:
    """Is this a journal, a queue of poison messages or a dead-letter queue, which its first message creates?"""
    parent, _, subqueue = path.partition(";")
    return subqueue in (
        ("journal", "deadletter", "deadxact") if parent == "system$" else ("journal", "poison")
    )


def _expects(names: set[str], options: Options) -> bool:
    """Does a pattern name a queue that its first message creates? In a manager without any queue it names none."""
    patterns = {path_of(pattern, options.subQueue) for pattern in split(options.queuePattern)}
    parents = {*names, "system$"} if names else set()
    return any(created_on_demand(path) and _parent(path) in parents for path in patterns)


def _fits(path: str, options: Options) -> bool:
    """Does the path match one of the patterns? A pattern without a subqueue matches no subqueue."""
    patterns = [path_of(pattern, options.subQueue) for pattern in split(options.queuePattern)]
    return any(fnmatchcase(path, pattern) and (";" in pattern or ";" not in path) for pattern in patterns)


def existing(options: Options) -> dict[str, set[str]]:
    """Paths of all queues of each queue manager."""
    return {
        name: {info.name for info in manager_of(options.address, name).queues()} for name in options.managers
    }


def planned(options: Options, known: Collection[str] = ()) -> dict[str, tuple[str, str]]:
    """Queue manager and path of a stream's queues, by their keys in its offsets.

    ``known``: those of its checkpoint. With failOnDataLoss=false a deleted one is left out. Raises QueueNotFound if a
    queue was deleted, SourceError if the options name other queues.
    """
    lenient = bool(known) and not options.failOnDataLoss
    wanted = {queue_key(name, path): (name, path) for name, path in targets(options, lenient)}
    gone, new = set(known) - set(wanted), set(wanted) - set(known)
    if gone and lenient:
        gone &= {queue_key(name, path) for name, paths in existing(options).items() for path in paths}
    if gone and not lenient:
        there = {queue_key(name, path) for name, paths in existing(options).items() for path in paths}
        if not gone & there:
            raise QueueNotFound(
                f"queues in the checkpoint no longer exist: {', '.join(sorted(gone - there))}. To continue without "
                "their messages, set failOnDataLoss=false"
            )
    new -= {key for key in new if created_on_demand(wanted[key][1])}
    if known and (gone or (new and not options.queuePattern)):
        changes = [
            f"without {', '.join(sorted(gone))}" if gone else "",
            f"with {', '.join(sorted(new))}" if new else "",
        ]
        raise SourceError(
            "mqredis: the query was started with other queues than those in its checkpoint: "
            f"{' and '.join(change for change in changes if change)}. Restore the list, or use a new checkpoint"
        )
    return wanted


def wanted_states(options: Options) -> tuple[str, ...]:
    """States of the messages that a batch read shows."""
    return split(options.states) or ("available", "locked", "delayed")
