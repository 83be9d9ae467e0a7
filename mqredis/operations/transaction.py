"""Transactions (MS-MQDMPR 3.1.7.1.8, 3.1.4.3-5)."""

from __future__ import annotations

import re
from collections.abc import Mapping

from mqredis import keys
from mqredis.commands import transactions as commands
from mqredis.errors import (
    InvalidArgument,
    InvalidHandle,
    NotSupported,
    OutcomeUnknown,
    TransactionSequence,
    TransactionUsage,
)
from mqredis.models import Message
from mqredis.operations import checks
from mqredis.operations.context import Context, Handle, UnitOfWork, lease_of
from mqredis.operations.reach import provide
from mqredis.steps import NOW, Asked, Operation, perform, understand

#: What a transaction is after its end; a preparation does not end it.
IN_DOUBT = "in doubt"
_FINISHED = {"commit": "committed", "abort": "aborted", "prepare": ""}
#: The ids that ``fresh`` makes. The broker hears of one only with its first operation, so nobody may have taken it.
_MADE = re.compile(r"t[0-9]+\.[0-9]+")


def fresh(context: Context, session: str, lease: float | None) -> UnitOfWork:
    """A new unit of work, which its first operation begins."""
    lease_ms = context.lease_ms if lease is None else lease_of(context, lease)
    context.transactions += 1
    return context.unit(UnitOfWork(context, f"t{session}.{context.transactions}", lease_ms))


def begin(context: Context, session: str, chosen: str | None, lease: float | None) -> Operation[UnitOfWork]:
    """A new unit of work, for which a session is opened. With a chosen id the broker is asked at once."""
    if chosen is None:
        return fresh(context, session, lease)
    lease_ms = lease_of(context, lease)
    name = keys.check_name(chosen, "transaction")
    if _MADE.fullmatch(name):
        raise InvalidArgument(f"ids such as {name!r} are made for transactions that are given none")
    identifier = keys.encode(name)
    granted = yield from perform(commands.begin(context.keys, identifier, lease_ms))
    return context.unit(UnitOfWork(context, identifier, lease_ms, granted.fence))


def commit(unit: UnitOfWork, retaining: object, asked: Asked | None = None) -> Operation[None]:
    """Commit; that the transaction goes on afterwards is not supported."""
    if not isinstance(retaining, bool):
        raise InvalidArgument(f"retaining must be True or False, not {retaining!r:.40}")
    if retaining:
        raise NotSupported("a commit ends the transaction: begin another one for what follows")
    return end(unit, "commit", asked)


def end(
    unit: UnitOfWork,
    outcome: str,
    asked: Asked | None = None,
    given: str = "",
    verdicts: Mapping[str, str] | None = None,
) -> Operation[None]:
    """Commit, abort or prepare. ``asked``: the call that does, for who has made it.

    ``given`` and ``verdicts``: how messages are given back (:mod:`mqredis.operations.giveback`).
    """
    grant = unit.grant() if asked is None else unit.fence
    if not unit.fence:
        # Nothing was done in it, so the broker has never heard of it.
        unit.finished = _FINISHED[outcome]
        return
    try:
        if asked is None:
            call = commands.end(unit.context.keys, unit.id, grant, outcome, unit.paths, given, verdicts)
            missing = understand(call, *(yield call))  # as perform does: a generator less
        else:
            missing = understand(asked[0], *asked[1])
        while missing:
            yield from provide(unit.context.keys, missing)
            unit.paths.update(dict.fromkeys(missing))
            missing = yield from perform(
                commands.end(unit.context.keys, unit.id, grant, outcome, unit.paths, given, verdicts)
            )
    except TransactionSequence:
        unit.finished = "rolled back"
        unit.rolled_back()
        raise
    except OutcomeUnknown:
        unit.finished = IN_DOUBT
        raise
    ended(unit, outcome)


def ended(unit: UnitOfWork, outcome: str) -> None:
    """It has ended, or is prepared."""
    if outcome == "abort":
        unit.rolled_back()
    elif outcome == "commit" and unit.readers:
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
    yield from _mark(unit, handle, message, grant, checks.reason(reason))


def _mark(unit: UnitOfWork, handle: Handle, message: Message, grant: str, reason: str) -> Operation[None]:
    lookup_id = f"{message.lookup_id:016x}"
    yield from perform(commands.reject(handle.address, unit.id, grant, lookup_id, reason))


def settle_in(
    unit: UnitOfWork, handle: Handle, message: Message, action: str, lease: float | None
) -> Operation[float]:
    """The end of a two-phase read in a transaction (3.1.7.1.12 rule 3): the message stays locked until that ends.

    ``action`` as in settle.lua; answers the monotonic time. Raises TransactionSequence when the transaction is over.
    """
    if handle.closed:
        raise InvalidHandle(
            f"the handle of queue {handle.path!r} is closed; its message is the transaction's"
        )
    grant = unit.grant()
    if action[0] == "j":
        yield from _mark(unit, handle, message, grant, action[1:])
    elif action == "x":
        yield from renew(unit, lease)
    now: float = yield NOW
    return now
