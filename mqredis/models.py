"""Messages, queues and what is asked of them: typed, frozen pydantic models.

Times are aware datetimes in UTC, durations are seconds as float, sizes are bytes. Field names follow the
attributes of MS-MQDMPR 3.1.1 (Message 3.1.1.12, Queue 3.1.1.2) in Python spelling.
"""

from __future__ import annotations

from datetime import datetime
from enum import STRICT, Enum, IntEnum, IntFlag, StrEnum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from mqredis import renamed
from mqredis.errors import MatchOptionsError
from mqredis.plain import init_with, plain_with
from mqredis.unvalidated import Lazy, defaults_of

PropertyValue = str | int | float | bool | bytes | None
Identifier = str | bytes


class Access(Enum):
    """What a handle may do (QueueAccessType, MS-MQDMPR 3.1.1.17)."""

    RECEIVE = "receive"  # receive, lock, peek, purge, move from
    SEND = "send"
    PEEK = "peek"
    MOVE = "move"  # only good as the target of a move
    ADMIN = "admin"  # everything
    ALL = "all"  # send and receive: our default


class Share(Enum):
    """Whether others may receive while the handle is open (QueueShareMode)."""

    DENY_NONE = "deny_none"
    DENY_RECEIVE = "deny_receive"


class Durability(StrEnum):
    """How far a change must have got before its call returns (docs/guarantees.md)."""

    MEMORY = "memory"  # carried out on the primary
    FSYNC = "fsync"  # on the disk of the primary
    REPLICA = "replica"  # in the memory of replicas
    REPLICA_FSYNC = "replica-fsync"  # on the disks of the primary and of replicas


class Seek(Enum):
    """MessageSeekAction of a read by lookup id (MS-MQDMPR 3.1.7.3.3)."""

    FIRST = "first"
    PREVIOUS = "previous"
    CURRENT = "current"
    NEXT = "next"
    LAST = "last"


class MessageClass(IntEnum):
    """Class of a message (MQMQ 2.2.18.1.6): bit 15 negative, bit 14 receive stage."""

    NORMAL = 0x0000
    REPORT = 0x0001
    ACK_REACH_QUEUE = 0x0002
    ACK_RECEIVE = 0x4000
    NACK_BAD_DESTINATION_QUEUE = 0x8000
    NACK_PURGED = 0x8001
    NACK_REACH_QUEUE_TIMEOUT = 0x8002
    NACK_QUEUE_EXCEED_QUOTA = 0x8003
    NACK_ACCESS_DENIED = 0x8004
    NACK_NOT_TRANSACTIONAL_QUEUE = 0x8009
    NACK_NOT_TRANSACTIONAL_MESSAGE = 0x800A
    NACK_QUEUE_DELETED = 0xC000
    NACK_QUEUE_PURGED = 0xC001
    NACK_RECEIVE_TIMEOUT = 0xC002
    NACK_RECEIVE_TIMEOUT_AT_SENDER = 0xC003
    NACK_RECEIVE_REJECTED = 0xC004


class Acknowledge(IntFlag, boundary=STRICT):
    """Which acknowledgements the sender wants (MC-MQAC 2.2.2.11), and what these and replies carry (IBM MQ MQRO)."""

    NONE = 0
    POSITIVE_ARRIVAL = 1
    POSITIVE_RECEIVE = 2
    NEGATIVE_ARRIVAL = 4
    NEGATIVE_RECEIVE = 8
    NACK_REACH_QUEUE = 4
    FULL_REACH_QUEUE = 5
    NACK_RECEIVE = 12
    FULL_RECEIVE = 14
    #: The correlation id of the original instead of its message id (MQRO_PASS_CORREL_ID).
    PASS_CORRELATION_ID = 64
    #: The message id of the original instead of a new one (MQRO_PASS_MSG_ID).
    PASS_MESSAGE_ID = 128


class Journal(IntFlag, boundary=STRICT):
    """Source journaling (PROPID_M_JOURNAL)."""

    NONE = 0
    DEAD_LETTER = 1
    JOURNAL = 2


class Grouping(IntFlag):
    """How a read treats groups and segments (IBM MQ get options)."""

    NONE = 0
    #: Groups are delivered member by member in their own order; while one is open on the handle nothing else is.
    LOGICAL_ORDER = 1
    #: A group is there only when all its messages are.
    ALL_MESSAGES_AVAILABLE = 2
    #: A segmented message is there only when all its segments are.
    ALL_SEGMENTS_AVAILABLE = 4
    #: Segments are joined to the message they were; implies ALL_SEGMENTS_AVAILABLE.
    COMPLETE_MESSAGE = 8


class Mark(IntFlag):
    """Whose browse marks a browse sets (IBM MQ MARK_BROWSE_HANDLE, MARK_BROWSE_CO_OP)."""

    NONE = 0
    HANDLE = 1
    CO_OP = 2


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Outgoing(Lazy, _Model):
    """A message before it is sent; ``Queue.send`` takes the same names as keyword arguments."""

    body: bytes = b""
    content_type: str = Field(default="application/octet-stream", max_length=255)
    label: str = Field(default="", max_length=249)
    priority: int = Field(default=3, ge=0, le=7, strict=True)
    message_id: Identifier | None = None
    correlation_id: Identifier | None = None
    group_id: Identifier | None = None
    sequence: int | None = Field(default=None, ge=1, le=999_999_999)
    offset: int | None = Field(default=None, ge=0, le=999_999_999)
    last_in_group: bool = False
    segment: bool = False
    last_segment: bool = False
    properties: dict[str, PropertyValue] = Field(default_factory=dict)
    #: Seconds from the send after which the message is removed if nobody received it. None: never.
    time_to_be_received: float | None = Field(default=None, ge=0)
    #: Seconds from the send within which the message must reach the queue. None: no limit.
    time_to_reach_queue: float | None = Field(default=None, ge=0)
    #: How long ago the message was sent by its originator, in seconds (bridges, store and forward).
    sent_seconds_ago: float = Field(default=0.0, ge=0)
    #: Seconds during which the broker holds the message back. 0: none.
    delay: float = Field(default=0.0, ge=0)
    #: Messages with the same key are refused for ``dedup_window`` seconds, or while one is in the queue.
    dedup_key: str | None = None
    dedup_window: float = Field(default=0.0, ge=0)
    recoverable: bool = True
    acknowledge: Acknowledge = Acknowledge.NONE
    administration_queue: str | None = None
    response_queue: str | None = None
    dead_letter_queue: str | None = None
    journal: Journal = Journal.NONE
    app_tag: int = Field(default=0, ge=0, le=0xFFFFFFFF)
    body_type: int = Field(default=0, ge=0, le=0xFFFFFFFF)
    extension: bytes = b""


#: The look at the fields of an Outgoing.
plain = plain_with(defaults_of(Outgoing))
Outgoing.__init__ = init_with(Outgoing, plain)  # type: ignore[method-assign]


class Message(Lazy, _Model):
    """A message as it was read."""

    lookup_id: int
    queue: str
    body: bytes
    content_type: str = "application/octet-stream"
    label: str = ""
    priority: int = 3
    message_id: Identifier
    correlation_id: Identifier | None = None
    group_id: Identifier | None = None
    sequence: int = 1
    offset: int = 0
    last_in_group: bool = False
    segment: bool = False
    last_segment: bool = False
    #: Names this very instance on its queue (MQ message token).
    token: str
    properties: dict[str, PropertyValue] = Field(default_factory=dict)
    sent_at: datetime
    arrived_at: datetime
    expires_at: datetime | None = None
    #: How often the message was handed to a reader, this time included (0 for a peek of a fresh message).
    delivery_count: int = 0
    abort_count: int = 0
    move_count: int = 0
    last_moved_at: datetime | None = None
    message_class: int = MessageClass.NORMAL
    first_in_transaction: bool = False
    last_in_transaction: bool = False
    transaction_id: str | None = None
    recoverable: bool = True
    acknowledge: Acknowledge = Acknowledge.NONE
    administration_queue: str | None = None
    response_queue: str | None = None
    dead_letter_queue: str | None = None
    journal: Journal = Journal.NONE
    app_tag: int = 0
    body_type: int = 0
    extension: bytes = b""
    dedup_key: str | None = None
    #: On journal copies and dead letters: where the message was, under which id, and why it left.
    original_queue: str | None = None
    original_lookup_id: int | None = None
    original_arrived_at: datetime | None = None
    reason: str | None = None

    @property
    def text(self) -> str:
        """The body decoded as UTF-8."""
        return self.body.decode("utf-8")


class Sent(Lazy, _Model):
    """What a send answers."""

    lookup_id: int
    message_id: Identifier
    token: str
    group_id: Identifier | None = None
    #: Of a send to several queues: what each of them answered, this one included.
    copies: tuple[Sent, ...] = ()


class RetryPolicy(_Model):
    """What the broker does with a message that its readers give back, or whose lease lapses, by its attempts.

    Every delivery is an attempt, unless the reader gives the message back in order, as a worker that shuts down does.
    After each ``1 + immediate`` attempts in a row the message rests in the subqueue ``;retry``; after ``cycles`` rests,
    and so after ``(1 + immediate) * (1 + cycles)`` attempts, ``final`` says what becomes of it.
    """

    immediate: int = Field(default=2, ge=0, le=1000, strict=True)
    cycles: int = Field(default=0, ge=0, le=1_000_000_000, strict=True)
    #: How long the first rest lasts, in seconds; each further one is ``factor`` times as long, up to ``max_delay``.
    delay: float = Field(default=10.0, ge=0, le=31_536_000)
    factor: float = Field(default=2.0, ge=1, le=100)
    max_delay: float = Field(default=3600.0, ge=0, le=31_536_000)
    #: poison: to the subqueue ``;poison``. dead_letter: to ``dead_letter_queue``, or if that is None to the dead-letter
    #: queue of the message or of the system. reject: as if its reader had rejected it. drop: it is deleted.
    final: Literal["poison", "dead_letter", "reject", "drop"] = "poison"
    #: Each rest is longer by up to this part of it, so that messages that fail together do not come back together.
    jitter: float = Field(default=0.0, ge=0, le=1)
    #: A message whose lease lapsed returns to the subqueue ``;lapsed``, from which each worker takes one at a time.
    isolate: bool = Field(default=False, strict=True)
    #: Queue of the dead letters, if ``final`` is "dead_letter".
    dead_letter_queue: str | None = Field(default=None, max_length=124)

    @property
    def attempts(self) -> int:
        """After how many attempts ``final`` is due."""
        return (1 + self.immediate) * (1 + self.cycles)

    deliveries = renamed.attribute("property", "deliveries", "attempts")

    @model_validator(mode="before")
    @classmethod
    def _renamed(cls, values: Any) -> Any:
        return renamed.fields("property", values)


class QueueProperties(_Model):
    """Properties of a queue (MS-MQDMPR 3.1.1.2); ``transactional`` and ``topic`` are fixed at creation."""

    label: str = Field(default="", max_length=124)
    transactional: bool = Field(default=False, strict=True)
    #: None: no limit.
    quota_bytes: int | None = Field(default=None, ge=0, strict=True)
    quota_messages: int | None = Field(default=None, ge=0, strict=True)
    max_message_bytes: int = Field(default=4_194_304, ge=1, le=67_108_864, strict=True)
    journaling: bool = Field(default=False, strict=True)
    journal_quota_bytes: int | None = Field(default=None, ge=0, strict=True)
    journal_quota_messages: int | None = Field(default=None, ge=0, strict=True)
    #: Of the subqueue ``;poison``, which does not count in the quota of its queue. While it is full, failed messages
    #: rest in ``;retry``.
    poison_quota_bytes: int | None = Field(default=None, ge=0, strict=True)
    poison_quota_messages: int | None = Field(default=None, ge=0, strict=True)
    base_priority: int = Field(default=0, ge=-32768, le=32767, strict=True)
    type_id: str = Field(default="", max_length=64)
    put_inhibited: bool = Field(default=False, strict=True)
    get_inhibited: bool = Field(default=False, strict=True)
    #: One active message per group, and fair turns between groups. Fixed when the queue is created.
    group_exclusive: bool = Field(default=False, strict=True)
    #: What becomes of messages that their readers give back; None: they are delivered again for ever.
    retry: RetryPolicy | None = None
    #: A topic keeps no messages: what is sent to it goes to every queue that subscribed. Fixed at creation.
    topic: bool = Field(default=False, strict=True)


class QueueInfo(QueueProperties):
    """Properties and present state of a queue."""

    name: str
    created_at: datetime
    modified_at: datetime
    #: Available now, waiting for their time, and locked (by readers, or sent in an open transaction).
    ready: int
    #: Messages that rest between two attempts (subqueues ``;retry`` and ``;lapsed``) included.
    delayed: int
    locked: int
    #: Everything in the list, uncommitted sends and resting messages included.
    messages: int
    bytes: int
    #: Is any handle open on it?
    active: bool
    waiters: int

    def properties(self) -> dict[str, Any]:
        """Only the settable properties."""
        return {name: getattr(self, name) for name in QueueProperties.model_fields}


class QueueStatistics(_Model):
    """What is in a queue and passes through it, of one moment (``QueueManager.statistics``)."""

    name: str
    ready: int
    delayed: int
    locked: int
    #: Everything in the list, uncommitted sends included.
    messages: int
    bytes: int
    waiters: int
    journal_messages: int
    journal_bytes: int
    #: What the retry policy has put to rest, and what it has given up.
    retry_messages: int
    retry_bytes: int
    poison_messages: int
    poison_bytes: int
    #: Messages that came and left since the queue was created, in whatever way, moves included.
    total_in: int
    total_out: int
    #: Of those that left: for which reason. The rest was received.
    expired: int
    purged: int
    rejected: int
    poisoned: int
    dropped: int
    #: Dead letters made from messages of this queue.
    dead: int
    #: Age of the oldest message that a reader could take now, in seconds, by priority (transactional ones: 7).
    oldest_seconds: dict[int, float]
    #: Messages per second that came and left, over the last ``rate_seconds``.
    rate_in: float
    rate_out: float
    rate_seconds: float


class Subscription(_Model):
    """A queue that subscribed to a topic."""

    topic: str
    queue: str
    #: Which messages it wants; None: all.
    selector: str | None = None


class ManagerInfo(_Model):
    """State of a queue manager."""

    name: str
    incarnation: str
    history: int
    schema_version: int
    throttled: bool
    quota_bytes: int | None
    quota_messages: int | None
    messages: int
    bytes: int
    queues: int
    sessions: int
    transactions: int


class Match(_Model):
    """Which message to get: all that is given must agree; None means any (IBM MQ match options).

    So does an empty identifier, or one of zero bytes only. Byte identifiers are compared as if filled up with zero
    bytes. Raises MatchOptionsError with IBM's reason in ``mqrc``: 2250 sequence, 2251 offset, 2247 anything else.
    """

    message_id: Identifier | None = None
    correlation_id: Identifier | None = None
    group_id: Identifier | None = None
    sequence: int | None = Field(default=None, ge=1, le=999_999_999, strict=True)
    offset: int | None = Field(default=None, ge=0, le=999_999_999, strict=True)
    token: str | None = None

    def __init__(self, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            first = error.errors()[0]
            where = str(first["loc"][0]) if first["loc"] else ""
            mqrc = {"sequence": 2250, "offset": 2251}.get(where, 2247)
            raise MatchOptionsError(f"match: {where}: {first['msg']}", mqrc=mqrc) from None
