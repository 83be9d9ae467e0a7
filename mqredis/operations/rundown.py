"""What a client leaves when it is closed: open transactions abort, locked messages go back (MS-MQMP 3.1.7.3)."""

from __future__ import annotations

from collections.abc import Iterator

from mqredis.commands import read
from mqredis.errors import BrokerUnavailable, MqError, OutcomeUnknown
from mqredis.operations import request, transaction
from mqredis.operations.context import Context
from mqredis.operations.settle import settle
from mqredis.steps import Operation, Steps, procedure


def left(context: Context) -> bool:
    """Is there anything that would otherwise stay until its lease is over?"""
    return bool(context.begun() or context.replies or context.holding())


@procedure
def rundown(context: Context) -> Steps[None]:
    """Give all of it back. Stops where the server does not answer: the leases do it then."""
    for job in _jobs(context):
        try:
            yield from job
        except (BrokerUnavailable, OutcomeUnknown):
            return
        except MqError:
            continue  # it is gone already, or lapsed


def _jobs(context: Context) -> Iterator[Operation[object]]:
    for unit in context.begun():
        yield transaction.End(unit, "abort")
    for handle in context.holding():
        held: list[read.Settlement] = [("a", fence, lookup_id) for lookup_id, fence in handle.locks.items()]
        for start in range(0, len(held), read.BATCH):
            yield settle(handle, held[start : start + read.BATCH])
    yield request.discard_all(context)
