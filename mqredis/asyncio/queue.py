# mqredis/client/queue.py is generated from this file: run `make format` after a change.
"""An open queue: what ``QueueManager.open`` returns. Its methods check arguments and run ``mqredis.operations``.

Applications and integrations call them, and ``otel.patches`` wraps those that send or take messages. What is new here
needs what ``asyncio/manager.py`` says.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import TYPE_CHECKING, Self, Unpack

from mqredis.asyncio.locked import LockedMessage
from mqredis.asyncio.pending import opening
from mqredis.errors import BrokerUnavailable, IoTimeout, LockLost, OutcomeUnknown
from mqredis.models import Durability, Grouping, Identifier, Match, Message, Outgoing, Seek, Sent
from mqredis.models.header import MessageFields
from mqredis.operations import checks, groups, handle, lookup, peek, receive, send
from mqredis.operations.context import lease_of
from mqredis.operations.durability.wrapper import durably
from mqredis.operations.earlier_locks import earlier_locks, note_outcome, settle_all
from mqredis.operations.locked import lost_of
from mqredis.operations.open_queue import Handle, handle_of
from mqredis.operations.receive import Locks
from mqredis.operations.unit_of_work import unit_of
from mqredis.steps import Operation

if TYPE_CHECKING:
    from types import TracebackType

    from mqredis.asyncio.browser import Browser
    from mqredis.asyncio.cursor import Cursor
    from mqredis.asyncio.group import GroupWriter
    from mqredis.asyncio.manager import QueueManager
    from mqredis.asyncio.transaction import Transaction

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
        self,
        body: bytes | str | Outgoing = b"",
        *,
        transaction: Transaction | None = None,
        durability: Durability | str | None = None,
        **fields: Unpack[MessageFields],
    ) -> Sent:
        """Put a message into the queue (Enqueue Message, 3.1.7.1.9); ``fields`` are those of Outgoing.

        ``durability``: the level that the message must reach before the call returns ("memory", "fsync", "replica" or
        "replica-fsync"); in a transaction its commit takes it. DurabilityNotReached: the message was sent and did not
        reach it in time. UnsafeServer: the server cannot provide the level, and nothing was sent.

        Raises InvalidArgument, AccessDenied, ManagerQuotaExceeded, QueueQuotaExceeded, MessageTimedOut,
        MessageTooLarge, PutInhibited, QueueNotAvailable, DuplicateMessage, TransactionUsage for a transactional queue
        without ``transaction``, and the reverse, TransactionSequence (the transaction has ended), TransactionTooLarge.
        """
        unit = unit_of(transaction)
        operation: Operation[Sent] = send.Send(self._handle, body, fields, unit)
        if durability is not None:
            operation = durably(operation, durability, unit)
        return await self._manager.run(operation)

    async def send_many(
        self,
        items: Iterable[bytes | str | Outgoing],
        *,
        transaction: Transaction | None = None,
        durability: Durability | str | None = None,
    ) -> list[Sent]:
        """Put many messages into the queue, in order, in batches of up to 256 messages or 4 MiB, each sent as a whole
        or not at all.

        If a batch is refused outside a transaction, the batches before it stay in the queue. Raises as ``send``.
        """
        unit = unit_of(transaction)
        operation = send.send_many(self._handle, items, unit)
        if durability is not None:
            operation = durably(operation, durability, unit)
        return await self._manager.run(operation)

    async def send_group(
        self,
        items: Iterable[bytes | str | Outgoing],
        *,
        group_id: Identifier | None = None,
        segment_bytes: int | None = None,
        transaction: Transaction | None = None,
        durability: Durability | str | None = None,
    ) -> list[Sent]:
        """Send messages as one group, numbered from 1, the last one flagged. None as ``group_id``: a new one.

        Bodies of more than ``segment_bytes`` are sent in segments. Up to 256 messages or 4 MiB are sent in one step,
        more in several, unless in a transaction. Raises as ``send``, InvalidArgument for segments of sealed bodies, and
        GroupInconsistent (some are recoverable and some not, 2185).
        """
        unit = unit_of(transaction)
        operation = groups.send_group(self._handle, items, group_id, segment_bytes, unit)
        if durability is not None:
            operation = durably(operation, durability, unit)
        return await self._manager.run(operation)

    def group(self, group_id: Identifier | None = None) -> GroupWriter:
        """Send a group message by message: ``async with queue.group() as group: await group.send(...)``."""
        from mqredis.asyncio.group import GroupWriter

        return GroupWriter(self, groups.begin(self._handle, group_id))

    # ---- reading ---------------------------------------------------------------------------------

    async def receive(
        self,
        timeout: float | None = None,
        *,
        transaction: Transaction | None = None,
        tag: str | None = None,
        match: Match | None = None,
        selector: str | None = None,
        grouping: Grouping | None = None,
    ) -> Message:
        """Remove the first available message from the queue and return it (Dequeue Message, 3.1.7.1.10).

        ``timeout``: seconds to wait for a message. ``match``, ``selector``: only messages that have these identifiers,
        and that the selector selects (IBM MQ MQGET). ``grouping``: how groups and segments are treated. ``tag``: a name
        with which ``cancel`` ends the wait.

        A call that is cancelled or interrupted may have removed the message; then ``resolve`` of its token
        (``QueueManager.unknown``) returns it. Where that can happen, use ``lock`` or a transaction instead.

        Raises IoTimeout, QueueNotAvailable, GetInhibited, AccessDenied, OperationCancelled, SelectorSyntaxError,
        SealBroken, TransactionUsage (in a transaction, from a queue that is not transactional), TransactionSequence
        (the transaction has ended), TransactionTooLarge, MatchOptionsError (a wrong match, 2247; a match that leaves
        the group that is read in logical order; a read by token that waits, 2331), GroupInconsistent (a group that
        is partly read in a transaction), and NotSupported (a wait for a message of a topic, which stores none).
        """
        unit = unit_of(transaction)
        if grouping:
            operation = groups.receive(self._handle, timeout, unit, tag, match, selector, grouping)
            return await self._manager.run(operation)
        return (
            await self._manager.run(receive.Receive(self._handle, 1, timeout, unit, tag, match, selector))
        )[0]

    async def receive_many(
        self,
        max: int,
        timeout: float | None = None,
        *,
        transaction: Transaction | None = None,
        match: Match | None = None,
        selector: str | None = None,
    ) -> list[Message]:
        """Receive up to ``max`` (1 to 256) messages, waiting for the first. Raises as ``receive``, InvalidArgument."""
        unit = unit_of(transaction)
        return await self._manager.run(
            receive.Receive(self._handle, max, timeout, unit, None, match, selector)
        )

    async def receive_group(
        self,
        timeout: float | None = None,
        *,
        transaction: Transaction | None = None,
        tag: str | None = None,
        match: Match | None = None,
        selector: str | None = None,
    ) -> list[Message]:
        """Receive the first complete group in one step, in logical order and with segments joined.

        A message without a group is a group of one message. ``match`` and ``selector`` apply to the first message of a
        group. Raises as ``receive``.
        """
        unit = unit_of(transaction)
        return await self._manager.run(
            groups.receive_group(self._handle, timeout, unit, tag, match, selector)
        )

    async def groups(
        self,
        timeout: float | None = 0,
        *,
        transaction: Transaction | None = None,
        match: Match | None = None,
        selector: str | None = None,
    ) -> AsyncIterator[list[Message]]:
        """Receive complete groups one after the other. Ends when none is complete for ``timeout`` seconds."""
        while True:
            try:
                group = await self.receive_group(
                    timeout, transaction=transaction, match=match, selector=selector
                )
            except IoTimeout:
                return
            yield group

    async def peek(
        self,
        timeout: float | None = None,
        *,
        match: Match | None = None,
        selector: str | None = None,
        transaction: Transaction | None = None,
    ) -> Message:
        """Return the first available message without removing it (3.1.7.1.15); arguments as for ``receive``.

        Raises IoTimeout, QueueNotAvailable, GetInhibited, AccessDenied, OperationCancelled, MatchOptionsError,
        SelectorSyntaxError, SealBroken, and TransactionUsage for any ``transaction``, since a peek removes nothing
        (MS-MQRR 3.1.4.13).
        """
        return await self._manager.run(
            peek.peek(self._handle, timeout, match, selector, unit_of(transaction))
        )

    async def browse(
        self, *, match: Match | None = None, selector: str | None = None, delayed: bool = False
    ) -> AsyncIterator[Message]:
        """Iterate once over the available messages in delivery order, without removing them.

        ``match``, ``selector``: only messages that match. ``delayed``: followed by those that are delayed or rest
        between two attempts, by the time when they become available.

        Raises QueueNotAvailable, GetInhibited, AccessDenied, MatchOptionsError, SelectorSyntaxError, SealBroken, and
        NotSupported for ``delayed`` through a handle with a selector.
        """
        checks.flag(delayed, "delayed")
        after: int | None = None
        while True:
            page = await self._manager.run(peek.page(self._handle, after, match=match, selector=selector))
            if not page:
                break
            for message in page:
                yield message
            after = page[-1].lookup_id
        if not delayed:
            return
        from mqredis.operations import inspection

        place: str | None = None
        more = True
        while more:
            found = await self._manager.run(
                inspection.browse_scheduled(self._handle, place, match=match, selector=selector)
            )
            for stored in found.items:
                yield stored.message
            place = found.next
            more = place is not None

    @opening
    async def browser(
        self,
        *,
        match: Match | None = None,
        selector: str | None = None,
        grouping: Grouping | None = None,
        co_op: bool = False,
    ) -> Browser:
        """A browse cursor before the first message, with IBM MQ's rules. ``co_op``: share marks with other browsers.

        Raises AccessDenied (2036), MatchOptionsError, SelectorSyntaxError, QueueNotAvailable.
        """
        from mqredis.asyncio.browser import Browser
        from mqredis.operations import browser

        driver = self._manager.driver
        start = browser.start(self._handle, lambda: driver.session, match, selector, grouping, co_op)
        return Browser(self, await self._manager.run(start))

    @opening
    async def lock(
        self,
        timeout: float | None = None,
        *,
        lease: float | None = None,
        tag: str | None = None,
        match: Match | None = None,
        selector: str | None = None,
        grouping: Grouping | None = None,
        transaction: Transaction | None = None,
    ) -> LockedMessage:
        """Lock the first available message for ``lease`` seconds (Dequeue Message Begin, 3.1.7.1.11).

        ``lease``: None for the setting ``lease_seconds``. ``transaction``: the lock lasts until the transaction ends,
        whatever ``lease`` is, and its commit removes the message. Other arguments and errors are those of ``receive``.
        """
        if transaction is not None:
            lease_of(self._handle.context, lease)  # the transaction has a lease of its own: only checked
            message = await self.receive(
                timeout,
                transaction=transaction,
                tag=tag,
                match=match,
                selector=selector,
                grouping=grouping,
            )
            return LockedMessage._in_transaction(self, message, transaction.unit)
        if grouping:
            operation = groups.lock(self._handle, timeout, lease, tag, match, selector, grouping)
            return self.locked_messages(await self._manager.run(operation))[0]
        operation = receive.Lock(self._handle, 1, timeout, lease, tag, match=match, selector=selector)
        locks = await self._manager.run(operation)
        return self.locked_messages(locks)[0]

    async def lock_many(
        self,
        max: int,
        timeout: float | None = None,
        *,
        lease: float | None = None,
        settle: Sequence[LockedMessage] = (),
        match: Match | None = None,
        selector: str | None = None,
    ) -> list[LockedMessage]:
        """Lock up to ``max`` (1 to 256) messages, waiting for the first; commit ``settle`` in the same call.

        ``settle`` is committed even if nothing is found in time. A lock of it that was lost is not committed
        and is left unsettled. Raises as ``lock``.
        """
        earlier = earlier_locks(self._handle, settle)
        operation = receive.Lock(self._handle, max, timeout, lease, None, earlier, match, selector)
        try:
            locks = await self._manager.run(operation)
        finally:
            note_outcome(earlier, settle)
        return self.locked_messages(locks)

    async def commit_many(
        self, locks: Sequence[LockedMessage], *, durability: Durability | str | None = None
    ) -> None:
        """Commit several locks of this queue (Dequeue Message End, 3.1.7.1.12), 256 with one call.

        All locks that are still held are committed. Then LockLost is raised for the first one that was lost;
        ``settled`` of each lock says whether it was committed. ``durability``: as for ``send``; DurabilityNotReached:
        the messages were removed. Raises InvalidArgument for a lock of another queue or of a transaction,
        InvalidHandle.
        """
        earlier = earlier_locks(self._handle, locks, "locks")
        operation = settle_all(self._handle, earlier)
        if durability is not None:
            operation = durably(operation, durability)
        try:
            await self._manager.run(operation)
        except LockLost as error:
            raise lost_of(locks, error) from None
        finally:
            note_outcome(earlier, locks)

    async def peek_by_lookup_id(self, lookup_id: int, *, seek: Seek = Seek.CURRENT) -> Message:
        """Return one particular message (3.1.7.1.13) and leave it there. Never waits.

        ``seek``: this message, or the one that has another place relative to it or in the queue (``Seek``). Raises
        MessageNotFound, GetInhibited, TransactionUsage (locked).
        """
        return await self._manager.run(lookup.peek_by_lookup_id(self._handle, lookup_id, seek))

    async def receive_by_lookup_id(
        self,
        lookup_id: int,
        *,
        seek: Seek = Seek.CURRENT,
        transaction: Transaction | None = None,
        allow_peek: bool = False,
    ) -> Message:
        """Receive one particular message (3.1.7.1.13). Never waits. ``seek``: as for ``peek_by_lookup_id``.
        ``allow_peek``: with ``transaction``, peeks see the message until the transaction ends.

        Raises MessageNotFound, GetInhibited, TransactionUsage.
        """
        unit = unit_of(transaction)
        operation = lookup.receive_by_lookup_id(self._handle, lookup_id, seek, unit, allow_peek)
        return await self._manager.run(operation)

    @opening
    async def lock_by_lookup_id(
        self,
        lookup_id: int,
        *,
        seek: Seek = Seek.CURRENT,
        lease: float | None = None,
        allow_peek: bool = False,
        transaction: Transaction | None = None,
    ) -> LockedMessage:
        """Lock one particular message; ``lease`` and ``transaction`` as with ``lock``. Never waits.

        ``seek``: as for ``peek_by_lookup_id``. ``allow_peek``: peeks see the message while it is locked. Raises
        MessageNotFound, GetInhibited, TransactionUsage.
        """
        if transaction is not None:
            lease_of(self._handle.context, lease)  # the transaction has a lease of its own: only checked
            message = await self.receive_by_lookup_id(
                lookup_id, seek=seek, transaction=transaction, allow_peek=allow_peek
            )
            return LockedMessage._in_transaction(self, message, transaction.unit)
        operation = lookup.lock_by_lookup_id(self._handle, lookup_id, seek, lease, allow_peek)
        return self.locked_messages(await self._manager.run(operation))[0]

    @opening
    async def cursor(self, *, match: Match | None = None, selector: str | None = None) -> Cursor:
        """A new cursor at the start of the queue (3.1.7.1.1), over the messages that match.

        A cursor has a place in the delivery order, in which a delayed message has none before its time: see ``browse``.
        Raises QueueNotAvailable if the queue is gone, MatchOptionsError, SelectorSyntaxError.
        """
        from mqredis.asyncio.cursor import Cursor
        from mqredis.operations import cursor

        return Cursor(self, await self._manager.run(cursor.start(self._handle, match, selector)))

    # ---- the rest --------------------------------------------------------------------------------

    async def move(self, lookup_id: int, target: Queue, *, transaction: Transaction | None = None) -> None:
        """Move a message to a subqueue of the same queue, or back (3.1.7.1.16); it keeps id and place.

        Raises MessageNotFound, MessageLocked (locked or delayed), InvalidArgument (queues not related),
        UnsupportedAccess, InvalidHandle (``target`` must be open with access to move), QueueNotAvailable,
        TransactionUsage.
        """
        unit = unit_of(transaction)
        await self._manager.run(handle.move(self._handle, lookup_id, handle_of(target), unit))

    async def purge(self, *, match: Match | None = None, selector: str | None = None) -> int:
        """Remove all messages (3.1.7.1.7); locked ones are removed when their locks end. Returns how many were removed
        at once. Messages that rest between two attempts, or were sent in open transactions, stay.

        With ``match`` or ``selector``, or through a handle with a selector, only available messages that match are
        removed.
        """
        return await self._manager.run(handle.purge(self._handle, match, selector))

    async def cancel(self, tag: str) -> None:
        """End the wait of the reader with this tag with OperationCancelled (3.1.7.1.17). Raises WaiterNotFound."""
        await self._manager.run(handle.cancel(self._handle, tag))

    async def close(self) -> None:
        """Close the handle: its waits, and reads that lock at the same time, raise OperationCancelled, its locks are
        released (3.1.7.1.6)."""
        if not self._handle.closed:
            self._manager.driver.cancel(self._handle)
            await self._manager.run(handle.close_handle(self._handle))

    # ---- for integrations (docs/extending.md) -----------------------------------------------------

    @property
    def manager(self) -> QueueManager:
        """The client that opened this queue."""
        return self._manager

    @property
    def handle(self) -> Handle:
        """The handle that operations take."""
        return self._handle

    def locked_messages(self, locks: Locks) -> list[LockedMessage]:
        """The locked messages that an operation on this queue has returned as ``locks``."""
        return LockedMessage._each(self, locks)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.close()
        except (BrokerUnavailable, OutcomeUnknown) as second:
            # What the block has done, or its error, counts for the caller; the handle is closed later.
            log.warning("queue %r could not be closed: %s", self.name, second)

    def __repr__(self) -> str:
        return f"<Queue {self.name!r} {'closed' if self._handle.closed else self._handle.access.value}>"
