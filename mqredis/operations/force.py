"""Operations by which an operator ends the locks and transactions of other clients.

``Operator`` of both interfaces makes them. Change together with: ``lua/unlock.lua`` and ``lua/tx_abort.lua``, which
read the log entry and the instruction; ``console/sentences.py`` for the names "release" and "abort" and their details.
"""

from __future__ import annotations

from collections.abc import Iterable

from mqredis.commands import bulk as commands
from mqredis.commands.address import Address
from mqredis.commands.settlement import ABORT, REJECT
from mqredis.errors import InvalidArgument
from mqredis.keys import path_of
from mqredis.models.operator import BulkResult
from mqredis.operations import actions, checks
from mqredis.operations.bulk import Chosen
from mqredis.operations.context import Context
from mqredis.operations.queue_call import QueueCall
from mqredis.steps import Steps, procedure


@procedure
def release(
    context: Context,
    operator: actions.Author,
    queue: object,
    lookup_ids: Iterable[int],
    reject: str | None,
    token: str | None,
) -> Steps[BulkResult]:
    """End the locks of readers on these messages: they are given back, or with ``reject``, a reason, rejected.

    Raises InvalidArgument, InvalidName, QueueNotFound.
    """
    path = path_of(queue)
    if lookup_ids is None:
        raise InvalidArgument("release takes the lookup ids of messages, not None")
    ids = Chosen(lookup_ids=tuple(checks.several(lookup_ids, "lookup_ids")), token=token).check()
    given = ABORT if reject is None else REJECT + checks.reason(reject)
    entry = actions.entry(operator, "release", path, {"lookup_ids": ids, "reject": reject})
    address = Address(
        context.keys, path, extra=actions.token_key(context.keys, token, "release", path, given, ids)
    )
    return (yield from QueueCall(address, commands.unlock(address, entry, given, ids)))


@procedure
def abort(context: Context, operator: actions.Author, transaction: object, token: str | None) -> Steps[None]:
    """Abort an open transaction by its id. Raises InvalidArgument, TransactionSequence (it is not open)."""
    if not isinstance(transaction, str) or not transaction or not transaction.isascii():
        raise InvalidArgument(
            f"abort takes the id of a transaction, a str as Transaction.id has it, not {transaction!r:.40}"
        )
    entry = actions.entry(operator, "abort", "", {"transaction": transaction})
    # The script names the queues of the transaction.
    queues = Address(context.keys, "", extra=actions.token_key(context.keys, token, "abort", transaction))
    yield from QueueCall(queues, commands.abort(queues, entry, transaction))
