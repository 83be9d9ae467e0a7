"""Runs the handler of a consumer, with its lease and its time limit.

``run`` makes one for each consumer, and the loops of that consumer call it in their threads. ``otel.patches`` wraps
``Attempts.run``, reads ``consumer``, and passes positional arguments only. Each attempt that ends changes a counter of
its consumer, unless its messages were lost, or given back without a failure: by these, a burst knows when it is over.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from mqredis.client import Transaction
from mqredis.errors import InvalidArgument, TransactionSequence
from mqredis.handles import Handles
from mqredis.models import Message
from mqredis.worker.consumer import Consumer
from mqredis.worker.event_loop import EventLoop
from mqredis.worker.failed_attempts import FailedAttempts
from mqredis.worker.held_messages import HeldMessages
from mqredis.worker.lease_renewer import Handling, LeaseRenewer
from mqredis.worker.outcomes import (
    BROKER_ERRORS,
    Cancelled,
    GivenUp,
    HandlerCancelled,
    TimeLimitExceeded,
    accept_lower_durability,
)
from mqredis.worker.unit import AsyncUnit, Unit

log = logging.getLogger("mqredis.worker")


class Attempts:
    """The attempts to handle messages of one consumer. Its attributes do not change; its parts have their own locks."""

    def __init__(
        self,
        consumer: Consumer,
        lease: float,
        failed: FailedAttempts,
        *,
        targets: Handles,
        renewer: LeaseRenewer,
        event_loop: EventLoop,
    ) -> None:
        self.consumer = consumer
        self._lease = lease
        self._failed = failed
        self._targets = targets
        self._renewer = renewer
        self._event_loop = event_loop

    def unit(self, messages: Sequence[Message], transaction: Transaction | None) -> Unit:
        """The unit of work for a run of the handler; None: the messages are locked, not received in a transaction."""
        return Unit(self._targets, messages, transaction)

    def accept(
        self, messages: Sequence[Message]
    ) -> tuple[list[Message], list[Any], list[tuple[Message, Exception]]]:
        """Split messages: those that can be handled, the argument for each, and the others, each with its error."""
        good: list[Message] = []
        arguments: list[Any] = []
        bad: list[tuple[Message, Exception]] = []
        for message in messages:
            try:
                arguments.append(self.consumer.payload.convert(message))
                good.append(message)
            except Exception as error:  # noqa: BLE001 - the application's own type may raise anything
                self._failed.count(error, [message])
                bad.append((message, error))
        return good, arguments, bad

    def run(
        self,
        unit: Unit,
        arguments: list[Any],
        renew: Callable[[], object],
        commit: Callable[[], None],
        give_up: Callable[[str], None],
    ) -> BaseException | None:
        """Run the handler, then ``commit``. Returns the error of the attempt, which is counted, None if it succeeded.

        If the handler is cancelled and does not end, ``give_up`` gives its messages back meanwhile, as its argument
        says, and the error is GivenUp. The thread of the renewer calls it, and ``renew``. Raises the error of a commit,
        or of a send of the unit, that failed because the broker cannot do anything at the moment.
        """
        consumer, begun = self.consumer, time.monotonic()

        def overdue(reason: Exception) -> None:
            log.warning(
                "%s still runs with message %s, %.1f s after its start: %s; a call that blocks, or a coroutine that "
                "ignores its cancellation, cannot be interrupted, so the message is given back now, and the handler's "
                "result will not count",
                consumer.name,
                ", ".join(f"{message.lookup_id:#018x}" for message in unit.messages),
                time.monotonic() - begun,
                reason,
            )
            self._failed.count(_from_handler(reason, consumer.handler), unit.messages)
            give_up(self._failed.return_instruction(reason, unit.messages))

        held = HeldMessages(
            renew,
            self._lease,
            max_hold=consumer.max_hold,
            time_limit=consumer.time_limit,
            on_cancel=unit._lose,
            on_overdue=overdue,
        )
        self._renewer.add(held, Handling(consumer, unit.messages, begun))
        try:
            error = self._call_handler(held, unit, arguments)
            if not held.end():
                seconds = time.monotonic() - begun
                log.warning("%s has ended at last, %.1f s after its start: %r", consumer.name, seconds, error)
                return GivenUp()
            if unit.broker_error is not None and error is unit.broker_error:
                raise unit.broker_error
            error = error or _commit(commit)
        finally:
            self._renewer.remove(held)
        if isinstance(error, TransactionSequence):
            log.warning("%s lost its message before the commit: %s", consumer.name, error)
            return Cancelled(str(error))
        if error is None:
            consumer.count(handled=len(unit.messages))
        else:
            self._failed.count(error, unit.messages, lapsed=time.monotonic() > held.until)
        return error

    def _call_handler(self, held: HeldMessages, unit: Unit, arguments: list[Any]) -> BaseException | None:
        """Run the handler. Returns what it raised, or why it was cancelled; None if it succeeded."""
        consumer = self.consumer
        try:
            argument = arguments if consumer.payload.many else arguments[0]
            if consumer.is_async:
                tx = AsyncUnit(unit)
                arguments = [argument, tx] if consumer.takes_tx else [argument]
                loop, thread = self._event_loop.get()
                held.run_async(tx._run(consumer.handler, *arguments), loop, thread.ident)
            else:
                given = (argument, unit) if consumer.takes_tx else (argument,)
                self._run_plain(held, *given)
            if held.reason is not None:
                raise Cancelled(str(held.reason))
        except (Cancelled, asyncio.CancelledError) as cancelled:
            if held.reason is None:  # a failure, or else the message would come back at once, for ever
                error = RuntimeError("the handler ended as cancelled, although nobody cancelled it")
                error.__cause__ = cancelled
                return error
            if isinstance(held.reason, TimeLimitExceeded | HandlerCancelled):
                return held.reason
            log.warning("%s was cancelled: %s", consumer.name, held.reason)
            return Cancelled(str(held.reason))
        except Exception as error:  # noqa: BLE001 - whatever a handler raises is its failure, not ours
            return _from_handler(error, consumer.handler)
        return None

    def _run_plain(self, held: HeldMessages, *given: Any) -> None:
        """Run a handler that is no coroutine function. Raises InvalidArgument if it returns what has not run yet."""
        answer = held.run(self.consumer.handler, *given)
        if inspect.iscoroutine(answer):
            answer.close()
            raise InvalidArgument(
                f"{self.consumer.name} is a plain function that returned a coroutine, which was not run: "
                "write it as `async def`, and await the coroutine there"
            )
        if inspect.isgenerator(answer) or inspect.isasyncgen(answer):
            raise InvalidArgument(
                f"{self.consumer.name} returned a generator, which was not run: call a function without `yield` there"
            )


def _commit(commit: Callable[[], None]) -> Exception | None:
    """Commit the work of a handler. Returns the error if a message that it has sent is refused.

    Raises the error of a broker that cannot do anything at the moment.
    """
    try:
        accept_lower_durability(commit)
    except BROKER_ERRORS:
        raise
    except Exception as error:  # noqa: BLE001 - the handler sent what cannot be sent: its failure
        return error
    return None


def _from_handler(error: Exception, handler: Callable[..., Any]) -> Exception:
    """The error, with a traceback that begins in the handler: without the frames of the worker that called it."""
    code, frames = getattr(handler, "__code__", None), error.__traceback__
    while frames is not None and frames.tb_frame.f_code is not code:
        frames = frames.tb_next
    return error if frames is None else error.with_traceback(frames)
