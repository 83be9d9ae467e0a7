"""Sends dead letters and journal copies back to their queues: ``QueueManager.redrive``.

``Operator.redrive`` is another operation (``bulk``), which chooses messages in the broker alone and is logged.
"""

from __future__ import annotations

from collections.abc import Callable

from mqredis import keys
from mqredis.commands import features
from mqredis.errors import InvalidArgument
from mqredis.models import Access, Match, Message, Share
from mqredis.models.lookup_ids import format_id
from mqredis.operations import checks, matching, peek
from mqredis.operations.context import Context
from mqredis.operations.handle import closing, open_handle
from mqredis.operations.matching import Selection
from mqredis.operations.open_queue import Handle
from mqredis.operations.queue import info
from mqredis.operations.queue_call import QueueCall
from mqredis.steps import Steps, Wait, Woken, procedure

# The part of a lookup id that counts up.
SEQUENCE = (1 << 56) - 1


@procedure
def redrive(
    context: Context,
    source: object,
    where: Callable[[Message], bool] | None,
    to: object,
    limit: int | None,
    rate: float | None,
    match: Match | None = None,
    selector: Selection = None,
) -> Steps[int]:
    """Send messages of ``source`` back. Returns how many. Raises QueueNotFound if there is no queue ``to``."""
    target = "" if to is None else keys.check_name(to)
    most = None if limit is None else checks.count(limit, "limit", 1 << 53)
    pace = None if rate is None else checks.seconds(rate, "rate", positive=True)
    if where is not None and not callable(where):
        raise InvalidArgument(f"where must be a function of a Message, not {where!r:.40}")
    matching.check(match, selector)
    if target:
        yield from info(context, target)
    handle = yield from open_handle(context, source, Access.RECEIVE, Share.DENY_NONE)
    went = _redrive(handle, where=where, target=target, most=most, pace=pace, match=match, selector=selector)
    return (yield from closing(handle, went))


def _redrive(
    handle: Handle,
    *,
    where: Callable[[Message], bool] | None,
    target: str,
    most: int | None,
    pace: float | None,
    match: Match | None,
    selector: Selection,
) -> Steps[int]:
    """Send at most ``most`` messages to ``target`` ("": where they came from), ``pace`` of them in a second.

    A peek finds the messages by match and selector, and redrive.lua takes those that are still available. Messages
    never change, so each of them still matches. With ``pace`` one call sends what a tenth of a second allows.
    """
    batch = peek.PAGE if pace is None else max(1, min(peek.PAGE, int(pace / 10)))
    clock = handle.context.clock
    start = clock()
    after: int | None = None
    went = 0
    last = SEQUENCE
    while most is None or went < most:
        page = yield from peek.page(handle, after, batch, match, selector)
        if not page:
            break
        chosen: list[str] = []
        for message in page:
            if most is not None and went + len(chosen) == most:
                break  # if one message cannot be sent, the next ones are tried
            after = message.lookup_id
            # A message that expires at once returns as a new dead letter, which is not taken again in this run.
            if message.lookup_id & SEQUENCE <= last and (where is None or where(message)):
                chosen.append(format_id(message.lookup_id))
        if not chosen:
            continue
        moved, before = yield from QueueCall(handle.address, features.redrive(handle.address, target, chosen))
        went += moved
        last = min(last, before)
        while pace is not None and (left := went / pace - (clock() - start)) > 0:
            if (yield Wait(left, (handle,))) is Woken.CANCELLED:
                break  # the client was closed, which the next call says
    return went
