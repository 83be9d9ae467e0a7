"""Look, sleep, look (MS-MQDMPR 3.1.7.3.1 Wait For New Message). The logic of waiting exists once, here.

The first look registers nothing: most reads find something; but where the last read had to wait, it does, so that an
idle reader needs two looks for each message and not three. Before a look that registers, the operation listens to its
doorbell, so nothing can fall between. A wake is a hint; only a look decides. Whatever ends the wait takes the
registration back in the same look or by ``leave``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mqredis import keys
from mqredis.commands import read
from mqredis.commands.read import Found, Waiter
from mqredis.errors import IoTimeout, MqError, OperationCancelled
from mqredis.operations import checks
from mqredis.operations.context import Handle
from mqredis.operations.reach import reach
from mqredis.steps import Call, Listen, Now, Operation, Wait, Woken, perform

#: How many portions of due timers a read serves at most before it says that nothing is there.
PORTIONS = 1000

#: Given the waiter and, for searches that one call did not finish, the place to go on from.
Look = Callable[..., Call[Found]]


def until_found(
    handle: Handle,
    look: Look,
    kind: str,
    timeout: float | None,
    tag: str | None = None,
    scopes: Sequence[object] = (),
    match: bytes = b"",
) -> Operation[Found]:
    """Repeat ``look`` until it finds something. Raises IoTimeout after ``timeout`` seconds (None: never).

    ``kind``: D destructive, C destructive with a cursor, P peek. ``match``: the filter that ``look`` asks for.
    """
    timeout, tag = checks.timeout(timeout), checks.tag(tag)
    if not handle.waited or (timeout is not None and timeout <= 0):
        found = yield from _look(handle, look, None)
        # A queue that nobody touched for long is served in portions; what is behind them is there all the same.
        for _ in range(PORTIONS):
            if found.messages or found.due_ms != 0:
                break
            found = yield from _look(handle, look, None)
        if found.messages:
            return found
        if timeout is not None and timeout <= 0:
            raise IoTimeout(f"no message is available in queue {handle.path!r}")
    start: float = yield Now()
    mode: str = yield Listen()
    waiter = Waiter()
    if mode:
        waiter.member = f"{kind} {mode}{handle.context.database} {keys.encode(tag) if tag else '-'}"
    looks = 0
    while True:
        found = yield from _look(handle, look, waiter)
        if found.messages:
            handle.waited = looks > 0
            return found
        looks += 1
        handle.waited = True
        waiter.ticket = found.ticket
        now: float = yield Now()
        left = None if timeout is None else timeout - (now - start)
        if left is not None and left <= 0:
            break
        nap = left
        if found.due_ms >= 0:
            nap = found.due_ms / 1000 if nap is None else min(nap, found.due_ms / 1000)
        try:
            woken = yield Wait(nap, (handle, *scopes))
        except GeneratorExit:
            raise
        except BaseException:
            yield from _leave(handle, waiter, match)
            raise
        if woken is Woken.CANCELLED:
            yield from _leave(handle, waiter, match)
            raise OperationCancelled(
                f"the wait on queue {handle.path!r} ended: its handle or cursor was closed"
            )
    if waiter.member:
        waiter.ticket = "leave" + "".join(waiter.ticket.partition(":")[1:])
        found = yield from _look(handle, look, waiter)
        if found.messages:
            return found
    raise IoTimeout(f"no message became available in queue {handle.path!r} within {timeout} s")


def _look(handle: Handle, look: Look, waiter: Waiter | None) -> Operation[Found]:
    """One look at the whole queue, in as many calls as it takes."""
    found = yield from reach(handle.address, look(waiter))
    while found.place and not found.messages:
        if waiter is not None and not waiter.ticket.startswith("leave"):
            waiter.ticket = found.ticket
        found = yield from reach(handle.address, look(waiter, found.place))
    return found


def _leave(handle: Handle, waiter: Waiter, match: bytes) -> Operation[None]:
    if waiter.member:
        try:
            yield from perform(read.leave(handle.address, waiter.member, match))
        except MqError:
            # The broker skips readers that do not listen any more; what ended the wait matters more.
            return
