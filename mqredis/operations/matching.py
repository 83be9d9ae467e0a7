"""Reading particular messages: match options, selectors, groups and segments (IBM MQ).

``receive``, ``peek``, ``lookup``, ``cursor``, ``browser``, ``groups`` and ``handle`` make the filters of their reads
here, ``bulk`` and ``inspection`` those of actions and reads of operators. ``redrive`` checks what it was given, and
Spark's readers parse their selectors (``selection``). ``Selection`` is what both interfaces take.

    filter_text      the text of a filter for a plain read
    filter_of        a filter as an object, for a read that adds to it
    operator_filter  the text of a filter for an operator, who needs no handle
    check            refuses what is wrong in calls that do something else before they read
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from mqredis.commands.filters import Filter, Member, checked_grouping, comparable, single
from mqredis.errors import GroupInconsistent, InvalidArgument, MatchOptionsError, SelectorSyntaxError
from mqredis.models import Grouping, Match, Message
from mqredis.operations import checks
from mqredis.operations.context import Context
from mqredis.operations.open_queue import GroupPosition, Handle
from mqredis.operations.unit_of_work import UnitOfWork

if TYPE_CHECKING:
    from mqredis.selector import Selector

# A selector as callers give it: its text, or parsed.
Selection: TypeAlias = "str | Selector | None"


def selection(given: object) -> Selector | None:
    """Parse a selector that a caller gave. None: it selects every message. Raises SelectorSyntaxError, also for a text
    that can select none."""
    if given is None:
        return None
    from mqredis.selector import Selector, parse  # with the whole language: most programs use no selector

    if not isinstance(given, str | Selector):
        raise SelectorSyntaxError(f"a selector must be a str, not {type(given).__name__}")
    parsed = parse(given, refuse_never=True) if isinstance(given, str) else given
    return None if parsed.always else parsed


def check(match: object, selector: object) -> None:
    """Check the selection of a call that does something else before it reads. Raises MatchOptionsError
    and SelectorSyntaxError."""
    if match is not None and not isinstance(match, Match):
        raise MatchOptionsError(f"match must be a mqredis.Match, not {type(match).__name__}")
    selection(selector)


def filter_of(
    handle: Handle, match: Match | None, selector: Selection = None, grouping: Grouping | None = None
) -> Filter:
    """The filter of a read. Its text is empty if every message passes."""
    return _filter(handle.context, match, (handle.selector, selection(selector)), grouping)


def operator_filter(context: Context, match: Match | None, selector: Selection) -> bytes:
    """The filter of an action or a read of an operator, who needs no handle. Empty if every message passes."""
    return _filter(context, match, (selection(selector),), None).text()


def _filter(
    context: Context,
    match: Match | None,
    given: Sequence[Selector | None],
    grouping: Grouping | None,
) -> Filter:
    found = Filter(incarnation=context.incarnation, grouping=checked_grouping(grouping))
    check(match, None)
    if match is not None:
        found.match = match
    chosen = [item for item in given if item is not None]
    if chosen:
        found.programs = [item.program for item in chosen]
        found.hints = next((item.index_hints for item in chosen if item.index_hints), ())
    return found


def filter_text(handle: Handle, match: Match | None, selector: Selection, timeout: float | None) -> bytes:
    """The filter of a plain read. Raises MatchOptionsError and SelectorSyntaxError."""
    if match is None and selector is None and handle.selector is None:
        return b""
    if selector is None and handle.selector is None and isinstance(match, Match):
        one = single(match)  # the most frequent filter; it has no token
        if one is not None:
            return one
    check_token(match, timeout)
    return filter_of(handle, match, selector).text()


def check_token(match: Match | None, timeout: float | None) -> None:
    """Refuse to wait for a token (MQRC 2331), which names a message that exists already."""
    if not isinstance(match, Match) or match.token is None:
        return
    timeout = checks.timeout(timeout)
    if timeout is None or timeout > 0:
        raise MatchOptionsError("a read by message token cannot wait: give timeout=0", mqrc=2331)


# ---- logical order ---------------------------------------------------------------------------------------


def following(message: Message) -> Member | None:
    """The next member of the message's group; None after the last one, or without a group."""
    group = comparable(message.group_id, "group_id")
    if not group:
        return None
    if message.segment and not message.last_segment:
        return Member(group, message.sequence, message.offset + len(message.body))
    return None if message.last_in_group else Member(group, message.sequence + 1, 0)


def enter(state: GroupPosition, found: Filter, unit: UnitOfWork | None) -> None:
    """Begin a read in logical order: inside a group it takes only the next member. :func:`advance` follows a read that
    succeeded."""
    if Grouping.LOGICAL_ORDER not in found.grouping:
        return
    if state.member is not None and state.in_unit is not (unit is not None):
        raise GroupInconsistent(
            "a group is read in a unit of work as a whole, or outside as a whole", mqrc=2245
        )
    found.member = state.member


def advance(
    state: GroupPosition,
    found: Filter,
    unit: UnitOfWork | None,
    messages: Sequence[Message],
    reader: object = None,
) -> None:
    """Note the next member after a successful read. ``reader``: the lock that may return the messages, its lookup id
    and fence, by which ``settle.forget`` finds it; a unit of work stands for itself."""
    if Grouping.LOGICAL_ORDER not in found.grouping:
        return
    state.advance(unit or reader, following(messages[-1]), unit is not None)
    if unit is not None and state not in unit.readers:
        unit.readers += (state,)


def joined(messages: Sequence[Message]) -> Message:
    """Join one message from its segments, which are in order."""
    if not messages:
        raise InvalidArgument("there is nothing to join")
    first = messages[0]
    if not first.segment:
        return first
    last = messages[-1]
    return first.replace(
        body=b"".join(message.body for message in messages),
        segment=False,
        last_segment=False,
        last_in_group=last.last_in_group,
    )
