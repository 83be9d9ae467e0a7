"""Dead letters and journal copies back to where they came from, and statistics."""

from __future__ import annotations

from collections.abc import Callable

from mqredis import keys
from mqredis.commands import features
from mqredis.commands.common import subqueue_parts
from mqredis.errors import InvalidArgument
from mqredis.models import Access, Message, QueueStatistics, Share
from mqredis.operations import checks, peek
from mqredis.operations.context import Context, Handle
from mqredis.operations.queue import close_handle, open_handle
from mqredis.operations.reach import reach
from mqredis.steps import Now, Operation, Wait, perform


def statistics(context: Context, name: object) -> Operation[QueueStatistics]:
    """What is in a queue and passes through it."""
    queue, sub = subqueue_parts(name)
    return (yield from perform(features.statistics(context.keys, f"{queue};{sub}" if sub else queue)))


def redrive(
    context: Context,
    source: object,
    where: Callable[[Message], bool] | None,
    to: object,
    limit: int | None,
    rate: float | None,
) -> Operation[int]:
    """Send messages of ``source`` back; answers how many went."""
    target = "" if to is None else keys.check_name(to)
    most = None if limit is None else checks.count(limit, "limit", 1 << 53)
    pace = None if rate is None else checks.seconds(rate, "rate", positive=True)
    if where is not None and not callable(where):
        raise InvalidArgument(f"where must be a function of a Message, not {where!r:.40}")
    handle = yield from open_handle(context, source, Access.RECEIVE, Share.DENY_NONE)
    try:
        went = yield from _redrive(handle, where, target, most, pace)
    except GeneratorExit:
        raise
    except BaseException:
        yield from close_handle(handle)
        raise
    yield from close_handle(handle)
    return went


def _redrive(
    handle: Handle, where: Callable[[Message], bool] | None, target: str, most: int | None, pace: float | None
) -> Operation[int]:
    # A paced redrive goes a tenth of a second at a time, at least one message.
    batch = peek.PAGE if pace is None else max(1, min(peek.PAGE, int(pace / 10)))
    start: float = yield Now()
    after: int | None = None
    went = 0
    while most is None or went < most:
        page = yield from peek.page(handle, after, batch)
        if not page:
            break
        after = page[-1].lookup_id
        chosen = [f"{message.lookup_id:016x}" for message in page if where is None or where(message)]
        chosen = chosen if most is None else chosen[: most - went]
        if not chosen:
            continue
        moved, _ = yield from reach(handle.address, features.redrive(handle.address, target, chosen))
        went += moved
        while pace is not None:
            now: float = yield Now()
            left = went / pace - (now - start)
            if left <= 0:
                break
            yield Wait(left, (handle,))
    return went
