# Generated from mqredis/asyncio/inspection.py by tools/generate_blocking.py. Do not edit: run `make format`.
"""Reads for operators: holders of messages, and contents of queues. None of these calls changes anything.

``QueueManager`` derives from it. The console, the command line and Spark's commands for operators call its methods. The
operations are imported in the methods, since most programs use none (``tests/contract/test_imports.py``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime, timedelta

    from mqredis.models import Match
    from mqredis.models.inspection import (
        ClaimInfo,
        LockInfo,
        Page,
        QueueDepth,
        QueueHistory,
        SessionInfo,
        StoredMessage,
        TrailEntry,
        TransactionInfo,
    )
    from mqredis.models.schedule import ScheduleInfo
    from mqredis.models.text import Identifier
    from mqredis.models.worker import Pause, WorkerInfo
    from mqredis.operations.context import Context
    from mqredis.operations.publications import Publication
    from mqredis.steps import Operation

R = TypeVar("R")


class Inspection(ABC):
    """The part of a queue manager's interface that shows its present state to operators."""

    _context: Context

    @abstractmethod
    def run(self, operation: Operation[R]) -> R:
        """Run an operation of ``mqredis.operations``. Raises what the operation raises."""

    def locks(
        self,
        queue: str,
        *,
        match: Match | None = None,
        selector: str | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> Page[LockInfo]:
        """The locked messages of a queue and their holders, in the order in which the leases end; ``limit`` is 256 at
        most.

        ``match``, ``selector``: only messages that match; then a page may have fewer, and even no messages although
        others follow. ``after`` is ``next`` of the page before. Raises QueueNotFound, MatchOptionsError,
        SelectorSyntaxError.
        """
        from mqredis.operations import inspection

        return self.run(inspection.locks(self._context, queue, after, limit, match, selector))

    def transactions(self, *, after: str | None = None) -> Page[TransactionInfo]:
        """Open transactions, and what they hold, in no particular order; ``after`` is ``next`` of the page before."""
        from mqredis.operations import inspection

        return self.run(inspection.transactions(self._context, after))

    def sessions(self, *, after: str | None = None, limit: int = 100) -> Page[SessionInfo]:
        """The sessions of clients, in the order in which they would end if no call came; ``limit`` is 256 at most.

        ``after`` is ``next`` of the page before. Asks 128 queues a call who waits there.
        """
        from mqredis.operations import inspection

        return self.run(inspection.sessions(self._context, after, limit))

    def claims(self, queue: str) -> list[ClaimInfo]:
        """The readers of data pipelines on a queue, with the claim of each. Raises QueueNotFound."""
        from mqredis.operations import inspection

        return self.run(inspection.claims(self._context, queue))

    def messages(
        self,
        queue: str,
        *,
        match: Match | None = None,
        selector: str | None = None,
        after: str | None = None,
        limit: int = 100,
        reverse: bool = False,
        complete: bool = False,
    ) -> Page[StoredMessage]:
        """Available messages of a queue in delivery order; ``limit`` is 256 at most. ``reverse``: the last ones first.

        A page looks at 300 messages at most, so a selector may leave it empty while there are more. Bodies of more
        than 4096 bytes are left out, unless ``complete``. Raises QueueNotFound, SelectorSyntaxError, MatchOptionsError.
        """
        from mqredis.operations import inspection

        return self.run(
            inspection.messages(self._context, queue, match, selector, after, limit, reverse, complete)
        )

    def scheduled(
        self,
        queue: str,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        match: Match | None = None,
        selector: str | None = None,
        after: str | None = None,
        limit: int = 100,
        complete: bool = False,
    ) -> Page[StoredMessage]:
        """Messages that are held back by ``delay=`` or rest between two attempts, by the time when this ends.

        ``since`` and ``until`` are the first and the last such time. Pages, bodies and errors as in ``messages``.
        """
        from mqredis.operations import inspection

        span = (since, until)
        return self.run(
            inspection.scheduled(self._context, queue, span, match, selector, after, limit, complete)
        )

    def message(self, queue: str, lookup_id: int) -> StoredMessage:
        """One message of a queue with its body, in any state. Raises QueueNotFound, MessageNotFound."""
        from mqredis.operations import inspection

        return self.run(inspection.message(self._context, queue, lookup_id))

    def trail(self, queue: str, message: int | Identifier) -> list[TrailEntry]:
        """What has happened to a message, the oldest first; empty if no trail of it is kept (queue property ``trail``).

        ``message`` is a lookup id, the first one or one that the message has now, or a message id. Of several messages
        with one id it is the last that was sent to ``queue``, or else an available one. Of a message that has left,
        the first lookup id finds the trail, whatever its queue was.

        A trail has 32 entries and 4096 bytes at most: the entries behind the first one go, the oldest first. The trails
        of the last 1000 messages that have left are kept. Raises QueueNotFound.
        """
        from mqredis.operations import inspection

        return (self.run(inspection.trail(self._context, queue, message))).entries

    def history(
        self, queue: str, *, since: datetime | timedelta | None = None, step: int = 300
    ) -> QueueHistory:
        """Counts of messages that entered, left, failed and were tried again in each ``step`` seconds of the last day.

        ``since``: a time, or how long before now; None: a day. ``step`` is a multiple of 300. Raises QueueNotFound,
        InvalidArgument.
        """
        from mqredis.operations import history

        return self.run(history.history(self._context, queue, since, step))

    def histories(
        self, queues: Iterable[str], *, since: datetime | timedelta | None = None, step: int = 300
    ) -> dict[str, QueueHistory]:
        """As ``history``, for several queues, by name. Those that do not exist are left out. Raises InvalidArgument."""
        from mqredis.operations import history

        return self.run(history.histories(self._context, queues, since, step))

    def publications(self) -> list[Publication]:
        """Unfinished publications of data pipelines, by name."""
        from mqredis.operations import publications

        return self.run(publications.publications(self._context))

    def workers(self) -> list[WorkerInfo]:
        """The live workers, by name: hosts, counters of their consumers, and the handlers that run now.

        Each is as of the worker's last heartbeat (``Worker(heartbeat_seconds=)``).
        """
        from mqredis.operations import workers

        return self.run(workers.workers(self._context))

    def pauses(self) -> list[Pause]:
        """The queues and consumers that operators have paused."""
        from mqredis.operations import workers

        return self.run(workers.pauses(self._context))

    def schedules(self) -> list[ScheduleInfo]:
        """The schedules that are stored in the broker, by name.

        Workers declare them in their code, and operators create them (``Operator.create_schedule``).
        """
        from mqredis.operations import schedules

        return self.run(schedules.schedules(self._context))

    def overview(self, pattern: str | None = None) -> list[QueueDepth]:
        """Contents and counters of each queue, by name; ``pattern`` is a glob.

        Counts ``;retry``, ``;lapsed``, ``;poison`` and ``;journal`` with their queue. Reads 128 queues a call.
        """
        from mqredis.operations import inspection

        return self.run(inspection.overview(self._context, pattern))
