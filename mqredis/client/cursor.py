# Generated from mqredis/asyncio/cursor.py by tools/generate_blocking.py. Do not edit: run `make format`.
"""A cursor over a queue.

``Queue.cursor`` makes it, and applications call its methods; ``operations.cursor`` has its state and its rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from mqredis.client.locked import LockedMessage
from mqredis.models import Message
from mqredis.operations import cursor as operations
from mqredis.operations.context import lease_of
from mqredis.operations.unit_of_work import unit_of

if TYPE_CHECKING:
    from types import TracebackType

    from mqredis.client.queue import Queue
    from mqredis.client.transaction import Transaction


class Cursor:
    """A position in a queue (MS-MQDMPR 3.2). Several cursors of a handle are independent.

    An error does not move it, except IoTimeout and OperationCancelled: after a ``receive`` or ``lock`` that waited in
    vain it is behind the last message, and only sees those that arrive while it waits, until ``reset``. Its methods
    raise IllegalCursorAction while another operation of the cursor is under way.
    A cursor with a match or a selector skips messages that do not match.
    """

    def __init__(self, queue: Queue, position: operations.Position) -> None:
        self._queue = queue
        self._position = position

    @property
    def queue(self) -> Queue:
        """The open queue that it belongs to."""
        return self._queue

    def peek(self, timeout: float | None = None) -> Message:
        """The current message (3.2.7.2).

        Raises IoTimeout, MessageAlreadyReceived, QueueNotAvailable, GetInhibited, AccessDenied, OperationCancelled.
        """
        return self._queue.manager.run(operations.peek(self._position, "current", timeout))

    def peek_next(self, timeout: float | None = None) -> Message:
        """The next message (3.2.7.3).

        Raises IllegalCursorAction before the first ``peek`` that returns a message, and after a ``receive``, ``lock``
        or wait in vain until the next one; else as ``peek``.
        """
        return self._queue.manager.run(operations.peek(self._position, "next", timeout))

    def receive(
        self, timeout: float | None = None, *, transaction: Transaction | None = None, tag: str | None = None
    ) -> Message:
        """Take the current message (3.2.7.4).

        Raises MessageNotFound at the end with timeout 0, MessageAlreadyReceived, IoTimeout, QueueNotAvailable,
        GetInhibited, AccessDenied, OperationCancelled, TransactionUsage.
        """
        unit = unit_of(transaction)
        return self._queue.manager.run(operations.receive(self._position, timeout, unit, tag))

    def lock(
        self,
        timeout: float | None = None,
        *,
        lease: float | None = None,
        tag: str | None = None,
        transaction: Transaction | None = None,
    ) -> LockedMessage:
        """Lock the current message (3.1.7.1.11); ``transaction`` as with ``Queue.lock``. Raises as ``receive``."""
        if transaction is not None:
            # The transaction has a lease of its own: only checked.
            lease_of(self._queue.handle.context, lease)
            message = self.receive(timeout, transaction=transaction, tag=tag)
            return LockedMessage._in_transaction(self._queue, message, transaction.unit)
        locks = self._queue.manager.run(operations.lock(self._position, timeout, lease, tag))
        return self._queue.locked_messages(locks)[0]

    def reset(self) -> None:
        """Back to the start."""
        self._position.reset()

    def close(self) -> None:
        """End the cursor and its wait, which raises OperationCancelled (3.1.7.1.2)."""
        self._position.closed = True
        self._queue.manager.driver.cancel(self._position)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
