"""The choices that a caller makes, and the classes of messages (MQMQ, MC-MQAC, IBM MQ).

Callers import them from ``mqredis``; messages, sends and seeks have them as values.

``commands.filters`` has a letter for each option of Grouping, ``operations.browser`` one for each Mark;
``operations.durability.levels`` and its neighbours, and ``drivers.durability``, have what each Durability needs;
``operations.open_queue``, ``operations.handle`` and ``lua/core/handle.lua`` the rules of Access and Share. The scripts
have the bits of Acknowledge and Journal and the numbers of MessageClass (``lua/features/trace.lua``), and the words of
Access and Seek (``queue_open.lua``, ``lookup.lua``). A record with another sum of acknowledgements counts as damaged
(``codec/decode.py``). ``tests/contract`` compares the numbers of Acknowledge and MessageClass.
"""

from __future__ import annotations

from enum import STRICT, Enum, IntEnum, IntFlag, StrEnum


class Access(Enum):
    """What a handle may do (QueueAccessType, MS-MQDMPR 3.1.1.17)."""

    RECEIVE = "receive"
    """Receive, lock, peek, purge, and move messages out of the queue."""
    SEND = "send"
    """Send."""
    PEEK = "peek"
    """Peek and browse."""
    MOVE = "move"
    """Be the target of a move."""
    ADMIN = "admin"
    """Every call."""
    ALL = "all"
    """Every call, as ADMIN. The default."""


class Share(Enum):
    """Whether others may receive while the handle is open (QueueShareMode)."""

    DENY_NONE = "deny_none"
    """Others may receive."""
    DENY_RECEIVE = "deny_receive"
    """No other handle may receive."""


class Durability(StrEnum):
    """How far a change must have got before its call returns (docs/guarantees.md)."""

    MEMORY = "memory"
    """In the memory of the primary."""
    FSYNC = "fsync"
    """On the disk of the primary."""
    REPLICA = "replica"
    """In the memory of replicas."""
    REPLICA_FSYNC = "replica-fsync"
    """On the disks of the primary and of replicas."""


class Seek(Enum):
    """MessageSeekAction of a read by lookup id (MS-MQDMPR 3.1.7.3.3)."""

    FIRST = "first"
    """The first message of the queue; the lookup id is ignored."""
    PREVIOUS = "previous"
    """The message before the lookup id."""
    CURRENT = "current"
    """The message with the lookup id."""
    NEXT = "next"
    """The message after the lookup id."""
    LAST = "last"
    """The last message of the queue; the lookup id is ignored."""


class MessageClass(IntEnum):
    """Class of a message (MQMQ 2.2.18.1.6): bit 15 negative, bit 14 receive stage."""

    NORMAL = 0x0000
    """A message of a sender."""
    REPORT = 0x0001
    """A report."""
    ACK_REACH_QUEUE = 0x0002
    """The message reached the queue."""
    ACK_RECEIVE = 0x4000
    """The message was received."""
    NACK_BAD_DESTINATION_QUEUE = 0x8000
    """The queue does not exist."""
    NACK_PURGED = 0x8001
    """The message was purged before it reached the queue."""
    NACK_REACH_QUEUE_TIMEOUT = 0x8002
    """``time_to_reach_queue`` ended before the message reached the queue."""
    NACK_QUEUE_EXCEED_QUOTA = 0x8003
    """The message would have exceeded the quota of the queue."""
    NACK_ACCESS_DENIED = 0x8004
    """The sender may not send to the queue."""
    NACK_NOT_TRANSACTIONAL_QUEUE = 0x8009
    """The message was sent in a transaction, and the queue is not transactional."""
    NACK_NOT_TRANSACTIONAL_MESSAGE = 0x800A
    """The queue is transactional, and the message was not sent in a transaction."""
    NACK_QUEUE_DELETED = 0xC000
    """The queue was deleted with the message in it."""
    NACK_QUEUE_PURGED = 0xC001
    """The message was purged."""
    NACK_RECEIVE_TIMEOUT = 0xC002
    """``time_to_be_received`` ended before the message was received."""
    NACK_RECEIVE_TIMEOUT_AT_SENDER = 0xC003
    """``time_to_be_received`` ended before the message left its sender."""
    NACK_RECEIVE_REJECTED = 0xC004
    """A reader rejected the message."""


class Acknowledge(IntFlag, boundary=STRICT):
    """Which acknowledgements the sender wants (MC-MQAC 2.2.2.11), and what these and replies carry (IBM MQ MQRO)."""

    NONE = 0
    """No acknowledgement."""
    POSITIVE_ARRIVAL = 1
    """When the message reaches the queue."""
    POSITIVE_RECEIVE = 2
    """When the message is received."""
    NEGATIVE_ARRIVAL = 4
    """When the message cannot reach the queue."""
    NEGATIVE_RECEIVE = 8
    """When the message leaves without being received."""
    NACK_REACH_QUEUE = 4
    """NEGATIVE_ARRIVAL."""
    FULL_REACH_QUEUE = 5
    """POSITIVE_ARRIVAL and NEGATIVE_ARRIVAL."""
    NACK_RECEIVE = 12
    """NEGATIVE_ARRIVAL and NEGATIVE_RECEIVE."""
    FULL_RECEIVE = 14
    """POSITIVE_RECEIVE, NEGATIVE_ARRIVAL and NEGATIVE_RECEIVE."""
    PASS_CORRELATION_ID = 64
    """The acknowledgement or reply carries the correlation id of the original instead of its message id
    (MQRO_PASS_CORREL_ID)."""
    PASS_MESSAGE_ID = 128
    """The acknowledgement or reply carries the message id of the original instead of a new one (MQRO_PASS_MSG_ID)."""


class Journal(IntFlag, boundary=STRICT):
    """Source journaling (PROPID_M_JOURNAL)."""

    NONE = 0
    """No copy."""
    DEAD_LETTER = 1
    """A message that cannot be delivered goes to a dead-letter queue."""
    JOURNAL = 2
    """A copy of the message goes to ``system$;journal``."""


class Grouping(IntFlag):
    """How a read treats groups and segments (IBM MQ get options)."""

    NONE = 0
    """Each message is read by itself."""
    LOGICAL_ORDER = 1
    """Groups are delivered member by member in their own order. While a group is open on the handle, only its
    messages are delivered."""
    ALL_MESSAGES_AVAILABLE = 2
    """A group is available only if all its messages are."""
    ALL_SEGMENTS_AVAILABLE = 4
    """A segmented message is available only if all its segments are."""
    COMPLETE_MESSAGE = 8
    """Segments are joined to the original message; implies ALL_SEGMENTS_AVAILABLE."""


class Mark(IntFlag):
    """Whose browse marks a browse sets (IBM MQ MARK_BROWSE_HANDLE, MARK_BROWSE_CO_OP)."""

    NONE = 0
    """No mark."""
    HANDLE = 1
    """A mark of this browser."""
    CO_OP = 2
    """A mark shared by all browsers with ``co_op=True``."""
