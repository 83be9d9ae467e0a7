"""Closing a client: open transactions abort and locked messages are released (MS-MQMP 3.1.7.3).

``QueueManager.close`` of both interfaces makes it. A client may hold transactions, locks, reply queues and leftovers
(``request.discard_all`` removes the last two). What else it may hold needs a line in both functions.
tests/client/test_close.py tests it.
"""

from __future__ import annotations

from collections.abc import Iterator

from mqredis.errors import BrokerUnavailable, MqError, OutcomeUnknown
from mqredis.operations import request, transaction
from mqredis.operations.context import Context
from mqredis.operations.settle import abort_all
from mqredis.steps import Operation, Steps, procedure


def holds_anything(context: Context) -> bool:
    """Does the client hold locks or transactions that would stay until their leases end?"""
    # Handles end with the session. So only a client that has made requests may have left something else.
    left = context.leftovers if context.reply_queues else ()
    return bool(context.begun() or context.replies or left or context.holding())


@procedure
def shut_down(context: Context) -> Steps[None]:
    """Release all locks and abort all transactions of the client. If the server does not answer, their leases end."""
    for operation in _operations(context):
        try:
            yield from operation
        except (BrokerUnavailable, OutcomeUnknown):
            return
        except MqError:
            continue  # it is released already, or its lease has lapsed


def _operations(context: Context) -> Iterator[Operation[object]]:
    for unit in context.begun():
        yield transaction.End(unit, "abort")
    for handle in context.holding():
        yield from abort_all(handle)
    yield request.discard_all(context)
