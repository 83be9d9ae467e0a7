# mqredis/client/manager.py is generated from this file: run `make format` after a change.
"""The client of a queue manager, from which all others come.

``connect`` makes it. Applications, the command line, the console, workers and other integrations call its methods; its
last part is for integrations alone (docs/extending.md), and metrics wrap all operations with ``wrap``.

A new method is generated into ``client`` and has a row in ``tests/bad_input/test_every_call.py``; one that sends or
takes messages has a row in ``otel/patches.py``, too (``tests/otel/test_otel.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar, Unpack

from mqredis.asyncio.inspection import Inspection
from mqredis.asyncio.pending import opening
from mqredis.asyncio.queue import Queue
from mqredis.asyncio.transaction import Transaction
from mqredis.commands.manager import Resolution
from mqredis.drivers.aio import AsyncDriver
from mqredis.errors import InvalidArgument, MqError
from mqredis.keys import DEAD_LETTER
from mqredis.models import (
    Access,
    FailedMessages,
    ManagerInfo,
    Match,
    Message,
    Outgoing,
    QueueInfo,
    QueueStatistics,
    Sent,
    Share,
    Subscription,
)
from mqredis.models.header import MessageFields
from mqredis.models.queue import QueueFields
from mqredis.operations import (
    failed,
    handle,
    manager,
    queue,
    redrive,
    request,
    shutdown,
    statistics,
    topics,
    transaction,
)
from mqredis.operations.context import Context
from mqredis.operations.matching import Selection
from mqredis.operations.open_queue import handle_of
from mqredis.steps import Operation

if TYPE_CHECKING:
    from types import TracebackType

    from mqredis.asyncio.operator import Operator
    from mqredis.reports import Report

R = TypeVar("R")


class QueueManager(Inspection):
    """A client of one queue manager (MS-MQDMPR 3.1.1.1) for one event loop. ``mqredis.asyncio.connect`` makes one."""

    def __init__(self, driver: AsyncDriver, context: Context) -> None:
        self._driver = driver
        self._context = context
        # What ``wrap`` was given.
        self._wrapper: Callable[[Operation[Any]], Operation[Any]] | None = None

    @property
    def name(self) -> str:
        """Name of the queue manager."""
        return self._context.keys.manager

    # ---- queues ----------------------------------------------------------------------------------

    async def create_queue(
        self, name: str, *, exist_ok: bool = False, **properties: Unpack[QueueFields]
    ) -> QueueInfo:
        """Create a queue (3.1.7.1.3); ``properties`` are those of QueueProperties.

        ``exist_ok``: if a queue of this name exists, leave it unchanged; a warning in the log (logger "mqredis") names
        given properties that differ. Raises InvalidName, InvalidArgument (a property), UnsafeServer (a transactional
        queue in a server that may lose messages), and QueueExists without ``exist_ok``, or if the queue differs in a
        property that cannot be changed (transactional, group_exclusive, topic).
        """
        return await self.run(queue.create(self._context, name, properties, exist_ok))

    async def queue_info(self, name: str) -> QueueInfo:
        """Properties and present state of a queue. Raises QueueNotFound."""
        return await self.run(queue.info(self._context, name))

    async def update_queue(self, name: str, **changes: Unpack[QueueFields]) -> QueueInfo:
        """Change properties of a queue; a new quota affects what arrives later.

        Raises QueueNotFound, and InvalidArgument for a subqueue, for a property that cannot be changed (transactional,
        group_exclusive, topic), and for one of a queue of the system other than label, quotas and get_inhibited.
        """
        return await self.run(queue.update(self._context, name, changes))

    async def delete_queue(self, name: str) -> int:
        """Delete a queue, its subqueues and their messages (3.1.7.1.4). Returns how many messages.

        A queue of the system, such as that of the dead letters, is created again when the broker needs it. Raises
        QueueNotFound.
        """
        return await self.run(queue.delete(self._context, name))

    async def queues(self, pattern: str | None = None) -> list[QueueInfo]:
        """All queues and subqueues, by name; ``pattern`` is a glob."""
        return await self.run(queue.listing(self._context, pattern))

    @opening
    async def open(
        self,
        name: str,
        access: Access = Access.ALL,
        share: Share = Share.DENY_NONE,
        *,
        selector: str | None = None,
    ) -> Queue:
        """Open a queue, or create and open a subqueue ``queue;subqueue`` (3.1.7.1.5).

        ``selector``: every read through this handle sees only what it selects (IBM MQ SelectionString).

        Raises QueueNotFound, SharingViolation, UnsupportedAccess, SelectorSyntaxError, InvalidName, and InvalidArgument
        for a selector with an access that reads nothing (2516).
        """
        return Queue(self, await self.run(handle.open_handle(self._context, name, access, share, selector)))

    # ---- units of work ---------------------------------------------------------------------------

    @opening
    async def transaction(self, *, id: str | None = None, lease: float | None = None) -> Transaction:
        """A new transaction that lives for ``lease`` seconds without renewal (3.1.7.1.8); None: the setting
        ``lease_seconds``. Without ``id`` the lease begins with the first operation in it, else now.

        Raises TransactionSequence if ``id`` is in use, InvalidArgument if it is one as mqredis makes them ("t7.1").
        """
        driver = self._driver
        if id is None and (session := driver.session):
            return Transaction(self, transaction.fresh(self._context, session, lease))
        begin = transaction.begin(self._context, lambda: driver.session, id, lease)
        return Transaction(self, await self.run(begin))

    @property
    def unknown(self) -> list[str]:
        """Tokens of this client's calls with an unknown outcome, oldest first: their callers were cancelled or got
        ``OutcomeUnknown``. ``resolve`` removes a token from the list."""
        return self._driver.unknown

    async def resolve(self, token: str) -> Resolution:
        """The outcome of the call with a token from ``OutcomeUnknown.token`` or ``unknown``.

        The messages that a call of this client took are in ``Resolution.messages``. Raises SessionExpired if the
        broker has forgotten the session of the call, SealBroken as the call does, InvalidArgument for what is no token.
        """
        call = self._driver.unfinished(token)
        resolution = await self.run(manager.resolve(self._context, token, call))
        self._driver.resolved(token)
        return resolution

    # ---- beyond single queues --------------------------------------------------------------------

    async def statistics(self, name: str) -> QueueStatistics:
        """Statistics of a queue: counts, ages, rates, warnings. Raises QueueNotFound."""
        return await self.run(statistics.statistics(self._context, name))

    async def failed_messages(self) -> list[FailedMessages]:
        """How many messages each ``;poison`` and each queue of dead letters holds, with a warning if there are many."""
        return await self.run(failed.failed_messages(self._context))

    async def redrive(
        self,
        source: str = DEAD_LETTER,
        *,
        where: Callable[[Message], bool] | None = None,
        to: str | None = None,
        limit: int | None = None,
        rate: float | None = None,
        match: Match | None = None,
        selector: Selection = None,
    ) -> int:
        """Put dead letters, poison messages or journal copies back into the queue they came from, or into ``to``.
        Returns how many.

        ``match`` and ``selector`` choose messages in the broker, and ``where``, a function, among those. ``limit``: how
        many at most; ``rate``: how many per second. A message whose queue does not exist, is full or refuses sends
        stays where it is. The times of a message count from the redrive.

        Raises QueueNotFound (``source`` or ``to``), GetInhibited, InvalidArgument, MatchOptionsError,
        SelectorSyntaxError, SealBroken.
        """
        return await self.run(redrive.redrive(self._context, source, where, to, limit, rate, match, selector))

    async def subscribe(self, topic: str, queue: str, selector: str | None = None) -> Subscription:
        """Subscribe a queue, which may be a topic, to the messages of a topic, or to those that the selector selects. A
        repeated call changes the selector.

        Raises QueueNotFound, SelectorSyntaxError, and InvalidArgument: it is no topic, or only one is transactional.
        """
        return await self.run(topics.subscribe(self._context, topic, queue, selector))

    async def unsubscribe(self, topic: str, queue: str) -> None:
        """End a subscription. The queue keeps its messages. Raises QueueNotFound if there is no such topic,
        InvalidArgument if the queue of that name is no topic."""
        await self.run(topics.unsubscribe(self._context, topic, queue))

    async def subscriptions(self, topic: str) -> list[Subscription]:
        """The subscriptions of a topic, by the name of the queue. Raises QueueNotFound."""
        return await self.run(topics.subscriptions(self._context, topic))

    async def request(
        self,
        queue: Queue,
        body: bytes | str | Outgoing = b"",
        *,
        timeout: float,
        **fields: Unpack[MessageFields],
    ) -> Message:
        """Send a request and wait for its reply; after ``timeout`` seconds the request expires, too.

        The reply comes to a temporary queue, which is deleted with this client. Raises IoTimeout, and as ``send``.
        """
        driver = self._driver
        return await self.run(
            request.request(self._context, lambda: driver.session, handle_of(queue), body, timeout, fields)
        )

    async def reply(
        self, message: Message, body: bytes | str | Outgoing = b"", **fields: Unpack[MessageFields]
    ) -> Sent:
        """Send a reply to the response queue of a message, correlated by its message id.

        Raises MessageNotFound if it names no response queue, and QueueNotFound if that was deleted after the deadline.
        """
        return await self.run(request.reply(self._context, message, body, fields))

    def operator(self, name: str, *, source: str = "api") -> Operator:
        """The actions of an operator. The log of actions shows the name and the source: what the operator acts with.

        Raises InvalidArgument.
        """
        from mqredis.asyncio.operator import Operator

        return Operator(self, name, source)

    # ---- the manager -----------------------------------------------------------------------------

    async def info(self) -> ManagerInfo:
        """State of the queue manager."""
        return await self.run(manager.info(self._context))

    async def throttle(self, on: bool) -> None:
        """Begin or end flow control (3.1.7.2.5-6): while on, every send raises ManagerQuotaExceeded."""
        await self.run(manager.throttle(self._context, on))

    async def set_quota(self, messages: int | None = None, bytes: int | None = None) -> None:
        """Quota over all queues of the manager; None: no limit."""
        await self.run(manager.set_quota(self._context, messages, bytes))

    async def advance_clock(self, seconds: float) -> None:
        """Move the clock of a manager created with ``Settings(test_clock=True)``. Raises AccessDenied otherwise."""
        await self.run(manager.advance_clock(self._context, seconds))
        self._driver.notify_all()

    async def doctor(self, repair: bool = False) -> Report:
        """Check every invariant of the store and the server's settings. ``repair`` repairs what can be repaired
        without loss.

        ``findings`` are broken invariants, ``advice`` the rest. Looks at every message: a minute or two for a million.
        """
        from mqredis.operations import doctor

        return await self.run(doctor.examine(self._context, repair))

    async def maintain(self) -> int:
        """Serve the due timers of every queue: expiries, delays, lapsed leases. Also deletes the reply queues of ended
        sessions and empty subqueues. Returns the number of calls made for that, without those that list what is due."""
        return await self.run(manager.maintain(self._context))

    async def close(self) -> None:
        """Abort open transactions, give locked messages back, close the handles, the session and the connections."""
        try:
            if shutdown.holds_anything(self._context):
                with suppress(MqError):
                    await self.run(shutdown.shut_down(self._context))
        finally:
            await self._driver.close()
            for opened in self._context.open_handles():
                opened.close()  # so that closing a queue after its client does nothing

    # ---- for integrations (docs/extending.md) -----------------------------------------------------

    @property
    def driver(self) -> AsyncDriver:
        """The driver: the session, the connections and the waits of this client."""
        return self._driver

    @property
    def context(self) -> Context:
        """The state that the operations of this client share."""
        return self._context

    def run(self, operation: Operation[R]) -> Coroutine[Any, Any, R]:
        """Run an operation of ``mqredis.operations``. Raises what the operation raises."""
        if self._wrapper is not None:
            operation = self._wrapper(operation)
        return self._driver.run(operation)

    def wrap(self, wrapper: Callable[[Operation[Any]], Operation[Any]] | None) -> None:
        """From now on run ``wrapper(operation)`` in place of each operation. None ends that."""
        self._wrapper = wrapper

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __reduce__(self) -> NoReturn:
        raise InvalidArgument(
            f"{self!r} cannot be pickled or copied, since it holds connections: connect in the process that uses it"
        )

    def __repr__(self) -> str:
        return f"<QueueManager {self.name!r}>"
