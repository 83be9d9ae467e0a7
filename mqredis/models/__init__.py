"""Messages, queues and what is asked of them.

Times are aware datetimes in UTC, durations are seconds as float, sizes are bytes. Field names follow the attributes
of MS-MQDMPR 3.1.1 (Message 3.1.1.12, Queue 3.1.1.2) in Python spelling.
"""

from __future__ import annotations

from mqredis.models.enums import (
    Access,
    Acknowledge,
    Durability,
    Grouping,
    Journal,
    Mark,
    MessageClass,
    Seek,
    Share,
)
from mqredis.models.inspection import (
    ClaimInfo,
    ClientInfo,
    HeldMessage,
    LockInfo,
    Page,
    QueueDepth,
    SessionInfo,
    TransactionInfo,
)
from mqredis.models.match import Match
from mqredis.models.message import Message
from mqredis.models.outgoing import Outgoing, Sent
from mqredis.models.properties import PropertyValue
from mqredis.models.queue import (
    FailedMessages,
    ManagerInfo,
    QueueInfo,
    QueueProperties,
    QueueStatistics,
    RetryPolicy,
    Subscription,
)
from mqredis.models.text import Identifier

__all__ = [
    "TransactionInfo",
    "SessionInfo",
    "QueueDepth",
    "Page",
    "LockInfo",
    "HeldMessage",
    "ClientInfo",
    "ClaimInfo",
    "Access",
    "Acknowledge",
    "Durability",
    "Grouping",
    "Identifier",
    "Journal",
    "ManagerInfo",
    "Mark",
    "Match",
    "Message",
    "MessageClass",
    "Outgoing",
    "PropertyValue",
    "QueueInfo",
    "QueueProperties",
    "QueueStatistics",
    "FailedMessages",
    "RetryPolicy",
    "Seek",
    "Sent",
    "Share",
    "Subscription",
]
