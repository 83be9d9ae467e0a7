# mqredis/client/browser.py is generated from this file: run `make format` after a change.
"""A browse cursor.

``Queue.browser`` makes it, and applications call its methods; ``operations.browser`` has its state and its rules.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Self

from mqredis.errors import IoTimeout
from mqredis.models import Mark, Match, Message
from mqredis.operations import browser as operations
from mqredis.operations.browser import Browse, Browsing
from mqredis.operations.unit_of_work import unit_of

if TYPE_CHECKING:
    from types import TracebackType

    from mqredis.asyncio.queue import Queue
    from mqredis.asyncio.transaction import Transaction


class Browser:
    """A browse cursor as in IBM MQ: it begins before the first message, and moves only when a call succeeds, or finds a
    message that it cannot open (SealBroken).

    A message that arrives before it (with a higher priority, or released by a reader) is found by ``first``, not by
    ``next``. ``async for message in browser`` iterates to the end of the queue.

    Use one browser for each task or thread: ``first`` and ``next`` raise IllegalCursorAction while another call of them
    is under way.
    """

    def __init__(self, queue: Queue, browsing: Browsing) -> None:
        self._queue = queue
        self._browsing = browsing

    @property
    def queue(self) -> Queue:
        """The open queue that it belongs to."""
        return self._queue

    async def first(
        self,
        timeout: float | None = 0,
        *,
        match: Match | None = None,
        selector: str | None = None,
        lock: bool = False,
        lease: float | None = None,
        unmarked: bool = False,
        mark: Mark = Mark.NONE,
    ) -> Message:
        """The first message that fits (BROWSE_FIRST), wherever the cursor is.

        ``match`` and ``selector`` replace those of the browser. ``lock`` hides the message from all others for
        ``lease`` seconds (None: the setting ``lease_seconds``); the lock before it is given back. ``unmarked``: only
        messages without a mark that counts for this browser; ``mark``: mark what is found.

        Raises IoTimeout (2033), MatchOptionsError, SelectorSyntaxError, AccessDenied (``lock``), GetInhibited,
        QueueNotAvailable, OperationCancelled, SealBroken, IllegalCursorAction.
        """
        return await self._browse(Browse("first", timeout, match, selector, lock, lease, unmarked, mark))

    async def next(
        self,
        timeout: float | None = 0,
        *,
        match: Match | None = None,
        selector: str | None = None,
        lock: bool = False,
        lease: float | None = None,
        unmarked: bool = False,
        mark: Mark = Mark.NONE,
    ) -> Message:
        """The next message that fits, beyond the cursor (BROWSE_NEXT). Arguments and errors as ``first``."""
        return await self._browse(Browse("next", timeout, match, selector, lock, lease, unmarked, mark))

    async def current(self) -> Message:
        """The message under the cursor once more. Raises MessageAlreadyReceived (2034) if it cannot be had."""
        return await self._queue.manager.run(operations.current(self._browsing))

    async def take(self, *, transaction: Transaction | None = None) -> Message:
        """Take the message under the cursor off the queue; the cursor keeps its place.

        Raises MessageAlreadyReceived (2034) if another reader was faster, AccessDenied, TransactionUsage.
        """
        unit = unit_of(transaction)
        return await self._queue.manager.run(operations.take(self._browsing, unit))

    async def unlock(self) -> None:
        """Give the locked message back. Raises MessageNotFound (2209) if this browser holds no lock (any more)."""
        await self._queue.manager.run(operations.release(self._browsing))

    async def unmark(self, message: Message, mark: Mark = Mark.HANDLE) -> None:
        """Take the marks of a message away."""
        await self._queue.manager.run(operations.unmark(self._browsing, message, mark))

    async def close(self) -> None:
        """End the browser: a read that is under way raises OperationCancelled, its lock and its handle marks go."""
        if not self._queue.handle.closed:  # its close ended the browser, too
            self._queue.manager.driver.cancel(self._browsing)
            await self._queue.manager.run(operations.close(self._browsing))

    async def _browse(self, call: Browse) -> Message:
        return await self._queue.manager.run(operations.browse(self._browsing, call))

    def __aiter__(self) -> AsyncIterator[Message]:
        return self

    async def __anext__(self) -> Message:
        try:
            return await self.next()
        except IoTimeout:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
