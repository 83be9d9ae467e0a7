"""operator_record.lua: entries of the log for actions that other calls carry out.

``mqredis.operations.actions`` calls it, which also makes the log entry that other scripts take
(lua/admin/operator.lua).
"""

from __future__ import annotations

from dataclasses import dataclass

from mqredis.commands.address import Address
from mqredis.commands.replies import check, text
from mqredis.steps import Call, Payload


@dataclass(frozen=True, slots=True)
class Recorded:
    """The reply about an action."""

    now: bool
    """Does the action begin or end with this call? False: it had begun, or ended, before."""
    outcome: str
    """The outcome with which it has ended, as JSON; "" if it has not."""


def record(log: Address, entry: bytes, outcome: str, changed: int) -> Call[Recorded]:
    """Begin an action, or end it with an outcome. ``log``: the log of actions, with the key of the action's token;
    ``entry``: for the log; ``changed``: how many messages it has changed."""

    def parse(status: int, payload: Payload) -> Recorded:
        check(status)
        return Recorded(text(payload[0]) == "1", text(payload[1]))

    args: list[str | bytes] = ["1", entry, outcome, str(changed)]
    return Call("operator_record", log.call, args, parse)
