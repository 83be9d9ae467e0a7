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
from mqredis.spark.connection import context_of, run
from mqredis.steps import perform


@dataclass(frozen=True)
class ClaimInfo:
    """What a streaming query has locked in a queue."""

    queue: str
    owner: str
    #: Sequence of the claim that is open, or of the last one received.
    sequence: int
    messages: int
    bytes: int
    since: datetime
    #: Is the query's driver connected? False says nothing about anonymous queries of a lost network.
    alive: bool
    released: bool
    #: Is a claim received, and not all of its messages removed yet? They count among the locked ones until then.
    removing: bool = False


def claims(manager: QueueManager, queue: str | None = None) -> list[ClaimInfo]:
    """Claims on one queue or on all of them. Raises QueueNotFound."""
    context = context_of(manager)
    paths = [queue] if queue is not None else [info.name for info in manager.queues()]
    found = []
    for path in paths:
        try:
            rows = run(manager, perform(commands.claims(Address(context.keys, path))))
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
    """Give back what an owner has claimed and not received; answers how many messages.

    Its checkpoint is refused from now on: a restart would claim other messages for a batch that a sink may
    have already. ``forget`` removes the record of the owner too, and with it this protection. Raises
    WaiterNotFound.
    """
    return run(manager, pipelines.release(context_of(manager), queue, owner, forget))


def recover(manager: QueueManager, sink: str) -> int:
    """Finish a publication that was begun and never ended, by its manifest; answers how many messages
    appeared.

    ``sink``: ``app-<txnAppId>`` or ``query-<query id>``. A restarted query does the same by itself.
    """
    context = context_of(manager)
    state = run(manager, perform(commands.sink(context.keys, sink)))
    if state.publishing is None:
        return 0
    operation = pipelines.publish(context, sink, state.publishing, "-", 100_000, True, ())
    return run(manager, operation)
