"""The classes and enumerations of the public interface: messages, queues, match options, reports.

Times are aware datetimes in UTC, durations are seconds as float, sizes are bytes. Field names follow the attributes of
MS-MQDMPR 3.1.1 (Message 3.1.1.12, Queue 3.1.1.2) in Python spelling.

Their docstrings are the reference: ``docs/reference.md`` shows them, and ``mqredis queue create --help`` those of
``QueueProperties``. All other packages use these classes. Modules of this package that are not imported here have what
mqredis itself needs to know of messages: fields, records, identifiers.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from mqredis.models.inspection import (
        ClaimInfo,
        ClientInfo,
        HeldMessage,
        HistoryPeriod,
        LockInfo,
        Page,
        QueueDepth,
        QueueHistory,
        SessionInfo,
        StoredMessage,
        TransactionInfo,
    )

__all__ = [
    "ClaimInfo",
    "ClientInfo",
    "HeldMessage",
    "HistoryPeriod",
    "LockInfo",
    "Page",
    "QueueDepth",
    "QueueHistory",
    "SessionInfo",
    "StoredMessage",
    "TransactionInfo",
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


def __getattr__(name: str) -> Any:
    # Models for operators, imported at the first use since making each of them takes time.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("mqredis.models.inspection"), name)
