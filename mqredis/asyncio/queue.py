"""An open queue."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeVar

from mqredis.asyncio.cursor import Cursor
from mqredis.asyncio.locked import LockedMessage
from mqredis.asyncio.pending import opening
from mqredis.errors import MqError
from mqredis.models import Message, Outgoing, Seek, Sent
from mqredis.operations import lookup, peek, queue, receive, send
from mqredis.operations.context import Handle, lease_of
from mqredis.operations.receive import Locks
from mqredis.steps import Operation

if TYPE_CHECKING:
    from types import TracebackType

    from mqredis.asyncio.manager import QueueManager
    from mqredis.asyncio.transaction import Transaction

R = TypeVar("R")
log = logging.getLogger("mqredis")


class Queue:
    """A handle on a queue (OpenQueueDescriptor, MS-MQDMPR 3.1.1.16) for one event loop. Timeouts are seconds: None
    waits for ever, zero or less never waits."""

    def __init__(self, manager: QueueManager, handle: Handle) -> None:
        self._manager = manager
        self._handle = handle

    @property
    def name(self) -> str:
        """Name of the queue, with its subqueue."""
        return self._handle.path

    # ---- sending ---------------------------------------------------------------------------------

    async def send(
        self, body: bytes | str | Outgoing = b"", *, transaction: Transaction | None = None, **fields: Any
    ) -> Sent:
        """Put a message into the queue (Enqueue Message, 3.1.7.1.9); ``fields`` are those of Outgoing.

        Raises ManagerQuotaExceeded, QueueQuotaExceeded, MessageTimedOut, MessageTooLarge, PutInhibited,
        TransactionUsage (a transactional queue takes only transactional messages, and the reverse).
        """
        unit = transaction._unit if transaction else None
        return await self._run(send.send(self._handle, body, fields, unit))

    async def send_many(
        self, items: Iterable[bytes | str | Outgoing], *, transaction: Transaction | None = None
    ) -> list[Sent]:
        """Put many messages into the queue, in order: batches of up to 256, each taken whole or not at all.

        Outside a transaction a refused batch leaves the batches before it in the queue. Raises as ``send``.
        """
        unit = transaction._unit if transaction else None
        return await self._run(send.send_many(self._handle, items, unit))

    # ---- reading ---------------------------------------------------------------------------------

    async def receive(
        self, timeout: float | None = None, *, transaction: Transaction | None = None, tag: str | None = None
    ) -> Message:
        """Take the first available message (Dequeue Message, 3.1.7.1.10).

        Raises IoTimeout, QueueNotAvailable, OperationCancelled, TransactionUsage (in a transaction, from a queue that
        is not transactional).
        """
        unit = transaction._unit if transaction else None
        return (await self._run(receive.receive(self._handle, 1, timeout, unit, tag)))[0]

    async def receive_many(
        self, max: int, timeout: float | None = None, *, transaction: Transaction | None = None
    ) -> list[Message]:
        """Take up to ``max`` (1 to 256) messages, waiting for the first. Raises as ``receive``."""
        unit = transaction._unit if transaction else None
        return await self._run(receive.receive(self._handle, max, timeout, unit))

    async def peek(self, timeout: float | None = None) -> Message:
        """Show the first available message (3.1.7.1.15). Raises IoTimeout, QueueNotAvailable, OperationCancelled."""
        return await self._run(peek.peek(self._handle, timeout))

    async def browse(self) -> AsyncIterator[Message]:
        """Every available message, in delivery order, taking none; ends at the end of the queue."""
        after: int | None = None
        while True:
            page = await self._run(peek.page(self._handle, after))
            if not page:
                return
            for message in page:
                yield message
            after = page[-1].lookup_id

    @opening
    async def lock(
        self, timeout: float | None = None, *, lease: float | None = None, tag: str | None = None
    ) -> LockedMessage:
        """Lock the first available message (Dequeue Message Begin, 3.1.7.1.11) for ``lease`` seconds.

        Raises IoTimeout, QueueNotAvailable, OperationCancelled.
        """
        return self._locked(await self._run(receive.lock(self._handle, 1, timeout, lease, tag)))[0]

    async def lock_many(
        self,
        max: int,
        timeout: float | None = None,
        *,
        lease: float | None = None,
        settle: Sequence[LockedMessage] = (),
    ) -> list[LockedMessage]:
        """Lock up to ``max`` (1 to 256) messages, waiting for the first; commit ``settle`` in the same call.

        ``settle`` is committed even if nothing is found in time. A lock of it that was lost is not committed
        and is left unsettled. Raises as ``lock``.
        """
        settling = receive.Settling([("c", lock.fence, f"{lock.lookup_id:016x}") for lock in settle])
        try:
            locks = await self._run(receive.lock(self._handle, max, timeout, lease, None, settling))
        finally:
            for lock in settle[: settling.done]:
                lock._settled = f"{lock.lookup_id:016x}" not in settling.lost
        return self._locked(locks)

    async def peek_by_lookup_id(self, lookup_id: int, *, seek: Seek = Seek.CURRENT) -> Message:
        """Show one particular message (3.1.7.1.13). Never waits. Raises MessageNotFound, TransactionUsage (locked)."""
        return await self._run(lookup.peek_by_lookup_id(self._handle, lookup_id, seek))

    async def receive_by_lookup_id(
        self,
        lookup_id: int,
        *,
        seek: Seek = Seek.CURRENT,
        transaction: Transaction | None = None,
        allow_peek: bool = False,
    ) -> Message:
        """Take one particular message (3.1.7.1.13). Never waits. ``allow_peek``: visible to peeks while locked.

        Raises MessageNotFound, TransactionUsage.
        """
        unit = transaction._unit if transaction else None
        operation = lookup.receive_by_lookup_id(self._handle, lookup_id, seek, unit, allow_peek)
        return await self._run(operation)

    @opening
    async def lock_by_lookup_id(
        self,
        lookup_id: int,
        *,
        seek: Seek = Seek.CURRENT,
        lease: float | None = None,
        allow_peek: bool = False,
    ) -> LockedMessage:
        """Lock one particular message. Never waits. Raises MessageNotFound."""
        operation = lookup.lock_by_lookup_id(self._handle, lookup_id, seek, lease, allow_peek)
        return self._locked(await self._run(operation))[0]

    @opening
    async def cursor(self) -> Cursor:
        """A new cursor at the start of the queue (3.1.7.1.1). Raises QueueNotAvailable if the queue is gone."""
        await self._run(queue.still_there(self._handle))
        return Cursor(self)

    # ---- the rest --------------------------------------------------------------------------------

    async def move(self, lookup_id: int, target: Queue, *, transaction: Transaction | None = None) -> None:
        """Move a message to a subqueue of the same queue, or back (3.1.7.1.16); it keeps id and place.

        Raises MessageNotFound, MessageLocked, InvalidArgument (queues not related), TransactionUsage.
        """
        unit = transaction._unit if transaction else None
        await self._run(queue.move(self._handle, lookup_id, target._handle, unit))

    async def purge(self) -> int:
        """Remove every available message; locked ones go when they are given back (3.1.7.1.7). Answers how many."""
        return await self._run(queue.purge(self._handle))

    async def cancel(self, tag: str) -> None:
        """End the wait of the reader with this tag with OperationCancelled (3.1.7.1.17). Raises WaiterNotFound."""
        await self._run(queue.cancel(self._handle, tag))

    async def close(self) -> None:
        """Close the handle: its waits raise OperationCancelled, its locks are given back (3.1.7.1.6)."""
        if not self._handle.closed:
            self._cancel_scope(self._handle)
            await self._run(queue.close_handle(self._handle))

    async def _run(self, operation: Operation[R]) -> R:
        return await self._manager._run(operation)

    def _cancel_scope(self, scope: object) -> None:
        self._manager._driver.cancel(scope)

    def _locked(self, locks: Locks) -> list[LockedMessage]:
        return [LockedMessage(self, message, locks.fence, locks.until) for message in locks.messages]

    def _lease(self, lease: float | None) -> float:
        return lease_of(self._handle.context, lease) / 1000

    async def _give_back(self, lock: LockedMessage) -> None:
        """Abort after an error of the caller, which matters more than ours; the lease does it otherwise."""
        try:
            await lock.abort()
        except MqError as error:
            log.warning("message %#018x could not be given back: %s", lock.lookup_id, error)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<Queue {self.name!r} {'closed' if self._handle.closed else self._handle.access.value}>"
