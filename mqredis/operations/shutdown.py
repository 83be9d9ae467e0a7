"""Closing a client: open transactions abort and locked messages are released (MS-MQMP 3.1.7.3).

``QueueManager.close`` of both interfaces makes it. A client may hold transactions, locks, handles on subqueues, reply
queues and leftovers (``request.discard_all`` removes the last two). What else it may hold needs a line in both
functions. tests/client/test_close.py tests it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mqredis.commands import queues
from mqredis.errors import MqError
from mqredis.operations import request, transaction
from mqredis.operations.context import Context
from mqredis.operations.leftovers import UNREACHABLE
from mqredis.operations.settle import give_back_all
from mqredis.steps import Operation, Steps, perform, procedure


def holds_anything(context: Context) -> bool:
    """Does the client hold anything that would stay: locks, transactions, perhaps empty subqueues?"""
    # Other handles end with the session. So only a client that has made requests may have left something else.
    left = context.leftovers if context.has_requested else ()
    return bool(context.begun() or context.replies or left or context.holding() or context.subqueues)


@procedure
def shut_down(context: Context) -> Steps[None]:
    """Release all locks, abort all transactions and close the subqueues of the client.

    If the server does not answer, leases end, and ``maintain`` removes empty subqueues.
    """
    for operation in _operations(context):
        try:
            yield from operation
        except UNREACHABLE:
            return
        except MqError:
            continue  # it is released already, or its lease has lapsed


def _operations(context: Context) -> Iterator[Operation[Any]]:
    for unit in context.begun():
        yield transaction.End(unit, "abort")
    for handle in context.holding():
        yield give_back_all(handle)
    # An empty subqueue goes with its last handle, for which the script needs the keys of the subqueue.
    for number, address in context.subqueues.copy().items():
        yield perform(queues.close_handle(context.keys, address.family, number))
    yield request.discard_all(context)
