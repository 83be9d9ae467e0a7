# mqredis/client/operator.py is generated from this file: run `make format` after a change.
"""Actions of operators on queues, messages, workers and schedules.

``QueueManager.operator`` makes it; the console (``console.actions``) and the command line (``cli.operator``,
``cli.schedules``) act through it. ``operations.bulk`` says what a new action needs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING, Any, Unpack

from mqredis.commands.bulk import Action
from mqredis.keys import DEAD_LETTER, TRASH
from mqredis.models import Outgoing
from mqredis.models.operator import BulkResult, Choice
from mqredis.operations import actions, bulk, force, schedules, workers

if TYPE_CHECKING:
    from mqredis.asyncio.manager import QueueManager


class Operator:
    """Actions of a named operator (``QueueManager.operator``). Each is written to the queue ``system$;actions``.

    The actions on messages take the keyword arguments of :class:`mqredis.models.operator.Choice`: which messages, how
    many, and how far one call goes. They change messages that wait, available or delayed. A message that a reader or a
    transaction holds, or that comes after an action has begun, stays as it is. An action is one atomic step of the
    broker for up to 256 messages, and several such steps for more.

    They raise InvalidArgument, MatchOptionsError, SelectorSyntaxError, InvalidName, QueueNotFound, QueueNotAvailable,
    and UnsupportedAccess where messages of the queue cannot be changed so (those of a journal, or kept by the broker).
    """

    def __init__(self, manager: QueueManager, name: str, source: str = "api") -> None:
        self._manager = manager
        self._author = actions.author(name, source)

    @property
    def name(self) -> str:
        """Name of the operator, as the log shows it."""
        return self._author.name

    async def count(self, queue: str, **choice: Unpack[Choice]) -> BulkResult:
        """Count the messages that another action with this choice would change. Writes nothing to the log."""
        return await self._bulk(queue, Action("count"), choice)

    async def delete(self, queue: str, *, trash: float | None = None, **choice: Unpack[Choice]) -> BulkResult:
        """Delete messages. ``trash``: keep them in the subqueue ``;trash`` for so many seconds; ``restore`` moves them
        back."""
        return await self._bulk(queue, bulk.trash_or_delete(trash), choice)

    async def cancel(self, queue: str, *, trash: float | None = None, **choice: Unpack[Choice]) -> BulkResult:
        """Delete delayed messages before they become available. ``trash`` as for ``delete``."""
        choice.setdefault("scheduled", True)
        return await self._bulk(queue, bulk.trash_or_delete(trash), choice, "cancel")

    async def restore(self, queue: str, **choice: Unpack[Choice]) -> BulkResult:
        """Move messages from the subqueue ``;trash`` back to their places in ``queue`` and its subqueues."""
        return await self._bulk(f"{queue};{TRASH}", bulk.restoring(queue), choice)

    async def move(self, source: str, target: str, **choice: Unpack[Choice]) -> BulkResult:
        """Move available messages between a queue and its subqueues. A missing subqueue is created."""
        return await self._bulk(source, bulk.moving(target), choice)

    async def redrive(
        self, source: str = DEAD_LETTER, *, to: str | None = None, **choice: Unpack[Choice]
    ) -> BulkResult:
        """Send dead letters, journal copies or poison messages back to where they came from, or to the queue ``to``.

        A message whose queue is gone, full or closed for sending stays where it is, and is not counted.
        """
        return await self._bulk(source, bulk.redriving(to), choice)

    async def reschedule(
        self,
        queue: str,
        *,
        delay: float | None = None,
        at: datetime | None = None,
        **choice: Unpack[Choice],
    ) -> BulkResult:
        """Make delayed messages available ``delay`` seconds from now, or at a time.

        ``scheduled=None`` or ``False`` holds back available messages, too, or only these.
        """
        choice.setdefault("scheduled", True)
        return await self._bulk(queue, bulk.due(delay, at), choice, "reschedule")

    async def run_now(self, queue: str, **choice: Unpack[Choice]) -> BulkResult:
        """Make delayed messages available at once."""
        choice.setdefault("scheduled", True)
        return await self._bulk(queue, bulk.due(0.0, None), choice, "run_now")

    async def change_priority(self, queue: str, priority: int, **choice: Unpack[Choice]) -> BulkResult:
        """Give messages another priority, from 0 to 7. Each gets the lookup id that belongs to it: the first of its
        eight bytes is 7 less the priority. The message id stays.

        Raises TransactionUsage for a transactional queue, whose messages are in the order of their sends.
        """
        operation = bulk.change_priority(self._manager.context, self._author, queue, priority, choice)
        return await self._manager.run(operation)

    # ---- locks and transactions ------------------------------------------------------------------

    async def release(
        self, queue: str, lookup_ids: Sequence[int], *, reject: str | None = None, token: str | None = None
    ) -> BulkResult:
        """End the locks of readers on these messages, at most 256: the messages are given back as after a failed
        attempt, or are rejected for the reason ``reject``.

        A reader that had such a lock gets LockLost when it settles or renews the lock; a worker cancels its handler at
        the next renewal. A message of a transaction or a data pipeline stays and counts as ``locked``; one that is not
        locked counts as ``missing``.
        """
        operation = force.release(self._manager.context, self._author, queue, lookup_ids, reject, token)
        return await self._manager.run(operation)

    async def abort(self, transaction: str, *, token: str | None = None) -> None:
        """Abort an open transaction by its id: messages that it sent are deleted, and those that it received return.

        The client that had begun it gets TransactionSequence. Raises TransactionSequence if no transaction with this id
        is open.
        """
        await self._manager.run(force.abort(self._manager.context, self._author, transaction, token))

    # ---- workers ---------------------------------------------------------------------------------

    async def pause(
        self,
        queue: str | None = None,
        *,
        consumer: str | None = None,
        reason: str = "",
        token: str | None = None,
    ) -> None:
        """Pause a queue for all workers, or the consumers of this name, until ``resume``.

        Workers learn of it with their next heartbeat (``Worker(heartbeat_seconds=)``). What their handlers have begun
        they finish; messages that they locked ahead are given back. Other readers are not concerned: the property
        ``get_inhibited`` refuses those. Raises InvalidArgument.
        """
        await self._manager.run(
            workers.pause(self._manager.context, self._author, queue, consumer, reason, token)
        )

    async def resume(
        self, queue: str | None = None, *, consumer: str | None = None, token: str | None = None
    ) -> bool:
        """End a pause. False if there was none."""
        return await self._manager.run(
            workers.resume(self._manager.context, self._author, queue, consumer, token)
        )

    async def stop_worker(self, worker: str, *, token: str | None = None) -> None:
        """Ask the worker with this ``WorkerInfo.id`` to stop, as SIGTERM does. It gets the order with its next
        heartbeat.

        Raises InvalidArgument if no such worker lives.
        """
        await self._manager.run(workers.stop(self._manager.context, self._author, worker, token))

    async def cancel_handler(self, worker: str, lookup_id: int, *, token: str | None = None) -> None:
        """Ask a worker to cancel the handler that has this message. That is a failed attempt of the message.

        The worker learns of it with its next heartbeat. Raises InvalidArgument if no such worker lives.
        """
        await self._manager.run(workers.cancel(self._manager.context, self._author, worker, lookup_id, token))

    # ---- schedules -------------------------------------------------------------------------------

    async def create_schedule(
        self,
        name: str,
        when: str | float,
        queue: str,
        body: bytes | str | Outgoing = b"",
        *,
        timezone: str | tzinfo = "UTC",
        paused: bool = False,
        token: str | None = None,
        **fields: Any,
    ) -> None:
        """Create a schedule: any running worker sends a message to ``queue`` at the times of ``when``, once each.

        ``when``: a cron expression ("0 3 * * mon-fri"), or seconds between two times. ``timezone``: of the expression,
        such as "Europe/Berlin". ``paused``: it sends nothing until ``resume_schedule``. ``body``: of the message, whose
        ``fields`` are those of Outgoing; or an Outgoing. A worker learns of the schedule within 5 seconds. Times at
        which no worker ran are made up for by one message.

        Raises ScheduleExists, QueueNotFound; InvalidArgument for a wrong expression, an unknown time zone, a body of
        more than 4096 bytes and the 1001st schedule; NotSupported for a topic; MissingDependency for an expression
        without the extra "worker".
        """
        wanted = schedules.Wanted.of(name, when, queue, body, fields, timezone)
        await self._manager.run(schedules.create(self._manager.context, self._author, wanted, paused, token))

    async def pause_schedule(self, name: str, *, token: str | None = None) -> bool:
        """Pause a schedule until it is resumed. False if it was paused. Raises ScheduleNotFound."""
        return await self._manager.run(schedules.pause(self._manager.context, self._author, name, token))

    async def resume_schedule(self, name: str, *, token: str | None = None) -> bool:
        """Resume a paused schedule at its next time. False if it was not paused.

        Times that have passed meanwhile are not made up for. Raises ScheduleNotFound.
        """
        return await self._manager.run(schedules.resume(self._manager.context, self._author, name, token))

    async def trigger_schedule(self, name: str, *, token: str | None = None) -> None:
        """Send the message of a schedule now, even if it is paused. Its next time does not change.

        Raises ScheduleNotFound, ScheduleDamaged, and what a send raises: QueueNotFound, PutInhibited,
        QueueQuotaExceeded and others.
        """
        await self._manager.run(schedules.trigger(self._manager.context, self._author, name, token))

    async def remove_schedule(self, name: str, *, token: str | None = None) -> None:
        """Remove a schedule. Messages that it has sent stay in their queues.

        Raises ScheduleNotFound, and ScheduleDeclared while a worker runs whose code declares it.
        """
        await self._manager.run(schedules.remove(self._manager.context, self._author, name, token))

    # ---- other actions ---------------------------------------------------------------------------

    async def begin(
        self, action: str, queue: str | None = None, *, token: str, details: Mapping[str, Any] | None = None
    ) -> dict[str, Any] | None:
        """Log that this operator begins an action that other calls carry out, such as a change of a queue.

        None: carry it out, and tell ``end`` what came of it. If an action with this name, queue and token has begun
        within the last day, nothing is written: the answer is the outcome that ``end`` was told, or {} if the action
        has not ended. ``details`` can be written as JSON; of more than 3,000 bytes the end is cut off.
        Raises InvalidArgument.
        """
        operation = actions.begin(self._manager.context, self._author, action, queue, token, details)
        return await self._manager.run(operation)

    async def end(
        self,
        action: str,
        queue: str | None = None,
        *,
        token: str,
        outcome: Mapping[str, Any],
        changed: int = 0,
    ) -> None:
        """Log the outcome of an action: {"result": text}, or {"error": text} if it failed.

        ``changed``: how many messages it has changed.

        Action, queue and token are those that ``begin`` was given. Raises InvalidArgument, also for an outcome of more
        than 3,000 bytes.
        """
        await self._manager.run(
            actions.end(self._manager.context, self._author, action, queue, token, outcome, changed)
        )

    async def _bulk(self, queue: str, action: Action, choice: Choice, title: str = "") -> BulkResult:
        operation = bulk.bulk(self._manager.context, self._author, queue, action, choice, title)
        return await self._manager.run(operation)
