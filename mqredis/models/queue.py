"""Properties and reports of queues and queue managers, as frozen pydantic models.

``create_queue``, ``update_queue`` and the reports of ``QueueManager`` use them. ``cli.queues`` makes options of
``QueueProperties`` and its docstrings; the console adds reports with ``counted_once``, and kombu knows ``MAX_LABEL``.

CONTRIBUTING.md shows how to add a property of queues; a field of ``RetryPolicy`` is a part of its stored text
(``commands.queues.format_policy``). A new counter in ``QueueStatistics`` has no metric until it has a row in
``prometheus/queue_metrics.py``.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from pydantic import BaseModel, ConfigDict, Field

from mqredis.errors import InvalidArgument
from mqredis.keys import RESTING
from mqredis.models.validation import translated


class Model(BaseModel):
    """A frozen model that refuses unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)


class RetryPolicy(Model):
    """What the broker does with a message that its readers give back, or whose lease lapses, by its attempts.

    Every delivery is an attempt, unless the reader gives the message back in order, as a worker that shuts down does.
    After each ``1 + immediate`` attempts in a row the message rests in the subqueue ``;retry``; after ``cycles`` rests,
    and so after ``(1 + immediate) * (1 + cycles)`` attempts, ``final`` says what becomes of it.

    Raises InvalidArgument, which names the field that is wrong.
    """

    immediate: int = Field(default=2, ge=0, le=1000, strict=True)
    """Attempts that follow the first one without a rest."""
    cycles: int = Field(default=0, ge=0, le=1_000_000_000, strict=True)
    """Rests before ``final`` is due."""
    delay: float = Field(default=10.0, ge=0, le=31_536_000, strict=True)
    """Length of the first rest in seconds."""
    factor: float = Field(default=2.0, ge=1, le=100, strict=True)
    """Each further rest is so many times as long as the one before it, up to ``max_delay``."""
    max_delay: float = Field(default=3600.0, ge=0, le=31_536_000, strict=True)
    """Longest rest in seconds."""
    final: Literal["poison", "dead_letter", "reject", "drop"] = "poison"
    """Fate of a message after the last attempt. poison: it goes to the subqueue ``;poison``. dead_letter: it goes to
    ``dead_letter_queue``, or if that is None to the dead-letter queue of the message or of the system. reject: it is
    rejected as by a reader. drop: it is deleted."""
    jitter: float = Field(default=0.0, ge=0, le=1, strict=True)
    """Each rest is longer by a random part of it, up to this one (0 to 1), so that messages that failed together do
    not come back together."""
    isolate: bool = Field(default=False, strict=True)
    """A message whose lease lapsed, or whose batch failed in a worker, returns to the subqueue ``;lapsed``, from which
    each worker takes one at a time."""
    dead_letter_queue: str | None = Field(default=None, max_length=124)
    """Queue of the dead letters if ``final`` is "dead_letter"; None: that of the message or of the system."""

    if not TYPE_CHECKING:  # type checkers take the signature from the fields

        def __init__(self, **values: Any) -> None:
            if "attempts" in values:
                raise InvalidArgument(
                    "RetryPolicy: attempts is computed as (1 + immediate) * (1 + cycles): give immediate=2 for 3 "
                    "attempts without a rest"
                )
            with translated(type(self), "RetryPolicy:", lambda text, _: InvalidArgument(text)):
                super().__init__(**values)

    @property
    def attempts(self) -> int:
        """After how many attempts ``final`` is due."""
        return (1 + self.immediate) * (1 + self.cycles)


# Characters of a queue's label.
MAX_LABEL = 124
# Bytes of a message that a queue can allow at most. ``settings`` and kombu's queues have this limit, too.
LARGEST_MESSAGE = 67_108_864
# What a queue allows, and a client sends, if nothing else is said.
MESSAGE_BYTES = 4_194_304


class QueueProperties(Model):
    """Properties of a queue (MS-MQDMPR 3.1.1.2); ``transactional``, ``group_exclusive`` and ``topic`` are fixed at
    creation."""

    label: str = Field(default="", max_length=MAX_LABEL)
    """Text for people, at most 124 characters."""
    transactional: bool = Field(default=False, strict=True)
    """The queue takes messages only in transactions. Fixed when the queue is created."""
    quota_bytes: int | None = Field(default=None, ge=0, strict=True)
    """Bytes that the messages of the queue may take together; None: no limit."""
    quota_messages: int | None = Field(default=None, ge=0, strict=True)
    """Messages that the queue may hold; None: no limit."""
    max_message_bytes: int = Field(default=MESSAGE_BYTES, ge=1, le=LARGEST_MESSAGE, strict=True)
    """Bytes that one message may take."""
    journaling: bool = Field(default=False, strict=True)
    """A copy of each received message goes to the subqueue ``;journal``."""
    journal_quota_bytes: int | None = Field(default=None, ge=0, strict=True)
    """Bytes that the messages of ``;journal`` may take together; None: no limit."""
    journal_quota_messages: int | None = Field(default=None, ge=0, strict=True)
    """Messages that ``;journal`` may hold; None: no limit."""
    poison_quota_bytes: int | None = Field(default=None, ge=0, strict=True)
    """Bytes that the messages of ``;poison`` may take together; None: no limit. They do not count in ``quota_bytes``.
    While ``;poison`` is full, failed messages rest in ``;retry``."""
    poison_quota_messages: int | None = Field(default=None, ge=0, strict=True)
    """Messages that ``;poison`` may hold; None: no limit. They do not count in ``quota_messages``."""
    failed_time_to_live: int | None = Field(default=None, ge=1, le=3_153_600_000, strict=True)
    """Seconds that failed messages of the queue are kept in its ``;poison`` and among the dead letters before they are
    deleted; None: until they are removed. It holds for messages that fail from now on."""
    base_priority: int = Field(default=0, ge=-32768, le=32767, strict=True)
    """Priority of the queue among others, for programs that read several (PROPID_Q_BASEPRIORITY). The broker stores
    it only."""
    type_id: str = Field(default="", max_length=64)
    """Identifier of the kind of queue, for programs (PROPID_Q_TYPE). The broker stores it only."""
    put_inhibited: bool = Field(default=False, strict=True)
    """Sends to the queue are refused."""
    get_inhibited: bool = Field(default=False, strict=True)
    """Reads of the queue are refused."""
    group_exclusive: bool = Field(default=False, strict=True)
    """One message of each group is active at a time, and groups take turns. Fixed when the queue is created."""
    retry: RetryPolicy | None = None
    """What becomes of messages that their readers give back; None: they are delivered again without limit."""
    topic: bool = Field(default=False, strict=True)
    """The queue is a topic: it keeps no messages, and what is sent to it goes to each queue that subscribed. Fixed
    when the queue is created."""
    trail: float = Field(default=0.0, ge=0, le=1)
    """Share of the messages of which the broker keeps what happens to them (``QueueManager.trail``): 0 none, 1 or True
    all. It is decided when a message is sent. Of a topic: the share of the published messages that are followed in the
    queues of all subscribers."""


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
    trail: float


class QueueInfo(QueueProperties):
    """Properties and present state of a queue."""

    name: str
    """Name of the queue."""
    created_at: datetime
    """When the queue was created."""
    modified_at: datetime
    """When its properties were last changed."""
    ready: int
    """Messages that are available now."""
    delayed: int
    """Messages that wait for their time or rest between two attempts (``;retry`` and ``;lapsed``)."""
    locked: int
    """Messages locked by readers and pipelines, and messages received or sent in open transactions."""
    messages: int
    """All messages of the queue, uncommitted sends and resting messages included."""
    bytes: int
    """Bytes that all messages take."""
    active: bool
    """Is any handle open on the queue?"""
    receivers: int
    """Open handles that may take messages: those with ``Access.RECEIVE``, ``ADMIN`` or ``ALL``."""
    waiters: int
    """Readers that wait for a message now."""
    overdue: bool = False
    """Timers are due that no call has served yet: messages may count as delayed or locked although their time is over.
    Only a read-only client sees that; any other client serves them first."""

    def properties(self) -> dict[str, Any]:
        """Only the settable properties."""
        return {name: getattr(self, name) for name in QueueProperties.model_fields}


def counted_once(queue: QueueInfo, subqueues: Iterable[QueueInfo]) -> list[QueueInfo]:
    """The queue and its subqueues, with each message counted in only one of them.

    The figures of a queue include the messages that rest between two attempts.
    """
    below = list(subqueues)
    resting = [each for each in below if each.name.partition(";")[2] in RESTING]
    less = {name: sum(getattr(each, name) for each in resting) for name in ("messages", "bytes")}
    own = queue.model_copy(
        update={
            "delayed": max(queue.delayed - less["messages"], 0),
            **{name: max(getattr(queue, name) - value, 0) for name, value in less.items()},
        }
    )
    return [own, *below]


class QueueStatistics(Model):
    """Counters of a queue at one moment (``QueueManager.statistics``)."""

    name: str
    """Name of the queue."""
    ready: int
    """Messages that are available now."""
    delayed: int
    """Messages that wait for their time."""
    locked: int
    """Messages locked by readers and pipelines, and messages received or sent in open transactions."""
    messages: int
    """All messages of the queue, uncommitted sends included."""
    bytes: int
    """Bytes that all messages take."""
    waiters: int
    """Readers that wait for a message now."""
    journal_messages: int
    """Messages in ``;journal``."""
    journal_bytes: int
    """Bytes in ``;journal``."""
    retry_messages: int
    """Messages that rest between two attempts (``;retry`` and ``;lapsed``)."""
    retry_bytes: int
    """Bytes of these messages."""
    poison_messages: int
    """Messages in ``;poison``."""
    poison_bytes: int
    """Bytes in ``;poison``."""
    total_in: int
    """Messages that entered the queue since it was created, moves included."""
    total_out: int
    """Messages that left the queue since it was created, moves included."""
    expired: int
    """Messages that expired."""
    purged: int
    """Messages that left by a purge, were deleted by operators, or came to the end of their time in ``;trash``."""
    rejected: int
    """Messages that left because a reader rejected them."""
    poisoned: int
    """Messages that left because their retry policy gave up: for ``;poison``, or as dead letters."""
    dropped: int
    """Messages that left because their retry policy deleted them. All other messages that left were received, moved,
    sent back, or rest between two attempts."""
    retried: int
    """How often a message returned for another attempt: released by a reader, aborted, or after its lease."""
    dead: int
    """Dead letters made from messages of this queue."""
    oldest_seconds: dict[int, float]
    """Age in seconds of the oldest available message, by priority (transactional messages: 7)."""
    rate_in: float
    """Messages per second that entered the queue, over the last ``rate_seconds``."""
    rate_out: float
    """Messages per second that left the queue, over the last ``rate_seconds``."""
    rate_seconds: float
    """The period of both rates in seconds."""
    warnings: tuple[str, ...] = ()
    """Warnings, such as more failed messages than ``Settings.failed_messages_warning``."""
    overdue: bool = False
    """As in QueueInfo."""


class FailedMessages(Model):
    """Messages in a queue of failed messages: a ``;poison``, or a queue of dead letters."""

    queue: str
    """Name of the queue."""
    messages: int
    """Messages in it."""
    bytes: int
    """Bytes that they take."""
    warning: str | None = None
    """What to do if there are more than ``Settings.failed_messages_warning``; None otherwise."""


class Subscription(Model):
    """A queue that subscribed to a topic."""

    topic: str
    """Name of the topic."""
    queue: str
    """Name of the queue that gets its messages."""
    selector: str | None = None
    """Selector of the messages that the queue gets; None: all."""


class ManagerInfo(Model):
    """State of a queue manager."""

    name: str
    """Name of the queue manager."""
    incarnation: str
    """Identifier of its data: it differs after the data were lost and the manager was created again."""
    history: int
    """Number of changes so far."""
    schema_version: int
    """Version of the format in which it is stored."""
    throttled: bool
    """All sends are refused at present (``QueueManager.throttle``)."""
    quota_bytes: int | None
    """Bytes that all messages may take together; None: no limit."""
    quota_messages: int | None
    """Messages that all queues may hold together; None: no limit."""
    messages: int
    """Messages in all queues."""
    bytes: int
    """Bytes that they take."""
    queues: int
    """Number of queues, with subqueues and those of the system."""
    sessions: int
    """Number of sessions."""
    transactions: int
    """Number of open transactions."""
