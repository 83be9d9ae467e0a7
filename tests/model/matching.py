"""Reads of particular messages in the model: match options, selectors, groups, turns, marks.

Written from docs/semantics-matching.md and IBM's pages, not from the Lua: every question is answered by walking
the whole queue.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mqredis.errors import GroupInconsistent, MatchOptionsError
from mqredis.models import Grouping, Match, Message
from mqredis.selector import Selector, header_of, parse

if TYPE_CHECKING:
    from tests.model.adm import Position, Queue, UnitOfWork

# An identifier as it is compared; the empty one is none.
Id = tuple[str, bytes]
NONE: Id = ("", b"")


@dataclass
class Particular:
    """State of a queue for reads with match options, groups and marks."""

    turns: dict[int, Id] = field(default_factory=dict)
    """The group that was served last, per priority class."""
    handle_marks: set[tuple[int, int]] = field(default_factory=set)
    """Browser and lookup id."""
    shared_marks: dict[int, float | None] = field(default_factory=dict)
    """When a co-operative mark ends; None: never."""


@dataclass
class Member:
    """The place of the next message of a group."""

    group: Id
    sequence: int
    offset: int


@dataclass
class Wanted:
    """The options of one read."""

    match: Match | None = None
    selectors: Sequence[Selector] = ()
    grouping: Grouping = Grouping.NONE
    whole: bool = False  # a group as a whole
    taking: bool = False
    browsing: bool = False
    after: int | None = None
    member: Member | None = None
    unmarked: Callable[[Position], bool] | None = None

    @property
    def plain(self) -> bool:
        """Return whether the read accepts any message."""
        return not (self.named or self.grouping or self.whole or self.unmarked or self.selectors)

    @property
    def named(self) -> bool:
        """Return whether the match has any option."""
        given = self.match.model_dump() if self.match else {}
        return any(v is not None and (isinstance(v, int) or normal(v) != NONE) for v in given.values())


def selectors(*given: Any) -> list[Selector]:
    """Return the selectors that do not select everything."""
    parsed = [parse(item, refuse_never=True) for item in given if item is not None]
    return [item for item in parsed if not item.always]


def normal(value: Any) -> Id:
    """Text is never bytes; short byte identifiers are filled up with zero bytes."""
    if isinstance(value, bytes):
        stripped = value.rstrip(b"\0")
        return ("x", stripped) if stripped else NONE
    return ("s", str(value).encode()) if value else NONE


def group_of(position: Position) -> Id:
    return normal(position.stored.out.group_id)


def place_of(position: Position) -> tuple[int, int]:
    """Sequence and offset."""
    return position.stored.out.sequence or 1, position.stored.out.offset or 0


def agrees(position: Position, match: Match | None, chosen: Sequence[Selector]) -> bool:
    """Return whether the message matches, without regard to its group."""
    from tests.model.adm import as_message

    message = as_message(position)
    if match is not None:
        for name in ("message_id", "correlation_id", "group_id"):
            asked = normal(getattr(match, name))
            if asked != NONE and asked != normal(getattr(message, name)):
                return False
        for name in ("sequence", "offset", "token"):
            asked = getattr(match, name)
            if asked is not None and asked != getattr(message, name):
                return False
    header = header_of(message)
    return all(item.evaluate(message.properties, header) is True for item in chosen)


# ---- groups ----------------------------------------------------------------------------------------------


def available(queue: Queue) -> list[Position]:
    return [p for p in queue.walk(None) if queue.acceptable(p, peek=False) and not queue.store.expired(p)]


def members(queue: Queue, group: Id) -> dict[tuple[int, int], Position]:
    """By place: of two messages in one place the first counts."""
    found: dict[tuple[int, int], Position] = {}
    for position in available(queue):
        if group_of(position) == group:
            found.setdefault(place_of(position), position)
    return found


def joined(queue: Queue, group: Id, sequence: int) -> list[Position] | None:
    """All segments of a logical message, in order; None if one is missing."""
    places, found, offset = members(queue, group), [], 0
    while (sequence, offset) in places:
        position = places[sequence, offset]
        found.append(position)
        out = position.stored.out
        if out.last_segment or not out.segment:
            return found
        offset += len(out.body)
    return None


def whole(queue: Queue, group: Id) -> list[Position] | None:
    """All messages of a group, in order; None if one is missing or the last place does not end it."""
    places, found, sequence = members(queue, group), [], 1
    if not places or not places[max(places)].stored.out.last_in_group:
        return None
    while (part := joined(queue, group, sequence)) is not None:
        found += part
        if any(p.stored.out.last_in_group for p in part):
            return found
        sequence += 1
    return None


def admits(queue: Queue, position: Position, wanted: Wanted) -> bool:
    """Return whether groups and segments allow reading this message now."""
    group, (sequence, offset), how = group_of(position), place_of(position), wanted.grouping
    if group == NONE or not (how or wanted.whole):
        return True
    if (Grouping.LOGICAL_ORDER in how or wanted.whole) and (sequence, offset) != (1, 0):
        return False
    if Grouping.COMPLETE_MESSAGE in how and offset:
        return False
    if (Grouping.ALL_MESSAGES_AVAILABLE in how or wanted.whole) and whole(queue, group) is None:
        return False
    out = position.stored.out
    asked = Grouping.ALL_SEGMENTS_AVAILABLE in how or Grouping.COMPLETE_MESSAGE in how
    return not (asked and (out.segment or out.last_segment)) or joined(queue, group, sequence) is not None


def together(queue: Queue, position: Position, wanted: Wanted) -> list[Position]:
    """Return the messages that are read together with this one."""
    group = group_of(position)
    if group == NONE:
        return [position]
    if wanted.whole:
        return whole(queue, group) or [position]
    out = position.stored.out
    if Grouping.COMPLETE_MESSAGE in wanted.grouping and (out.segment or out.last_segment):
        return joined(queue, group, place_of(position)[0]) or [position]
    return [position]


# ---- turns -----------------------------------------------------------------------------------------------


def exclusive(queue: Queue) -> bool:
    return queue.properties.group_exclusive and queue.parent is None


def busy(queue: Queue, group: Id) -> bool:
    """Return whether a message of the group is active."""
    from tests.model.adm import State

    held = (State.LOCKED, State.PURGE_PENDING)
    return group != NONE and any(
        group_of(p) == group and p.state in held and not p.sending for p in queue.positions.values()
    )


def turns(queue: Queue, count: int) -> list[list[Position]]:
    """The first message of each group that could go on: within a priority the groups take turns."""
    heads: dict[Id, Position] = {}
    for position in available(queue):
        heads.setdefault(group_of(position), position)
    ready = {group: p for group, p in heads.items() if not busy(queue, group)}
    found: list[list[Position]] = []
    for level in sorted({p.lookup_id >> 56 for p in ready.values()}):
        groups = sorted(group for group, p in ready.items() if p.lookup_id >> 56 == level)
        last = queue.particular.turns.get(level)
        if last is not None:
            groups = [g for g in groups if g > last] + [g for g in groups if g <= last]
        for group in groups[: count - len(found)]:
            found.append([ready[group]])
            queue.particular.turns[level] = group
    return found


# ---- the search ------------------------------------------------------------------------------------------


def search(queue: Queue, wanted: Wanted, count: int = 1) -> list[list[Position]]:
    """Up to ``count`` times what a read finds: the first messages in delivery order, each with what belongs to it."""
    turn = wanted.taking and exclusive(queue)
    if wanted.member is not None:
        return inside(queue, wanted, turn)
    if turn and wanted.plain and not wanted.browsing:
        return turns(queue, count)
    found: list[list[Position]] = []
    active: set[Id] = set()
    for position in available(queue):
        if wanted.after is not None and position.lookup_id <= wanted.after:
            continue
        if not agrees(position, wanted.match, wanted.selectors) or not admits(queue, position, wanted):
            continue
        if wanted.unmarked is not None and not wanted.unmarked(position):
            continue
        group = group_of(position)
        if turn and (busy(queue, group) or group in active):
            continue
        if group != NONE:
            active.add(group)
        found.append(together(queue, position, wanted))
        if len(found) == count:
            break
    return found


def inside(queue: Queue, wanted: Wanted, turn: bool) -> list[list[Position]]:
    """Only the next message of a group that was begun may be read."""
    member = wanted.member
    assert member is not None
    position = members(queue, member.group).get((member.sequence, member.offset))
    if position is None or (turn and busy(queue, member.group)):
        return []
    if not agrees(position, wanted.match, ()):
        raise MatchOptionsError()
    if wanted.unmarked is not None and not wanted.unmarked(position):
        return []
    asked = Grouping.COMPLETE_MESSAGE
    if member.offset == 0:  # inside a message ALL_SEGMENTS_AVAILABLE is not looked at
        asked |= Grouping.ALL_SEGMENTS_AVAILABLE
    if not admits(queue, position, Wanted(grouping=wanted.grouping & asked)):
        return []
    return [together(queue, position, wanted)]


# ---- logical order ---------------------------------------------------------------------------------------


@dataclass(eq=False)
class Logical:
    """The position of a handle in a group, with the reads that may be undone."""

    member: Member | None = None
    in_unit: bool = False
    log: list[tuple[object, Member | None, bool]] = field(default_factory=list)
    """Reads whose messages may still come back, oldest first: who read, and the place before."""

    def enter(self, wanted: Wanted, unit: Any) -> None:
        if Grouping.LOGICAL_ORDER not in wanted.grouping:
            return
        if self.member is not None and self.in_unit is not (unit is not None):
            raise GroupInconsistent()
        wanted.member = self.member

    def advance(
        self, wanted: Wanted, taken: Sequence[Position], unit: UnitOfWork | None, reader: object
    ) -> None:
        if Grouping.LOGICAL_ORDER not in wanted.grouping:
            return
        self.log.append((reader, self.member, self.in_unit))
        self.member, self.in_unit = following(taken[-1]), unit is not None

    def back(self, reader: object) -> None:
        """A read was undone: restore the position, unless an earlier read was undone already."""
        at = next((n for n, entry in enumerate(self.log) if entry[0] is reader), None)
        if at is not None:
            _, self.member, self.in_unit = self.log[at]
            del self.log[at:]

    def settle(self, reader: object) -> None:
        """A read is final."""
        self.log = [entry for entry in self.log if entry[0] is not reader]


def following(position: Position) -> Member | None:
    """The place behind a message of a group."""
    out, (sequence, offset) = position.stored.out, place_of(position)
    if group_of(position) == NONE:
        return None
    if out.segment and not out.last_segment:
        return Member(group_of(position), sequence, offset + len(out.body))
    return None if out.last_in_group else Member(group_of(position), sequence + 1, 0)


def one_message(messages: Sequence[Message]) -> Message:
    """Join segments to their message."""
    first = messages[0]
    if not first.segment:
        return first
    update = {
        "body": b"".join(m.body for m in messages),
        "segment": False,
        "last_segment": False,
        "last_in_group": messages[-1].last_in_group,
    }
    return first.replace(**update)
