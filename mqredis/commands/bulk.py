"""bulk.lua, unlock.lua, tx_abort.lua: actions of operators.

``mqredis.operations.bulk`` and ``force`` call it; ``Operator`` (``asyncio.operator``) names the action "count". The
names of actions are those of ``lua/admin/bulk_actions.lua`` (``tests/contract/test_arguments.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mqredis import keys
from mqredis.commands.address import Address
from mqredis.commands.replies import check, check_queue, number, text
from mqredis.models.operator import BulkResult
from mqredis.status import Status
from mqredis.steps import Arg, Call, Payload

# Which messages an action takes.
AVAILABLE, DELAYED = "ad"


@dataclass(frozen=True, slots=True)
class Action:
    """An action of bulk.lua: its name, its value, and which messages it takes."""

    name: str
    value: str = ""
    """ARGV[6] of bulk.lua, whose head says what it is for each action."""
    which: str = DELAYED + AVAILABLE


def bulk(
    address: Address,
    entry: bytes,
    action: Action,
    most: int | None,
    cursor: str,
    match: bytes,
    lookup_ids: Sequence[str],
) -> Call[BulkResult]:
    """Carry out one call of an action. ``entry``: what is written to the log, or nothing. ``cursor``: "" at first, then
    that of the result before; it is None once all is done."""

    def parse(status: int, payload: Payload) -> BulkResult:
        if status == Status.QUEUE_NOT_FOUND and keys.kept_by_broker(address.path):
            # The broker creates it with its first message.
            return BulkResult(changed=0, missing=len(lookup_ids))
        if status != Status.CONTINUE:
            check_queue(status, address.path)
        changed, locked, missing = (number(item) for item in payload[:3])
        place = text(payload[3]) if status == Status.CONTINUE else None
        return BulkResult(changed=changed, locked=locked, missing=missing, cursor=place)

    args: list[Arg] = ["1" if address.extra else "", entry, action.name, action.value, action.which]
    args += ["" if most is None else str(most), cursor, match, *lookup_ids]
    return Call("bulk", address.call, args, parse)


def unlock(address: Address, entry: bytes, given: str, lookup_ids: Sequence[str]) -> Call[BulkResult]:
    """End the locks of readers on these messages. ``given``: how, as lua/unlock.lua reads it."""

    def parse(status: int, payload: Payload) -> BulkResult:
        check_queue(status, address.path)
        changed, locked, missing = (number(item) for item in payload)
        return BulkResult(changed=changed, locked=locked, missing=missing)

    args: list[Arg] = ["1" if address.extra else "", entry, given, *lookup_ids]
    return Call("unlock", address.call, args, parse)


def abort(queues: Address, entry: bytes, transaction: str) -> Call[None]:
    """Abort an open transaction. ``queues``: those that it has touched, as far as they are known."""

    def parse(status: int, _payload: Payload) -> None:
        refused = status == Status.TRANSACTION_SEQUENCE
        check(status, f"no transaction {transaction!r:.300} is open" if refused else "")

    args: list[Arg] = ["1" if queues.extra else "", entry, transaction]
    return Call("tx_abort", queues.call, args, parse)
