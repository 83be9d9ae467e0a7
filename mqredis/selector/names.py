"""Names of header fields in a selector: JMS, IBM MQ (``Root.MQMD.*``) and our own (``$label``).

``builder`` and ``encode`` look names up in it.

``docs/selectors.md`` has the same table for users. Jakarta Messaging 3.8.1.1; IBM MQ: "Message selector syntax".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class HeaderField:
    """Where a name finds its value.

    ``view`` says how to read it (one letter, the same in ``lua/selector/selector_field.lua``), ``key`` is the
    letter of the field in a message record, ``field`` the name of the field in ``mqredis.models.Message``.

    Views: J identifier as JMS text, N identifier as it is, T text, I integer, G sequence in a group,
    A arrival and S sending in ms since the epoch, L lookup id, E one of two values (express, else
    recoverable), B whether the group flags modulo ``either[0]`` reach ``either[1]``, Y type of message.
    """

    view: str
    key: str
    field: str
    default: str | int | None = None
    either: tuple[str | int | bool, str | int | bool] = ("", "")

    def read(self, header: Mapping[str, Any]) -> str | bytes | bool | int | None:
        """The value in ``header``, a mapping of field names of ``Message`` (see :func:`header_of`)."""
        found = header.get(self.field)
        match self.view:
            case "J":
                return "ID:" + found.hex() if isinstance(found, bytes) else found
            case "T":
                return found or self.default
            case "I":
                return self.default if found is None else int(found)
            case "G":
                return None if header.get("group_id") is None else int(found or 1)
            case "E":
                return self.either[found is not False]
            case "B":
                return bool(found)
            case "Y":
                if found:
                    return 4
                return 1 if header.get("response_queue") else 8
            case _:
                return found


_MESSAGE_ID = ("m", "message_id")
_CORRELATION_ID = ("c", "correlation_id")
_GROUP_ID = ("g", "group_id")
_SEQUENCE = HeaderField("I", "n", "sequence", 1)
_OFFSET = HeaderField("I", "o", "offset", 0)
_PRIORITY = HeaderField("I", "p", "priority", 3)
_CLASS = HeaderField("I", "C", "message_class", 0)
_LABEL = HeaderField("T", "l", "label")
_CONTENT_TYPE = HeaderField("T", "y", "content_type", "application/octet-stream")
_RESPONSE_QUEUE = HeaderField("T", "r", "response_queue")
_SENT = HeaderField("S", "S", "sent_ms")

FIELDS: dict[str, HeaderField] = {
    "JMSMessageID": HeaderField("J", *_MESSAGE_ID),
    "JMSCorrelationID": HeaderField("J", *_CORRELATION_ID),
    "JMSTimestamp": _SENT,
    "JMSPriority": _PRIORITY,
    "JMSType": _LABEL,
    "JMSDeliveryMode": HeaderField("E", "d", "recoverable", None, ("NON_PERSISTENT", "PERSISTENT")),
    "JMSXGroupID": HeaderField("J", *_GROUP_ID),
    "JMSXGroupSeq": HeaderField("G", "n", "sequence"),
    "Root.MQMD.MsgId": HeaderField("N", *_MESSAGE_ID),
    "Root.MQMD.CorrelId": HeaderField("N", *_CORRELATION_ID),
    "Root.MQMD.GroupId": HeaderField("N", *_GROUP_ID),
    "Root.MQMD.MsgSeqNumber": _SEQUENCE,
    "Root.MQMD.Offset": _OFFSET,
    "Root.MQMD.Priority": _PRIORITY,
    "Root.MQMD.Persistence": HeaderField("E", "d", "recoverable", None, (0, 1)),
    "Root.MQMD.MsgType": HeaderField("Y", "C", "message_class"),
    "Root.MQMD.Feedback": _CLASS,
    "Root.MQMD.Format": _CONTENT_TYPE,
    "Root.MQMD.ReplyToQ": _RESPONSE_QUEUE,
    "$message_id": HeaderField("N", *_MESSAGE_ID),
    "$correlation_id": HeaderField("N", *_CORRELATION_ID),
    "$group_id": HeaderField("N", *_GROUP_ID),
    "$sequence": _SEQUENCE,
    "$offset": _OFFSET,
    "$last_in_group": HeaderField("B", "z", "last_in_group", None, (2, 1)),
    "$segment": HeaderField("B", "z", "segment", None, (8, 2)),
    "$last_segment": HeaderField("B", "z", "last_segment", None, (8, 4)),
    "$priority": _PRIORITY,
    "$label": _LABEL,
    "$content_type": _CONTENT_TYPE,
    "$body_type": HeaderField("I", "b", "body_type", 0),
    "$app_tag": HeaderField("I", "t", "app_tag", 0),
    "$recoverable": HeaderField("E", "d", "recoverable", None, (False, True)),
    "$acknowledge": HeaderField("I", "a", "acknowledge", 0),
    "$journal": HeaderField("I", "j", "journal", 0),
    "$class": _CLASS,
    "$response_queue": _RESPONSE_QUEUE,
    "$administration_queue": HeaderField("T", "A", "administration_queue"),
    "$dead_letter_queue": HeaderField("T", "Q", "dead_letter_queue"),
    "$dedup_key": HeaderField("T", "k", "dedup_key"),
    "$transaction_id": HeaderField("T", "T", "transaction_id"),
    "$original_queue": HeaderField("T", "O", "original_queue"),
    "$original_lookup_id": HeaderField("L", "I", "original_lookup_id"),
    "$reason": HeaderField("T", "R", "reason"),
    "$lookup_id": HeaderField("L", "", "lookup_id"),
    "$arrived_at": HeaderField("A", "", "arrived_ms"),
    "$sent_at": _SENT,
}

# Fields of IBM MQ's message descriptor that messages of ours do not have, or that change while they wait.
_NO_COUNTERPART = frozenset(
    {
        *(
            "StrucId",
            "Version",
            "Report",
            "Expiry",
            "Encoding",
            "CodedCharSetId",
            "BackoutCount",
            "ReplyToQMgr",
        ),
        *("UserIdentifier", "AccountingToken", "ApplIdentityData", "PutApplType", "PutApplName", "PutDate"),
        *("PutTime", "ApplOriginData", "MsgFlags", "OriginalLength"),
    }
)


def refusal(name: str) -> str | None:
    """Why a name may not be used at all, or None. Every name that is no header field is a user property."""
    if name.startswith("Root.MQMD.") and name[10:] in _NO_COUNTERPART:
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
