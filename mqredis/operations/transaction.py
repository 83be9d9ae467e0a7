"""Transactions (MS-MQDMPR 3.1.7.1.8, 3.1.4.3-5)."""

from __future__ import annotations

from mqredis import keys
from mqredis.commands import transactions as commands
from mqredis.errors import InvalidArgument, OutcomeUnknown, TransactionSequence, TransactionUsage
from mqredis.models import Message
from mqredis.operations import checks
from mqredis.operations.context import Context, Handle, UnitOfWork, lease_of
from mqredis.operations.reach import provide
from mqredis.steps import Operation, perform

#: What a transaction is after its end; a preparation does not end it.
_FINISHED = {"commit": "committed", "abort": "aborted", "prepare": ""}


def begin(context: Context, session: str, chosen: str | None, lease: float | None) -> Operation[UnitOfWork]:
    """A new unit of work. With a chosen id the broker is asked at once; else its first operation begins it."""
    lease_ms = lease_of(context, lease)
    if chosen is None:
        context.transactions += 1
        return UnitOfWork(context, f"t{session}.{context.transactions}", lease_ms)
    identifier = keys.encode(keys.check_name(chosen, "transaction"))
    granted = yield from perform(commands.begin(context.keys, identifier, lease_ms))
    return UnitOfWork(context, identifier, lease_ms, granted.fence)


def end(unit: UnitOfWork, outcome: str) -> Operation[None]:
    """Commit, abort or prepare."""
    grant = unit.grant()
    if not unit.fence:
        # Nothing was done in it, so the broker has never heard of it.
        unit.finished = _FINISHED[outcome]
        return
    try:
        missing = yield from perform(commands.end(unit.context.keys, unit.id, grant, outcome, unit.paths))
        while missing:
            yield from provide(unit.context.keys, missing)
            unit.paths.update(dict.fromkeys(missing))
            missing = yield from perform(commands.end(unit.context.keys, unit.id, grant, outcome, unit.paths))
    except TransactionSequence:
        unit.finished = "rolled back"
        unit.rolled_back()
        raise
    except OutcomeUnknown:
        unit.finished = "in doubt"
        raise
    if outcome == "abort":
        unit.rolled_back()
    elif outcome == "commit":
        unit.committed()
    unit.finished = _FINISHED[outcome]


def renew(unit: UnitOfWork, lease: float | None) -> Operation[float]:
    """Renew the lease; answers its length in seconds."""
    lease_ms = unit.lease_ms if lease is None else lease_of(unit.context, lease)
    grant = unit.grant()
    if not unit.fence:
        unit.lease_ms = lease_ms
        return lease_ms / 1000
    left = yield from perform(commands.renew(unit.context.keys, unit.id, grant, lease_ms))
    return left / 1000


def reject(unit: UnitOfWork, handle: Handle, message: Message, reason: str = "") -> Operation[None]:
    """Mark a message received in this unit of work as rejected."""
    grant = unit.grant()
    if not unit.fence:
        raise TransactionUsage("the message was not received in this transaction")
    if not isinstance(message, Message):
        raise InvalidArgument(f"reject takes a Message, not {type(message).__name__}")
    if message.queue != handle.path:
        raise InvalidArgument(f"the message was read from queue {message.queue!r}, not from {handle.path!r}")
    lookup_id = f"{message.lookup_id:016x}"
    yield from perform(commands.reject(handle.address, unit.id, grant, lookup_id, checks.reason(reason)))
