"""Tells from the arguments of a call whether it changes anything permanently.

``wrapper`` and ``drivers.durability`` ask it.

What a lease undoes is not permanent: locks, the operations of a transaction before its commit, and aborts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mqredis.commands.read import NOTHING_FOUND, settles
from mqredis.status import Status
from mqredis.steps import Arg, Call

# Scripts that may find no message to change.
READS = ("receive", "lookup")


def _always(_args: Sequence[Arg]) -> bool:
    return True


# Scripts that may change something permanently, and a test of their arguments.
_PERMANENT: dict[str, Callable[[Sequence[Arg]], bool]] = {
    "send": lambda args: args[1] == "",
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


def permanent(call: Call[Any]) -> bool:
    """Does this call change something permanently, if it is not refused?"""
    test = _PERMANENT.get(call.script)
    return test is not None and test(call.args)


def changed(call: Call[Any], status: int) -> bool:
    """Did a permanent call with this status change anything? A refusal or a read that found nothing did not."""
    return status == Status.OK or (
        call.script == "receive" and status in NOTHING_FOUND and settles(call.args)
    )
