"""begin.lua, commit.lua, renew.lua, reject.lua, tx_sweep.lua: MS-MQDMPR 3.1.7.1.8, 3.1.4.3-5.

``mqredis.operations.transaction`` and ``manager`` make the calls. ``drivers.outcomes`` notes a :class:`Doubt` for a
call that ended without a reply, which ``operations.transaction.End`` asks for. ``operations.refusals`` takes the error
texts of other scripts from here. The places of fences and owners in calls, and of the outcome, are in ``arguments``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from mqredis.commands.address import Address
from mqredis.commands.arguments import FENCES, argument, mode_of, transaction_of
from mqredis.commands.replies import OK, check, names_in, number, text
from mqredis.errors import TransactionSequence, TransactionUsage, error_for
from mqredis.keys import ManagerKeys
from mqredis.status import Status
from mqredis.steps import Call, Payload


@dataclass(slots=True)
class Doubt:
    """A call in a transaction whose outcome is unknown."""

    token: str
    transaction: str
    fence_at: int
    """Where the reply has the fence of the transaction."""
    unseen: bool = True
    """Has the application not asked for the outcome yet?"""


def doubt(token: str, call: Call[Any]) -> Doubt | None:
    """The Doubt of a call with an unknown outcome; None if it is not part of a transaction."""
    owner = transaction_of(call)
    return Doubt(token, owner, FENCES[call.script]) if owner else None


def usage(call: Call[Any], path: str) -> TransactionUsage:
    """The error for a call on queue ``path`` that was refused with TRANSACTION_USAGE: what to do instead."""
    if mode_of(call) == "peek":
        return TransactionUsage(
            f"message 0x{argument(call, 'ids')} of queue {path!r} is locked, so a peek does not show it: peek again "
            "when its reader has settled it, or lock it with allow_peek=True"
        )
    if transaction_of(call):
        return TransactionUsage(
            f"queue {path!r} is not transactional, but the call names a transaction: leave transaction= out, or "
            "create the queue with transactional=True"
        )
    return TransactionUsage(
        f"queue {path!r} is transactional, and the message was sent without a transaction: pass transaction=..., "
        "see qm.transaction()"
    )


def not_open(transaction: str) -> TransactionSequence:
    """The error for a call in a transaction that is not open any more."""
    return TransactionSequence(
        f"transaction {transaction!r} is not open any more, and this call did nothing: its lease is over, which has "
        "undone all that was done in it, or another thread, task or client has ended it"
    )


@dataclass(slots=True)
class Granted:
    """Fence and remaining lease of a transaction."""

    fence: str
    lease_ms: int


def begin(manager: ManagerKeys, transaction: str, lease_ms: int) -> Call[Granted]:
    """Begin a transaction under a chosen id."""

    def parse(status: int, payload: Payload) -> Granted:
        check(status)
        return Granted(text(payload[0]), number(payload[1]) - number(payload[2]))

    return Call("begin", manager.call(), [transaction, str(lease_ms)], parse)


def end(
    manager: ManagerKeys,
    transaction: str,
    fence: str,
    outcome: str,
    paths: Iterable[str],
    given: str = "",
    verdicts: Mapping[str, str] | None = None,
) -> Call[list[str]]:
    """Commit, abort or prepare. Returns the queues that the call has to name as well; empty when done.

    ``given``: how an abort gives back what was received. ``verdicts``: by lookup id, how single messages are given
    back, also by a commit. Both as ``release.note_verdict`` in lua/core/release.lua reads them.
    """
    args = [transaction, fence, outcome]
    if given or verdicts:
        args.append(given)
        for lookup_id, verdict in (verdicts or {}).items():
            args += [lookup_id, verdict]
    return Call("commit", manager.call(*paths), args, _missing)


def _missing(status: int, payload: Payload) -> list[str]:
    if status == OK:
        return []
    if status == Status.KEYS_CHANGED:
        return names_in(payload)
    raise error_for(status)


def renew(manager: ManagerKeys, transaction: str, fence: str, lease_ms: int) -> Call[int]:
    """Renew the lease. Returns its length in ms."""

    def parse(status: int, payload: Payload) -> int:
        check(status)
        return number(payload[0]) - number(payload[1])

    return Call("renew", manager.call(), [transaction, fence, str(lease_ms)], parse)


def sweep(manager: ManagerKeys, cursor: str) -> Call[str]:
    """Forget lapsed transactions, from a place in a scan on: "0" to begin. Returns the next place, "" at the end."""

    def parse(status: int, payload: Payload) -> str:
        if status == Status.CONTINUE:
            return text(payload[0])
        check(status)
        return ""

    return Call("tx_sweep", manager.call(), [cursor], parse)


def reject(queue: Address, transaction: str, fence: str, lookup_id: str, reason: str) -> Call[None]:
    """Mark a received message as rejected."""
    args = [transaction, fence, lookup_id, reason]

    def parse(status: int, _payload: Payload) -> None:
        if status == Status.TRANSACTION_USAGE:
            raise not_received(transaction, queue.path, lookup_id)
        check(status)

    return Call("reject", queue.call, args, parse)


def not_received(transaction: str, path: str, lookup_id: str) -> TransactionUsage:
    """The error for the rejection of a message that the transaction has not received."""
    return TransactionUsage(
        f"message 0x{lookup_id} of queue {path!r} was not received in transaction {transaction!r}: reject what "
        "receive(transaction=...) has returned"
    )
