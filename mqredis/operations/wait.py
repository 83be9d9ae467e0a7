"""Look, sleep, look (MS-MQDMPR 3.1.7.3.1 Wait For New Message). The logic of waiting exists once, here.

The first look registers nothing: most reads find something; but where the last read had to wait, it does, so that an
idle reader needs two looks for each message and not three. Before a look that registers, the operation listens to its
doorbell, so nothing can fall between. A wake is a hint; only a look decides. Whatever ends the wait takes the
registration back in the same look or by ``leave``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mqredis import keys
from mqredis.commands import read
from mqredis.commands.common import OK
from mqredis.commands.read import Found, Waiter
from mqredis.errors import (
    BrokerUnavailable,
    IoTimeout,
    MqError,
    OperationCancelled,
    OutcomeUnknown,
    QueueNotAvailable,
)
from mqredis.operations import checks
from mqredis.operations.context import Handle
from mqredis.operations.reach import reach
from mqredis.operations.regain import regain
from mqredis.steps import NOW, Call, Listen, Operation, Wait, Woken, perform, understand

#: Given the waiter and, for searches that one call did not finish, the place to go on from.
Look = Callable[..., Call[Found]]
#: Nobody answers: each registration to take back would be waited for as long again.
_UNREACHABLE = (BrokerUnavailable, OutcomeUnknown)
#: With these answers the registration in the queue that gave them is gone.
_TAKEN_BACK = (OperationCancelled, QueueNotAvailable)


@dataclass(slots=True, eq=False)
class Reader:
    """A queue that is read from: ``look`` asks for what passes the filter ``match``.

    ``steady``: whoever looks again asks for the same, whatever happens during the wait. ``lease``: in ms, if it asks
    for the lock of any message; then whoever sends one may hand it over (lua/waiting/handoff).
    """

    handle: Handle
    look: Look
    match: bytes = b""
    steady: bool = False
    lease: str = ""


def first(handle: Handle, timeout: float | None, tag: str | None) -> bool:
    """Does a first look come that registers nothing? Most reads need no other, and their operation makes it itself:
    each generator between it and the driver costs as much as packing the call. Raises InvalidArgument."""
    if tag is not None:
        checks.tag(tag)
    if timeout is not None and (timeout := checks.timeout(timeout)) is not None and timeout <= 0:
        return True
    return not handle.waited


def until_found(
    handle: Handle,
    look: Look,
    kind: str,
    timeout: float | None,
    tag: str | None = None,
    scopes: Sequence[object] = (),
    match: bytes = b"",
    steady: bool = False,
    lease: str = "",
    found: Found | None = None,
) -> Operation[Found]:
    """Repeat ``look`` until it finds something. Raises IoTimeout after ``timeout`` seconds (None: never).

    ``kind``: D destructive, C destructive with a cursor, P peek. ``match``: the filter that ``look`` asks for.
    ``steady`` and ``lease`` as in ``Reader``. ``found``: of the first look, for who has made it (:func:`first`).
    """
    if found is not None or first(handle, timeout, tag):
        if found is None or (found.place and not found.messages):
            found = yield from _glance(handle, look, found)
        if found.messages:
            return found
        if timeout is not None and timeout <= 0:
            raise IoTimeout(f"no message is available in queue {handle.path!r}")
    reader = Reader(handle, look, match, steady, lease)
    _, found = yield from _wait((reader,), kind, checks.timeout(timeout), tag, scopes, None)
    return found


def until_any(
    readers: Sequence[Reader],
    kind: str,
    timeout: float | None,
    scopes: Sequence[object] = (),
    stop: Callable[[], bool] | None = None,
) -> Operation[tuple[int, Found]]:
    """Look at the queues in turn until one has something; its place. Raises IoTimeout, OperationCancelled.

    ``stop`` is asked before each sleep: together with a cancelled scope it lets no cancellation slip through that comes
    before the operation listens. Set what it tells first, then cancel the scope.
    """
    timeout = checks.timeout(timeout)
    at_once = len(readers) > 1 or not readers[0].handle.waited
    if at_once or (timeout is not None and timeout <= 0):
        for n, reader in enumerate(readers):
            found = yield from _glance(reader.handle, reader.look, None)
            if found.messages:
                return n, found
        if timeout is not None and timeout <= 0:
            raise IoTimeout(f"no message is available in {_names(readers)}")
    return (yield from _wait(readers, kind, timeout, None, scopes, stop))


def _glance(handle: Handle, look: Look, found: Found | None) -> Operation[Found]:
    """A whole look that registers nothing. ``found``: what its first call has found, for who has made it."""
    call: Call[Found] | None = None
    try:
        if found is None:
            call = look(None)
            found = yield from reach(handle.address, call)
        if not found.messages:
            found = yield from _onward(handle, look, None, found)
    except (GeneratorExit, MqError):
        raise
    except BaseException:
        yield from regain(handle, call or look(None))
        raise
    return found


def _wait(
    readers: Sequence[Reader],
    kind: str,
    timeout: float | None,
    tag: str | None,
    scopes: Sequence[object],
    stop: Callable[[], bool] | None,
) -> Operation[tuple[int, Found]]:
    """Register in each of the queues and look whenever one rings."""
    start: float = yield NOW
    mode: str = yield Listen()
    database = readers[0].handle.context.database
    #: Whether a reader is idle is noted of the only queue it reads.
    only = readers[0].handle if len(readers) == 1 else None
    member = f"{kind} {mode}{database} {keys.encode_tag(tag)}" if mode else ""
    if member and only is not None and readers[0].lease and not readers[0].match:
        member += f",{readers[0].lease}"
    waiters = [Waiter(member) for _ in readers]
    scopes = (*(reader.handle for reader in readers), *scopes)
    last, looks = False, 0
    ready: Call[Found] | None = None
    woken: Any = None
    while True:
        nap: float | None = None
        for n, reader in enumerate(readers):
            if last:
                waiters[n].ticket = "leave" + "".join(waiters[n].ticket.partition(":")[1:])
            try:
                call = ready or reader.look(waiters[n])
                # Whoever rang may have made this call, and then the wait has its answer.
                answer = woken if type(woken) is tuple else (yield call)
                woken = None
                if answer[0] == OK:  # what somebody waits for comes by a generator less
                    found = understand(call, *answer)
                else:
                    found = yield from reach(reader.handle.address, call, answer)
                if found.place and not found.messages:
                    found = yield from _onward(reader.handle, reader.look, waiters[n], found)
            except MqError as error:
                if not isinstance(error, _UNREACHABLE):
                    yield from _leave(readers, waiters, n if isinstance(error, _TAKEN_BACK) else -1)
                raise
            except GeneratorExit:
                raise
            except BaseException:
                yield from regain(reader.handle, call)
                waiters[n].ticket = waiters[n].ticket or "0"  # it may be registered
                yield from _leave(readers, waiters)
                raise
            if found.messages:
                if only is None:
                    yield from _leave(readers, waiters, n)
                else:
                    only.waited = looks > 0
                return n, found
            if not last:
                waiters[n].ticket = found.ticket
            if found.due_ms >= 0:
                nap = found.due_ms / 1000 if nap is None else min(nap, found.due_ms / 1000)
        looks += 1
        ready = None
        if only is not None:
            only.waited = True
        now: float = yield NOW
        if timeout is not None:
            left = timeout - (now - start)
            if left <= 0:
                if last or not member:
                    raise IoTimeout(f"no message became available in {_names(readers)} within {timeout} s")
                last = True
                continue
            nap = left if nap is None else min(nap, left)
        if stop is not None and stop():
            yield from _leave(readers, waiters)
            raise OperationCancelled(f"the wait on {_names(readers)} was not begun: it had been cancelled")
        ready = readers[0].look(waiters[0]) if only is not None and readers[0].steady else None
        try:
            woken = yield Wait(nap, scopes, ready)
        except GeneratorExit:
            raise
        except BaseException:
            if ready is not None:  # it may be under way already
                yield from regain(readers[0].handle, ready)
            yield from _leave(readers, waiters)
            raise
        if woken is Woken.CANCELLED:
            yield from _leave(readers, waiters)
            raise OperationCancelled(
                f"the wait on {_names(readers)} ended: it was cancelled, or its handle or cursor was closed"
            )


def _names(readers: Sequence[Reader]) -> str:
    paths = [repr(reader.handle.path) for reader in readers]
    return ("queue " if len(paths) == 1 else "queues ") + ", ".join(paths)


def _onward(handle: Handle, look: Look, waiter: Waiter | None, found: Found) -> Operation[Found]:
    """The rest of a look that found nothing in its first call."""
    while found.place and not found.messages:
        if waiter is not None and not waiter.ticket.startswith("leave"):
            waiter.ticket = found.ticket
        found = yield from reach(handle.address, look(waiter, found.place))
    return found


def _leave(readers: Sequence[Reader], waiters: Sequence[Waiter], but: int = -1) -> Operation[None]:
    """Take the registrations back, ``but`` one. A reader that was rung already passes its wake on."""
    for n, (reader, waiter) in enumerate(zip(readers, waiters, strict=True)):
        if n != but and waiter.member and waiter.ticket and not waiter.ticket.startswith("leave"):
            try:
                yield from perform(read.leave(reader.handle.address, waiter.member, reader.match))
            except _UNREACHABLE:
                return
            except MqError:
                # The broker skips readers that do not listen any more; what ended the wait matters more.
                continue
