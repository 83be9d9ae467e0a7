"""Reports for operators: contents and depths of queues, holders of messages, their trails, and statistics over time.

``QueueManager`` returns them; the console, the command line (``cli.show``) and ``spark.admin`` show them.
``commands.inspection``, ``commands.claims``, ``commands.trails``, ``commands.stored_messages``,
``operations.inspection`` and ``operations.history`` make them.

The words of MessageState come from ``lua/message_list.lua``, those of TrailEvent from ``lua/features/trail.lua`` and
``lua/features/retry.lua`` (``tests/contract/test_arguments.py``, ``test_constants.py``). A new field of a report is
public, and shown where a template of the console or a column of the command line names it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, Literal, TypeVar

from mqredis.models.message import Message
from mqredis.models.queue import Model
from mqredis.models.text import Identifier

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page of a list. It may be shorter than was asked for, and even empty, while there are more pages."""

    items: tuple[T, ...]
    """The items of this page."""
    next: str | None
    """``after=`` of the call that reads the next page; None: this was the last one."""

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


class ClientInfo(Model):
    """The description of itself that a client gave when it opened its session. Unknown parts are empty."""

    name: str = ""
    """``Settings.client_name``, or the name of the program."""
    host: str = ""
    """Name of the host."""
    process: int = 0
    """Number of the process on that host; 0: unknown."""
    address: str = ""
    """IP address of the client's end of the connection that opened the session. It is the client's own view: behind a
    translation of addresses (NAT), the server sees another one. Empty for a unix socket and for a connection of a
    redis-py client."""
    version: str = ""
    """Version of mqredis."""


class LockInfo(Model):
    """A message that a reader or a transaction holds (MS-MQDMPR 3.1.7.1.11)."""

    queue: str
    """Name of the queue."""
    lookup_id: int
    """Lookup id of the message."""
    message_id: Identifier
    """Identifier of the message."""
    label: str
    """Label of the message."""
    kind: Literal["lock", "received", "sent", "moved"]
    """lock: locked by a reader. received, sent, moved: by a transaction."""
    purged: bool
    """The messages of a purge that ran meanwhile are deleted when they come back."""
    transaction: str | None
    """Id of the transaction; None: no transaction holds it."""
    session: str
    """Number of the session that holds it; "" if the session is over."""
    client: ClientInfo
    """The client that holds the message."""
    worker: str
    """Name of the worker whose handler has the message, by its last heartbeat; "" if none is known."""
    consumer: str
    """Name of that worker's consumer; "" if none is known."""
    since: datetime | None
    """When it was locked. If its reader has made other calls since, when its handler began; None without a handler."""
    lease_until: datetime
    """When the lease ends."""
    overdue: bool
    """The lease is over, and no call has given the message back yet."""
    deliveries: int
    """How often the message was delivered, this delivery included."""
    attempts: int
    """How many of these deliveries count as attempts."""
    fence: str
    """Number of the change that locked it. Only the holder of this fence can settle the message."""


class HeldMessage(Model):
    """What a transaction has done with one message."""

    kind: Literal["sent", "received", "rejected", "moved"]
    """What the transaction did with the message."""
    queue: str
    """Name of the queue."""
    lookup_id: int
    """Lookup id of the message."""
    target: str | None = None
    """Where a moved message goes."""


class TransactionInfo(Model):
    """An open transaction (MS-MQDMPR 3.1.1.14)."""

    id: str
    """Id of the transaction."""
    session: str
    """Number of the session that began it."""
    client: ClientInfo
    """The client that began it."""
    since: datetime
    """When it began."""
    lease_until: datetime
    """When the transaction is aborted unless its client renews the lease."""
    operations: int
    """How many messages it has sent, received and moved."""
    holds: tuple[HeldMessage, ...]
    """The first of these, 100 at most."""
    fence: str
    """Number of the change that began it or renewed its lease last."""


class SessionInfo(Model):
    """A session of a client (MS-MQDMPR 3.1.1.1)."""

    number: str
    """Number of the session."""
    client: ClientInfo
    """The client that opened it."""
    last_seen: datetime | None
    """When it last changed something or opened a connection; reads alone do not count."""
    ttl_seconds: float
    """Seconds without a call after which the broker forgets it."""
    waiting: dict[str, int]
    """Readers of this session that wait now, by the name of the queue; of a queue the first 1,000 readers count."""


ClaimState = Literal["filling", "complete", "committed", "released"]


class ClaimInfo(Model):
    """A reader of a data pipeline (``mqredis.spark``), and the messages of a queue that it has claimed for a batch."""

    queue: str
    """Name of the queue."""
    owner: str
    """``consumerName`` of the pipeline, or the id of its checkpoint."""
    sequence: int
    """Number of the batch that is claimed, or of the last one that was committed."""
    messages: int
    """Messages that the claim holds."""
    bytes: int
    """Bytes that they take; 0 while they are given back after a release."""
    state: ClaimState
    """filling: it may take more. complete: it waits for its commit. committed: nothing is claimed. released: an
    operator has ended the claim and its checkpoint is refused; ``messages`` are not given back yet."""
    since: datetime
    """When the claim began, or was committed."""
    connected: bool
    """Is the process of the reader connected? False says nothing about an anonymous reader behind a lost network."""
    removing: int = 0
    """Messages of the committed batch that are not removed yet. They count among the locked messages of the queue."""


MessageState = Literal["ready", "delayed", "retry", "locked", "claimed"]


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message in a queue, in any state."""

    message: Message
    state: MessageState
    """ready: available. delayed: held back by ``delay=``. retry: resting between two attempts. locked: by a reader or
    a transaction. claimed: by a data pipeline."""
    due_at: datetime | None
    """When it becomes available; None: it does not wait for a time."""
    bytes: int
    """Bytes of the message, header included."""
    complete: bool
    """Is the body complete? Bodies of more than 4096 bytes are left out of ``message``."""
    overdue: bool
    """Its delay, its rest or its time to live is over, and no call has served that yet."""


# What can happen to a message.
TrailEvent = Literal[
    "sent", "locked", "returned", "aborted", "lapsed", "resting", "retried", "poisoned", "moved", "dead_lettered",
    "redriven", "committed", "received", "rejected", "expired", "dropped", "purged", "deleted",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class TrailEntry:
    """One thing that happened to a message (``QueueManager.trail``)."""

    time: datetime
    """When it happened."""
    event: TrailEvent
    """sent: it became part of the queue. locked: by a reader, a transaction or a pipeline. returned: its reader gave it
    back in order, which is no attempt. aborted: its reader gave it back, or the transaction that held it was aborted.
    lapsed: the lease of its lock was over. resting: it waits for the next attempt in the target. retried: its rest is
    over. poisoned: the retry policy moved it to ``;poison``. moved: a client moved it. dead_lettered: it is in a queue
    of dead letters. redriven: a client sent it back. committed, received, rejected, expired, dropped, purged, deleted:
    it left."""
    queue: str
    """Name of the queue that the message was in."""
    session: str
    """Number of the session that did it; of ``lapsed`` that of the reader; "": the broker did it."""
    client: str
    """Name of that session's client (``ClientInfo.name``); "" if it is not known."""
    target: str | None
    """Name of the queue that the message went to; None: it stayed, or left."""
    lookup_id: int | None
    """Lookup id of the message in the target, where it is a new one."""
    detail: str
    """Why: what the reader said of the failure, or how the message came to the dead letters; 200 bytes at most."""
    omitted: int
    """So many entries between the one before and this one are not kept any more."""


@dataclass(frozen=True, slots=True)
class HistoryPeriod:
    """What passed through a queue in one period."""

    start: datetime
    """When it began. Its length is ``QueueHistory.step``."""
    messages_in: int
    """Messages that came, moves and returns from ``;retry`` included. Less than zero if more messages of transactions
    that began before the period were aborted in it than messages came."""
    messages_out: int
    """Messages that left, moves to ``;retry`` and ``;poison`` included."""
    failed: int
    """Messages that failed for good: rejected, or at the end of the retry policy."""
    retried: int
    """Messages that came back for another attempt: given back by a reader, aborted, or with a lease that ended."""
    messages: int
    """Messages in the queue at the end of the period."""
    oldest_seconds: int | None
    """Age of the oldest available message in seconds: the highest at the end of any 5 minutes of the period; None: none
    was available then."""
    complete: bool
    """Is the period over? The last one is not."""


@dataclass(frozen=True, slots=True)
class QueueHistory:
    """What passed through a queue over the last day at most (``QueueManager.history``)."""

    name: str
    """Name of the queue."""
    step: int
    """Length of a period in seconds."""
    periods: tuple[HistoryPeriod, ...]
    """The periods, the oldest first; the last one is not over yet."""

    def __iter__(self) -> Iterator[HistoryPeriod]:
        return iter(self.periods)

    def __len__(self) -> int:
        return len(self.periods)


class QueueDepth(Model):
    """What is in a queue and passes through it, from its counters alone (``QueueManager.overview``)."""

    name: str
    """Name of the queue."""
    ready: int
    """Messages that are available now."""
    delayed: int
    """Messages that wait for their time or rest between two attempts."""
    locked: int
    """Messages locked by readers, transactions and pipelines."""
    claimed: int
    """Messages locked by pipelines."""
    poison: int
    """Messages in ``;poison``."""
    journal: int
    """Messages in ``;journal``."""
    messages: int
    """All messages of the queue, uncommitted sends and resting messages included."""
    bytes: int
    """Bytes that they take."""
    waiters: int
    """Readers that wait for a message now."""
    total_in: int
    """Messages that entered the queue since it was created."""
    total_out: int
    """Messages that left the queue since it was created."""
    dead: int
    """Messages that became dead letters."""
    poisoned: int
    """Messages of which the retry policy gave up: they went to ``;poison``, or became dead letters."""
    rejected: int
    """Messages that were rejected."""
    expired: int
    """Messages that expired."""
    oldest_seconds: float | None
    """Age in seconds of the oldest available message; None: none is available."""
    overdue: bool
    """Timers are due that no call has served yet: messages may count as locked or delayed although their time is
    over."""
    transactional: bool
    """Does the queue take messages only in transactions?"""
    topic: bool
    """Is the queue a topic?"""
    put_inhibited: bool
    """Are sends refused?"""
    get_inhibited: bool
    """Are reads refused?"""
