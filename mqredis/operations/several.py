"""Reading from the first of several queues that has something, in the order in which they are named.

One operation waits on all of them: its slot is registered in each queue, and whichever rings wakes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mqredis.commands import read
from mqredis.commands.read import Found, Waiter
from mqredis.errors import InvalidArgument, IoTimeout, MqError, OperationCancelled
from mqredis.models import Message
from mqredis.operations import checks
from mqredis.operations.context import Handle, UnitOfWork, lease_of, owner_of
from mqredis.operations.reach import reach
from mqredis.operations.receive import Locks, Settling, locked
from mqredis.steps import Call, Listen, Now, Operation, Wait, Woken, perform

Look = Callable[[int, Waiter | None], Call[Found]]


def lock(
    handles: Sequence[Handle],
    count: int | Sequence[int],
    timeout: float | None,
    lease: float | None,
    settling: Sequence[Settling] = (),
    scopes: Sequence[object] = (),
    stop: Callable[[], bool] | None = None,
) -> Operation[tuple[int, Locks]]:
    """Lock up to ``count`` messages of the first queue that has any; answers its place and the locks.

    ``count``: for all, or one for each queue. ``settling``: per queue, earlier locks to settle, whatever is found.
    """
    _check(handles)
    counts = [count] * len(handles) if isinstance(count, int) else list(count)
    counts = [checks.count(each, "max", read.BATCH) for each in counts]
    lease_ms = str(lease_of(handles[0].context, lease))
    earlier = settling or [Settling(()) for _ in handles]
    for n, handle in enumerate(handles):
        while len(earlier[n].pending()) > read.BATCH:
            yield from earlier[n].settle(handle)

    def look(n: int, waiter: Waiter | None) -> Call[Found]:
        pending = earlier[n].pending()
        call = read.receive(
            handles[n].address, "lock", counts[n], grant=lease_ms, waiter=waiter, settle=pending
        )
        return earlier[n].along(handles[n], call, len(pending))

    at, found = yield from until_any(handles, look, "D", timeout, scopes, stop)
    locks = yield from locked(handles[at], found)
    for n, handle in enumerate(handles):
        if earlier[n].pending():
            yield from earlier[n].settle(handle)
    return at, locks


def receive(
    handles: Sequence[Handle],
    count: int,
    timeout: float | None,
    unit: UnitOfWork,
    scopes: Sequence[object] = (),
    stop: Callable[[], bool] | None = None,
) -> Operation[tuple[int, list[Message]]]:
    """Receive in a transaction up to ``count`` messages of the first queue that has any."""
    _check(handles)
    count = checks.count(count, "max", read.BATCH)

    def look(n: int, waiter: Waiter | None) -> Call[Found]:
        owner, grant = owner_of(handles[n], unit)
        return read.receive(handles[n].address, "tx", count, owner=owner, grant=grant, waiter=waiter)

    at, found = yield from until_any(handles, look, "D", timeout, scopes, stop)
    unit.touched(found.fence, handles[at])
    return at, handles[at].context.messages(handles[at].path, found.messages)


def until_any(
    handles: Sequence[Handle],
    look: Look,
    kind: str,
    timeout: float | None,
    scopes: Sequence[object] = (),
    stop: Callable[[], bool] | None = None,
) -> Operation[tuple[int, Found]]:
    """Look at the queues in turn until one has something. Raises IoTimeout, OperationCancelled.

    ``stop`` is asked before each sleep: together with a cancelled scope it lets no cancellation slip through that comes
    before the operation listens. Set what it tells first, then cancel the scope.
    """
    timeout = checks.timeout(timeout)
    names = ", ".join(handle.path for handle in handles)
    #: As in ``until_found``: where the last read of the only queue had to wait, the first look registers.
    only = handles[0] if len(handles) == 1 else None
    at_once = only is not None and only.waited and (timeout is None or timeout > 0)
    for n in range(0 if at_once else len(handles)):
        found = yield from reach(handles[n].address, look(n, None))
        if found.messages:
            return n, found
    if timeout is not None and timeout <= 0:
        raise IoTimeout(f"no message is available in {names}")
    start: float = yield Now()
    mode: str = yield Listen()
    member = f"{kind} {mode}{handles[0].context.database} -" if mode else ""
    waiters = [Waiter(member) for _ in handles]
    last, looks = False, 0
    while True:
        nap: float | None = None
        for n in range(len(handles)):
            if last:
                waiters[n].ticket = "leave"
            try:
                found = yield from reach(handles[n].address, look(n, waiters[n]))
            except MqError:
                yield from _leave(handles, waiters)
                raise
            if found.messages:
                if only is not None:
                    only.waited = looks > 0
                yield from _leave(handles, waiters, n)
                return n, found
            waiters[n].ticket = found.ticket
            if found.due_ms >= 0:
                nap = found.due_ms / 1000 if nap is None else min(nap, found.due_ms / 1000)
        looks += 1
        if only is not None:
            only.waited = True
        if last:
            raise IoTimeout(f"no message became available in {names} within {timeout} s")
        now: float = yield Now()
        if timeout is not None:
            left = timeout - (now - start)
            if left <= 0:
                last = True
                continue
            nap = left if nap is None else min(nap, left)
        if stop is not None and stop():
            yield from _leave(handles, waiters)
            raise OperationCancelled(f"the wait on {names} was not begun: it had been cancelled")
        try:
            woken = yield Wait(nap, (*handles, *scopes))
        except GeneratorExit:
            raise
        except BaseException:
            yield from _leave(handles, waiters)
            raise
        if woken is Woken.CANCELLED:
            yield from _leave(handles, waiters)
            raise OperationCancelled(f"the wait on {names} ended: it was cancelled")


def _check(handles: Sequence[Handle]) -> None:
    if not handles:
        raise InvalidArgument("name at least one queue")
    for handle in handles:
        handle.need("receive")
        if handle.context.keys.tag != handles[0].context.keys.tag:
            raise InvalidArgument("the queues belong to different queue managers")


def _leave(handles: Sequence[Handle], waiters: Sequence[Waiter], found: int = -1) -> Operation[None]:
    """Take the registrations back. One that was rung already passes its wake on."""
    for n, handle in enumerate(handles):
        if n != found and waiters[n].member and waiters[n].ticket not in ("", "leave"):
            try:
                yield from perform(read.leave(handle.address, waiters[n].member))
            except MqError:
                continue  # the broker skips readers that do not listen any more
