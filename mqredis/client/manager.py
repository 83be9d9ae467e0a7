"""A queue manager: where a client begins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, TypeVar

from mqredis.client.queue import Queue
from mqredis.client.transaction import Transaction
from mqredis.commands.manager import Resolution
from mqredis.drivers.sync import Driver
from mqredis.models import Access, ManagerInfo, QueueInfo, Share
from mqredis.operations import doctor, manager, queue, transaction
from mqredis.operations.context import Context
from mqredis.reports import Report
from mqredis.steps import Operation

if TYPE_CHECKING:
    from types import TracebackType

R = TypeVar("R")


class QueueManager:
    """A client of one queue manager (MS-MQDMPR 3.1.1.1); thread safe. ``mqredis.connect`` makes one."""

    def __init__(self, driver: Driver, context: Context) -> None:
        self._driver = driver
        self._context = context

    @property
    def name(self) -> str:
        """Name of the queue manager."""
        return self._context.keys.manager

    # ---- queues ----------------------------------------------------------------------------------

    def create_queue(self, name: str, **properties: Any) -> QueueInfo:
        """Create a queue (3.1.7.1.3); ``properties`` are those of QueueProperties. Raises QueueExists, InvalidName."""
        return self._run(queue.create(self._context, name, properties))

    def queue_info(self, name: str) -> QueueInfo:
        """Properties and present state of a queue. Raises QueueNotFound."""
        return self._run(queue.info(self._context, name))

    def update_queue(self, name: str, **changes: Any) -> QueueInfo:
        """Change properties of a queue; a new quota affects what arrives later. Raises QueueNotFound."""
        return self._run(queue.update(self._context, name, changes))

    def delete_queue(self, name: str) -> int:
        """Delete a queue, its subqueues and their messages (3.1.7.1.4); answers how many. Raises QueueNotFound."""
        return self._run(queue.delete(self._context, name))

    def queues(self, pattern: str | None = None) -> list[QueueInfo]:
        """All queues and subqueues, by name; ``pattern`` is a glob."""
        return self._run(queue.listing(self._context, pattern))

    def open(
        self,
        name: str,
        access: Access = Access.ALL,
        share: Share = Share.DENY_NONE,
        *,
        selector: str | None = None,
    ) -> Queue:
        """Open a queue, or create and open a subqueue ``queue;subqueue`` (3.1.7.1.5).

        ``selector``: every read through this handle sees only what it selects (IBM MQ SelectionString).

        Raises QueueNotFound, SharingViolation, UnsupportedAccess, SelectorSyntaxError.
        """
        return Queue(self, self._run(queue.open_handle(self._context, name, access, share, selector)))

    # ---- units of work ---------------------------------------------------------------------------

    def transaction(self, *, id: str | None = None, lease: float | None = None) -> Transaction:
        """A new transaction that lives for ``lease`` seconds without renewal (3.1.7.1.8).

        Raises TransactionSequence if ``id`` is in use.
        """
        session = self._driver.session
        return Transaction(self, self._run(transaction.begin(self._context, session, id, lease)))

    def resolve(self, token: str) -> Resolution:
        """What became of the call behind ``OutcomeUnknown.token``. Raises SessionExpired if nobody knows any more."""
        resolution = self._run(manager.resolve(self._context, token))
        self._driver.resolved(token)
        return resolution

    # ---- the manager -----------------------------------------------------------------------------

    def info(self) -> ManagerInfo:
        """State of the queue manager."""
        return self._run(manager.info(self._context))

    def throttle(self, on: bool) -> None:
        """Begin or end flow control (3.1.7.2.5-6): while on, every send raises ManagerQuotaExceeded."""
        self._run(manager.throttle(self._context, on))

    def set_quota(self, messages: int | None = None, bytes: int | None = None) -> None:
        """Quota over all queues of the manager; None: no limit."""
        self._run(manager.set_quota(self._context, messages, bytes))

    def advance_clock(self, seconds: float) -> None:
        """Move the clock of a manager created with ``Settings(test_clock=True)``. Raises AccessDenied otherwise."""
        self._run(manager.advance_clock(self._context, seconds))
        self._driver.ring_all()

    def doctor(self, repair: bool = False) -> Report:
        """Check every invariant of the store and the server's settings; ``repair`` mends what loses nothing.

        ``findings`` are broken invariants, ``advice`` the rest. Looks at every message: some seconds for a million.
        """
        return self._run(doctor.examine(self._context, repair))

    def maintain(self) -> int:
        """Serve the due timers of every queue: expiries, delays, lapsed leases. Answers the calls made."""
        return self._run(manager.maintain(self._context))

    def close(self) -> None:
        """End the session and its connections. Handles and transactions of this client end with their leases."""
        self._driver.close()

    def _run(self, operation: Operation[R]) -> R:
        return self._driver.run(operation)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<QueueManager {self.name!r}>"
