"""Tells from the arguments of a call whether it changes anything permanently.

``wrapper`` and ``drivers.durability`` ask it.

What a lease undoes is not permanent: locks, the operations of a transaction before its commit, and aborts. A new script
needs a row in ``_PERMANENT`` if no lease undoes its change, and docs/guarantees.md (Durability) names its call. Actions
of operators (``bulk``, ``unlock``, ``schedule_write``) wait for no level. ``tests/contract/test_arguments.py`` compares
the arguments that are looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mqredis.commands.arguments import (
    argument,
    brings_settlements,
    mode_of,
    removes_locked,
    transaction_of,
)
from mqredis.commands.read import NOTHING_FOUND
from mqredis.status import Status
from mqredis.steps import Call


def _always(_call: Call[Any]) -> bool:
    return True


def _outside_transaction(call: Call[Any]) -> bool:
    return not transaction_of(call)


# Scripts that may change something permanently, and which of their calls do.
_PERMANENT: dict[str, Callable[[Call[Any]], bool]] = {
    **dict.fromkeys(("send", "publish", "move"), _outside_transaction),
    "receive": lambda call: mode_of(call) == "take" or brings_settlements(call),
    "lookup": lambda call: mode_of(call) == "take",
    "settle": removes_locked,
    "commit": lambda call: argument(call, "outcome") == "commit",
    **dict.fromkeys(
        ("purge", "redrive", "subscribe", "queue_create", "queue_update", "queue_delete", "manager_update",
         "claim_commit", "stage_publish"),
        _always,
    ),
}  # fmt: skip


def permanent(call: Call[Any]) -> bool:
    """Does this call change something permanently, if it is not refused?"""
    test = _PERMANENT.get(call.script)
    return test is not None and test(call)


def changed(call: Call[Any], status: int) -> bool:
    """Did a permanent call with this status change anything? A refusal or a read that found nothing did not. After
    CONTINUE another call follows, whose wait is also for the changes before it."""
    return status == Status.OK or (status in NOTHING_FOUND and brings_settlements(call))
