"""Queues and queue managers: what is configured, and what they report. Frozen pydantic models."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, TypedDict

from pydantic import BaseModel, ConfigDict, Field, model_validator

from mqredis import renamed


class Model(BaseModel):
    """A frozen model that refuses unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)


class RetryPolicy(Model):
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


class QueueProperties(Model):
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
    #: Seconds that failed messages of the queue are kept in its ``;poison`` and among the dead letters before they are
    #: deleted; None: until they are removed. It holds for messages that fail from now on.
    failed_time_to_live: int | None = Field(default=None, ge=1, le=3_153_600_000, strict=True)
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


class QueueFields(TypedDict, total=False):
    """Keyword arguments of ``create_queue`` and ``update_queue``: the fields of QueueProperties."""

    label: str
    transactional: bool
    quota_bytes: int | None
    quota_messages: int | None
    max_message_bytes: int
    journaling: bool
    journal_quota_bytes: int | None
    journal_quota_messages: int | None
    poison_quota_bytes: int | None
    poison_quota_messages: int | None
    failed_time_to_live: int | None
    base_priority: int
    type_id: str
    put_inhibited: bool
    get_inhibited: bool
    group_exclusive: bool
    retry: RetryPolicy | None
    topic: bool


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
    #: Timers are due that no call has served yet: messages may count as delayed or locked although their time is over.
    #: Only a read-only client sees that; any other client serves them first.
    overdue: bool = False

    def properties(self) -> dict[str, Any]:
        """Only the settable properties."""
        return {name: getattr(self, name) for name in QueueProperties.model_fields}


class QueueStatistics(Model):
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
    #: What an operator should look at: more failed messages than ``Settings.failed_messages_warning``.
    warnings: tuple[str, ...] = ()
    #: As in QueueInfo.
    overdue: bool = False


class FailedMessages(Model):
    """Messages in a queue that holds what has failed: a ``;poison``, or a queue of dead letters."""

    queue: str
    messages: int
    bytes: int
    #: What to do if there are more than ``Settings.failed_messages_warning``; None: there are not.
    warning: str | None = None


class Subscription(Model):
    """A queue that subscribed to a topic."""

    topic: str
    queue: str
    #: Which messages it wants; None: all.
    selector: str | None = None


class ManagerInfo(Model):
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
