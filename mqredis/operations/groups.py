"""Groups and segments: sending them, and taking them in logical order, complete or as a whole (IBM MQ).

``Queue`` and ``GroupWriter`` of both interfaces make them. A read asks for groups with the options of its filter
(``commands.filters``; lua/matching/search.lua finds what fits), and a handle remembers its place in a group
(``open_queue.GroupPosition``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from mqredis.commands.arguments import Mode
from mqredis.commands.filters import WHOLE_GROUP, Filter
from mqredis.commands.read import Found
from mqredis.commands.waiting import TAKES
from mqredis.errors import GroupIncomplete, GroupInconsistent, InvalidArgument
from mqredis.models import Grouping, Identifier, Match, Message, Outgoing, Sent
from mqredis.models.text import identifier, names
from mqredis.operations import checks, matching, send
from mqredis.operations.context import lease_of
from mqredis.operations.matching import Selection
from mqredis.operations.open_queue import Handle
from mqredis.operations.receive import Locks, fetch, record_locks
from mqredis.operations.unit_of_work import UnitOfWork
from mqredis.operations.wait import Reader, until_found
from mqredis.steps import Steps, procedure


def _take(
    handle: Handle,
    wanted: Filter,
    timeout: float | None,
    mode: Mode,
    unit: UnitOfWork | None,
    lease: str,
    tag: str | None,
) -> Steps[Found]:
    """Wait for messages that pass the filter. ``mode`` and ``lease``: as of ``receive.fetch``."""
    handle.need("receive")
    matching.check_token(wanted.match, timeout)
    text = wanted.text()
    fetching = partial(fetch, handle=handle, mode=mode, match=text, unit=unit, lease=lease)
    reader = Reader(handle, fetching, text, locks=mode == "lock", unit=unit)
    found = yield from until_found(reader, TAKES, timeout, tag)
    if unit:
        unit.touched(found.fence, handle)
    return found


@procedure
def receive(
    handle: Handle,
    timeout: float | None,
    unit: UnitOfWork | None,
    tag: str | None,
    match: Match | None,
    selector: Selection,
    grouping: Grouping,
) -> Steps[Message]:
    """Receive one message under grouping options. A member that SealBroken is raised for counts as read."""
    wanted = matching.filter_of(handle, match, selector, grouping)
    matching.enter(handle.group_position, wanted, unit)
    found = yield from _take(handle, wanted, timeout, "tx" if unit else "take", unit, "", tag)
    messages = handle.context.decoded(handle.path, found.messages, taken=unit is None)
    matching.advance(handle.group_position, wanted, unit, messages)
    messages = handle.context.unsealed(messages)
    return matching.joined(messages) if Grouping.COMPLETE_MESSAGE in wanted.grouping else messages[0]


@procedure
def lock(
    handle: Handle,
    timeout: float | None,
    lease: float | None,
    tag: str | None,
    match: Match | None,
    selector: Selection,
    grouping: Grouping,
) -> Steps[Locks]:
    """Lock one message under grouping options; of a complete message all its segments."""
    wanted = matching.filter_of(handle, match, selector, grouping)
    matching.enter(handle.group_position, wanted, None)
    lease_ms = str(lease_of(handle.context, lease))
    found = yield from _take(handle, wanted, timeout, "lock", None, lease_ms, tag)
    locks = record_locks(handle, found, lease_ms)
    ids = tuple(locks.keys)
    matching.advance(handle.group_position, wanted, None, locks.messages, (ids[0], found.fence))
    if len(ids) > 1:
        handle.parts[found.fence, ids[0]] = (
            ids  # what settles the first one settles all (settle.with_segments)
        )
    if Grouping.COMPLETE_MESSAGE in wanted.grouping:
        locks.made = [matching.joined(locks.messages)]
    return locks


@procedure
def receive_group(
    handle: Handle,
    timeout: float | None,
    unit: UnitOfWork | None,
    tag: str | None,
    match: Match | None,
    selector: Selection,
) -> Steps[list[Message]]:
    """Receive the first complete group in one step. A message without a group is a group of one.

    The position of the handle in logical order stays as it is.
    """
    wanted = matching.filter_of(handle, match, selector)
    wanted.options = WHOLE_GROUP
    found = yield from _take(handle, wanted, timeout, "tx" if unit else "take", unit, "", tag)
    return _assembled(handle.context.messages(handle.path, found.messages, taken=unit is None))


def _assembled(messages: Sequence[Message]) -> list[Message]:
    """Logical messages from the physical ones of a group."""
    parts: dict[int, list[Message]] = {}
    for message in messages:
        parts.setdefault(message.sequence, []).append(message)
    return [matching.joined(part) for part in parts.values()]


# ---- sending ---------------------------------------------------------------------------------------------


def _named(group_id: Identifier | None) -> Identifier:
    """The id of a group: the given one, or a new one. Raises InvalidArgument if it is not an identifier."""
    if group_id is None or not names(group_id):
        return send.new_group_id()
    identifier(group_id, "group_id")
    return group_id


def members(
    items: Iterable[object], group_id: Identifier | None, segment_bytes: int | None
) -> list[Outgoing]:
    """The physical messages of a group, ready to be sent."""
    group = _named(group_id)
    logical = [send.outgoing(item, {}) for item in items]
    if not logical:
        raise InvalidArgument("a group has at least one message")
    physical: list[Outgoing] = []
    for sequence, message in enumerate(logical, 1):
        place = {"group_id": group, "sequence": sequence, "last_in_group": sequence == len(logical)}
        physical += segments(message.replace(**place), segment_bytes)
    return physical


def segments(message: Outgoing, size: int | None) -> list[Outgoing]:
    """The message, or its segments if it is larger than ``size`` bytes."""
    body = message.body
    if size is None or len(body) <= size:
        return [message]
    return [
        message.replace(
            body=body[at : at + size], offset=at, segment=True, last_segment=at + size >= len(body)
        )
        for at in range(0, len(body), size)
    ]


@procedure
def send_group(
    handle: Handle,
    items: Iterable[object],
    group_id: Identifier | None,
    segment_bytes: object,
    unit: UnitOfWork | None,
) -> Steps[list[Sent]]:
    """Send a whole group: numbered from 1, the last one flagged."""
    size = None if segment_bytes is None else checks.count(segment_bytes, "segment_bytes", 1 << 53)
    physical = members(checks.several(items, "items"), group_id, size)
    if unit is None and len({message.recoverable for message in physical}) > 1:
        raise _mixed_persistence()
    return (yield from send.send_many(handle, physical, unit))


def _mixed_persistence() -> GroupInconsistent:
    """IBM's reason 2185. In a transaction each message is recoverable, whatever its field says."""
    return GroupInconsistent(
        "the messages of a group are all recoverable or all not: give each the same recoverable=", mqrc=2185
    )


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the sending of a group has come, which an abort sets back."""

    sequence: int = 1
    """The sequence number of the next message, and its offset if a part of it was sent."""
    offset: int = 0
    inside_message: bool = False
    """Was a part of the present message sent that is not its last one?"""
    inside_last: bool = False
    """Was such a part sent as part of the last message of the group?"""
    complete: bool = False
    """Was the last message of the group sent?"""
    in_unit: bool | None = None
    """Is the group sent in a transaction? None before the first message."""

    def after(self, sent: int, segment: bool, last: bool, in_unit: bool) -> Progress:
        """The progress after ``sent`` bytes, a part that is not the last one of its message if ``segment``."""
        if segment:
            return Progress(self.sequence, self.offset + sent, True, last, False, in_unit)
        return Progress(self.sequence + 1, 0, False, last, last, in_unit)


@dataclass(slots=True)
class Writing:
    """A group that is being sent message by message (IBM MQ: put in logical order)."""

    handle: Handle
    group_id: Identifier
    progress: Progress = field(default_factory=Progress)
    busy: bool = False
    """Is a message being sent, perhaps in another thread or task?"""
    recoverable: bool | None = None
    """Whether the messages that were sent outside of a transaction are recoverable; None before the first."""

    def set_back(self, progress: Progress) -> Callable[[], None]:
        """A function for the abort of a transaction: it sets the progress back."""

        def back() -> None:
            self.progress = progress

        return back

    def check_end(self) -> None:
        """Raise GroupIncomplete unless the group is complete: 2242 inside a segmented message, else 2241."""
        if self.progress.inside_message:
            raise GroupIncomplete(
                "the last segment of the message was not sent: send it without segment=True", mqrc=2242
            )
        if not self.progress.complete and self.progress.sequence > 1:
            raise GroupIncomplete(
                "the last message of the group was not sent: send it with last=True", mqrc=2241
            )


def begin(handle: Handle, group_id: Identifier | None) -> Writing:
    """A new group without messages."""
    handle.need("send")
    group = _named(group_id)
    send.outgoing(b"", {"group_id": group})
    if isinstance(group, str) and checks.has_surrogate(group):
        raise InvalidArgument("group_id holds a lone surrogate")
    return Writing(handle, group)


@procedure
def write(
    writing: Writing,
    body: object,
    fields: Mapping[str, Any],
    last: bool,
    segment: bool,
    unit: UnitOfWork | None,
) -> Steps[Sent]:
    """Send the next message of a group, or with ``segment`` the next part of a message that is not its last part.

    After parts sent with ``segment`` the next call without it sends the last part. If a part is sent with ``last``, all
    later parts of the message are, too.
    """
    checks.flag(last, "last")
    checks.flag(segment, "segment")
    for name in ("group_id", "sequence", "offset", "last_in_group", "segment", "last_segment"):
        if name in fields:
            raise InvalidArgument(f"{name} is set by the group")
    before = writing.progress
    if writing.busy:
        raise GroupInconsistent(
            "another message of this group is being sent: wait for it before you send the next"
        )
    if before.complete:
        raise GroupInconsistent("the last message of this group was sent already", mqrc=2241)
    if before.in_unit is not None and before.in_unit is not (unit is not None):
        raise GroupInconsistent(
            "a group is sent in a unit of work as a whole, or outside as a whole", mqrc=2245
        )
    message = send.outgoing(body, fields)
    if unit is None and writing.recoverable not in (None, message.recoverable):
        raise _mixed_persistence()
    if segment and not message.body:
        raise InvalidArgument("only the last segment of a message may be empty", mqrc=2253)
    last = last or before.inside_last
    member = message.replace(
        group_id=writing.group_id,
        sequence=before.sequence,
        offset=before.offset,
        last_in_group=last,
        segment=segment or before.inside_message,
        last_segment=before.inside_message and not segment,
    )
    writing.busy = True
    try:
        sent = yield from send.Send(writing.handle, member, {}, unit)
    finally:
        writing.busy = False
    writing.progress = before.after(len(message.body), segment, last, unit is not None)
    if unit is None:
        writing.recoverable = message.recoverable
    else:
        unit.undo += (writing.set_back(before),)
    return sent
