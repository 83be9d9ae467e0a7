"""Filters: the messages that a reader wants, as one argument of a script.

``mqredis.operations.matching`` makes most of them; ``browser``, ``cursor``, ``groups`` and ``inspection`` add options
or make theirs, and so does ``spark.receive_reader``. ``commands.trails`` compares identifiers with ``comparable``.
``lua/matching/filter.lua`` describes the text, and the broker keeps that of a waiting reader, so clients of two
releases have to agree on it. ``tests/contract/test_constants.py`` compares the letters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

from mqredis.errors import InvalidArgument, MatchOptionsError
from mqredis.models import Grouping, Identifier, Match
from mqredis.models.lookup_ids import LOOKUP_ID
from mqredis.models.text import identifier, names

# The keys of identifiers in a filter (lua/matching/filter.lua) and in the index.
_KEYS = {"message_id": "m", "correlation_id": "c", "group_id": "g"}
# Options of a filter.
LOGICAL_ORDER, ALL_MESSAGES, ALL_SEGMENTS, COMPLETE_MESSAGE, WHOLE_GROUP = "LASCW"
UNMARKED, MARK, UNMARK, MARK_COOPERATIVE, UNMARK_COOPERATIVE = "UHhKk"
# In delivery order, even if groups take turns.
DELIVERY_ORDER = "B"
_GROUPING = (
    (Grouping.LOGICAL_ORDER, LOGICAL_ORDER),
    (Grouping.ALL_MESSAGES_AVAILABLE, ALL_MESSAGES),
    (Grouping.ALL_SEGMENTS_AVAILABLE, ALL_SEGMENTS),
    (Grouping.COMPLETE_MESSAGE, COMPLETE_MESSAGE),
)
_ALL_GROUPING = reduce(or_, Grouping)
# More alternatives than this are not looked up one by one: a scan costs less.
_MOST_HINTS = 64


@dataclass(slots=True)
class Member:
    """A member of a group: the next one for a handle that reads in logical order."""

    group: str  # as kept: "s" and text or "x" and hex digits
    sequence: int
    offset: int


@dataclass(slots=True)
class Filter:
    """All conditions of a reader."""

    match: Match | None = None
    programs: Sequence[bytes] = ()
    """Compiled selectors; all must select."""
    hints: Sequence[tuple[str, Identifier]] = ()
    """Identifiers one of which every selected message has, each with the name of its field."""
    incarnation: str = ""
    """That of the manager: a token with another one names no message."""
    grouping: Grouping = Grouping.NONE
    options: str = ""
    """Options besides those of ``grouping``."""
    member: Member | None = None
    lookup_id: str = ""
    """The lookup id of the only message that passes."""
    after: str = ""
    """Lookup id behind which the search begins."""
    browser: str = ""
    """The name of the browser whose marks count."""
    interval: str | None = None
    """How long co-operative marks count, in ms; "-": for ever; None: the browser does not co-operate."""

    def text(self) -> bytes:
        """The filter as an argument of scripts; empty if every message passes. lua/matching/filter.lua describes it."""
        fields = self._match() + self._hints()
        if self.lookup_id:
            fields.insert(0, "i" + self.lookup_id)
        if self.after:
            fields.append("@" + self.after)
        if self.member is not None:
            fields.append("G" + self.member.group)
            fields.append(f"N{self.member.sequence}")
            fields.append(f"O{self.member.offset}")
        if self.browser:
            fields.append("y" + self.browser)
        if self.interval is not None:
            fields.append("Z" + self.interval)
        options = "".join(option for bit, option in _GROUPING if bit in self.grouping) + self.options
        if options:
            fields.append("f" + options)
        if not fields and not self.programs:
            return b""
        try:
            head = "".join("\x03" + item for item in fields).encode("utf-8")
        except UnicodeEncodeError:
            raise InvalidArgument("an identifier to match holds a lone surrogate") from None
        return head + b"\0" + b"".join(b"%d:%s" % (len(item), item) for item in self.programs)

    def _match(self) -> list[str]:
        match = self.match
        if match is None:
            return []
        fields: list[str] = []
        if match.token is not None:
            incarnation, _, lookup_id = match.token.rpartition("-")
            known = incarnation == self.incarnation and LOOKUP_ID.fullmatch(lookup_id)
            fields.append("i" + (lookup_id if known else "-"))  # an invalid token names no message
        for name, key in _KEYS.items():
            value = comparable(getattr(match, name), name)
            if value:
                fields.append(key + value)
        if match.sequence is not None:
            fields.append(f"n{match.sequence}")
        if match.offset is not None:
            fields.append(f"o{match.offset}")
        return fields

    def _hints(self) -> list[str]:
        """The identifiers one of which a message must have (candidates.by_alternatives in Lua). None if there are too
        many: then all messages are tested."""
        found: list[str] = []
        for name, value in self.hints:
            text = comparable(value, name)
            if not text:
                return []
            found.append("h" + _KEYS[name] + text)
        return found if len(found) <= _MOST_HINTS else []


def comparable(value: Identifier | None, what: str) -> str:
    """An identifier for comparison: without trailing zero bytes; empty for the none value, which matches any."""
    if value is None or not names(value):
        return ""
    if isinstance(value, bytes | bytearray | memoryview):
        value = bytes(value).rstrip(b"\0")
    return identifier(value, what)


def single(match: Match) -> bytes | None:
    """The filter of a match with exactly one identifier, the most frequent kind; None for any other match."""
    if len(match.model_fields_set) != 1:
        return None
    (name,) = match.model_fields_set
    key = _KEYS.get(name)
    if key is None:
        return None
    value = comparable(getattr(match, name), name)
    try:
        return f"\x03{key}{value}\0".encode() if value else b""
    except UnicodeEncodeError:
        raise InvalidArgument("an identifier to match holds a lone surrogate") from None


def checked_grouping(grouping: object) -> Grouping:
    """The grouping options of a call, checked. Raises MatchOptionsError."""
    if grouping is None:
        return Grouping.NONE
    if not isinstance(grouping, Grouping) or grouping not in _ALL_GROUPING:
        raise MatchOptionsError(f"grouping must be a mqredis.Grouping, not {grouping!r:.40}", mqrc=2046)
    return grouping
