"""Fetch, sleep, fetch (MS-MQDMPR 3.1.7.3.1 Wait For New Message). The logic of waiting exists once, here.

``receive``, ``peek``, ``several``, ``groups``, ``cursor`` and ``browser`` wait with it; ``pipelines.wait``, which
takes no message, has a shorter loop of its own and uses ``leave_all``. ``receive`` makes the first fetch of most reads
itself, so that a read that finds something needs no generator; tests/unit/test_first_fetch.py compares such reads with
this loop alone. A driver carries out its steps Listen and Wait (``drivers/waiting``).
The readers of one wait belong to one client and one transaction.

The first fetch registers no waiter: most reads find something. Where the last read had to wait, the first fetch does
register, which saves an idle reader a call in each queue. Before a fetch that registers, the operation listens to its
wake channel, so that no wake can be missed in between. A wake is a hint; only a fetch decides.
The end of a wait removes the registration, either in its last fetch or with ``leave``.

On the server ``lua/receive.lua`` and ``lua/peek.lua`` register a fetch that finds nothing
(``lua/waiting/waiters.lua``), and ``lua/stop_waiting.lua`` removes it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from mqredis.commands import waiting
from mqredis.commands.read import Found
from mqredis.commands.waiting import Waiter
from mqredis.errors import (
    IoTimeout,
    MqError,
    NotSupported,
    OperationCancelled,
    QueueNotAvailable,
)
from mqredis.operations import checks
from mqredis.operations.interruption import ReadCall
from mqredis.operations.leftovers import UNREACHABLE
from mqredis.operations.open_queue import Handle
from mqredis.operations.unit_of_work import UnitOfWork
from mqredis.steps import MORE, Call, Listen, Reply, Steps, Wait, Woken, perform


class Fetch(Protocol):
    """Makes the call of a fetch: ``receive.fetch`` with all other arguments bound, or what ``peek.peeking`` returns."""

    def __call__(self, waiter: Waiter | None, place: str) -> Call[Found]:
        """``waiter``: how it registers if it finds nothing; None: not at all. ``place``: the id behind which an
        unfinished search goes on; "" at first."""


# After these errors of a queue the registration in it is gone.
_REMOVED = (OperationCancelled, QueueNotAvailable)


@dataclass(slots=True, eq=False)
class Reader:
    """A queue that is read: ``fetch`` makes a call for messages that pass the filter ``match``.

    ``steady``: each fetch asks for the same, whatever happens during the wait. ``lease``: in ms, if the read locks any
    message; then a sender may hand the lock over directly (lua/waiting/handoff.lua). ``locks``: the read locks.
    ``unit``: the transaction in which the read takes messages.
    """

    handle: Handle
    fetch: Fetch
    match: bytes = b""
    steady: bool = False
    lease: str = ""
    locks: bool = False
    unit: UnitOfWork | None = None


def polls_first(handle: Handle, timeout: float | None, tag: str | None) -> bool:
    """Does the read begin with a fetch that registers no waiter? Raises InvalidArgument."""
    if tag is not None:
        checks.name(tag, "tag")
    if timeout is not None and (timeout := checks.timeout(timeout)) is not None and timeout <= 0:
        return True
    return not handle.waited


def until_found(
    reader: Reader,
    kind: str,
    timeout: float | None,
    tag: str | None = None,
    scopes: Sequence[object] = (),
    found: Found | None = None,
) -> Steps[Found]:
    """Repeat the fetch until it finds something. Raises IoTimeout after ``timeout`` seconds (None: never).

    ``kind``: TAKES, TAKES_AT_CURSOR or PEEKS. ``found``: the result of a first fetch that was made.
    """
    if found is not None or polls_first(reader.handle, timeout, tag):
        found = yield from _poll(reader, found)
        if found.messages:
            return found
        if timeout is not None and timeout <= 0:
            raise IoTimeout(f"{_nothing((reader,))} is available in {_names((reader,))}")
    _, found = yield from _wait((reader,), kind, checks.timeout(timeout), tag, scopes, None)
    return found


def until_any(
    readers: Sequence[Reader],
    timeout: float | None,
    scopes: Sequence[object] = (),
    stop: Callable[[], bool] | None = None,
) -> Steps[tuple[int, Found]]:
    """Take from the queues in turn until one has a message. Returns its index. Raises IoTimeout, OperationCancelled.

    It takes no tag: what a cancellation hands over lies in the slot, so the fetch of any queue would take it, and
    ``_REMOVED`` would name the wrong queue.

    ``stop`` is called before each sleep: together with a cancelled scope it covers a cancellation that comes before the
    operation listens. Set what it returns first, then cancel the scope.
    """
    timeout = checks.timeout(timeout)
    if polls_first(readers[0].handle, timeout, None):
        for n, reader in enumerate(readers):
            found = yield from _poll(reader)
            if found.messages:
                return n, found
        if timeout is not None and timeout <= 0:
            raise IoTimeout(f"{_nothing(readers)} is available in {_names(readers)}")
    return (yield from _wait(readers, waiting.TAKES, timeout, None, scopes, stop))


def _poll(reader: Reader, found: Found | None = None) -> Steps[Found]:
    """A whole fetch that registers no waiter. ``found``: the result of its first call, if that was made."""
    if found is None:
        found = yield from ReadCall(reader.handle, reader.fetch(None, ""), reader.locks)
    return (yield from _continued(reader, None, found))


def _wait(
    readers: Sequence[Reader],
    kind: str,
    timeout: float | None,
    tag: str | None,
    scopes: Sequence[object],
    stop: Callable[[], bool] | None,
) -> Steps[tuple[int, Found]]:
    """Register in each of the queues, fetch from each, and sleep; again, until one has a message or the wait ends."""
    for reader in readers:
        if reader.handle.topic:
            raise NotSupported(
                f"queue {reader.handle.path!r} is a topic, which stores nothing, so no message would end the wait: "
                "subscribe a queue to it, and read that"
            )
    clock = readers[0].handle.context.clock
    start = clock()
    mode: str = yield Listen()
    first, unit = readers[0].handle, readers[0].unit
    registration = waiting.register_as(kind, mode, first.context.database, tag, _handover_lease(readers))
    wait = _Waiting(
        readers, [Waiter(registration) for _ in readers], (*(reader.handle for reader in readers), *scopes)
    )
    rounds = 0
    while True:
        hit = yield from wait.fetch_each()
        if hit is not None:
            first.waited = rounds > 0
            yield from wait.leave(but=hit[0])
            return hit
        rounds += 1
        first.waited = True
        limits = wait.timers  # after so many seconds at most the readers fetch again
        if timeout is not None:
            left = timeout - (clock() - start)
            if left <= 0:
                if wait.last or not registration:
                    raise IoTimeout(
                        f"{_nothing(readers)} became available in {_names(readers)} within {timeout} s"
                    )
                wait.last = True
                continue
            limits.append(left)
        if unit is not None and unit.lapses < math.inf:  # the fetch after its end raises TransactionSequence
            limits.append(max(0.0, unit.lapses - clock()))
        if stop is not None and stop():
            yield from wait.leave()
            raise OperationCancelled(f"the wait on {_names(readers)} was not begun: it had been cancelled")
        yield from wait.sleep(min(limits, default=None))


@dataclass(slots=True, eq=False)
class _Waiting:
    """A wait on one or more queues: each has a reader, and a waiter that says how it is registered there.

    Whatever ends the wait removes the registrations: ``leave``, or a last fetch in each queue.
    """

    readers: Sequence[Reader]
    waiters: Sequence[Waiter]
    scopes: tuple[object, ...]
    """What ends the wait when it is closed (:class:`mqredis.steps.Wait`)."""
    last: bool = False
    """Is the timeout over? Then each fetch ends the registration in its queue."""
    timers: list[float] = field(default_factory=list)
    """Seconds until the next timer of each queue, as the last fetches said."""
    ready: Call[Found] | None = None
    """The next call of a single steady reader, made before the sleep: a sender may hand over a lock as its reply."""
    handed: Reply | None = None
    """That reply, if a lock was handed over."""

    def fetch_each(self) -> Steps[tuple[int, Found] | None]:
        """Fetch from the queues in turn. Returns the index of the first that has messages, with them; None: none has.

        Raises what a fetch raises; all registrations have ended then.
        """
        self.timers = []
        for n, waiter in enumerate(self.waiters):
            if self.last:
                waiter.look_for_the_last_time()
            found = yield from self._fetch(n)
            self.handed = None
            if found.messages:
                return n, found
            if not self.last:
                waiter.ticket = found.ticket
            if found.due_ms >= 0:
                self.timers.append(found.due_ms / 1000)
        self.ready = None
        return None

    def _fetch(self, n: int) -> Steps[Found]:
        reader, waiter = self.readers[n], self.waiters[n]
        try:
            call = self.ready or reader.fetch(waiter, "")  # raises if the transaction of the read has ended
            return (yield from _registering_fetch(reader, waiter, call, self.handed))
        except MqError as error:
            if not isinstance(error, UNREACHABLE):  # else each removal would wait for the server again
                yield from self.leave(but=n if isinstance(error, _REMOVED) else -1)
            raise
        except GeneratorExit:
            raise
        except BaseException:
            waiter.ticket = waiter.ticket or "0"  # it may be registered
            yield from self.leave()
            raise

    def sleep(self, seconds: float | None) -> Steps[None]:
        """Sleep until a queue notifies, at most so many seconds. Raises OperationCancelled."""
        single = self.readers[0] if len(self.readers) == 1 else None
        self.ready = single.fetch(self.waiters[0], "") if single is not None and single.steady else None
        try:
            woken = yield Wait(seconds, self.scopes, self.ready)
        except GeneratorExit:
            raise
        except BaseException:
            yield from self.leave()
            raise
        if woken is Woken.CANCELLED:
            yield from self.leave()
            raise OperationCancelled(
                f"the wait on {_names(self.readers)} ended: it was cancelled, or its handle or cursor was closed"
            )
        self.handed = woken if type(woken) is tuple else None

    def leave(self, but: int = -1) -> Steps[None]:
        """Remove the registrations, except that of reader ``but``. A reader that was notified passes its wake on."""
        yield from leave_all(
            [
                waiting.leave(reader.handle.address, waiter.registration, reader.match)
                for n, (reader, waiter) in enumerate(zip(self.readers, self.waiters, strict=True))
                if n != but and waiter.registered
            ]
        )


def leave_all(calls: Iterable[Call[None]]) -> Steps[None]:
    """Make these calls of ``commands.waiting.leave``, which remove registrations. An error does not matter: the broker
    skips readers that no longer listen, and what ended the wait is raised."""
    for call in calls:
        try:
            yield from perform(call)
        except UNREACHABLE:
            return
        except MqError:
            continue


def _handover_lease(readers: Sequence[Reader]) -> str:
    """The lease in ms of a lock that a sender may hand over; "" unless one queue is read for any message."""
    return readers[0].lease if len(readers) == 1 and not readers[0].match else ""


def _registering_fetch(
    reader: Reader, waiter: Waiter, call: Call[Found], handed: Reply | None
) -> Steps[Found]:
    """A whole fetch that registers a waiter. ``handed``: the reply of its first call, if a lock was handed over."""
    read_call = ReadCall(reader.handle, call, reader.locks)
    if handed is None:
        found = yield from read_call
    else:
        accepted = read_call.accept(handed)
        found = (yield from read_call.resume(handed)) if accepted is MORE else accepted
    return (yield from _continued(reader, waiter, found))


def _continued(reader: Reader, waiter: Waiter | None, found: Found) -> Steps[Found]:
    """Continue a fetch after its first call has found nothing."""
    while found.place and not found.messages:
        if waiter is not None and not waiter.looks_for_the_last_time:
            waiter.ticket = found.ticket
        call = reader.fetch(waiter, found.place)
        found = yield from ReadCall(reader.handle, call, reader.locks)
    return found


def _nothing(readers: Sequence[Reader]) -> str:
    """A read of particular messages says nothing about the others in the queue."""
    return "no message that fits the read" if any(reader.match for reader in readers) else "no message"


def _names(readers: Sequence[Reader]) -> str:
    paths = [repr(reader.handle.path) for reader in readers]
    return ("queue " if len(paths) == 1 else "queues ") + ", ".join(paths)
