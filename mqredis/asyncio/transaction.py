# mqredis/client/transaction.py is generated from this file: run `make format` after a change.
"""A transaction: sends, receives and moves over several queues, all or nothing.

``QueueManager.transaction`` makes it; applications and workers end it. Operations take its ``unit``
(``operations.unit_of_work``), and ``operations.transaction`` ends that.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Self

from mqredis.errors import MqError, OutcomeUnknown, TransactionSequence
from mqredis.models import Durability, Message
from mqredis.operations import transaction as operations
from mqredis.operations.durability.wrapper import durably
from mqredis.operations.open_queue import handle_of
from mqredis.operations.unit_of_work import UnitOfWork
from mqredis.steps import Operation

if TYPE_CHECKING:
    from types import TracebackType

    from mqredis.asyncio.manager import QueueManager
    from mqredis.asyncio.queue import Queue

log = logging.getLogger("mqredis")


class Transaction:
    """A unit of work (MS-MQDMPR 3.1.1.14). As a context manager: commit on success, abort on error.

    Before the commit, no message that it sends is visible, and no message that it receives is removed. When its lease
    ends, everything in it is undone, and a later commit raises TransactionSequence. Several calls may be made in it
    at the same time; wait for their results before you end it.
    """

    def __init__(self, manager: QueueManager, unit: UnitOfWork) -> None:
        self._manager = manager
        self._unit = unit

    @property
    def id(self) -> str:
        """Identifier of the transaction, as listings, selectors and operators name it: in a chosen id, characters other
        than letters, digits, dots, hyphens and underscores are percent-encoded."""
        return self._unit.id

    async def prepare(self) -> None:
        """Check that it is open (3.1.4.3); the commit marks first and last. Raises TransactionSequence."""
        await self.end(operations.End(self._unit, "prepare"))

    async def commit(self, *, durability: Durability | str | None = None, retaining: bool = False) -> None:
        """Commit (3.1.4.4). Raises TransactionSequence if the transaction is finished or unknown, or its lease is over.

        If a call in it was cancelled or ended with OutcomeUnknown, and the broker has carried it out, the transaction
        is aborted and TransactionSequence raised, since a message that the call received would be lost. If the outcome
        was asked for before (``QueueManager.resolve``), the commit includes the call.

        ``durability``: as for ``Queue.send``; DurabilityNotReached: the transaction is committed.
        ``retaining``: to continue in the same transaction is not supported (NotSupported), as in MSMQ (MC-MQAC
        3.8.4.1).
        """
        operation: Operation[None] = operations.commit(self._unit, retaining)
        if durability is not None:
            operation = durably(operation, durability)
        await self.end(operation)

    async def abort(self) -> None:
        """Undo everything: each message returns to its old place (3.1.4.5). Raises TransactionSequence."""
        await self.end(operations.End(self._unit, "abort"))

    async def extend(self, lease: float | None = None) -> float:
        """Renew the lease to ``lease`` seconds from now (default: those that it began with), unless it is longer now.
        Returns its length in seconds. Raises TransactionSequence."""
        return await self._manager.run(operations.renew(self._unit, lease))

    async def reject(self, queue: Queue, message: Message, reason: str = "") -> None:
        """Mark a message received in it as rejected: at commit it leaves with a negative acknowledgement.

        ``reason``: as with ``LockedMessage.reject``.

        Raises TransactionUsage if it was not received here, MessageNotFound if it is unknown (MS-MQRR 3.1.4.14).
        """
        await self._manager.run(operations.reject(self._unit, handle_of(queue), message, reason))

    @property
    def unit(self) -> UnitOfWork:
        """The unit of work that operations take (docs/extending.md)."""
        return self._unit

    async def end(self, operation: Operation[None]) -> None:
        """End it, or prepare it, with an ``End`` of ``operations.transaction``, for integrations (docs/extending.md).

        After a lost reply it counts as ended, since nothing more may be done in it; so it does if its caller is
        cancelled or interrupted while the call is under way (``operations.transaction.End``).
        """
        self._unit.doubts = self._manager.driver.doubts(self._unit.id)
        try:
            await self._manager.run(operation)
        except OutcomeUnknown:
            self._unit.finished = operations.IN_DOUBT
            raise

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._unit.finished:
            return
        if kind is None:
            await self.commit()
            return
        try:
            await self.abort()
        except MqError as second:
            # The caller's error is raised. If the abort failed, the transaction is undone when its lease ends. A
            # TransactionSequence tells the caller already that the transaction is undone, so nothing is logged then.
            if isinstance(error, TransactionSequence) and isinstance(second, TransactionSequence):
                return
            log.warning("transaction %s could not be aborted: %s", self.id, second)

    def __repr__(self) -> str:
        return f"<Transaction {self.id} {self._unit.finished or 'open'}>"
