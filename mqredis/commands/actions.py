"""operator_record.lua: entries of the log for actions that other calls carry out.

``mqredis.operations.actions`` calls it, which also makes the log entry that other scripts take
(lua/admin/operator.lua).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mqredis.commands.replies import Missing, check, missing_of, text
from mqredis.keys import KeySet, ManagerKeys
from mqredis.steps import Call, Payload


@dataclass(frozen=True, slots=True)
class Recorded:
    """The reply about an action."""

    now: bool
    """Does the action begin or end with this call? False: it had begun, or ended, before."""
    outcome: str
    """The outcome with which it has ended, as JSON; "" if it has not."""


def record(
    manager: ManagerKeys,
    paths: Sequence[str],
    extra: tuple[str, ...],
    entry: bytes,
    outcome: str,
    changed: int,
) -> Call[Recorded | Missing]:
    """Begin an action, or end it with an outcome. ``extra``: the key of its token; ``entry``: for the log; ``changed``:
    how many messages it has changed."""

    def parse(status: int, payload: Payload) -> Recorded | Missing:
        if (missing := missing_of(status, payload)) is not None:
            return missing
        check(status)
        return Recorded(text(payload[0]) == "1", text(payload[1]))

    args: list[str | bytes] = ["1", entry, outcome, str(changed)]
    return Call("operator_record", KeySet((*manager.call(*paths).keys, *extra)), args, parse)
