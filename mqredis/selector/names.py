"""Names of header fields in a selector: JMS, IBM MQ (``Root.MQMD.*``) and our own (``$label``).

``builder`` looks names up in it, ``encode`` and ``hints`` look at their views. ``evaluate`` calls
``HeaderField.read`` with a mapping that ``spark.fetch`` makes with ``header_of``. In a program stand the letters of
fields and views, not the names.

``docs/selectors.md`` has the same table for users. Jakarta Messaging 3.8.1.1; IBM MQ: "Message selector syntax".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from mqredis.models.header import DEFAULT_CONTENT_TYPE
from mqredis.models.record_parts import LETTERS


class View(StrEnum):
    """How a field is read. The letters stand in programs; lua/selector/selector_field.lua has them in ``views``, and
    says what a new one takes along."""

    IDENTIFIER = "N"
    JMS_IDENTIFIER = "J"
    """An identifier as JMS has it: one of bytes as "ID:" and hex digits."""
    TEXT = "T"
    INTEGER = "I"
    GROUP = "G"
    """A sequence number, which is NULL outside a group."""
    ARRIVED = "A"
    """When the message arrived, in ms since the epoch."""
    SENT = "S"
    """When it was sent, in ms since the epoch."""
    LOOKUP_ID = "L"
    DELIVERY_MODE = "E"
    """``either[0]`` for an express message, else ``either[1]``."""
    BIT = "B"
    """Whether the group flags (mqredis/models/fields.py: ``_group_flag``) modulo ``either[0]`` reach ``either[1]``."""
    MESSAGE_TYPE = "Y"
    """The type that IBM MQ has for such a message."""


# The letters of fields in a record, by their names here.
_KEYS = {**LETTERS, "sent_ms": LETTERS["sent_seconds_ago"]}


@dataclass(frozen=True, slots=True)
class HeaderField:
    """Where a name finds its value."""

    view: View
    field: str
    """The name of the field in ``mqredis.models.Message``, or one that :func:`header_of` adds."""
    default: str | int | None = None
    """The value for messages without the field; only of TEXT and INTEGER."""
    either: tuple[str | int | bool, str | int | bool] = ("", "")
    """Only of DELIVERY_MODE and BIT: see there."""

    @property
    def key(self) -> str:
        """The letter of the field in a message record; "" if it is not in the record."""
        return _KEYS.get(self.field, "")

    def read(self, header: Mapping[str, Any]) -> str | bytes | bool | int | None:
        """The value in ``header``, a mapping of field names of ``Message`` (see :func:`header_of`)."""
        found = header.get(self.field)
        match self.view:
            case View.JMS_IDENTIFIER:
                return "ID:" + found.hex() if isinstance(found, bytes) else found
            case View.TEXT:
                return found or self.default
            case View.INTEGER:
                return self.default if found is None else int(found)
            case View.GROUP:
                return None if header.get("group_id") is None else int(found or 1)
            case View.DELIVERY_MODE:
                return self.either[found is not False]
            case View.BIT:
                return bool(found)
            case View.MESSAGE_TYPE:
                if found:
                    return 4
                return 1 if header.get("response_queue") else 8
            case _:
                return found


_SEQUENCE = HeaderField(View.INTEGER, "sequence", 1)
_OFFSET = HeaderField(View.INTEGER, "offset", 0)
_PRIORITY = HeaderField(View.INTEGER, "priority", 3)
_CLASS = HeaderField(View.INTEGER, "message_class", 0)
_LABEL = HeaderField(View.TEXT, "label")
_CONTENT_TYPE = HeaderField(View.TEXT, "content_type", DEFAULT_CONTENT_TYPE)
_RESPONSE_QUEUE = HeaderField(View.TEXT, "response_queue")
_SENT = HeaderField(View.SENT, "sent_ms")
_LAST_IN_GROUP = HeaderField(View.BIT, "last_in_group", None, (2, 1))
_MODE = View.DELIVERY_MODE

# docs/selectors.md lists all of them, and tests/selector/test_names.py has a case for each.
FIELDS: dict[str, HeaderField] = {
    "JMSMessageID": HeaderField(View.JMS_IDENTIFIER, "message_id"),
    "JMSCorrelationID": HeaderField(View.JMS_IDENTIFIER, "correlation_id"),
    "JMSTimestamp": _SENT,
    "JMSPriority": _PRIORITY,
    "JMSType": _LABEL,
    "JMSDeliveryMode": HeaderField(_MODE, "recoverable", None, ("NON_PERSISTENT", "PERSISTENT")),
    "JMSXGroupID": HeaderField(View.JMS_IDENTIFIER, "group_id"),
    "JMSXGroupSeq": HeaderField(View.GROUP, "sequence"),
    "JMS_IBM_Last_Msg_In_Group": _LAST_IN_GROUP,
    "Root.MQMD.MsgId": HeaderField(View.IDENTIFIER, "message_id"),
    "Root.MQMD.CorrelId": HeaderField(View.IDENTIFIER, "correlation_id"),
    "Root.MQMD.GroupId": HeaderField(View.IDENTIFIER, "group_id"),
    "Root.MQMD.MsgSeqNumber": _SEQUENCE,
    "Root.MQMD.Offset": _OFFSET,
    "Root.MQMD.Priority": _PRIORITY,
    "Root.MQMD.Persistence": HeaderField(_MODE, "recoverable", None, (0, 1)),
    "Root.MQMD.MsgType": HeaderField(View.MESSAGE_TYPE, "message_class"),
    "Root.MQMD.Feedback": _CLASS,
    "Root.MQMD.Format": _CONTENT_TYPE,
    "Root.MQMD.ReplyToQ": _RESPONSE_QUEUE,
    "$message_id": HeaderField(View.IDENTIFIER, "message_id"),
    "$correlation_id": HeaderField(View.IDENTIFIER, "correlation_id"),
    "$group_id": HeaderField(View.IDENTIFIER, "group_id"),
    "$sequence": _SEQUENCE,
    "$offset": _OFFSET,
    "$last_in_group": _LAST_IN_GROUP,
    "$segment": HeaderField(View.BIT, "segment", None, (8, 2)),
    "$last_segment": HeaderField(View.BIT, "last_segment", None, (8, 4)),
    "$priority": _PRIORITY,
    "$label": _LABEL,
    "$content_type": _CONTENT_TYPE,
    "$body_type": HeaderField(View.INTEGER, "body_type", 0),
    "$app_tag": HeaderField(View.INTEGER, "app_tag", 0),
    "$recoverable": HeaderField(_MODE, "recoverable", None, (False, True)),
    "$acknowledge": HeaderField(View.INTEGER, "acknowledge", 0),
    "$journal": HeaderField(View.INTEGER, "journal", 0),
    "$class": _CLASS,
    "$response_queue": _RESPONSE_QUEUE,
    "$administration_queue": HeaderField(View.TEXT, "administration_queue"),
    "$dead_letter_queue": HeaderField(View.TEXT, "dead_letter_queue"),
    "$dedup_key": HeaderField(View.TEXT, "dedup_key"),
    "$transaction_id": HeaderField(View.TEXT, "transaction_id"),
    "$original_queue": HeaderField(View.TEXT, "original_queue"),
    "$original_lookup_id": HeaderField(View.LOOKUP_ID, "original_lookup_id"),
    "$reason": HeaderField(View.TEXT, "reason"),
    "$lookup_id": HeaderField(View.LOOKUP_ID, "lookup_id"),
    "$arrived_at": HeaderField(View.ARRIVED, "arrived_ms"),
    "$sent_at": _SENT,
}

# Fields of IBM MQ's message descriptor that messages of ours do not have, or that change while they wait.
_NO_COUNTERPART = frozenset({
    "StrucId", "Version", "Report", "Expiry", "Encoding", "CodedCharSetId", "BackoutCount", "ReplyToQMgr",
    "UserIdentifier", "AccountingToken", "ApplIdentityData", "PutApplType", "PutApplName", "PutDate", "PutTime",
    "ApplOriginData", "MsgFlags", "OriginalLength",
})  # fmt: skip


def refusal(name: str) -> str | None:
    """Why a name may not be used at all, or None. Every name that is no header field is a user property."""
    if name.startswith("Root.MQMD.") and name.removeprefix("Root.MQMD.") in _NO_COUNTERPART:
        return f"{name} cannot be selected on"
    if name == "JMSXDeliveryCount":
        return "JMSXDeliveryCount changes while a message waits and cannot be selected on"
    if name.startswith("JMS") and not name.startswith(("JMSX", "JMS_")) and name not in FIELDS:
        return f"{name} is not a header field that selectors may name"
    return None


def header_of(message: Any) -> dict[str, Any]:
    """The header fields of a :class:`mqredis.models.Message` for the Python evaluator."""
    header = {spec.field: getattr(message, spec.field, None) for spec in FIELDS.values()}
    header["arrived_ms"] = _milliseconds(message.arrived_at)
    header["sent_ms"] = _milliseconds(message.sent_at)
    return header


def _milliseconds(moment: Any) -> int:
    return int(moment.timestamp()) * 1000 + int(moment.microsecond) // 1000
