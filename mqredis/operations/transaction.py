"""Transactions (MS-MQDMPR 3.1.7.1.8, 3.1.4.3-5).

``Transaction`` of both interfaces and ``worker.transaction_loop`` make them. ``locked`` ends messages that were
locked in a transaction with ``settle_in``, and ``shutdown`` aborts what is open. The ``UnitOfWork`` of
``operations.unit_of_work`` is what all of them share; the interface sets its ``doubts`` before ``End``, from what the
driver knows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from mqredis import keys
from mqredis.commands import manager
from mqredis.commands import transactions as commands
from mqredis.commands.replies import OK, text
from mqredis.commands.settlement import REJECT, RENEW
from mqredis.errors import (
    AccessDenied,
    InvalidArgument,
    InvalidHandle,
    NotSupported,
    TransactionSequence,
)
from mqredis.models import Message
from mqredis.models.lookup_ids import format_id
from mqredis.operations import checks
from mqredis.operations.context import Context, lease_of
from mqredis.operations.open_queue import Handle
from mqredis.operations.queue_call import provide
from mqredis.operations.unit_of_work import UnitOfWork, lapsed
from mqredis.steps import MORE, Call, More, Operation, Reply, Steps, perform, procedure, understand

# What a transaction is after its end; a preparation does not end it.
IN_DOUBT = "in doubt"
_FINISHED = {"commit": "committed", "abort": "aborted", "prepare": ""}
# The ids that ``fresh`` makes. Applications may not choose one, since the broker learns of it only with the first
# operation.
_MADE = re.compile(r"t[0-9]+\.[0-9]+")


def fresh(context: Context, session: str, lease: float | None) -> UnitOfWork:
    """A new unit of work, which its first operation begins."""
    name = f"t{session}.{next(context.transaction_numbers)}"
    return context.unit(UnitOfWork(context, name, lease_of(context, lease)))


@procedure
def begin(
    context: Context, session: Callable[[], str], chosen: str | None, lease: float | None
) -> Steps[UnitOfWork]:
    """A new unit of work, for which a session is opened. With a chosen id the broker is asked at once.

    ``session``: returns the number of the client's session, which is open once this runs.
    """
    if context.settings.read_only:
        raise AccessDenied("this client is read-only (Settings.read_only), so it begins no transaction")
    if chosen is None:
        return fresh(context, session(), lease)
    lease_ms = lease_of(context, lease)
    name = keys.check_name(chosen, "transaction")
    if _MADE.fullmatch(name):
        raise InvalidArgument(f"ids such as {name!r} are made for transactions that are given none")
    identifier = keys.encode(name)
    try:
        granted = yield from perform(commands.begin(context.keys, identifier, lease_ms))
    except TransactionSequence:
        raise TransactionSequence(
            f"a transaction with the id {chosen!r} is open: choose another id"
        ) from None
    unit = context.unit(UnitOfWork(context, identifier, lease_ms, granted.fence))
    unit.renewed(lease_ms)
    return unit


def commit(unit: UnitOfWork, retaining: object) -> End:
    """Commit; that the transaction goes on afterwards is not supported."""
    if checks.flag(retaining, "retaining"):
        raise NotSupported("a commit ends the transaction: begin another one for what follows")
    return End(unit, "commit")


class End(Operation[None]):
    """Commit, abort or prepare a transaction.

    ``given`` and ``verdicts``: how messages are given back (:mod:`mqredis.operations.giveback`).
    """

    __slots__ = ("_call", "given", "outcome", "unit", "verdicts")

    def __init__(
        self, unit: UnitOfWork, outcome: str, given: str = "", verdicts: Mapping[str, str] | None = None
    ) -> None:
        self.unit = unit
        self.outcome = outcome
        self.given = given
        self.verdicts = verdicts

    def request(self) -> Call[list[str]] | None:
        """The end, unless nothing was done in the transaction: then the broker has never heard of it."""
        grant = self.unit.grant()
        return self._request(grant) if self.unit.fence and not self.unit.doubts else None

    def _request(self, grant: str) -> Call[list[str]]:
        unit = self.unit
        self._call = commands.end(
            unit.context.keys, unit.id, grant, self.outcome, unit.paths, self.given, self.verdicts
        )
        return self._call

    def accept(self, reply: Reply) -> More | None:
        """It has ended, unless the script needs more queues."""
        if self._missing(reply):
            return MORE
        self._ended()
        return None

    def resume(self, reply: Reply | None) -> Steps[None]:
        """Ask what became of calls in doubt, and end the transaction with all queues that the script needs.

        If a call was carried out and the application has not seen its result, a commit or a preparation becomes an
        abort: it would lose the messages of that call. All messages go back, also those with verdicts.
        """
        unit, unseen = self.unit, ""
        if reply is None and unit.doubts:
            unseen = yield from self._unseen()
            if unseen and self.outcome != "abort":
                self.outcome, self.given, self.verdicts = "abort", "", None
            else:
                unseen = ""
            if unit.fence:
                reply = yield from self.make(self._request(unit.fence))
        while reply is not None and (missing := self._missing(reply)):
            yield from provide(unit.context.keys, missing)
            unit.paths.update(dict.fromkeys(missing))
            reply = yield from self.make(self._request(unit.fence))
        self._ended()
        if unseen:
            raise TransactionSequence(
                f"transaction {unit.id!r} was aborted: the call with token {unseen!r} was interrupted after the "
                "broker had carried it out; ask resolve(token) before the commit to keep what it did"
            )

    def interrupted(self, call: Call[Any], token: str) -> Steps[None]:  # noqa: ARG002
        """The end may have been carried out, so it counts as ended. ``resolve`` tells what became of it."""
        self.unit.finished = IN_DOUBT
        yield from ()

    def _unseen(self) -> Steps[str]:
        """Token of a call that was carried out and whose outcome the application does not know, or "".

        The first call of a transaction begins it, so the fence may be known from there alone.
        """
        unit, unseen = self.unit, ""
        for doubt in unit.doubts:
            became = yield from perform(manager.resolve(unit.context.keys, doubt.token))
            if became.outcome == "done" and became.status == OK:
                unseen = doubt.token if doubt.unseen else unseen
                unit.fence = unit.fence or text(became.payload[doubt.fence_at])
        return unseen

    def _missing(self, reply: Reply) -> list[str]:
        try:
            return understand(self._call, reply)
        except TransactionSequence:
            self.unit.grant()  # refuses if another task has ended it meanwhile
            self.unit.finished = "over"
            self.unit.rolled_back()
            raise _rolled_back(self.unit) from None

    def _ended(self) -> None:
        """It has ended, or is prepared."""
        unit = self.unit
        if self.outcome == "abort":
            unit.rolled_back()
        elif self.outcome == "commit" and unit.readers:
            unit.committed()
        unit.finished = _FINISHED[self.outcome]


def _rolled_back(unit: UnitOfWork) -> TransactionSequence:
    why = lapsed(unit.context, unit.lapses, "")
    if not why:  # a commit elsewhere leaves the same traces as the end of the lease
        return commands.not_open(unit.id)
    return TransactionSequence(
        f"transaction {unit.id!r} was rolled back, so its messages are back in their places: {why}; call extend() in "
        "time, or give transaction(lease=...) more seconds"
    )


@procedure
def renew(unit: UnitOfWork, lease: float | None) -> Steps[float]:
    """Renew the lease; answers its length in seconds."""
    lease_ms = unit.lease_ms if lease is None else lease_of(unit.context, lease)
    grant = unit.grant()
    if not unit.fence:
        unit.lease_ms = lease_ms
        return lease_ms / 1000
    try:
        left = yield from perform(commands.renew(unit.context.keys, unit.id, grant, lease_ms))
    except TransactionSequence:
        raise _rolled_back(unit) from None
    unit.renewed(left)
    return left / 1000


@procedure
def reject(unit: UnitOfWork, handle: Handle, message: Message, reason: str = "") -> Steps[None]:
    """Mark a message received in this unit of work as rejected."""
    grant = unit.grant()
    if not isinstance(message, Message):
        raise InvalidArgument(f"reject takes a Message, not {type(message).__name__}")
    if message.queue != handle.path:
        raise InvalidArgument(f"the message was read from queue {message.queue!r}, not from {handle.path!r}")
    if not unit.fence:
        raise commands.not_received(unit.id, handle.path, format_id(message.lookup_id))
    yield from _mark(unit, handle, message, grant, checks.reason(reason))


def _mark(unit: UnitOfWork, handle: Handle, message: Message, grant: str, reason: str) -> Steps[None]:
    lookup_id = format_id(message.lookup_id)
    try:
        yield from perform(commands.reject(handle.address, unit.id, grant, lookup_id, reason))
    except TransactionSequence:
        raise _rolled_back(unit) from None


@procedure
def settle_in(
    unit: UnitOfWork, handle: Handle, message: Message, action: str, lease: float | None
) -> Steps[float]:
    """The end of a two-phase read in a transaction (3.1.7.1.12): the message stays locked until that ends (rule 3).

    ``action``: one of ``commands.settlement``. Returns the monotonic time. Raises TransactionSequence if the
    transaction is over, since the message is available again (rule 2). The broker is asked only if the lease is over.
    """
    if handle.closed:
        raise InvalidHandle(
            f"the handle of queue {handle.path!r} is closed; its message is the transaction's"
        )
    grant = unit.grant()
    if action[0] == REJECT:
        yield from _mark(unit, handle, message, grant, action[1:])
    elif action == RENEW:
        yield from renew(unit, lease)
    elif unit.context.clock() >= unit.lapses:
        yield from End(unit, "prepare")
    return unit.context.clock()
