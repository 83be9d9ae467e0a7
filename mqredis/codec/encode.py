"""Messages as the scripts take them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mqredis import keys
from mqredis.codec.text import identifier, milliseconds, names
from mqredis.errors import InvalidArgument
from mqredis.models import Outgoing
from mqredis.plain import TEXT, USUAL
from mqredis.properties import escape, text_of, written
from mqredis.unvalidated import PENDING, present

#: Bodies beyond this many bytes are kept apart, so that scans never fetch them.
INLINE_BODY_BYTES = 4096
DEFAULT_CONTENT_TYPE = "application/octet-stream"

#: The flag of a record as one digit.
_FLAGS = "0123456789abcdefghijklmnopqrstuv"
#: Of a message whose head ends in a correlation id that is a text, and that sets nothing else apart.
_SIMPLE = _FLAGS[17]
#: The same behind the usual priority.
_USUAL = "3" + _SIMPLE
#: Identifiers of fewer characters are within their limit, whatever these are.
_SHORT = 64

#: The fields of most messages, and those that :func:`_other` need not look at.
_FEW = frozenset(("body", "properties", "correlation_id", PENDING))
#: Types of properties that are taken as they are.
_TYPES = frozenset((str, int, float, bool, bytes, type(None)))
_COMMON = _FEW | {"message_id", "group_id", "content_type", "priority"}
_SURROGATE = "a property, label or identifier holds a lone surrogate"


def encode(message: Outgoing, transaction: str = "") -> tuple[bytes, bytes | None]:
    """What ``send.lua`` takes for one message: its text, and its body again if that is large."""
    return encode_fields(fields_of(message), transaction)


def fields_of(message: Outgoing) -> dict[str, Any]:
    """The fields that a message was given."""
    fields = present(message)
    return fields if PENDING in fields else {name: fields[name] for name in message.__pydantic_fields_set__}


class Unusual(Exception):
    """What a caller gave needs a closer look."""


def encode_fields(
    fields: Mapping[str, Any], transaction: str = "", body: bytes | None = None
) -> tuple[bytes, bytes | None]:
    """The same of those fields of an Outgoing that were given, valid as they are.

    With a ``body`` they are as a caller gave them. Raises Unusual if anything but a correlation id and properties is
    among them, or if these are of other types than most.
    """
    head: str | None
    special, priority = False, 3
    correlation = fields.get("correlation_id")
    if body is None:
        pending = fields.get(PENDING)
        head = None if pending is None else pending[TEXT]
        if head is None:
            properties = fields.get("properties")
            head = written(properties) if properties else ""
        if not _FEW.issuperset(fields):
            more, special = _more(fields, transaction)
            head += more
            priority = fields.get("priority", 3)
    else:
        properties = fields.get("properties")
        if (
            len(fields) != (properties is not None) + (correlation is not None)
            or (properties is not None and type(properties) is not dict)
            or (correlation is not None and type(correlation) is not str)
        ):
            raise Unusual
        head = ""
        if properties is not None and (head := text_of(properties)) is None:
            if not _TYPES.issuperset(map(type, properties.values())):
                raise Unusual
            head = written(properties)  # which says what is wrong
        if (
            correlation is not None
            and 0 < len(correlation) < _SHORT
            and len(body) <= INLINE_BODY_BYTES
            and correlation.isprintable()
        ):  # as below, in one go
            if transaction:
                head += _of(transaction)
            try:
                return f"{_USUAL}{head}\x03cs{correlation}\0".encode() + body, None
            except UnicodeEncodeError:
                raise InvalidArgument(_SURROGATE) from None
    if transaction:
        head += _of(transaction)
    flag = 1 if special else 0
    if correlation is not None:
        # Last, so that a script finds its end without a search where nothing else sets the message apart: bit 16.
        if type(correlation) is str and 0 < len(correlation) < _SHORT and correlation.isprintable():
            head = f"{head}\x03cs{correlation}"
            flag = 1 if special else 17
        elif names(correlation):
            text = identifier(correlation, "correlation_id")
            head += "\x03c" + text
            flag = 1 if special or text[0] == "x" else 17
    if body is None:
        body = fields.get("body", b"")
    try:
        if len(body) <= INLINE_BODY_BYTES:
            return f"{priority}{_FLAGS[flag]}{head}\0".encode() + body, None
        return f"{priority}{_FLAGS[flag + 8]}{head}\0".encode(), body
    except UnicodeEncodeError:
        raise InvalidArgument(_SURROGATE) from None


def _of(transaction: str) -> str:
    return "\x03T" + (transaction if transaction.isprintable() else escape(transaction))


@dataclass(slots=True)
class Batch:
    """Many messages as the scripts take them."""

    #: A digit for each.
    priorities: list[bytes] = field(default_factory=list)
    #: What stands behind it.
    texts: list[bytes] = field(default_factory=list)
    #: Large bodies, by the place of their message.
    large: dict[int, bytes] = field(default_factory=dict)
    #: Some have more than a body, a correlation id and properties, or less.
    mixed: bool = False

    def size(self, at: int) -> int:
        """What a message takes."""
        return 1 + len(self.texts[at]) + len(self.large.get(at, b""))

    def sizes(self) -> list[int]:
        """What each takes but for the digit of its priority."""
        sizes = [*map(len, self.texts)]
        for at, body in self.large.items():
            sizes[at] += len(body)
        return sizes

    def part(self, start: int, stop: int) -> tuple[bytes, list[bytes]]:
        """The priorities of some, and their texts, each large body behind its own."""
        texts = self.texts[start:stop]
        for at in sorted(self.large, reverse=True):
            if start <= at < stop:
                texts.insert(at - start + 1, self.large[at])
        return b"".join(self.priorities[start:stop]), texts


def encode_each(messages: Iterable[Mapping[str, Any]], transaction: str, most: int) -> Batch:
    """The same of many, as far as they take up to ``most`` bytes each: the first that takes more is the last."""
    batch = Batch()
    texts, priorities, large = batch.texts, batch.priorities, batch.large
    ending = _of(transaction) if transaction else ""
    try:
        for fields in messages:
            pending = fields.get(PENDING)
            if pending is not None and pending[USUAL]:  # as ``encode_fields``, without a call for each
                correlation, body = fields["correlation_id"], fields["body"]
                if (
                    0 < len(correlation) < _SHORT
                    and len(body) <= INLINE_BODY_BYTES
                    and correlation.isprintable()
                ):
                    text = f"{_SIMPLE}{pending[TEXT]}{ending}\x03cs{correlation}\0".encode() + body
                    texts.append(text)
                    priorities.append(b"3")
                    if len(text) >= most:
                        break
                    continue
            batch.mixed = True
            line, apart = encode_fields(fields, transaction)
            if apart is not None:
                large[len(texts)] = apart
            texts.append(line[1:])
            priorities.append(line[:1])
            if batch.size(len(texts) - 1) > most:
                break
    except UnicodeEncodeError:
        raise InvalidArgument(_SURROGATE) from None
    return batch


def _more(fields: Mapping[str, Any], transaction: str) -> tuple[str, bool]:
    """The system fields but the correlation id; is there one that the scripts must look at?"""
    head, special = "", False
    get = fields.get
    if (identity := get("message_id")) is not None and names(identity):
        head += "\x03m" + identifier(identity, "message_id")
        special = True
    if (group := get("group_id")) is not None and names(group):
        head += "\x03g" + identifier(group, "group_id")
        special = True
    if (content_type := get("content_type", DEFAULT_CONTENT_TYPE)) != DEFAULT_CONTENT_TYPE:
        head += "\x03y" + escape(content_type)
    if (priority := get("priority", 3)) != 3:
        head += f"\x03p{priority}"
    if not _COMMON.issuperset(fields):
        others, asks = _other(fields, transaction)
        head += others
        special = special or asks
    return head, special


def _other(fields: Mapping[str, Any], transaction: str) -> tuple[str, bool]:
    """The fields that most messages leave at their defaults; is there one that the scripts must look at?"""
    head: list[str] = []
    add, get = head.append, fields.get
    special = False
    if (sequence := get("sequence")) is not None:
        add(f"\x03n{sequence}")
    if (offset := get("offset")) is not None:
        add(f"\x03o{offset}")
    flags = get("last_in_group", False) * 1 + get("segment", False) * 2 + get("last_segment", False) * 4
    if flags:
        add(f"\x03z{flags}")
    if label := get("label"):
        add("\x03l" + escape(label))
    if (key := get("dedup_key")) is not None:
        add(f"\x03k{escape(key)}\x03K{milliseconds(get('dedup_window', 0.0))}")
        special = True
    if (life := get("time_to_be_received")) is not None:
        add(f"\x03e{milliseconds(life)}")
        special = True
    if (travel := get("time_to_reach_queue")) is not None:
        add(f"\x03u{milliseconds(travel)}")
        special = True
    if ago := get("sent_seconds_ago"):
        add(f"\x03S{milliseconds(ago)}")
    if delay := get("delay"):
        add(f"\x03D{milliseconds(delay)}")
        special = True
    if wanted := get("acknowledge"):
        add(f"\x03a{int(wanted)}")
        special = True
    if home := get("administration_queue"):
        add("\x03A" + keys.check_name(home, "administration queue"))
        special = True
    if response := get("response_queue"):
        add("\x03r" + escape(response))
    if dead := get("dead_letter_queue"):
        add("\x03Q" + keys.check_name(dead, "dead-letter queue"))
        special = True
    if journal := get("journal"):
        add(f"\x03j{int(journal)}")
        special = True
    if tag := get("app_tag"):
        add(f"\x03t{tag}")
    if body_type := get("body_type"):
        add(f"\x03b{body_type}")
    if extension := get("extension"):
        add("\x03X" + extension.hex())
    if (
        not get("recoverable", True) and not transaction
    ):  # in one the delivery is recoverable (PROPID_M_DELIVERY)
        add("\x03d0")
    return "".join(head), special
