"""A browse cursor of the model (IBM MQ section 3): first, next, under the cursor, lock, marks."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from mqredis.errors import InvalidHandle, MatchOptionsError, MessageAlreadyReceived, MessageNotFound
from mqredis.models import Grouping, Mark, Match, Message
from tests.model import matching
from tests.model.adm import Position, State, as_message
from tests.model.units import ModelLocked

if TYPE_CHECKING:
    from tests.model.handles import ModelQueue

_NUMBERS = itertools.count(1)


class ModelBrowser:
    """A cursor that moves only if a call succeeds."""

    def __init__(
        self,
        handle: ModelQueue,
        *,
        match: Match | None = None,
        selector: str | None = None,
        grouping: Grouping = Grouping.NONE,
        co_op: bool = False,
    ) -> None:
        self.handle = handle
        self.queue = handle.queue
        self.number = next(_NUMBERS)
        self.match, self.selector, self.grouping, self.co_op = match, selector, grouping, co_op
        self.place: int | None = None
        self.under: list[int] = []  # a message, or all segments of one that was joined
        self.member: matching.Member | None = None
        self.lock: ModelLocked | None = None
        self.closed = False
        with self._step():
            pass

    # ---- the interface -----------------------------------------------------------------------------------

    def first(self, timeout: float | None = 0, **how: Any) -> Message:
        return self._browse(None, None, timeout, **how)

    def next(self, timeout: float | None = 0, **how: Any) -> Message:
        return self._browse(self.place, self.member, timeout, **how)

    def current(self) -> Message:
        self._browsed()
        with self._step():
            return self._joined([as_message(p) for p in self._under(peek=True)])

    def take(self, *, transaction: Any = None) -> Message:
        """Receive the current message, also in a transaction; a lock of this browser is taken over."""
        self._browsed()
        with self._step("receive", transaction) as store:
            unit = self.handle.unit(transaction)
            found = self._under(peek=False)
            held, self.lock = self.lock, None
            messages = []
            for position in found:
                if held is not None and position.state is State.LOCKED:
                    position.stored.deliveries -= 1  # the same delivery goes on
                    for lock in [held, *held.parts]:
                        if lock.lock.position is position:
                            lock.lock.held = False
                            store.locks.remove(lock.lock)
                messages.append(store.take([position], unit)[0])
            return self._joined([m for m in messages if isinstance(m, Message)])

    def unlock(self) -> None:
        if self.closed or self.handle.closed:
            raise InvalidHandle()
        if self.lock is None:
            raise MessageNotFound()
        with self._step():
            held = any(part.lock.held for part in [self.lock, *self.lock.parts])
            self._release()
            if not held:
                raise MessageNotFound()

    def unmark(self, message: Any, mark: Mark = Mark.HANDLE) -> None:
        """Of a message that is available."""
        lookup_id = message.lookup_id
        with self._step():
            position = self.queue.positions.get(lookup_id)
            if position is None or not self.queue.acceptable(position, peek=False):
                return
            if Mark.HANDLE in mark:
                self.queue.particular.handle_marks.discard((self.number, lookup_id))
            if Mark.CO_OP in mark:
                self.queue.particular.shared_marks.pop(lookup_id, None)

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        if self.handle.closed:
            return
        with self.handle.manager.step():
            self._release()
            marks = self.queue.particular.handle_marks
            marks -= {entry for entry in marks if entry[0] == self.number}

    # ---- the machine -------------------------------------------------------------------------------------

    def _browse(
        self,
        after: int | None,
        member: matching.Member | None,
        timeout: float | None,
        *,
        match: Match | None = None,
        selector: str | None = None,
        lock: bool = False,
        lease: float | None = None,
        unmarked: bool = False,
        mark: Mark = Mark.NONE,
    ) -> Message:
        if Mark.CO_OP in mark and not self.co_op and not self.closed and not self.handle.closed:
            raise MatchOptionsError()
        wanted = self.handle.wanted(
            match or self.match,
            selector or self.selector,
            self.grouping,
            taking=lock,
            browsing=True,
            after=after,
        )
        logical = Grouping.LOGICAL_ORDER in self.grouping
        if logical:
            wanted.member = member
        if unmarked:
            wanted.unmarked = self._unmarked
        with self._step("receive" if lock else "peek"):
            # As a peek: what is visible.
            if wanted.plain and after is None and not (lock or unmarked or mark):
                position = self.queue.seek(after, peek=True)
                found = [position] if position else None
            else:
                found = next(iter(matching.search(self.queue, wanted)), None)
            if found is None:
                return self.handle.wait(timeout, destructive=False)
            if lock:
                how = {"two_phase": True, "lease": self.handle.manager.lease(lease)}
                held = [self.handle.take(p, None, **how) for p in found]
                messages = [part.message for part in held]
                self._release()
                self.lock, self.lock.parts = held[0], held[1:]
            else:
                messages = [as_message(p) for p in found]
                self._release()
            for position in found:
                self._mark(position.lookup_id, mark)
            self.under = [p.lookup_id for p in found]
            if wanted.member is None:
                self.place = self.under[0]
            self.member = matching.following(found[-1]) if logical else None
            return self._joined(messages)

    def _release(self) -> None:
        """Release the held lock."""
        held, self.lock = self.lock, None
        for lock in [held, *held.parts] if held else []:
            if lock.lock.held:
                self.handle.manager.store.end_locks([lock.lock], delete=False)

    def _under(self, *, peek: bool) -> list[Position]:
        mine = (
            [part.lock.position for part in [self.lock, *self.lock.parts] if part.lock.held]
            if self.lock
            else []
        )
        found = []
        for lookup_id in self.under:
            position = self.queue.positions.get(lookup_id)
            if position is not None and position.state is State.LOCKED and position in mine:
                found.append(position)
            elif (
                position is None
                or not self.queue.acceptable(position, peek=peek)
                or self._active(position, peek)
            ):
                raise MessageAlreadyReceived()
            else:
                found.append(position)
        return found

    def _browsed(self) -> None:
        if self.closed or self.handle.closed:
            raise InvalidHandle()
        if not self.under:
            raise MessageAlreadyReceived()

    def _active(self, position: Position, peek: bool) -> bool:
        if peek or not matching.exclusive(self.queue):
            return False
        return matching.busy(self.queue, matching.group_of(position))

    def _joined(self, messages: list[Message]) -> Message:
        return matching.one_message(messages) if Grouping.COMPLETE_MESSAGE in self.grouping else messages[0]

    def _unmarked(self, position: Position) -> bool:
        marks = self.queue.particular
        if (self.number, position.lookup_id) in marks.handle_marks:
            return False
        if not self.co_op or position.lookup_id not in marks.shared_marks:
            return True
        until = marks.shared_marks[position.lookup_id]
        return until is not None and until <= self.queue.store.now()

    def _mark(self, lookup_id: int, mark: Mark) -> None:
        if Mark.HANDLE in mark:
            self.queue.particular.handle_marks.add((self.number, lookup_id))
        if Mark.CO_OP in mark:
            interval = self.handle.manager.settings.mark_interval_seconds
            until = None if interval < 0 else self.queue.store.now() + interval
            self.queue.particular.shared_marks[lookup_id] = until

    def _step(self, need: str = "peek", transaction: Any = None) -> Any:
        return self.handle.manager.step(lambda: self._check(need, transaction))

    def _check(self, need: str, transaction: Any) -> None:
        if self.closed:
            raise InvalidHandle()
        self.handle.usable(need, transaction, reading=True)
