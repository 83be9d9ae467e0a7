"""What a call that was made does, read from its arguments: its mode, its transaction, what it settles.

``drivers.attempt``, ``drivers.durability``, ``drivers.outcomes``, ``operations.durability.changes``,
``operations.interruption`` and errors about a call (``operations.refusals``) ask it; the functions of this package that
make calls do not, and only share ``Mode`` with operations. ``PLACES`` repeats the order of arguments that the heads of
the scripts have; ``tests/contract/test_arguments.py`` compares both.
"""

from __future__ import annotations

from typing import Any, Literal

from mqredis.commands.settlement import COMMIT, REJECT
from mqredis.steps import Call

# How a read treats what it finds: shows it, removes it, locks it, or receives it in a transaction.
Mode = Literal["peek", "take", "lock", "tx"]

# Scripts that read messages and may take or lock what they find. They may find nothing.
READS = ("receive", "lookup")
# By script, the places of arguments behind the token, from 0. Names are those of the head of the script.
PLACES: dict[str, dict[str, int]] = {
    "send": {"transaction": 1},
    "publish": {"transaction": 1},
    "receive": {"mode": 1, "owner": 3, "settlement": 9},
    "lookup": {"mode": 1, "ids": 3, "owner": 4},
    "move": {"transaction": 3},
    "settle": {"settlement": 2},
    "commit": {"outcome": 2},
}
# Scripts that may run in a transaction, and where the payload of their reply has its fence.
FENCES = {"send": 1, "publish": 1, "receive": 0, "lookup": 0, "move": 0}


def argument(call: Call[Any], name: str) -> str:
    """An argument of a call by the name that it has in ``PLACES``; "" if the call leaves it out."""
    place = PLACES[call.script][name]
    return str(call.args[place]) if place < len(call.args) else ""


def mode_of(call: Call[Any]) -> str:
    """The mode of a read (:data:`Mode`); "" for any other call."""
    return argument(call, "mode") if call.script in READS else ""


def transaction_of(call: Call[Any]) -> str:
    """Id of the transaction in which a call runs; "" outside of one."""
    if call.script in READS:
        return argument(call, "owner") if mode_of(call) == "tx" else ""
    return argument(call, "transaction") if call.script in FENCES else ""


def brings_settlements(call: Call[Any]) -> bool:
    """Does a read settle earlier locks on its way?"""
    return call.script == "receive" and argument(call, "settlement") != ""


def removes_locked(call: Call[Any]) -> bool:
    """Does a call of settle.lua commit or reject a lock? It has three arguments for each run: action, fence, ids."""
    actions = call.args[PLACES["settle"]["settlement"] :: 3]
    return any(str(action)[0] in (COMMIT, REJECT) for action in actions)
