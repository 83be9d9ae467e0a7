"""Which calls change something for good (docs/decisions/durability.md), told from their arguments.

What a lease undoes anyway (locks, what is done in a transaction before its commit, aborts) is not for good.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mqredis.commands.read import IN_VAIN, settles
from mqredis.status import Status
from mqredis.steps import Arg, Call

#: Scripts that answer from a message or without one.
READS = ("receive", "lookup")


def _always(_args: Sequence[Arg]) -> bool:
    return True


#: Scripts that may change something for good, and with which arguments.
_LASTING: dict[str, Callable[[Sequence[Arg]], bool]] = {
    "send": lambda args: len(args) == 3 or args[1] == "",  # of one message without more it says no transaction
    "publish": lambda args: args[1] == "",
    "receive": lambda args: args[1] == "take" or settles(args),
    "lookup": lambda args: args[1] == "take",
    "settle": lambda args: any(str(action)[0] in "cj" for action in args[2::3]),
    "commit": lambda args: args[2] == "commit",
    "move": lambda args: args[3] == "",
    **dict.fromkeys(
        ("purge", "redrive", "subscribe", "queue_create", "queue_update", "queue_delete", "manager_update",
         "claim_commit", "stage_publish"),
        _always,
    ),
}  # fmt: skip


def lasting(call: Call[Any]) -> bool:
    """Is this a change that stays?"""
    counts = _LASTING.get(call.script)
    return counts is not None and counts(call.args)


def changed(call: Call[Any], status: int) -> bool:
    """Did a lasting call that was answered so do anything? A refusal and a look in vain did not."""
    return status == Status.OK or (call.script == "receive" and status in IN_VAIN and settles(call.args))
