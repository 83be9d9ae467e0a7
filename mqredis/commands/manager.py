"""session_*.lua, manager_*.lua, resolve.lua, maintain.lua, poll_all.lua: MS-MQDMPR 3.1.1.1.

``mqredis.operations`` calls it: ``manager``, ``queue`` (``maintain``), ``server_checks`` (``preflight``), and
``interruption``, ``leftovers`` and ``transaction`` (``resolve``). Of the drivers, ``drivers.core`` opens sessions with
it and ``drivers.waiting.table`` polls. ``Resolution`` is public: ``QueueManager.resolve`` of both interfaces, asyncio
and blocking, returns it.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from mqredis.commands.address import Address
from mqredis.commands.replies import check, number, text
from mqredis.errors import InvalidArgument, InvariantBroken, SessionExpired
from mqredis.keys import KeySet, ManagerKeys
from mqredis.models import ManagerInfo, Message
from mqredis.status import Status
from mqredis.steps import Arg, Call, Payload

# Stored replies of calls that did nothing: a call that asked for more queues, a wait that was cancelled, and a call
# that a ``resolve`` before it has prevented.
_NOTHING_DONE = (Status.KEYS_CHANGED, Status.OPERATION_CANCELLED)


@dataclass(slots=True)
class Resolution:
    """The outcome of a call whose reply was lost.

    ``outcome`` is "done" (with its ``status`` and what it answered), "never" (it did not run and never will) or
    "superseded" (a later call used the slot, which happens only after the client has read the answer).
    """

    outcome: str
    status: int = 0
    """Status of the call (``mqredis.Status``)."""
    lookup_ids: tuple[str, ...] = ()
    """Lookup ids of the messages that it locked, or took in a transaction, as 16 hex digits each."""
    payload: tuple[bytes, ...] = ()
    """The rest of the reply, as the script wrote it; empty if ``messages`` has it. Of a send: the lookup ids of its
    messages, 16 hex digits for each, in one text."""
    messages: tuple[Message, ...] = ()
    """The messages that it took, outside of a transaction, if the client that asks has made the call."""


def resolve(manager: ManagerKeys, token: str) -> Call[Resolution]:
    """Ask for the outcome of a token (``OutcomeUnknown.token``)."""
    slot, colon, sequence = token.partition(":")
    session, dot, place = slot.partition(".")
    numbers = session.isdecimal() and place.isdecimal() and sequence.isdecimal() and token.isascii()
    if not (colon and dot and numbers and len(place) < 7 and len(session) < 16 and len(sequence) < 16):
        raise InvalidArgument(f"{token!r} is not an operation token")

    def parse(status: int, payload: Payload) -> Resolution:
        check(status)
        outcome = text(payload[0])
        if outcome == "expired":
            raise SessionExpired(
                f"the session of {token} is over: the outcome of the call is not known any more"
            )
        if outcome != "done":
            return Resolution(outcome)
        if number(payload[1]) in _NOTHING_DONE:
            return Resolution("never")
        ids = text(payload[2])
        return Resolution(
            outcome,
            number(payload[1]),
            () if ids == "-" else tuple(ids.split(",")),
            tuple(payload[3:]),
        )

    return Call("resolve", manager.call(), [slot, sequence], parse)


def update(manager: ManagerKeys, what: str, value: str, extra: str = "") -> Call[None]:
    """Set throttle, quota or test clock."""

    def parse(status: int, _payload: Payload) -> None:
        check(status, "the clock moves only in a manager created with Settings(test_clock=True)")

    return Call("manager_update", manager.call(), [what, value, extra], parse)


def info(manager: ManagerKeys) -> Call[ManagerInfo]:
    """State of the queue manager."""

    def parse(status: int, payload: Payload) -> ManagerInfo:
        check(status)
        queues, sessions, transactions, messages, size, incarnation, history, schema, throttled, *quotas = (
            payload
        )
        limits = [number(item) if item else None for item in quotas]
        return ManagerInfo(
            name=manager.manager,
            incarnation=text(incarnation),
            history=number(history),
            schema_version=number(schema),
            throttled=throttled == b"1",
            quota_messages=limits[0],
            quota_bytes=limits[1],
            messages=number(messages),
            bytes=number(size),
            queues=number(queues),
            sessions=number(sessions),
            transactions=number(transactions),
        )

    return Call("manager_info", manager.admin(), [], parse, changes=False)


def maintain(queue: Address) -> Call[bool]:
    """Serve due timers of a queue; True if more is due."""

    def parse(status: int, _payload: Payload) -> bool:
        if status in (Status.CONTINUE, Status.QUEUE_NOT_AVAILABLE):
            return status == Status.CONTINUE
        check(status)
        return False

    return Call("maintain", queue.call, [], parse)


def poll_all(
    manager: ManagerKeys, queues: Sequence[tuple[str, ...]], slots: Sequence[tuple[str, int]] = ()
) -> Call[tuple[list[bool], list[bool], int | None]]:
    """For each of these queues, given by their keys: would a fetch find a message, or is a timer due? For each of
    the slots: was a call answered that comes behind the last one we know of? And the ms until the next timer of a
    queue, None if there is none.

    Raises whatever a refusal stands for, and InvariantBroken for an answer about fewer or more queues or slots.
    """

    def parse(status: int, payload: Payload) -> tuple[list[bool], list[bool], int | None]:
        check(status)
        size = 2 * len(queues)
        if len(payload) != size + len(slots):
            raise InvariantBroken(
                f"poll_all returned {len(payload)} elements for {len(queues)} queues and {len(slots)} slots"
            )
        timers = [ms for ms in map(int, payload[1:size:2]) if ms > 0]
        found, handed_over = payload[:size:2], payload[size:]
        return [b == b"1" for b in found], [b == b"1" for b in handed_over], min(timers, default=None)

    keys = manager.call().keys + tuple(itertools.chain.from_iterable(queues))
    args = [part for name, last in slots for part in (name, str(last))]
    return Call("poll_all", KeySet(keys), args, parse, changes=False)


def preflight(manager: ManagerKeys, database: int) -> Call[list[str]]:
    """The commands that this user may not run. Called before there is a session, so the reply is raw."""

    def parse(_: int, reply: Payload) -> list[str]:
        return [text(item) for item in reply[3:]]

    return Call("preflight", manager.admin(), [manager.channel("0.1", database)], parse, changes=False)


def session_arguments(
    ttl_ms: int, run_id: str, test: bool, incarnation: str, session: str = "", client: str = ""
) -> Sequence[Arg]:
    """ARGV of session_open after the token."""
    return [str(ttl_ms), run_id, "1" if test else "0", incarnation, session, client]
