# Generated from mqredis/asyncio/locked.py by tools/generate_blocking.py. Do not edit: run `make format`.
"""A locked message: the second phase of a two-phase read.

Reads that lock return them: ``Queue.lock`` and its relatives, and cursors. Applications end them; workers end the locks
of their messages themselves (``worker.lock_loop``). What both interfaces share is in ``operations.locked``, which makes
them (``Locked._each``). ``otel.patches`` wraps ``commit``, ``abort`` and ``reject`` by name.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Self

from mqredis.commands.settlement import ABORT, COMMIT, REJECT, RENEW
from mqredis.errors import DurabilityNotReached, LockLost, MqError
from mqredis.models import Durability
from mqredis.operations import checks, giveback
from mqredis.operations.context import lease_of
from mqredis.operations.durability.wrapper import durably
from mqredis.operations.locked import Locked

if TYPE_CHECKING:
    from types import TracebackType


log = logging.getLogger("mqredis")


class LockedMessage(Locked):
    """A message locked by this reader (MS-MQDMPR 3.1.7.1.11).

    Use it as a context manager: the message is removed from the queue when the block ends, and returns to its place if
    the block raises; the error is the reason, as of ``abort``. The lock ends with its lease; after that, each call here
    raises LockLost and has no effect.

    A message that was locked in a transaction is removed when the transaction commits: ``commit`` and ``abort`` do
    nothing (3.1.7.1.12 rule 3), ``reject`` and ``extend`` are those of the transaction, and all raise
    TransactionSequence when the transaction has ended.
    """

    def commit(self, *, durability: Durability | str | None = None) -> None:
        """Remove the message from the queue, since it was handled (Dequeue Message End, 3.1.7.1.12). Raises LockLost.

        ``durability``: as for ``Queue.send``; DurabilityNotReached: the message was removed.
        """
        self._settle(COMMIT, durability)

    def abort(self, reason: str = "") -> None:
        """Release the message: it is available again in its old place, unless its queue has a retry policy. Raises
        LockLost.

        ``reason``: why it was not handled. If the policy ends its attempts, the message keeps that of the last one as
        ``failure_reason``. Ignored in a transaction.
        """
        self._settle(ABORT + checks.reason(reason))

    def reject(self, reason: str = "", *, durability: Durability | str | None = None) -> None:
        """Remove the message from the queue as rejected, since it cannot be handled. Raises as ``commit``.

        ``reason`` is the ``reason`` of its negative acknowledgement, and stands in that of its dead letter behind
        "receive_rejected: ", if there are any.
        """
        self._settle(REJECT + checks.reason(reason), durability)

    def extend(self, lease: float | None = None) -> None:
        """Renew the lease to ``lease`` seconds from now (default: that which it was locked with). Raises LockLost."""
        lease_ms = int(self.grant.lease_ms) if lease is None else lease_of(self.grant.handle.context, lease)
        seconds = lease_ms / 1000
        try:
            now = self.queue.manager.run(self._operation(RENEW, seconds))
        except LockLost as error:
            raise self._lost(error) from None
        self._until = now + seconds

    def _settle(self, action: str, durability: Durability | str | None = None) -> None:
        operation = self._operation(action, None)
        if durability is not None:
            operation = durably(operation, durability)
        try:
            self.queue.manager.run(operation)
        except DurabilityNotReached:
            self._settled = True
            raise
        except LockLost as error:
            raise self._lost(error) from None
        self._settled = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._settled:
            return
        if error is None:
            self.commit()
        else:
            sealed = self.grant.handle.context.sealer is not None
            try:
                self.abort(giveback.description(error, sealed=sealed))
            except MqError as second:  # the caller's error is raised, and the lease ends the lock
                log.warning("message %#018x could not be given back: %s", self.lookup_id, second)
