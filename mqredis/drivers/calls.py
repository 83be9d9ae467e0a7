# Generated from mqredis/drivers/calls_aio.py by tools/generate_blocking.py. Do not edit: run `make format`.
"""The work of a driver: steps of operations, tries of calls, plain commands and the session.

``mqredis.drivers.sync`` has the subclass. ``durable_calls`` and the waits (``waits``) call its methods,
integrations ``command`` and ``clock_ms`` (docs/extending.md), and, in threads, ``coalescing`` ``begin``, ``carry_out``
and ``end``. What is decided without input or output is in ``attempt``, ``core`` and ``greeting``, which both drivers
share.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any, TypeVar

from redis import exceptions as rx

from mqredis.drivers import durable_calls
from mqredis.drivers.attempt import DONE, Attempt, Next, closing_call, opening_call
from mqredis.drivers.base import BaseDriver
from mqredis.drivers.durability import DurabilityWait
from mqredis.drivers.greeting import greet, refusal
from mqredis.drivers.net.pool import Backend, Connection
from mqredis.drivers.net.redaction import redact
from mqredis.drivers.net.wire import REDIS_ERRORS, Fault, fault_of
from mqredis.drivers.session import Run
from mqredis.drivers.waiting.registry import WaiterRegistry
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


class Calls(BaseDriver):
    """The part of :class:`~mqredis.drivers.sync.Driver` that does not depend on how tasks share calls."""

    backend: Backend
    _waiters: WaiterRegistry
    _opening: Any

    # ---- operations ------------------------------------------------------------------------------

    def run(self, operation: Operation[R]) -> R:
        """Run an operation to its end, in a slot of its own. Raises what the operation raises."""
        run = self.begin()
        try:
            return self.carry_out(operation, run)
        finally:
            self.end(run)

    def begin(self, deadline: float | None = None) -> Run:
        """Take a slot for an operation. ``deadline``: of its calls, on the monotonic clock (see :class:`Run`)."""
        while (session := self.core.session) is None:
            self.open(deadline)
        return Run(session.take(), deadline)

    def end(self, run: Run) -> None:
        """Give the slot of an operation back."""
        run.slot.session.give(run.slot)
        if run.listening:
            self._waiters.table.registered_runs.discard(run)

    def carry_out(self, operation: Operation[R], run: Run) -> R:
        """Carry out an operation in the slot of this run. The first call goes without a generator, but as
        ``Operation.make`` and ``Operation.__iter__`` (``mqredis.steps``) have it."""
        if self.level is not None:
            operation = durably(operation, self.level)
        call = operation.request()
        if call is None:
            return self._steps(operation.resume(None), run)
        try:
            reply = self.call(call, run)
        except MqError:
            raise
        except BaseException as raised:
            if run.interrupted(raised):
                self._steps(operation.interrupted(call, run.unknown), run)
            raise
        result = operation.accept(reply)
        return (self._steps(operation.resume(reply), run)) if result is MORE else result

    def _steps(self, steps: Steps[R], run: Run) -> R:
        """Carry out the steps of an operation."""
        try:
            step = steps.send(None)
            while True:
                try:
                    answer = self.call(step, run) if type(step) is Call else self._step(step, run)
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

    def _step(self, step: Any, run: Run) -> Any:
        """Carry out a step that is no call. Returns its answer (the table in ``mqredis.steps``)."""
        if type(step) is Wait:
            return self._waiters.wait(run, step)
        if type(step) is Listen:
            return self._waiters.listen(run)
        if type(step) is Durable:
            return durable_calls.call_durably(self, step, run)
        if type(step) is Command:
            return self._command(step)
        if type(step) is Interrupted:
            return run.unknown
        if type(step) is OutcomeKnown:
            return self.core.outcomes.resolved_by(run, step.token)
        if type(step) is TimeLimit:
            limit = step.seconds + self.settings.reply_timeout_seconds
            run.deadline = time.monotonic() + max(limit, self.settings.retry_seconds)
            return None
        raise TypeError(f"an operation yielded {step!r}")

    def ask(self, operation: Operation[R]) -> R:
        """Run an operation that needs no session. Its steps are plain commands, and calls whose raw reply it reads
        itself."""
        steps, answer = iter(operation), None
        try:
            while True:
                step: Any = steps.send(answer)
                if type(step) is Command:
                    answer = self._command(step)
                else:
                    answer = self._attempts(Attempt(self.core, step, None))
        except StopIteration as stop:
            result: R = stop.value
            return result

    def open(self, deadline: float | None = None) -> None:
        """Connect and open the session, unless that has happened."""
        if deadline is None:
            deadline = time.monotonic() + self.settings.retry_seconds
        self.core.check()
        if self.core.session is None:
            with self._opening:
                if self.core.session is None:
                    self._session_open(deadline)

    def close(self) -> None:
        """End the waits and the session, and close every connection. A closed driver stays closed."""
        if self.core.closed:
            return
        self.core.closed = True
        try:
            self._waiters.close()
            attempt = closing_call(self.core)
            if attempt is not None:
                with suppress(MqError):  # the session expires by itself
                    self._attempts(attempt, patient=False)
        finally:
            self.backend.close()

    # ---- plain commands --------------------------------------------------------------------------

    def clock_ms(self) -> int:
        """The server's clock in milliseconds since 1970."""
        try:
            seconds, micros = self.command("TIME")
        except REDIS_ERRORS as error:
            raise BrokerUnavailable(redact(error)) from None
        return int(seconds) * 1000 + int(micros) // 1000

    def command(self, *args: str | bytes | int) -> Any:
        """Run a plain command that may be repeated; for probes and reports."""
        connection = self.backend.acquire(time.monotonic() + self.settings.reply_timeout_seconds)
        try:
            reply = connection.command(*args)
        except BaseException as error:
            self._put_away(connection, error)
            raise
        self.backend.release(connection)
        return reply

    def _command(self, step: Command) -> Any:
        """Run a command. Returns its reply, or why it was refused. Tries again once, since an idle connection may be
        lost, or lead to a node that holds the key no more. Raises BrokerUnavailable."""
        tries = 2
        while True:
            try:
                return self.command(*step.args)
            except REDIS_ERRORS as error:
                if (refused := refusal(error)) is not None:
                    return refused
                tries -= 1
                if not tries:
                    raise BrokerUnavailable(redact(error)) from None
                if fault_of(error) is Fault.MOVED:
                    with suppress(*REDIS_ERRORS):  # the next try says what is wrong
                        self.backend.rediscover()

    # ---- calls -----------------------------------------------------------------------------------

    def call(self, call: Call[Any], run: Run, wait: DurabilityWait | None = None) -> Reply:
        """Make a call in the slot of this run, with as many tries as it takes. ``wait``: the wait for its
        durability."""
        if run.listening:
            run.keys = call.keys
        return self._attempts(Attempt(self.core, call, run, wait))

    def _attempts(self, attempt: Attempt, patient: bool = True) -> Reply:
        """Make all tries of a call. ``patient`` False: one try, and a second one if the script had to be loaded."""
        backend = self.backend
        try:
            while True:
                request = attempt.packed()
                connection: Connection | None = None
                try:
                    if attempt.detour is not None:
                        connection = self._detour(attempt)
                    elif attempt.wait is None:
                        connection = backend.take() or backend.acquire(attempt.deadline)
                    else:  # the wait of one call must not hold up others on its connection
                        connection = backend.acquire(attempt.deadline, alone=True)
                    reply = None
                    step = attempt.ready(
                        connection.run_id if connection.run_id is not None else self._greet(connection)
                    )
                    if step is DONE:
                        request = request or attempt.bare(connection.address)
                        attempt.sent = True
                        reply = connection.exchange(request)
                        if attempt.wait is not None:
                            durable_calls.wait_for_durability(connection, attempt, attempt.wait, reply)
                except BaseException as error:
                    if connection is not None:
                        self._put_away(connection, error, attempt.wait is not None)
                    if isinstance(error, MqError) or not isinstance(error, REDIS_ERRORS):
                        raise  # BrokerUnavailable is an OSError, too
                    step = attempt.failed(error)
                else:
                    if not backend.give(connection):
                        backend.discard(connection)
                    if step is DONE and (step := attempt.answered(reply)) is DONE:
                        return attempt.result
                if not patient and step is not Next.LOAD:
                    return attempt.result
                self._prepare(attempt, step)
                attempt.sent = False
        except MqError as error:
            raise attempt.final(error) from None
        except BaseException:
            attempt.abandon()
            raise

    def _detour(self, attempt: Attempt) -> Connection:
        """A connection, for one request, to the node to which the slot is moving now."""
        connection = self.backend.acquire(attempt.deadline, attempt.detour, attempt.wait is not None)
        try:
            connection.run_id = self.core.run_id
            # The user may not load scripts, so the deploy step has loaded it.
            with suppress(rx.NoPermissionError):
                connection.command(*self.core.forms.get(attempt.call.script).load)
            connection.command("ASKING")
        except BaseException:
            self.backend.discard(connection)
            raise
        return connection

    def _put_away(self, connection: Connection, error: BaseException, waiting: bool = False) -> None:
        """Give back or close a connection on which a try has failed. ``waiting``: a reply of WAIT may still come."""
        if not isinstance(error, REDIS_ERRORS):  # the caller was cancelled or interrupted
            self.backend.abandon(connection)
        elif fault_of(error) in (Fault.LOST, Fault.MOVED):
            self.backend.lose(connection)
        elif not connection.connected or waiting:
            self.backend.discard(connection)
        else:
            self.backend.release(connection)

    def _prepare(self, attempt: Attempt, step: Next) -> None:
        """Do what has to be done before the next try."""
        if step is Next.LOAD:
            self._load(attempt)
        elif step is Next.RENEW:
            self.open(attempt.deadline)
            old = attempt.renew()
            if old is not None and attempt.run is not None:
                self._waiters.redirect(attempt.run, old)
        elif step is Next.TOUCH:
            with self._opening:
                if self.core.away or attempt.server != self.core.run_id:
                    self._session_open(attempt.deadline)
            if attempt.wait is not None:
                durable_calls.renew_wait_command(self, attempt, attempt.wait)
        elif step is Next.PAUSE:
            time.sleep(attempt.next_pause())
            if attempt.rediscover:
                try:
                    self.backend.rediscover()
                except REDIS_ERRORS:
                    return  # the next try says what is wrong

    def _load(self, attempt: Attempt) -> None:
        """Load the script. After a failure the next try gets NOSCRIPT again, until the deadline."""
        try:
            self.command(*self.core.forms.get(attempt.call.script).load)
        except REDIS_ERRORS as error:
            self._prepare(attempt, attempt.failed_load(error))

    # ---- session ---------------------------------------------------------------------------------

    def _greet(self, connection: Connection) -> str:
        """Learn about the server behind a new connection. Returns its run_id."""
        with connection.greeting:
            if connection.run_id is not None:
                return connection.run_id  # another call has greeted it meanwhile
            questions, reply = iter(greet(self.core, self.backend.memory)), None
            try:
                while True:
                    step: Any = questions.send(reply)
                    try:
                        reply = connection.command(*step.args)
                    except REDIS_ERRORS as error:
                        if (reply := refusal(error)) is None:
                            raise  # the next try asks again
            except StopIteration as stop:
                connection.run_id = run_id = str(stop.value)
                return run_id

    def _session_open(self, deadline: float) -> None:
        """Open a session, or renew the present one at a restarted server."""
        attempt = opening_call(self.core, deadline)
        while True:
            _, reply = self._attempts(attempt)
            if self.settings.read_only:
                return self.core.observe(reply, attempt.server)
            if self.core.adopt(reply, attempt.server):
                return None
