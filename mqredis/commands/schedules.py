"""schedule_list.lua, schedule_write.lua: schedules that are stored in the broker.

``mqredis.operations.schedules`` calls it. ``codec.schedules`` has the texts and messages;
``tests/contract/test_arguments.py`` compares their forms and ``MOST``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mqredis import keys
from mqredis.commands.address import Address
from mqredis.commands.replies import check, number, text
from mqredis.keys import KeySet, ManagerKeys
from mqredis.status import Status
from mqredis.steps import Arg, Call, Payload

# Schedules of a queue manager at most (`most` in lua/admin/schedules.lua).
MOST = 1000


@dataclass(frozen=True, slots=True)
class Listed:
    """Schedules as they are stored, at a time. All times are in ms since 1970."""

    now_ms: int
    first_ms: int
    """The first time to come of all schedules; 0: there is none."""
    rows: Sequence[tuple[str, str, bytes]]
    """Name, text and message of each."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a schedule."""

    text: str = ""
    """The new text; "" removes the schedule."""
    message: bytes = b""
    """The new message, as it is stored; empty: the message does not change."""
    queue: str = ""
    """The queue to which the message is sent now; "": none is sent."""
    slot_ms: int = 0
    """The time for which it is sent, in ms since 1970."""


@dataclass(frozen=True, slots=True)
class Written:
    """Was the schedule changed? If not, its present text, or the reason."""

    done: bool = False
    now_ms: int = 0
    """Set, as the next two, if the schedule has another text than was expected."""
    text: str = ""
    """Its present text; "" if there is no such schedule."""
    message: bytes = b""
    full: bool = False
    """The manager has as many schedules as it may have."""


def listing(manager: ManagerKeys, due: bool) -> Call[Listed]:
    """All schedules; or those that are due, without their messages."""

    def parse(status: int, payload: Payload) -> Listed:
        check(status)
        now_ms, first_ms, *rest = payload
        rows = [
            (text(name), text(definition), message)
            for name, definition, message in zip(rest[::3], rest[1::3], rest[2::3], strict=True)
        ]
        return Listed(number(now_ms), number(first_ms), rows)

    named = KeySet((*manager.call().keys, *manager.schedules))
    return Call("schedule_list", named, [str(int(due))], parse, changes=False)


def write(
    queues: Address, with_token: bool, entry: bytes, name: str, expected: str, change: Change
) -> Call[Written]:
    """Change a schedule whose text is ``expected``. ``entry``: for the log, or b"".

    ``queues``: that of the change, and the log of actions; the keys of schedules, and that of a token, follow theirs.
    """

    def parse(status: int, payload: Payload) -> Written:
        check(status, _refusals(change.queue).get(status, ""))
        outcome, *rest = payload
        if outcome != b"0":
            return Written(done=outcome == b"1", full=outcome == b"full")
        now_ms, current, message = rest
        return Written(now_ms=number(now_ms), text=text(current), message=message)

    args: list[Arg] = ["1" if with_token else "", entry, name, expected, change.text, change.message]
    args += [keys.encode(change.queue), repr(change.slot_ms / 1000)]
    return Call("schedule_write", queues.call, args, parse)


def _refusals(queue: str) -> dict[int, str]:
    return {
        Status.QUEUE_NOT_FOUND: f"there is no queue {queue!r} for the message of the schedule",
        Status.XACT_E_NOTSUPPORTED: f"queue {queue!r} is a topic: a schedule sends to a queue",
        Status.SCHEDULE_DAMAGED: "its stored message is missing or damaged, so nothing was sent: remove the "
        "schedule, and create it again",
    }
