# Generated from mqredis/asyncio/inspection.py by tools/generate_blocking.py. Do not edit: run `make format`.
"""What an operator reads: who holds messages, and what is in each queue. None of these calls changes anything."""

from __future__ import annotations

from typing import TypeVar

from mqredis.models.inspection import (
    ClaimInfo,
    LockInfo,
    Page,
    QueueDepth,
    SessionInfo,
    TransactionInfo,
)
from mqredis.operations import inspection
from mqredis.operations.context import Context
from mqredis.steps import Operation

R = TypeVar("R")


class Inspection:
    """The part of a queue manager's interface that shows its present state to operators."""

    _context: Context

    def _run(self, operation: Operation[R]) -> R:
        raise NotImplementedError

    def locks(self, queue: str, *, after: str | None = None, limit: int = 100) -> Page[LockInfo]:
        """Who has locked messages of a queue, in the order in which the leases end; ``limit`` is 256 at most.

        ``after`` is ``next`` of the page before. Raises QueueNotFound.
        """
        return self._run(inspection.locks(self._context, queue, after, limit))

    def transactions(self, *, after: str | None = None) -> Page[TransactionInfo]:
        """Open transactions, and what they hold, in no particular order; ``after`` is ``next`` of the page before."""
        return self._run(inspection.transactions(self._context, after))

    def sessions(self, *, after: str | None = None, limit: int = 100) -> Page[SessionInfo]:
        """The sessions of clients, in the order in which they would end if no call came; ``limit`` is 256 at most.

        ``after`` is ``next`` of the page before.
        """
        return self._run(inspection.sessions(self._context, after, limit))

    def claims(self, queue: str) -> list[ClaimInfo]:
        """What data pipelines have claimed in a queue and not committed yet. Raises QueueNotFound."""
        return self._run(inspection.claims(self._context, queue))

    def overview(self, pattern: str | None = None) -> list[QueueDepth]:
        """What is in each queue and has passed through it, by name; ``pattern`` is a glob.

        Counts ``;retry``, ``;lapsed``, ``;poison`` and ``;journal`` with their queue. Reads 128 queues a call.
        """
        return self._run(inspection.overview(self._context, pattern))
