"""The choices that a caller makes, and the classes of messages (MQMQ, MC-MQAC, IBM MQ)."""

from __future__ import annotations

from enum import STRICT, Enum, IntEnum, IntFlag, StrEnum


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
    PASS_CORRELATION_ID = 64
    """The acknowledgement or reply carries the correlation id of the original instead of its message id
    (MQRO_PASS_CORREL_ID)."""
    PASS_MESSAGE_ID = 128
    """The acknowledgement or reply carries the message id of the original instead of a new one (MQRO_PASS_MSG_ID)."""


class Journal(IntFlag, boundary=STRICT):
    """Source journaling (PROPID_M_JOURNAL)."""

    NONE = 0
    DEAD_LETTER = 1
    JOURNAL = 2


class Grouping(IntFlag):
    """How a read treats groups and segments (IBM MQ get options)."""

    NONE = 0
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
    HANDLE = 1
    CO_OP = 2
