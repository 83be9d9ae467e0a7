"""Fetch, sleep, fetch (MS-MQDMPR 3.1.7.3.1 Wait For New Message). The logic of waiting exists once, here.

All reads that wait use it.

The first fetch registers no waiter: most reads find something. Where the last read had to wait, the first fetch does
register, which saves an idle reader a call in each queue. Before a fetch that registers, the operation listens to its
wake channel, so that no wake can be missed in between. A wake is a hint; only a fetch decides.
The end of a wait removes the registration, either in its last fetch or with ``leave``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from mqredis.commands import waiting
from mqredis.commands.read import Found
from mqredis.commands.waiting import Waiter
from mqredis.errors import (
    IoTimeout,
    MqError,
    OperationCancelled,
    QueueNotAvailable,
)
from mqredis.operations import checks
from mqredis.operations.context import Handle, UnitOfWork
from mqredis.operations.interruption import ReadCall
from mqredis.operations.leftovers import UNREACHABLE
from mqredis.steps import MORE, Call, Listen, Reply, Steps, Wait, Woken, perform


class Fetch(Protocol):
    """Makes the call of a fetch. ``receive.fetching`` and ``peek.peeking`` return one."""

    def __call__(self, waiter: Waiter | None, place: str = "") -> Call[Found]:
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
        checks.tag(tag)
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
        if found is None or (found.place and not found.messages):
            found = yield from _poll(reader, found)
        if found.messages:
            return found
        if timeout is not None and timeout <= 0:
            raise IoTimeout(f"{_nothing((reader,))} is available in {_names((reader,))}")
    _, found = yield from _wait((reader,), kind, checks.timeout(timeout), tag, scopes, None)
    return found


def until_any(
    readers: Sequence[Reader],
    kind: str,
    timeout: float | None,
    scopes: Sequence[object] = (),
    stop: Callable[[], bool] | None = None,
) -> Steps[tuple[int, Found]]:
    """Fetch from the queues in turn until one has a message. Returns its index. Raises IoTimeout, OperationCancelled.

    ``stop`` is called before each sleep: together with a cancelled scope it covers a cancellation that comes before the
    operation listens. Set what it returns first, then cancel the scope.
    """
    timeout = checks.timeout(timeout)
    if polls_first(readers[0].handle, timeout, None):
        for n, reader in enumerate(readers):
            found = yield from _poll(reader, None)
            if found.messages:
                return n, found
        if timeout is not None and timeout <= 0:
            raise IoTimeout(f"{_nothing(readers)} is available in {_names(readers)}")
    return (yield from _wait(readers, kind, timeout, None, scopes, stop))


def _poll(reader: Reader, found: Found | None) -> Steps[Found]:
    """A whole fetch that registers no waiter. ``found``: the result of its first call, if that was made."""
    if found is None:
        found = yield from ReadCall(reader.handle, reader.fetch(None), reader.locks)
    return (yield from _onward(reader, None, found))


def _wait(
    readers: Sequence[Reader],
    kind: str,
    timeout: float | None,
    tag: str | None,
    scopes: Sequence[object],
    stop: Callable[[], bool] | None,
) -> Steps[tuple[int, Found]]:
    """Register in each of the queues and fetch whenever one of them notifies."""
    clock = readers[0].handle.context.clock
    start = clock()
    mode: str = yield Listen()
    first, single, unit = readers[0].handle, len(readers) == 1, readers[0].unit
    registration = waiting.register_as(kind, mode, first.context.database, tag, _handover_lease(readers))
    waiters = [Waiter(registration) for _ in readers]
    scopes = (*(reader.handle for reader in readers), *scopes)
    last, rounds = False, 0
    # The next call of a steady reader, which is made before the wait, and its reply, if a lock was handed over then.
    ready: Call[Found] | None = None
    handed: Reply | None = None
    while True:
        limits: list[float] = []  # after so many seconds at most the readers fetch again
        for n, waiter in enumerate(waiters):
            if last:
                waiter.look_for_the_last_time()
            found = yield from _fetch_or_leave(readers, waiters, n, ready, handed)
            handed = None
            if found.messages:
                first.waited = rounds > 0
                yield from _leave(readers, waiters, n)
                return n, found
            if not last:
                waiter.ticket = found.ticket
            if found.due_ms >= 0:
                limits.append(found.due_ms / 1000)
        rounds += 1
        ready = None
        first.waited = True
        if timeout is not None:
            left = timeout - (clock() - start)
            if left <= 0:
                if last or not waiters[0].registration:
                    raise IoTimeout(
                        f"{_nothing(readers)} became available in {_names(readers)} within {timeout} s"
                    )
                last = True
                continue
            limits.append(left)
        if unit is not None and unit.lapses < math.inf:  # the fetch after its end raises TransactionSequence
            limits.append(max(0.0, unit.lapses - clock()))
        if stop is not None and stop():
            yield from _leave(readers, waiters)
            raise OperationCancelled(f"the wait on {_names(readers)} was not begun: it had been cancelled")
        ready = readers[0].fetch(waiters[0]) if single and readers[0].steady else None
        try:
            woken = yield Wait(min(limits, default=None), scopes, ready)
        except GeneratorExit:
            raise
        except BaseException:
            yield from _leave(readers, waiters)
            raise
        if woken is Woken.CANCELLED:
            yield from _leave(readers, waiters)
            raise OperationCancelled(
                f"the wait on {_names(readers)} ended: it was cancelled, or its handle or cursor was closed"
            )
        handed = woken if type(woken) is tuple else None


def _handover_lease(readers: Sequence[Reader]) -> str:
    """The lease in ms of a lock that a sender may hand over; "" unless one queue is read for any message."""
    return readers[0].lease if len(readers) == 1 and not readers[0].match else ""


def _fetch_or_leave(
    readers: Sequence[Reader],
    waiters: Sequence[Waiter],
    n: int,
    ready: Call[Found] | None,
    handed: Reply | None,
) -> Steps[Found]:
    """The fetch of reader ``n``; ``ready``: its first call, if it was made. If it raises, all registrations end."""
    reader, waiter = readers[n], waiters[n]
    try:
        call = ready or reader.fetch(waiter)  # raises if the transaction of the read has ended
        return (yield from _fetch(reader, waiter, call, handed))
    except MqError as error:
        if not isinstance(error, UNREACHABLE):  # else each removal would wait for the server again
            yield from _leave(readers, waiters, n if isinstance(error, _REMOVED) else -1)
        raise
    except GeneratorExit:
        raise
    except BaseException:
        waiter.ticket = waiter.ticket or "0"  # it may be registered
        yield from _leave(readers, waiters)
        raise


def _fetch(reader: Reader, waiter: Waiter, call: Call[Found], handed: Reply | None) -> Steps[Found]:
    """A whole fetch that registers a waiter. ``handed``: the reply of its first call, if a lock was handed over."""
    read_call = ReadCall(reader.handle, call, reader.locks)
    if handed is None:
        found = yield from read_call
    else:
        accepted = read_call.accept(handed)
        found = (yield from read_call.resume(handed)) if accepted is MORE else accepted
    return (yield from _onward(reader, waiter, found))


def _onward(reader: Reader, waiter: Waiter | None, found: Found) -> Steps[Found]:
    """Continue a fetch after its first call has found nothing."""
    while found.place and not found.messages:
        if waiter is not None and not waiter.looks_for_the_last_time:
            waiter.ticket = found.ticket
        call = reader.fetch(waiter, found.place)
        found = yield from ReadCall(reader.handle, call, reader.locks)
    return found


def _leave(readers: Sequence[Reader], waiters: Sequence[Waiter], but: int = -1) -> Steps[None]:
    """Remove the registrations, except that of reader ``but``. A reader that was notified passes its wake on."""
    for n, (reader, waiter) in enumerate(zip(readers, waiters, strict=True)):
        if n != but and waiter.registered:
            try:
                yield from perform(waiting.leave(reader.handle.address, waiter.registration, reader.match))
            except UNREACHABLE:
                return
            except MqError:
                # The broker skips readers that no longer listen, so the error that ended the wait is raised instead.
                continue


def _nothing(readers: Sequence[Reader]) -> str:
    """A read of particular messages says nothing about the others in the queue."""
    return "no message that fits the read" if any(reader.match for reader in readers) else "no message"


def _names(readers: Sequence[Reader]) -> str:
    paths = [repr(reader.handle.path) for reader in readers]
    return ("queue " if len(paths) == 1 else "queues ") + ", ".join(paths)
