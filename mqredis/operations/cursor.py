"""The cursor state machine (MS-MQDMPR 3.2.7), kept by the client; each step is decided by one script.

``Cursor`` of both interfaces makes them, and ``Queue.cursor`` begins one with ``start``. lua/core/seek.lua reads the
text of a position. ``tests/conformance/tables/cursors.py`` has what the specification says of each action in each
state.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

from mqredis.commands.arguments import Mode
from mqredis.commands.filters import DELIVERY_ORDER
from mqredis.commands.read import READ, UNREAD, Found
from mqredis.commands.waiting import NO_WAIT, PEEKS, TAKES_AT_CURSOR, Waiter
from mqredis.errors import (
    IllegalCursorAction,
    InvalidHandle,
    IoTimeout,
    MqError,
    OperationCancelled,
    QueueNotAvailable,
)
from mqredis.models import Match, Message
from mqredis.operations import checks, matching
from mqredis.operations.context import lease_of
from mqredis.operations.handle import still_there
from mqredis.operations.matching import Selection
from mqredis.operations.open_queue import Handle
from mqredis.operations.peek import peeking
from mqredis.operations.receive import Locks, fetch, record_locks
from mqredis.operations.unit_of_work import UnitOfWork
from mqredis.operations.wait import Reader, until_found
from mqredis.steps import Steps, procedure

if TYPE_CHECKING:
    from mqredis.selector import Selector


@dataclass(slots=True, eq=False)
class Position:
    """The position of a cursor: ``state`` UNREAD or READ, at a lookup id, "" (Start) or "end" (End).

    ``busy``: an operation of the cursor is under way, perhaps in another thread or task.
    """

    handle: Handle
    match: Match | None = None
    selector: Selector | None = None
    state: str = UNREAD
    lookup_id: str = ""
    busy: bool = False
    closed: bool = False

    def text(self, place: str = "") -> str:
        """The position as an argument of scripts. ``place``: a search continues after it."""
        return UNREAD + place if place else self.state + self.lookup_id

    def wanted(self, timeout: float | None, *, taking: bool) -> bytes:
        """The filter of a read at the cursor."""
        if taking and self.handle.group_exclusive:
            matching.check_token(self.match, timeout)
            found = matching.filter_of(self.handle, self.match, self.selector)
            found.options = DELIVERY_ORDER  # also if groups take turns
            return found.text()
        return matching.filter_text(self.handle, self.match, self.selector, timeout)

    def on(self, state: str, found: Found) -> None:
        """Move the cursor to the message that was found."""
        self.state, self.lookup_id = state, found.messages[0][0].decode()

    def reset(self) -> None:
        """Move the cursor to the start."""
        self.state, self.lookup_id = UNREAD, ""

    def moving(self) -> AbstractContextManager[None]:
        """An operation of the cursor, one at a time. Raises InvalidHandle and IllegalCursorAction."""
        if self.closed:
            raise InvalidHandle("this cursor is closed")
        return only_one(self, "operation of this cursor")


class Moved(Protocol):
    """What only one operation at a time may move: a cursor or a browser."""

    busy: bool


@contextmanager
def only_one(moved: Moved, what: str) -> Iterator[None]:
    """The block is the one operation that is under way (D15 in docs/semantics.md). Raises IllegalCursorAction if
    there is another one."""
    if moved.busy:
        raise IllegalCursorAction(f"another {what} is under way")
    moved.busy = True
    try:
        yield
    finally:
        moved.busy = False


@procedure
def start(handle: Handle, match: Match | None, selector: Selection) -> Steps[Position]:
    """A cursor at the start of the queue. Raises InvalidArgument if its options are wrong."""
    matching.filter_of(handle, match, selector)
    yield from still_there(handle)
    return Position(handle, match, matching.selection(selector))


@procedure
def peek(position: Position, step: str, timeout: float | None) -> Steps[Message]:
    """PEEK_CURRENT (``current``) or PEEK_NEXT (``next``)."""
    handle = position.handle
    handle.need("peek")
    with position.moving():
        wanted = position.wanted(timeout, taking=False)
        reader = Reader(handle, peeking(handle, wanted, step, cursor_at=position.text), wanted)
        try:
            found = yield from until_found(reader, PEEKS, timeout, scopes=(position,))
        except MqError as error:
            if _waited(error):
                position.state = UNREAD
            raise
        position.on(READ, found)
        return handle.context.messages(handle.path, found.messages)[0]


@procedure
def receive(
    position: Position, timeout: float | None, unit: UnitOfWork | None, tag: str | None
) -> Steps[Message]:
    """RECEIVE at the cursor."""
    found = yield from _dequeue(position, timeout, "tx" if unit else "take", unit, "", tag)
    if unit:
        unit.touched(found.fence, position.handle)
    return position.handle.context.messages(position.handle.path, found.messages, taken=unit is None)[0]


@procedure
def lock(position: Position, timeout: float | None, lease: float | None, tag: str | None) -> Steps[Locks]:
    """A two-phase read at the cursor."""
    grant = str(lease_of(position.handle.context, lease))
    found = yield from _dequeue(position, timeout, "lock", None, grant, tag)
    return record_locks(position.handle, found, grant)


def _dequeue(
    position: Position,
    timeout: float | None,
    mode: Mode,
    unit: UnitOfWork | None,
    lease: str,
    tag: str | None,
) -> Steps[Found]:
    handle = position.handle
    handle.need("receive")
    with position.moving():
        wanted = position.wanted(timeout, taking=True)
        timeout = checks.timeout(timeout)
        nowait = timeout is not None and timeout <= 0
        idle = Waiter(ticket=NO_WAIT if nowait else "")  # NO_WAIT: nothing behind the cursor is an error
        fetching = partial(
            fetch,
            handle=handle,
            mode=mode,
            match=wanted,
            unit=unit,
            lease=lease,
            cursor_at=position.text,
            idle=idle,
        )
        reader = Reader(handle, fetching, wanted, locks=mode == "lock", unit=unit)
        try:
            found = yield from until_found(reader, TAKES_AT_CURSOR, timeout, tag, scopes=(position,))
        except MqError as error:
            if _waited(error):
                position.state, position.lookup_id = UNREAD, "end"
            raise
        position.on(UNREAD, found)
        return found


def _waited(error: MqError) -> bool:
    """Did a wait end (Wait Time Expired, 3.2.7.6), so that the state machine moves?"""
    return isinstance(error, IoTimeout | OperationCancelled | QueueNotAvailable)
