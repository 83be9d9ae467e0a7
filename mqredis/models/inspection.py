"""What an operator is shown: who holds messages, and what is in each queue."""

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
    #: ``after=`` of the call that reads the next page; None: this was the last one.
    next: str | None

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


class ClientInfo(Model):
    """What a client told of itself when it opened its session. Empty where it told nothing."""

    #: ``Settings.client_name``, or the name of the program.
    name: str = ""
    host: str = ""
    #: Number of the process on that host; 0: unknown.
    process: int = 0
    #: Version of mqredis.
    version: str = ""


class LockInfo(Model):
    """A message that a reader or a transaction holds (MS-MQDMPR 3.1.7.1.11)."""

    queue: str
    lookup_id: int
    message_id: Identifier
    label: str
    #: lock: locked by a reader. received, sent, moved: by a transaction.
    kind: Literal["lock", "received", "sent", "moved"]
    #: The messages of a purge that ran meanwhile are deleted when they come back.
    purged: bool
    #: Id of the transaction; None: no transaction holds it.
    transaction: str | None
    #: Number of the session that holds it; "" if the session is over.
    session: str
    client: ClientInfo
    #: When it was locked; None where the broker does not know any more: its reader has made other calls since.
    since: datetime | None
    #: When the lease ends.
    lease_until: datetime
    #: The lease is over, and no call has given the message back yet.
    overdue: bool
    #: How often the message was delivered, this time included.
    deliveries: int
    #: How many of these deliveries count as attempts.
    attempts: int
    #: Number of the change that locked it. Only the holder of this fence can settle the message.
    fence: str


class HeldMessage(Model):
    """What a transaction has done with one message."""

    kind: Literal["sent", "received", "rejected", "moved"]
    queue: str
    lookup_id: int
    #: Where a moved message goes.
    target: str | None = None


class TransactionInfo(Model):
    """An open transaction (MS-MQDMPR 3.1.1.14)."""

    id: str
    session: str
    client: ClientInfo
    since: datetime
    #: When the transaction is aborted unless its client renews the lease.
    lease_until: datetime
    #: How many messages it has sent, received and moved.
    operations: int
    #: The first of these, 100 at most.
    holds: tuple[HeldMessage, ...]
    fence: str


class SessionInfo(Model):
    """A session of a client (MS-MQDMPR 3.1.1.1)."""

    number: str
    client: ClientInfo
    #: When it last changed something or opened a connection; reads alone do not count.
    last_seen: datetime | None
    #: Seconds without a call after which the broker forgets it.
    ttl_seconds: float
    #: Readers of this session that wait now, by the name of the queue.
    waiting: dict[str, int]


class ClaimInfo(Model):
    """Messages of a queue that a data pipeline has claimed (``mqredis.spark``)."""

    queue: str
    #: ``consumerName`` of the pipeline.
    owner: str
    #: Number of the batch.
    sequence: int
    messages: int
    bytes: int
    #: filling: it may take more. complete: it waits for its commit. released: an operator gives its messages back.
    state: Literal["filling", "complete", "released"]
    since: datetime
    #: Is the process that holds it connected?
    connected: bool


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message as it is in a queue, in whatever state."""

    message: Message
    #: ready: available. delayed: held back by ``delay=``. retry: resting between two attempts. locked: by a reader or a
    #: transaction. claimed: by a data pipeline.
    state: Literal["ready", "delayed", "retry", "locked", "claimed"]
    #: When it becomes available; None: it is not waiting for a time.
    due_at: datetime | None
    #: Bytes of the message, header included.
    bytes: int
    #: Is the body complete? Bodies of more than 4096 bytes are left out of ``message``.
    complete: bool
    #: Its delay, its rest or its time to live is over, and no call has served that yet.
    overdue: bool


class QueueDepth(Model):
    """What is in a queue and passes through it, from its counters alone (``QueueManager.overview``)."""

    name: str
    ready: int
    #: Waiting for their time, or resting between two attempts.
    delayed: int
    #: By readers, transactions and pipelines.
    locked: int
    #: Locked by pipelines.
    claimed: int
    #: In the subqueue ``;poison``.
    poison: int
    #: In the subqueue ``;journal``.
    journal: int
    messages: int
    bytes: int
    waiters: int
    #: Messages that came and left since the queue was created.
    total_in: int
    total_out: int
    #: How many of those that left became dead letters, poison, were rejected, or expired.
    dead: int
    poisoned: int
    rejected: int
    expired: int
    #: Age in seconds of the oldest available message; None: none is available.
    oldest_seconds: float | None
    #: Timers are due that no call has served yet: messages may count as locked or delayed although their time is over.
    overdue: bool
    transactional: bool
    topic: bool
    put_inhibited: bool
    get_inhibited: bool
