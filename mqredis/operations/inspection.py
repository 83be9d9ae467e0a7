"""Who holds messages, and what is in each queue: reads for operators. Each call of the broker has a bounded cost."""

from __future__ import annotations

import fnmatch

from mqredis import keys
from mqredis.codec import time_at
from mqredis.commands import inspection as commands
from mqredis.commands import pipelines, queues
from mqredis.commands.common import Address, path_of
from mqredis.errors import InvalidArgument, QueueNotFound
from mqredis.models.inspection import (
    ClaimInfo,
    LockInfo,
    Page,
    QueueDepth,
    SessionInfo,
    TransactionInfo,
)
from mqredis.operations import checks
from mqredis.operations.context import Context
from mqredis.steps import Steps, perform, procedure

_CLAIM_STATES = ("filling", "complete", "released")


@procedure
def locks(context: Context, name: object, after: str | None, limit: object) -> Steps[Page[LockInfo]]:
    """A page of the locks of a queue. Raises QueueNotFound."""
    path, most = path_of(name), checks.count(limit, "limit", commands.MAX_PAGE)
    return (yield from perform(commands.locks(context.keys, path, after, most)))


@procedure
def transactions(context: Context, after: str | None) -> Steps[Page[TransactionInfo]]:
    """A page of the open transactions."""
    return (yield from perform(commands.transactions(context.keys, after)))


@procedure
def sessions(context: Context, after: str | None, limit: object) -> Steps[Page[SessionInfo]]:
    """A page of the sessions."""
    most = checks.count(limit, "limit", commands.MAX_PAGE)
    return (yield from perform(commands.sessions(context.keys, after, most)))


@procedure
def claims(context: Context, name: object) -> Steps[list[ClaimInfo]]:
    """The claims of data pipelines on a queue that are not committed. Raises QueueNotFound."""
    path = path_of(name)
    rows = yield from perform(pipelines.claims(Address(context.keys, path)))
    return [
        ClaimInfo(
            queue=path,
            owner=owner,
            sequence=claim.sequence,
            messages=claim.count,
            bytes=claim.bytes,
            state=_CLAIM_STATES[claim.sealed],  # type: ignore[arg-type]  # pydantic checks it
            since=time_at(claim.since_ms),
            connected=connected,
        )
        for owner, connected, claim in rows
        if claim.sequence != claim.committed
    ]


@procedure
def overview(context: Context, pattern: object) -> Steps[list[QueueDepth]]:
    """What is in each queue, by name. Subqueues that the broker fills are told with their queue."""
    if pattern is not None and not isinstance(pattern, str):
        raise InvalidArgument(f"pattern must be a str, not {type(pattern).__name__}")
    names = yield from perform(queues.names(context.keys))
    wanted = [name for name in names if name.startswith(f"{keys.SYSTEM};") or not keys.kept(name)]
    if pattern is not None:
        wanted = [name for name in wanted if fnmatch.fnmatchcase(name, pattern)]
    found: list[QueueDepth] = []
    at = 0
    while at < len(wanted):
        told = yield from perform(commands.overview(context.keys, wanted[at : at + commands.QUEUES]))
        found += told.queues
        at += told.done
    return found


@procedure
def depth(context: Context, name: object) -> Steps[QueueDepth]:
    """What is in one queue. Raises QueueNotFound."""
    path = path_of(name)
    told = yield from perform(commands.overview(context.keys, (path,)))
    if not told.queues:
        raise QueueNotFound(f"there is no queue {path!r}")
    return told.queues[0]
