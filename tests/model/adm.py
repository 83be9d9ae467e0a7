"""Elements of the abstract data model (MS-MQDMPR 3.1.1), as plain Python objects.

Written from the specification and not from the Lua: a position list is a dict that is sorted when it is
walked, states are named as in the text, nothing is indexed or cached.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Any

from mqredis import codec
from mqredis.models import Access, Message, MessageClass, Outgoing, QueueProperties, Share
from tests.model.matching import Particular

if TYPE_CHECKING:
    from tests.model.store import Store

# What each access allows (3.1.1.17; ALL and ADMIN are the product's names for combinations).
ALLOWS = {
    Access.RECEIVE: {"receive", "peek"},
    Access.SEND: {"send"},
    Access.PEEK: {"peek"},
    Access.MOVE: {"move"},
    Access.ADMIN: {"receive", "peek", "send", "move"},
    Access.ALL: {"receive", "peek", "send", "move"},
}


class State(Enum):
    """MessagePosition.State (3.1.1.11)."""

    AVAILABLE = "available"
    LOCKED = "locked"
    DELETED = "deleted"
    PURGE_PENDING = "purge pending"


class Reason(StrEnum):
    """Why a message left or was refused, as recorded in its copy."""

    RECEIVED = "receive"
    REJECTED = "receive_rejected"
    EXPIRED = "receive_timeout"
    PURGED = "queue_purged"
    QUEUE_DELETED = "queue_deleted"
    POISON = "poison"
    DROPPED = "dropped"
    REDRIVEN = "redriven"
    ABORTED = "aborted"
    SENT = "sent"
    TOO_LATE = "reach_queue_timeout"
    QUOTA = "queue_exceed_quota"
    NOT_TRANSACTIONAL_QUEUE = "not_transactional_queue"
    NOT_TRANSACTIONAL_MESSAGE = "not_transactional_message"


# What a message may ask of the broker. In a copy all of it sleeps.
REQUESTS = {
    "time_to_be_received", "time_to_reach_queue", "delay", "acknowledge", "administration_queue",
    "dead_letter_queue", "journal", "dedup_key", "dedup_window",
}  # fmt: skip
DEDUP = {"dedup_key", "dedup_window"}


@dataclass(frozen=True)
class Failure:
    """The failure that ended the attempts of a message, as its properties record it."""

    attempts: int
    time: float
    why: str
    reason: str = ""
    """Its reason, if it went to ``;poison`` and had none."""

    @property
    def properties(self) -> dict[str, Any]:
        return {
            "failure_attempts": self.attempts,
            "failure_time": self.time,
            "failure_reason": self.why,
        }

    @property
    def size(self) -> int:
        names = sum(len(name) + 3 for name in self.properties)
        real = len("1700000000.000")  # this clock begins at 0
        return (
            names
            + len(str(self.attempts))
            + real
            + len(self.why)
            + (2 + len(self.reason) if self.reason else 0)
        )


@dataclass(eq=False)
class Stored:
    """Message (3.1.1.12), with the counters of the wire format (MQRR 2.2.5.3)."""

    out: Outgoing
    lookup_id: int
    message_id: Any
    sent: float
    arrived: float
    due: float = 0.0
    expires: float | None = None
    asleep: frozenset[str] = frozenset()
    """Requests that are reported but have no effect."""
    transaction_id: str | None = None
    deliveries: int = 0
    aborts: int = 0
    moves: int = 0
    last_moved: float | None = None
    first: bool = False
    last: bool = False
    message_class: int = MessageClass.NORMAL
    origin: dict[str, Any] = field(default_factory=dict)
    """On copies: original queue, lookup id and arrival, and the reason."""
    uncounted: int = 0
    """Deliveries that are not attempts."""
    failure: Failure | None = None

    def forgive(self) -> None:
        """Remove the record of the failure, since the message is tried again or has failed again."""
        if self.failure is not None and str(self.origin.get("reason", "")).startswith("poison"):
            del self.origin["reason"]
        self.failure = None

    @property
    def asks(self) -> Outgoing:
        """Return the message with only those requests that have an effect."""
        return self.out.replace(**{name: getattr(PLAIN, name) for name in self.asleep})

    @property
    def size(self) -> int:
        """Bytes that it counts for in quotas: its record, and the additional fields of a copy."""
        marks = {k: v for k, v in self.origin.items() if v is not None}
        out = self.out
        if self.origin:
            out = out.replace(sent_seconds_ago=0.0)
        text, large = codec.encode(out, self.transaction_id or "")
        total = len(text) + 12 + len(large or b"")
        head = text[: text.index(b"\0")].decode()
        total += sum(f"\x03{key}" in head for name in self.asleep for key in KEYS[name])
        if self.failure is not None:
            total += self.failure.size
        if self.message_class:
            total += 2 + len(str(int(self.message_class)))
        for name, length in (("original_lookup_id", 16), ("original_arrived_at", 13 + 2 + 13)):
            total += 2 + length if name in marks else 0
        return total + sum(
            2 + len(str(marks[name]).encode()) for name in ("original_queue", "reason") if name in marks
        )


PLAIN = Outgoing()
# How the codec spells what a message asks for.
KEYS = {
    "time_to_be_received": "e", "time_to_reach_queue": "u", "delay": "D", "acknowledge": "a",
    "administration_queue": "A", "dead_letter_queue": "Q", "journal": "j", "dedup_key": "k",
    "dedup_window": "K",
}  # fmt: skip


@dataclass(eq=False)
class Position:
    """MessagePosition (3.1.1.11); ``holder`` is the transaction or the lock that took it."""

    stored: Stored
    queue: Queue
    state: State = State.AVAILABLE
    allow_peek: bool = False
    holder: Any = None
    sending: bool = False  # locked because it was sent in an open transaction
    ready: bool = True  # waiters were told of it

    @property
    def lookup_id(self) -> int:
        return self.stored.lookup_id


@dataclass
class Operation:
    """TransactionalOperation (3.1.1.13)."""

    kind: str  # enqueue, dequeue, move
    position: Position
    target: Queue | None = None
    reason: Reason = Reason.RECEIVED


@dataclass(eq=False)
class UnitOfWork:
    """Transaction (3.1.1.14), with the lease that ends it when its owner is gone."""

    id: str
    deadline: float
    operations: list[Operation] = field(default_factory=list)
    open: bool = True


@dataclass(eq=False)
class Lock:
    """A two-phase read that has not ended."""

    position: Position
    deadline: float
    lease: float
    held: bool = True


@dataclass(eq=False)
class Waiter:
    """WaitingMessageReadOperation (3.1.1.10)."""

    destructive: bool
    handle: Any
    tag: Any = None
    cursor: Any = None
    unit: UnitOfWork | None = None
    lease: float | None = None
    two_phase: bool = False
    done: bool = False
    value: Any = None
    error: Exception | None = None


class Queue:
    """Queue (3.1.1.2); a subqueue has a parent and shares its properties and quota."""

    def __init__(
        self, store: Store, name: str, properties: QueueProperties, parent: Queue | None = None
    ) -> None:
        self.store = store
        self.name = name
        self.own = properties
        self.parent = parent
        self.created = self.modified = store.now()
        self.positions: dict[int, Position] = {}
        self.handles: list[Any] = []
        self.waiters: list[Waiter] = []
        self.particular = Particular()
        self.gone = False
        self.left = 0  # messages that are not here any more, aborted sends left out
        self.reasons: Counter[Reason] = Counter()  # why those left that were not received
        self.dead_letters = 0
        self.retried = 0
        self.resting: dict[int, float] = {}  # lookup ids in ;retry, and until when
        self.dedup: dict[str, float] = {}  # dedup keys, and until when; for ever while the message is there
        self.subscriptions: dict[str, Any] = {}  # of a topic: queue name to selector

    @property
    def properties(self) -> QueueProperties:
        return self.parent.properties if self.parent else self.own

    @property
    def main(self) -> Queue:
        return self.parent or self

    def family(self) -> list[Queue]:
        """The main queue and its subqueues but ``;poison``: what shares one quota."""
        below = (q for q in self.store.queues.values() if q.parent is self.main)
        return [self.main, *(q for q in below if not q.name.endswith(";poison"))]

    @property
    def ordered_by_priority(self) -> bool:
        """Transactional queues, journals and queues of the system are in the order of arrival."""
        kept = self.name.startswith("system$;") or self.name.endswith(";journal")
        return not kept and not self.properties.transactional

    @property
    def quota(self) -> tuple[int | None, int | None]:
        """Messages and bytes; that of a target journal stands with its queue."""
        owner, _, part = self.name.partition(";")
        if part == "journal" and owner in self.store.queues:
            p = self.store.queues[owner].properties
            return p.journal_quota_messages, p.journal_quota_bytes
        return self.properties.quota_messages, self.properties.quota_bytes

    def full(self, more: Sequence[Stored], leaving: Position | None = None) -> bool:
        """Return whether these messages would exceed the quota, not counting one that leaves."""
        held = (p.stored for q in self.family() for p in q.positions.values() if p is not leaving)
        return exceeds(held, more, *self.quota)

    def walk(self, after: int | None, *, forward: bool = True) -> Iterator[Position]:
        """Positions in list order from behind ``after`` (None: the whole list)."""
        ids = sorted(self.positions, reverse=not forward)
        for lookup_id in ids:
            if after is None or (lookup_id > after if forward else lookup_id < after):
                yield self.positions[lookup_id]

    def seek(
        self, after: int | None, *, peek: bool, forward: bool = True, wanted: Any = None
    ) -> Position | None:
        """Seek Available Message Position (3.1.7.3.2); None stands for End and Start."""
        for position in self.walk(after, forward=forward):
            if self.acceptable(position, peek=peek) and (wanted is None or wanted(position)):
                return position
        return None

    def acceptable(self, position: Position, *, peek: bool) -> bool:
        """Return whether it is available, or locked but visible to peeks."""
        if position.state is State.AVAILABLE:
            return position.stored.due <= self.store.now()
        return peek and position.state is State.LOCKED and position.allow_peek


def exceeds(held: Iterable[Stored], more: Sequence[Stored], messages: int | None, octets: int | None) -> bool:
    """Return whether the messages would exceed a quota; reaching it exactly is allowed."""
    if messages is None and octets is None:
        return False
    both = [*held, *more]
    return (messages is not None and len(both) > messages) or (
        octets is not None and sum(stored.size for stored in both) > octets
    )


def violates(old_access: Access, old_share: Share, access: Access, share: Share) -> bool:
    """The sharing table of Open Queue (3.1.7.1.5): does the old descriptor forbid the new one?"""
    old_receives = "receive" in ALLOWS[old_access]
    receives = "receive" in ALLOWS[access]
    if old_share is Share.DENY_RECEIVE:
        if old_receives:
            return share is Share.DENY_RECEIVE or receives
        return old_access is Access.PEEK and receives
    return old_receives and share is Share.DENY_RECEIVE


def as_message(position: Position) -> Message:
    """Return the message of a position as a reader sees it."""
    stored, out = position.stored, position.stored.out
    hidden = {
        "time_to_be_received", "time_to_reach_queue", "sent_seconds_ago", "delay", "dedup_window",
        "message_id", "sequence", "offset",
    }  # fmt: skip
    given = {name: value for name, value in out.to_dict().items() if name not in hidden}
    store = position.queue.store
    if stored.failure is not None:
        given["properties"] = stored.failure.properties | given["properties"]
        if stored.failure.reason:
            given["reason"] = stored.failure.reason
    return Message(
        **(given | stored.origin),
        lookup_id=stored.lookup_id,
        queue=position.queue.name,
        message_id=stored.message_id,
        sequence=out.sequence or 1,
        offset=out.offset or 0,
        token=f"model-{stored.lookup_id}",
        sent_at=store.instant(stored.sent),
        arrived_at=store.instant(stored.arrived),
        expires_at=None if stored.expires is None else store.instant(stored.expires),
        delivery_count=stored.deliveries,
        attempts=stored.deliveries - stored.uncounted,
        abort_count=stored.aborts,
        move_count=stored.moves,
        last_moved_at=None if stored.last_moved is None else store.instant(stored.last_moved),
        message_class=stored.message_class,
        first_in_transaction=stored.first,
        last_in_transaction=stored.last,
        transaction_id=stored.transaction_id,
    )
