"""The cursor state machine (MS-MQDMPR 3.2.7), with the public interface.

A cursor keeps the lookup id it stands on; the next message is the one with the smallest greater id (D35).
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Self

from mqredis.errors import (
    IllegalCursorAction,
    InvalidHandle,
    MessageAlreadyReceived,
    MessageNotFound,
    OperationCancelled,
)
from mqredis.models import Match, Message
from tests.model import matching
from tests.model.adm import Position, State
from tests.model.units import ModelHeld, ModelLocked, ModelTransaction

if TYPE_CHECKING:
    from tests.model.handles import ModelQueue

END = 1 << 64
START = 0


class CursorState(Enum):
    UNREAD = "unread"
    READ = "read"
    WAIT_RECEIVE = "wait receive"
    WAIT_PEEK = "wait peek"


class ModelCursor:
    """A place in a queue; belongs to the handle that opened it."""

    def __init__(self, handle: ModelQueue, match: Match | None = None, selector: str | None = None) -> None:
        self.handle = handle
        self.wanted = handle.wanted(match, selector)
        self.place = START
        self.state = CursorState.UNREAD
        self.closed = False

    # ---- the interface ----------------------------------------------------------------------------------

    def peek(self, timeout: float | None = None) -> Message:
        """Get Message For Peek (3.2.7.2)."""
        with self._step():
            if self.state is CursorState.READ:
                return self.handle.as_peeked(self._current())
            return self._peek_on(timeout)

    def peek_next(self, timeout: float | None = None) -> Message:
        """Get Next Message For Peek (3.2.7.3)."""
        with self._step():
            if self.state is not CursorState.READ:
                raise IllegalCursorAction()
            return self._peek_on(timeout)

    def receive(
        self, timeout: float | None = None, *, transaction: ModelTransaction | None = None, tag: Any = None
    ) -> Message:
        """Get Next Message For Dequeue (3.2.7.4)."""
        return self._dequeue(timeout, transaction=transaction, tag=tag)

    def lock(
        self,
        timeout: float | None = None,
        *,
        lease: float | None = None,
        tag: Any = None,
        transaction: Any = None,
    ) -> ModelLocked | ModelHeld:
        """Lock the message at the cursor: the first half of a two-phase read."""
        if transaction is not None:
            message = self.receive(timeout, transaction=transaction, tag=tag)
            return ModelHeld(self.handle, message, transaction)
        return self._dequeue(timeout, tag=tag, two_phase=True, lease=lease)

    def reset(self) -> None:
        """Back to the start (MQAC 3.11.4.1.10). It makes no call, so it works on a closed handle, too."""
        with self.handle.manager.step():
            self.place, self.state = START, CursorState.UNREAD

    def close(self) -> None:
        with self.handle.manager.step() as store:
            if self.closed:
                return
            self.closed = True
            self.handle.cursors.remove(self)
            for waiter in [w for w in self.handle.queue.waiters if w.cursor is self]:
                store.end_wait(waiter, OperationCancelled())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- the machine -----------------------------------------------------------------------------------

    def message_available(self, position: Position) -> None:
        """3.2.7.5: the wait was satisfied, wherever in the queue."""
        self.state = CursorState.READ if self.state is CursorState.WAIT_PEEK else CursorState.UNREAD
        self.place = position.lookup_id

    def wait_time_expired(self) -> None:
        """3.2.7.6: a receive that waited in vain leaves the cursor at the end (D14)."""
        if self.state is CursorState.WAIT_RECEIVE:
            self.place = END
        self.state = CursorState.UNREAD

    def _peek_on(self, timeout: float | None) -> Message:
        position = self.handle.queue.seek(self.place, peek=self.wanted.plain, wanted=self._agrees)
        if position is not None:
            self.place, self.state = position.lookup_id, CursorState.READ
            return self.handle.as_peeked(position)
        self.state = CursorState.WAIT_PEEK
        return self.handle.wait(timeout, destructive=False, cursor=self)

    def _dequeue(
        self, timeout: float | None, *, transaction: Any = None, two_phase: bool = False, **how: Any
    ) -> Any:
        with self._step("receive", transaction):
            unit = self.handle.unit(transaction)
            lease = self.handle.manager.lease(how.get("lease"))
            if self.state is CursorState.READ:
                position = self._current()
                if not self._has_turn(position):
                    raise MessageAlreadyReceived()
                self.state = CursorState.UNREAD
            else:
                found = self.handle.queue.seek(self.place, peek=False, wanted=self._fits)
                if found is None:
                    if timeout is not None and timeout <= 0:
                        raise MessageNotFound()
                    self.state = CursorState.WAIT_RECEIVE
                    how |= {"unit": unit, "two_phase": two_phase, "lease": lease}
                    return self.handle.wait(timeout, destructive=True, cursor=self, **how)
                position = found
                self.place = found.lookup_id
            return self.handle.take(position, unit, two_phase=two_phase, lease=lease)

    def _current(self) -> Position:
        position = self.handle.queue.positions.get(self.place)
        if position is None or position.state is not State.AVAILABLE:
            raise MessageAlreadyReceived()
        return position

    def _agrees(self, position: Position) -> bool:
        return matching.agrees(position, self.wanted.match, self.wanted.selectors)

    def _fits(self, position: Position) -> bool:
        return self._agrees(position) and self._has_turn(position)

    def _has_turn(self, position: Position) -> bool:
        queue = self.handle.queue
        return not (matching.exclusive(queue) and matching.busy(queue, matching.group_of(position)))

    def _step(self, need: str = "peek", transaction: ModelTransaction | None = None) -> Any:
        return self.handle.manager.step(lambda: self._check(need, transaction))

    def _check(self, need: str, transaction: ModelTransaction | None) -> None:
        """An overlapping call on a waiting cursor is refused (D15)."""
        if self.closed:
            raise InvalidHandle()
        self.handle.usable(need, transaction, reading=True)
        if self.state in (CursorState.WAIT_PEEK, CursorState.WAIT_RECEIVE):
            raise IllegalCursorAction()
