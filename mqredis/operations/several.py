"""Reading from the first non-empty one of several queues, in the order in which they are named.

One operation waits on all of them: its slot is registered in each queue, and a notification of any of them wakes it.

``worker.lock_loop``, ``worker.transaction_loop`` and ``kombu.fetcher`` make them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from mqredis.commands import read
from mqredis.errors import InvalidArgument, MqError
from mqredis.models import Message
from mqredis.operations import checks
from mqredis.operations.context import lease_of
from mqredis.operations.earlier_locks import NO_LOCKS, EarlierLocks
from mqredis.operations.leftovers import UNREACHABLE
from mqredis.operations.open_queue import Handle
from mqredis.operations.receive import Locks, fetch, record_locks
from mqredis.operations.unit_of_work import UnitOfWork
from mqredis.operations.wait import Reader, until_any
from mqredis.steps import Steps, procedure


@procedure
def lock(
    handles: Sequence[Handle],
    count: int | Sequence[int],
    timeout: float | None,
    lease: float | None,
    settling: Sequence[EarlierLocks] = (),
    scopes: Sequence[object] = (),
    stop: Callable[[], bool] | None = None,
) -> Steps[tuple[int, Locks]]:
    """Lock up to ``count`` messages of the first non-empty queue. Returns the queue's index and the locks.

    ``count``: for all, or one for each queue. ``settling``: per queue, earlier locks to settle, whatever is found.
    Those of a queue that was deleted, or cannot be settled for another reason, are still pending then.
    """
    _check(handles)
    counts = _counts(handles, count)
    lease_ms = str(lease_of(handles[0].context, lease))
    earlier = settling or [NO_LOCKS] * len(handles)
    for n, handle in enumerate(handles):
        while earlier[n].pending() > read.BATCH:
            yield from earlier[n].settle_some(handle)
    readers = [
        Reader(
            handle,
            partial(fetch, handle=handle, mode="lock", count=counts[n], lease=lease_ms, earlier=earlier[n]),
            steady=True,
            lease=lease_ms,
            locks=True,
        )
        for n, handle in enumerate(handles)
    ]
    at, found = yield from until_any(readers, timeout, scopes, stop)
    locks = record_locks(handles[at], found, lease_ms)
    for n, handle in enumerate(handles):
        if earlier[n].pending():
            try:
                yield from earlier[n].settle_some(handle)
            except UNREACHABLE:
                break  # each further call would wait for the server again, while the new leases run
            except MqError:
                continue  # to raise it would leave the new locks without a holder
    return at, locks


@procedure
def receive(
    handles: Sequence[Handle],
    count: int | Sequence[int],
    timeout: float | None,
    unit: UnitOfWork,
    scopes: Sequence[object] = (),
    stop: Callable[[], bool] | None = None,
) -> Steps[tuple[int, list[Message]]]:
    """Receive in a transaction up to ``count`` messages of the first non-empty queue; ``count`` as for ``lock``."""
    _check(handles)
    readers = [
        Reader(handle, partial(fetch, handle=handle, mode="tx", count=each, unit=unit), unit=unit)
        for handle, each in zip(handles, _counts(handles, count), strict=True)
    ]
    at, found = yield from until_any(readers, timeout, scopes, stop)
    unit.touched(found.fence, handles[at])
    return at, handles[at].context.messages(handles[at].path, found.messages)


def _counts(handles: Sequence[Handle], count: int | Sequence[int]) -> list[int]:
    """How many messages each of the queues may give. Raises InvalidArgument."""
    counts = [count] * len(handles) if isinstance(count, int) else count
    return [checks.count(each, "max", read.BATCH) for each in counts]


def _check(handles: Sequence[Handle]) -> None:
    if not handles:
        raise InvalidArgument("name at least one queue")
    for handle in handles:
        handle.need("receive")
        if handle.context.keys.tag != handles[0].context.keys.tag:
            raise InvalidArgument("the queues belong to different queue managers")
