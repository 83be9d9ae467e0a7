"""The blocking driver: runs operations in the caller's thread. Thread safe."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from redis import exceptions as rx

from mqredis.drivers import durable
from mqredis.drivers.attempt import DONE, Attempt, Next, Spent, arrival, parting
from mqredis.drivers.early import Early
from mqredis.drivers.first import First
from mqredis.drivers.greeting import greet, refusal
from mqredis.drivers.hub import Hub
from mqredis.drivers.links import Backend, Link
from mqredis.drivers.session import Core, Run
from mqredis.drivers.urls import redact
from mqredis.drivers.wire import REDIS_ERRORS, Fault, fault_of, pack_fields
from mqredis.errors import BrokerUnavailable, MqError
from mqredis.keys import ManagerKeys
from mqredis.settings import Settings
from mqredis.steps import Answer, Call, Command, Durable, Interrupted, Listen, Now, Operation, Wait

R = TypeVar("R")

_drivers: weakref.WeakSet[Driver] = weakref.WeakSet()


def _after_fork() -> None:
    for driver in list(_drivers):
        driver.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class Driver(First):
    """Runs operations against one queue manager."""

    def __init__(self, settings: Settings, keys: ManagerKeys, backend: Backend) -> None:
        self.settings = settings
        self.backend = backend
        self.core = Core(settings, keys, backend.memory)
        # A single address that nobody listens on is probably wrong; a group may be choosing its primary.
        self.core.reached = backend.plan.movable
        self._setup()
        _drivers.add(self)

    def _setup(self) -> None:
        self._opening = threading.RLock()
        self._hub = Hub(self)

    def after_fork(self) -> None:
        """A child opens its own session and connections; the parent's are left alone."""
        self.backend.after_fork()
        self.core.after_fork()
        self._hub.after_fork()
        self._setup()

    # ---- what the faces use ----------------------------------------------------------------------

    def clock_ms(self) -> int:
        """The server's clock in milliseconds since 1970."""
        try:
            seconds, micros = self.command("TIME")
        except REDIS_ERRORS as error:
            raise BrokerUnavailable(redact(error)) from None
        return int(seconds) * 1000 + int(micros) // 1000

    def open(self, deadline: float | None = None) -> None:
        """Connect and open the session, unless that has happened."""
        if deadline is None:
            deadline = time.monotonic() + self.settings.retry_seconds
        self.core.check()
        if self.core.session is None:
            with self._opening:
                if self.core.session is None:
                    self._session_open(deadline)

    def ask(self, operation: Operation[R]) -> R:
        """Run an operation that needs no session, before one is opened: plain commands, and calls whose reply it reads
        as it is."""
        answer: Any = None
        try:
            while True:
                step: Any = operation.send(answer)
                if type(step) is Command:
                    answer = self._command(step)
                    continue
                attempt = Attempt(self.core, step, None, time.monotonic(), self.backend.address)
                answer = self._carry(attempt)
        except StopIteration as stop:
            result: R = stop.value
            return result

    def run(self, operation: Operation[R], deadline: float | None = None) -> R:
        """Run an operation to its end in this thread. ``deadline``: when its calls are to be through."""
        try:
            while (session := self.core.session) is None:
                self.open(deadline)
            slot = session.take()
            run = Run(slot, deadline) if slot.run is None or deadline is not None else slot.run
            answer: Any
            try:
                step = operation.send(None)
                while True:
                    try:
                        if type(step) is Call:
                            answer = self._call(step, run)
                        elif type(step) is Now:
                            answer = time.monotonic()
                        else:
                            answer = self._perform(step, run)
                    except BaseException as raised:  # noqa: BLE001 - handed to the operation
                        if not isinstance(raised, Exception):
                            run.deadline = time.monotonic()  # what it still calls to clean up is tried once
                        step = operation.throw(raised)
                    else:
                        step = operation.send(answer)
            except StopIteration as stop:
                result: R = stop.value
                return result
            finally:
                if run.early is not None and run.early.link is not None:
                    run.early.drop()
                given = run.slot
                if given is slot:  # else the session is another, or an outcome is unknown
                    slot.run = run if run.deadline is None and not run.listening else None
                given.session.give(given)
                if run.listening:
                    self._hub.board.listeners.discard(run)
        except BaseException:
            operation.close()
            raise

    def command(self, *args: str | bytes | int) -> Any:
        """Run a plain command that may be repeated; for probes and reports."""
        return self._plain(lambda link: link.command(*args))

    def fields(self, verb: str, key: str, fields: Sequence[bytes]) -> Any:
        """The same for a command with thousands of fields, such as HMGET."""
        request = pack_fields(verb, key, fields)
        return self._plain(lambda link: link.exchange([request]))

    def _plain(self, ask: Callable[[Link], Any]) -> Any:
        link = self.backend.acquire(time.monotonic() + self.settings.reply_timeout_seconds)
        try:
            reply = ask(link)
        except BaseException as error:
            if fault_of(error) is Fault.LOST:
                self.backend.discard(link)
            else:
                self.backend.release(link)
            raise
        self.backend.release(link)
        return reply

    def close(self) -> None:
        """End the waits and the session, and close every connection. A closed driver stays closed."""
        if self.core.closed:
            return
        self.core.closed = True
        self._hub.close()
        attempt = parting(self.core, self.backend.address, time.monotonic())
        if attempt is not None:
            with suppress(MqError):  # the session expires by itself
                self._carry(attempt, patient=False)
        self.backend.close()

    # ---- steps -----------------------------------------------------------------------------------

    def _perform(self, step: Any, run: Run) -> Any:
        if type(step) is Wait:
            return self._hub.wait(run, step)
        if type(step) is Listen:
            return self._hub.listen(run)
        if type(step) is Durable:
            return durable.carry(self, step, run)
        if type(step) is Command:
            return self._command(step)
        if type(step) is Interrupted:
            if run.early is not None and run.early.link is not None:
                run.early.drop()
            return self.core.interrupted(run, step.known)
        raise TypeError(f"an operation yielded {step!r}")

    def _command(self, step: Command) -> Any:
        """A command's reply, or why it was refused. A connection that died idle is no reason to give up."""
        tries = 2
        while True:
            try:
                return self.command(*step.args)
            except rx.ResponseError as error:
                return refusal(error)
            except REDIS_ERRORS as error:
                tries -= 1
                if not tries:
                    raise BrokerUnavailable(redact(error)) from None

    def _carry(self, attempt: Attempt, early: Early | Spent | None = None, patient: bool = True) -> Answer:
        """All tries of a call, the first of which may have been sent before. ``patient``: unless the script has only to
        be loaded, one try is enough."""
        backend = self.backend
        try:
            while True:
                attempt.sent = early is not None
                link: Link | None = None
                try:
                    if early is not None:
                        link = early.take()
                        reply, step = early.reply(link), DONE
                    else:
                        if attempt.detour is None:
                            link = backend.take() or backend.acquire(attempt.deadline)
                        else:
                            link = backend.acquire(attempt.deadline, attempt.detour)
                            link.run_id = self.core.run_id
                            with suppress(rx.NoPermissionError):  # then a deploy step has loaded it
                                link.command(*self.core.script(attempt.call.script).load)
                            link.command("ASKING")
                        reply = None
                        step = attempt.ready(link.run_id if link.run_id is not None else self._greet(link))
                        if step is DONE:
                            request = attempt.packed()
                            attempt.sent = True
                            reply = link.exchange(request)
                            if attempt.ack is not None:
                                durable.follow(link, attempt, attempt.ack, reply)
                except REDIS_ERRORS as error:
                    if link is not None:
                        self._put_away(link, error, attempt.ack is not None)
                    step = attempt.failed(error, time.monotonic())
                except BaseException:
                    if link is not None:
                        backend.discard(link)
                    raise
                else:
                    backend.release(link)
                    if step is DONE and (step := attempt.answered(reply)) is DONE:
                        return attempt.result
                if not patient and step is not Next.LOAD:
                    return attempt.result
                early = None
                self._prepare(attempt, step)
        except BrokerUnavailable as error:
            raise attempt.final(error) from None
        except MqError:
            raise
        except BaseException:
            attempt.abandon()
            raise

    def _put_away(self, link: Link, error: BaseException, waiting: bool = False) -> None:
        if fault_of(error) in (Fault.LOST, Fault.MOVED) or not link.connected or waiting:
            self.backend.discard(link)
        else:
            self.backend.release(link)

    def _prepare(self, attempt: Attempt, step: Next) -> None:
        """Do what has to be done before the next try."""
        if step is Next.LOAD:
            self._load(attempt)
        elif step is Next.RENEW:
            self.open(attempt.deadline)
            old = attempt.renew()
            if old is not None and attempt.run is not None:
                self._hub.follow(attempt.run, old)
        elif step is Next.TOUCH:
            with self._opening:
                if attempt.server != self.core.run_id:
                    self.core.shebang = None
                    self._session_open(attempt.deadline)
            if attempt.ack is not None:
                durable.renew(self, attempt, attempt.ack)
        elif step is Next.PAUSE:
            if attempt.lost:
                self.backend.suspect()
            time.sleep(attempt.next_pause())
            if attempt.rediscover:
                try:
                    self.backend.rediscover()
                except REDIS_ERRORS:
                    return  # the next try says what is wrong

    def _load(self, attempt: Attempt) -> None:
        """Load the script. A failure shows again as NOSCRIPT, until the deadline."""
        try:
            self.command(*self.core.script(attempt.call.script).load)
        except REDIS_ERRORS as error:
            self._prepare(attempt, attempt.failed_load(error, time.monotonic()))

    # ---- session ---------------------------------------------------------------------------------

    def _greet(self, link: Link) -> str:
        """A new connection: learn about the server behind it. Its run_id."""
        questions, reply = greet(self.core, self.backend.memory), None
        try:
            while True:
                step: Any = questions.send(reply)
                try:
                    reply = link.command(*step.args)
                except rx.ResponseError as error:
                    reply = refusal(error)
        except StopIteration as stop:
            link.run_id = run_id = str(stop.value)
        return run_id

    def _session_open(self, deadline: float) -> None:
        """Open a session, or show the present one to a restarted server."""
        attempt = arrival(self.core, self.backend.address, time.monotonic(), deadline)
        while True:
            _, reply = self._carry(attempt)
            if self.core.adopt(reply, attempt.server):
                return
