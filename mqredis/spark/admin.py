"""What an operator sees and does of pipelines: claims that are open, and a way to end them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from mqredis.client import QueueManager
from mqredis.codec import time_at
from mqredis.commands import pipelines as commands
from mqredis.commands.common import Address
from mqredis.errors import QueueNotFound
from mqredis.operations import pipelines
from mqredis.operations import publications as operations
from mqredis.operations.publications import Publication
from mqredis.steps import perform


@dataclass(frozen=True)
class ClaimInfo:
    """What a streaming query has locked in a queue."""

    queue: str
    owner: str
    # Sequence of the claim that is open, or of the last one received.
    sequence: int
    messages: int
    bytes: int
    since: datetime
    # Is the query's driver connected? False says nothing about anonymous queries of a lost network.
    alive: bool
    released: bool
    # Is a claim received, and not all of its messages removed yet? They count among the locked ones until then.
    removing: bool = False


def claims(manager: QueueManager, queue: str | None = None) -> list[ClaimInfo]:
    """Claims on one queue or on all of them. Raises QueueNotFound."""
    context = manager.context
    paths = [queue] if queue is not None else [info.name for info in manager.queues()]
    found = []
    for path in paths:
        try:
            rows = manager.run(perform(commands.claims(Address(context.keys, path))))
        except QueueNotFound:
            if queue is not None:
                raise
            continue
        for owner, alive, claim in rows:
            since, released = time_at(claim.since_ms), claim.sealed == 2
            size = (claim.sequence, claim.count, claim.bytes)
            found.append(ClaimInfo(path, owner, *size, since, alive, released, claim.draining > 0))
    return found


def release(manager: QueueManager, queue: str, owner: str, *, forget: bool = False) -> int:
    """Return the messages of a reader's open claim to the queue. Returns their number.

    A query with the reader's checkpoint is refused from now on, since it would claim other messages for a batch that a
    sink may have already. ``forget`` also removes the record of the reader, and with it this protection. Raises
    WaiterNotFound.
    """
    return manager.run(pipelines.release(manager.context, queue, owner, forget))


def publications(manager: QueueManager) -> list[Publication]:
    """Writes that are published in part: their driver is still at work, or has stopped."""
    return manager.run(operations.publications(manager.context))


def recover(manager: QueueManager, name: str) -> int:
    """Publish the rest of an open publication. Returns the number of these messages.

    A streaming query that is started again does the same by itself, and so does a batch write with the same
    ``txnAppId`` and ``txnVersion``. Raises ClaimLost if the messages that are left have expired.

    :param name: as :func:`publications` shows it.
    """
    return manager.run(operations.finish(manager.context, name))


def withdraw(manager: QueueManager, name: str) -> int:
    """Discard the messages of an open publication that are not in the queues yet. Returns their number.

    Messages in the queues stay there. The version counts as written: a job that writes it again writes nothing. Raises
    ClaimLost while the driver of the publication is at work.

    :param name: as :func:`publications` shows it.
    """
    return manager.run(operations.withdraw(manager.context, name))
