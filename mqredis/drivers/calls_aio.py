# mqredis/drivers/calls.py is generated from this file: run `make format` after a change.
"""The work of a driver: steps of operations, tries of calls, plain commands and the session.

``mqredis.drivers.aio`` has the subclass. ``durable_calls_aio`` and the waits (``waits_aio``) call its methods,
integrations ``command`` and ``clock_ms`` (docs/extending.md), and, in asyncio, ``coalescing`` ``begin``, ``carry_out``
and ``end``. What is decided without input or output is in ``attempt``, ``core`` and ``greeting``, which both drivers
share.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from redis import exceptions as rx

from mqredis.drivers import durable_calls_aio
from mqredis.drivers.attempt import DONE, Attempt, Next, closing_call, opening_call
from mqredis.drivers.base import BaseDriver
from mqredis.drivers.durability import DurabilityWait
from mqredis.drivers.greeting import greet, refusal
from mqredis.drivers.net.pool_aio import AsyncBackend, AsyncConnection
from mqredis.drivers.net.redaction import redact
from mqredis.drivers.net.wire import REDIS_ERRORS, Fault, fault_of
from mqredis.drivers.session import Run
from mqredis.drivers.waiting.registry_aio import AsyncWaiterRegistry
from mqredis.errors import BrokerUnavailable, MqError
from mqredis.operations.durability.wrapper import durably
from mqredis.steps import (
    MORE,
    Call,
    Command,
    Durable,
    Interrupted,
    Listen,
    Operation,
    OutcomeKnown,
    Reply,
    Steps,
    TimeLimit,
    Wait,
)

R = TypeVar("R")


class AsyncCalls(BaseDriver):
    """The part of :class:`~mqredis.drivers.aio.AsyncDriver` that does not depend on how tasks share calls."""

    backend: AsyncBackend
    _waiters: AsyncWaiterRegistry
    _opening: Any

    # ---- operations ------------------------------------------------------------------------------

    async def run_alone(self, operation: Operation[R]) -> R:
        """Run an operation to its end, in a slot of its own. Raises what the operation raises."""
        run = await self.begin()
        try:
            return await self.carry_out(operation, run)
        finally:
            self.end(run)

    async def begin(self, deadline: float | None = None) -> Run:
        """Take a slot for an operation. ``deadline``: of its calls, on the monotonic clock (see :class:`Run`)."""
        while (session := self.core.session) is None:
            await self.open(deadline)
        return Run(session.take(), deadline)

    def end(self, run: Run) -> None:
        """Give the slot of an operation back."""
        run.slot.session.give(run.slot)
        if run.listening:
            self._waiters.table.registered_runs.discard(run)

    async def carry_out(self, operation: Operation[R], run: Run) -> R:
        """Carry out an operation in the slot of this run. The first call goes without a generator, but as
        ``Operation.make`` and ``Operation.__iter__`` (``mqredis.steps``) have it."""
        if self.level is not None:
            operation = durably(operation, self.level)
        call = operation.request()
        if call is None:
            return await self._steps(operation.resume(None), run)
        try:
            reply = await self.call(call, run)
        except MqError:
            raise
        except BaseException as raised:
            if run.interrupted(raised):
                await self._steps(operation.interrupted(call, run.unknown), run)
            raise
        result = operation.accept(reply)
        return (await self._steps(operation.resume(reply), run)) if result is MORE else result

    async def _steps(self, steps: Steps[R], run: Run) -> R:
        """Carry out the steps of an operation."""
        try:
            step = steps.send(None)
            while True:
                try:
                    answer = await (self.call(step, run) if type(step) is Call else self._step(step, run))
                except BaseException as raised:  # noqa: BLE001 - handed to the operation
                    run.interrupted(raised)
                    step = steps.throw(raised)
                else:
                    step = steps.send(answer)
        except StopIteration as stop:
            result: R = stop.value
            return result
        finally:
            steps.close()

    async def _step(self, step: Any, run: Run) -> Any:
        """Carry out a step that is no call. Returns its answer (the table in ``mqredis.steps``)."""
        if type(step) is Wait:
            return await self._waiters.wait(run, step)
        if type(step) is Listen:
            return await self._waiters.listen(run)
        if type(step) is Durable:
            return await durable_calls_aio.call_durably(self, step, run)
        if type(step) is Command:
            return await self._command(step)
        if type(step) is Interrupted:
            return run.unknown
        if type(step) is OutcomeKnown:
            return self.core.outcomes.resolved_by(run, step.token)
        if type(step) is TimeLimit:
            limit = step.seconds + self.settings.reply_timeout_seconds
            run.deadline = time.monotonic() + max(limit, self.settings.retry_seconds)
            return None
        raise TypeError(f"an operation yielded {step!r}")

    async def ask(self, operation: Operation[R]) -> R:
        """Run an operation that needs no session. Its steps are plain commands, and calls whose raw reply it reads
        itself."""
        steps, answer = iter(operation), None
        try:
            while True:
                step: Any = steps.send(answer)
                if type(step) is Command:
                    answer = await self._command(step)
                else:
                    answer = await self._attempts(Attempt(self.core, step, None))
        except StopIteration as stop:
            result: R = stop.value
            return result

    async def open(self, deadline: float | None = None) -> None:
        """Connect and open the session, unless that has happened."""
        if deadline is None:
            deadline = time.monotonic() + self.settings.retry_seconds
        self.core.check()
        if self.core.session is None:
            async with self._opening:
                if self.core.session is None:
                    await self._session_open(deadline)

    async def close(self) -> None:
        """End the waits and the session, and close every connection. A closed driver stays closed."""
        if self.core.closed:
            return
        self.core.closed = True
        try:
            await self._waiters.close()
            attempt = closing_call(self.core)
            if attempt is not None:
                with suppress(MqError):  # the session expires by itself
                    await self._attempts(attempt, patient=False)
        finally:
            await self.backend.close()

    # ---- plain commands --------------------------------------------------------------------------

    async def clock_ms(self) -> int:
        """The server's clock in milliseconds since 1970."""
        try:
            seconds, micros = await self.command("TIME")
        except REDIS_ERRORS as error:
            raise BrokerUnavailable(redact(error)) from None
        return int(seconds) * 1000 + int(micros) // 1000

    async def command(self, *args: str | bytes | int) -> Any:
        """Run a plain command that may be repeated; for probes and reports."""
        connection = await self.backend.acquire(time.monotonic() + self.settings.reply_timeout_seconds)
        try:
            reply = await connection.command(*args)
        except BaseException as error:
            await self._put_away(connection, error)
            raise
        await self.backend.release(connection)
        return reply

    async def _command(self, step: Command) -> Any:
        """Run a command. Returns its reply, or why it was refused. Tries again once, since an idle connection may be
        lost, or lead to a node that holds the key no more. Raises BrokerUnavailable."""
        tries = 2
        while True:
            try:
                return await self.command(*step.args)
            except REDIS_ERRORS as error:
                if (refused := refusal(error)) is not None:
                    return refused
                tries -= 1
                if not tries:
                    raise BrokerUnavailable(redact(error)) from None
                if fault_of(error) is Fault.MOVED:
                    with suppress(*REDIS_ERRORS):  # the next try says what is wrong
                        await self.backend.rediscover()

    # ---- calls -----------------------------------------------------------------------------------

    def call(
        self, call: Call[Any], run: Run, wait: DurabilityWait | None = None
    ) -> Coroutine[Any, Any, Reply]:
        """Make a call in the slot of this run, with as many tries as it takes. ``wait``: the wait for its
        durability."""
        if run.listening:
            run.keys = call.keys
        return self._attempts(Attempt(self.core, call, run, wait))

    async def _attempts(self, attempt: Attempt, patient: bool = True) -> Reply:
        """Make all tries of a call. ``patient`` False: one try, and a second one if the script had to be loaded."""
        backend = self.backend
        try:
            while True:
                request = attempt.packed()
                connection: AsyncConnection | None = None
                try:
                    if attempt.detour is not None:
                        connection = await self._detour(attempt)
                    elif attempt.wait is None:
                        connection = backend.take() or await backend.acquire(attempt.deadline)
                    else:  # the wait of one call must not hold up others on its connection
                        connection = await backend.acquire(attempt.deadline, alone=True)
                    reply = None
                    step = attempt.ready(
                        connection.run_id if connection.run_id is not None else await self._greet(connection)
                    )
                    if step is DONE:
                        request = request or attempt.bare(connection.address)
                        attempt.sent = True
                        reply = await connection.exchange(request)
                        if attempt.wait is not None:
                            await durable_calls_aio.wait_for_durability(
                                connection, attempt, attempt.wait, reply
                            )
                except BaseException as error:
                    if connection is not None:
                        await self._put_away(connection, error, attempt.wait is not None)
                    if isinstance(error, MqError) or not isinstance(error, REDIS_ERRORS):
                        raise  # BrokerUnavailable is an OSError, too
                    step = attempt.failed(error)
                else:
                    if not backend.give(connection):
                        await backend.discard(connection)
                    if step is DONE and (step := attempt.answered(reply)) is DONE:
                        return attempt.result
                if not patient and step is not Next.LOAD:
                    return attempt.result
                await self._prepare(attempt, step)
                attempt.sent = False
        except MqError as error:
            raise attempt.final(error) from None
        except BaseException:
            attempt.abandon()
            raise

    async def _detour(self, attempt: Attempt) -> AsyncConnection:
        """A connection, for one request, to the node to which the slot is moving now."""
        connection = await self.backend.acquire(attempt.deadline, attempt.detour, attempt.wait is not None)
        try:
            connection.run_id = self.core.run_id
            # The user may not load scripts, so the deploy step has loaded it.
            with suppress(rx.NoPermissionError):
                await connection.command(*self.core.forms.get(attempt.call.script).load)
            await connection.command("ASKING")
        except BaseException:
            await self.backend.discard(connection)
            raise
        return connection

    async def _put_away(
        self, connection: AsyncConnection, error: BaseException, waiting: bool = False
    ) -> None:
        """Give back or close a connection on which a try has failed. ``waiting``: a reply of WAIT may still come."""
        if not isinstance(error, REDIS_ERRORS):  # the caller was cancelled or interrupted
            await self.backend.abandon(connection)
        elif fault_of(error) in (Fault.LOST, Fault.MOVED):
            await self.backend.lose(connection)
        elif not connection.connected or waiting:
            await self.backend.discard(connection)
        else:
            await self.backend.release(connection)

    async def _prepare(self, attempt: Attempt, step: Next) -> None:
        """Do what has to be done before the next try."""
        if step is Next.LOAD:
            await self._load(attempt)
        elif step is Next.RENEW:
            await self.open(attempt.deadline)
            old = attempt.renew()
            if old is not None and attempt.run is not None:
                await self._waiters.redirect(attempt.run, old)
        elif step is Next.TOUCH:
            async with self._opening:
                if self.core.away or attempt.server != self.core.run_id:
                    await self._session_open(attempt.deadline)
            if attempt.wait is not None:
                await durable_calls_aio.renew_wait_command(self, attempt, attempt.wait)
        elif step is Next.PAUSE:
            await asyncio.sleep(attempt.next_pause())
            if attempt.rediscover:
                try:
                    await self.backend.rediscover()
                except REDIS_ERRORS:
                    return  # the next try says what is wrong

    async def _load(self, attempt: Attempt) -> None:
        """Load the script. After a failure the next try gets NOSCRIPT again, until the deadline."""
        try:
            await self.command(*self.core.forms.get(attempt.call.script).load)
        except REDIS_ERRORS as error:
            await self._prepare(attempt, attempt.failed_load(error))

    # ---- session ---------------------------------------------------------------------------------

    async def _greet(self, connection: AsyncConnection) -> str:
        """Learn about the server behind a new connection. Returns its run_id."""
        async with connection.greeting:
            if connection.run_id is not None:
                return connection.run_id  # another call has greeted it meanwhile
            questions, reply = iter(greet(self.core, self.backend.memory)), None
            try:
                while True:
                    step: Any = questions.send(reply)
                    try:
                        reply = await connection.command(*step.args)
                    except REDIS_ERRORS as error:
                        if (reply := refusal(error)) is None:
                            raise  # the next try asks again
            except StopIteration as stop:
                connection.run_id = run_id = str(stop.value)
                return run_id

    async def _session_open(self, deadline: float) -> None:
        """Open a session, or renew the present one at a restarted server."""
        attempt = opening_call(self.core, deadline)
        while True:
            _, reply = await self._attempts(attempt)
            if self.settings.read_only:
                return self.core.observe(reply, attempt.server)
            if self.core.adopt(reply, attempt.server):
                return None
