"""A browse cursor (IBM MQ section 3): first, next, under the cursor, lock, marks.

``Browser`` of both interfaces makes them, and ``Queue.browser`` begins one with ``start``. The broker knows of a
browser only its lock and the marks under its name (lua/matching/mark.lua). Its rules are also in
``tests/model/browsing.py``, with which ``tests/property`` compares them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from mqredis.codec import Raw
from mqredis.commands import contents, filters, read
from mqredis.commands.arguments import Mode
from mqredis.commands.filters import Filter, Member
from mqredis.commands.settlement import ABORT, Settlement
from mqredis.commands.waiting import PEEKS, TAKES
from mqredis.errors import (
    InvalidArgument,
    InvalidHandle,
    MatchOptionsError,
    MessageAlreadyReceived,
    MessageNotFound,
    MqError,
    OperationCancelled,
    QueueNotAvailable,
    TransactionUsage,
)
from mqredis.models import Grouping, Mark, Match, Message
from mqredis.operations import checks, matching
from mqredis.operations.context import lease_of
from mqredis.operations.cursor import only_one
from mqredis.operations.giveback import unattempted
from mqredis.operations.handle import still_there
from mqredis.operations.matching import Selection
from mqredis.operations.open_queue import Handle
from mqredis.operations.peek import peeking
from mqredis.operations.queue_call import QueueCall
from mqredis.operations.receive import fetch
from mqredis.operations.settle import settle
from mqredis.operations.unit_of_work import UnitOfWork, owner_of
from mqredis.operations.wait import Fetch, Reader, until_found
from mqredis.steps import Steps, perform, procedure


@dataclass(slots=True, eq=False)
class Browsing:
    """The position of a browser, and the lock that it holds."""

    handle: Handle
    name: str
    """ "<session>-<number>", under which its marks are stored."""
    match: Match | None = None
    selector: Selection = None
    grouping: Grouping = Grouping.NONE
    interval: str | None = None
    """How long co-operative marks count, as of ``Filter.interval``; None: the browser is not co-operative."""
    place: str = ""
    """The lookup id behind which ``next`` searches; "" before the first message."""
    under: tuple[str, ...] = ()
    """The id of the message under the cursor; if it was joined, the ids of all its segments."""
    member: Member | None = None
    """The next member of the group that is browsed in logical order; None between groups."""
    fence: str = ""
    """Fence of the lock on the message under the cursor, which is in ``handle.locks``, too; "" without a lock."""
    marked: bool = False
    """May it have set marks of its own, which its close removes?"""
    busy: bool = False
    """Is a call of ``first`` or ``next`` under way, perhaps in another thread or task?"""
    closed: bool = False

    def need(self) -> None:
        """Raise InvalidHandle once closed."""
        if self.closed:
            raise InvalidHandle("this browser is closed")
        self.handle.need("peek")


@dataclass(slots=True)
class Browse:
    """One browse call: ``step`` is "first" or "next". The other fields are arguments of ``Browser.first``."""

    step: str
    timeout: float | None
    match: Match | None = None
    selector: Selection = None
    lock: bool = False
    lease: float | None = None
    unmarked: bool = False
    mark: Mark = Mark.NONE


@procedure
def start(
    handle: Handle,
    session: Callable[[], str],
    match: Match | None,
    selector: Selection,
    grouping: Grouping | None,
    co_op: object,
) -> Steps[Browsing]:
    """A browser before the first message. ``session``: as of ``request``.

    Raises what is wrong with its options (``matching.filter_of``), and QueueNotAvailable.
    """
    handle.need("peek")
    found = matching.filter_of(handle, match, selector, grouping)
    if not isinstance(co_op, bool):
        raise InvalidArgument(f"co_op must be True or False, not {co_op!r:.40}", mqrc=2046)
    yield from still_there(handle)
    interval = None
    if co_op:
        seconds = handle.context.settings.mark_interval_seconds
        interval = "-" if seconds < 0 else str(round(seconds * 1000))  # "-": for ever
    name = f"{session()}-{next(handle.context.browser_numbers)}"
    return Browsing(handle, name, match, matching.selection(selector), found.grouping, interval)


def _filter(browsing: Browsing, call: Browse) -> Filter:
    match = browsing.match if call.match is None else call.match
    selector = browsing.selector if call.selector is None else call.selector
    found = matching.filter_of(browsing.handle, match, selector, browsing.grouping)
    _mark(call.mark)
    checks.flag(call.unmarked, "unmarked")
    if Mark.CO_OP in call.mark and browsing.interval is None:
        raise MatchOptionsError("the browser was not opened with co_op=True", mqrc=2046)
    if Mark.HANDLE in call.mark:
        found.options += filters.MARK
    if Mark.CO_OP in call.mark:
        found.options += filters.MARK_COOPERATIVE
    if call.unmarked:
        found.options += filters.UNMARKED
    if found.options:
        found.browser, found.interval = browsing.name, browsing.interval
    return found


def _mark(mark: object) -> None:
    if not isinstance(mark, Mark) or mark not in Mark.HANDLE | Mark.CO_OP:
        raise InvalidArgument(f"mark must be a mqredis.Mark, not {mark!r:.40}", mqrc=2046)


@procedure
def browse(browsing: Browsing, call: Browse) -> Steps[Message]:
    """The first matching message, or the next one after the cursor.

    If the call fails, the cursor does not move, but with SealBroken it stands on the message that cannot be opened. If
    the lock before cannot be given back, closing the handle does so, or its lease ends it.
    """
    browsing.need()
    # Two calls would find the same message, or one would give back the lock of the other.
    with only_one(browsing, "call of first or next of this browser"):
        return (yield from _moved(browsing, call))


def _moved(browsing: Browsing, call: Browse) -> Steps[Message]:
    """``browse``, as the only call that moves the cursor."""
    handle = browsing.handle
    if checks.flag(call.lock, "lock"):
        handle.need("receive")
    found = _filter(browsing, call)
    matching.check_token(found.match, call.timeout)
    if call.step == "next":
        found.after, found.member = browsing.place, browsing.member
    if call.lock and handle.group_exclusive:
        found.options += filters.DELIVERY_ORDER
    text = found.text()
    lease = str(lease_of(handle.context, call.lease))
    marking = bool(call.mark)
    fetching: Fetch
    if call.lock:
        kind, fetching = TAKES, partial(fetch, handle=handle, mode="lock", match=text, lease=lease)
    else:
        kind, fetching = PEEKS, peeking(handle, text, "after", marks=marking)
    reader = Reader(handle, fetching, text, locks=call.lock)
    browsing.marked = browsing.marked or marking
    answer = yield from until_found(reader, kind, call.timeout, scopes=(browsing,))
    ids = tuple(raw[0].decode() for raw in answer.messages)
    if call.lock:  # noted at once: closing the handle gives back also what cannot be decoded
        handle.locks.update(dict.fromkeys(ids, answer.fence))
    if browsing.closed:  # its close could not know of this lock and these marks
        with suppress(MqError):
            if call.lock:
                yield from settle(handle, [(unattempted(), answer.fence, lookup_id) for lookup_id in ids])
            yield from _forget_marks(browsing)
        raise OperationCancelled(f"this browser of queue {handle.path!r} was closed during this read")
    messages = handle.context.decoded(handle.path, answer.messages)
    before = _release_of(browsing)
    browsing.under, browsing.fence = ids, answer.fence if call.lock else ""
    if found.member is None:
        browsing.place = browsing.under[0]  # members of a group are delivered in the place of its first one
    if Grouping.LOGICAL_ORDER in found.grouping:
        browsing.member = matching.following(messages[-1])
    with suppress(MqError):  # the caller gets the message that is under the cursor now
        yield from settle(handle, before)
    return _whole(browsing, handle.context.unsealed(messages))


def _whole(browsing: Browsing, messages: Sequence[Message]) -> Message:
    """Build the message from one record, or from its segments if the browser joins them."""
    joins = Grouping.COMPLETE_MESSAGE in browsing.grouping
    return matching.joined(messages) if joins else messages[0]


@procedure
def current(browsing: Browsing) -> Steps[Message]:
    """Read the message under the cursor again."""
    browsing.need()
    found = yield from _under(browsing, "peek", None)
    return _whole(browsing, browsing.handle.context.messages(browsing.handle.path, found))


@procedure
def take(browsing: Browsing, unit: UnitOfWork | None) -> Steps[Message]:
    """Remove the message under the cursor from the queue; the cursor keeps its position."""
    browsing.need()
    handle = browsing.handle
    handle.need("receive")
    under, fence = browsing.under, browsing.fence
    found = yield from _under(browsing, "tx" if unit else "take", unit)
    for lookup_id in under:
        handle.locks.pop(lookup_id, None)
    _ended(browsing, fence)
    return _whole(browsing, handle.context.messages(handle.path, found, taken=unit is None))


def _under(browsing: Browsing, mode: Mode, unit: UnitOfWork | None) -> Steps[Sequence[Raw]]:
    """The message under the cursor with all its segments: shown with the mode "peek", else removed.

    Raises MessageAlreadyReceived.
    """
    handle = browsing.handle
    if not browsing.under:
        raise MessageAlreadyReceived("no message is under the cursor: nothing was browsed yet", mqrc=2034)
    owner, grant = owner_of(handle, unit)
    ids = ",".join(browsing.under)
    call = read.lookup(
        handle.address, mode, "current", ids, owner=owner, grant=grant, own_fence=browsing.fence
    )
    try:
        found = yield from QueueCall(handle.address, call)
    except MessageNotFound as error:
        raise MessageAlreadyReceived(mqrc=2034) from error
    except TransactionUsage as error:
        if mode == "peek":
            raise MessageAlreadyReceived(mqrc=2034) from error
        raise
    if unit:
        unit.touched(found.fence, handle)
    return found.messages


def _unlock(browsing: Browsing) -> Steps[bool]:
    """Release the lock that the browser holds. False if it had none, or if that has ended with its lease."""
    before, fence = _release_of(browsing), browsing.fence
    settled = yield from settle(browsing.handle, before)
    _ended(browsing, fence)
    return len(settled.lost) < len(before)


def _ended(browsing: Browsing, fence: str) -> None:
    """Note that the lock with this fence has ended. Another task may have locked the next message meanwhile."""
    if browsing.fence == fence:
        browsing.fence = ""


def _release_of(browsing: Browsing) -> list[Settlement]:
    """What gives back the lock that the browser holds, on the message or each of its segments; empty without one."""
    return [(ABORT, browsing.fence, lookup_id) for lookup_id in browsing.under if browsing.fence]


@procedure
def release(browsing: Browsing) -> Steps[None]:
    """UNLOCK. Raises MessageNotFound (2209) without a lock."""
    browsing.need()
    if not (yield from _unlock(browsing)):
        raise MessageNotFound("no message is locked by this browser, or its lease is over", mqrc=2209)


@procedure
def unmark(browsing: Browsing, message: Message, marks: Mark) -> Steps[None]:
    """Remove marks of a message."""
    browsing.need()
    _mark(marks)
    lookup_id = checks.message(message).lookup_id
    options = filters.UNMARK if Mark.HANDLE in marks else ""
    options += filters.UNMARK_COOPERATIVE if Mark.CO_OP in marks else ""
    found = Filter(
        options=options,
        browser=browsing.name,
        interval=browsing.interval,
        lookup_id=checks.lookup_id(lookup_id),
    )
    text = found.text()
    call = read.peek(browsing.handle.address, match=text, marks=True)
    yield from QueueCall(browsing.handle.address, call)


@procedure
def close(browsing: Browsing) -> Steps[None]:
    """Close the browser: its lock is released, and its handle marks are removed."""
    if browsing.closed:
        return
    browsing.closed = True
    if browsing.handle.closed:
        return
    try:
        yield from _unlock(browsing)
        yield from _forget_marks(browsing)
    except QueueNotAvailable:
        return  # its lock has gone with its queue


def _forget_marks(browsing: Browsing) -> Steps[None]:
    """Remove the handle marks of the browser, if it may have any."""
    if browsing.marked:
        while (yield from perform(contents.forget_marks(browsing.handle.address, browsing.name))):
            pass
