"""begin.lua, commit.lua, renew.lua, reject.lua, tx_sweep.lua: MS-MQDMPR 3.1.7.1.8, 3.1.4.3-5."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from mqredis import keys
from mqredis.commands.common import OK, Address, check, number, text
from mqredis.errors import error_for
from mqredis.keys import ManagerKeys
from mqredis.status import Status
from mqredis.steps import Call, Payload

#: Scripts that may run in a transaction: the place of its id among the arguments, and of its fence in the reply.
_PLACES = {"send": (1, 1), "publish": (1, 1), "receive": (3, 0), "lookup": (4, 0), "move": (3, 0)}


@dataclass(slots=True)
class Doubt:
    """A call in a transaction whose outcome is unknown."""

    token: str
    transaction: str
    #: Where the reply has the fence of the transaction.
    fence_at: int
    #: The application has not asked for the outcome.
    unseen: bool = True


def doubt(token: str, call: Call[Any]) -> Doubt | None:
    """What to know of a call whose outcome is unknown; None if it belongs to no transaction."""
    if call.script in ("receive", "lookup") and call.args[1] != "tx":
        return None
    owner_at, fence_at = _PLACES.get(call.script, (len(call.args), 0))
    owner = call.args[owner_at] if owner_at < len(call.args) else ""
    return Doubt(token, owner, fence_at) if owner and isinstance(owner, str) else None


@dataclass(slots=True)
class Granted:
    """Fence and remaining lease of a transaction."""

    fence: str
    lease_ms: int


def begin(manager: ManagerKeys, transaction: str, lease_ms: int) -> Call[Granted]:
    """Begin a transaction under a chosen id."""

    def parse(status: int, payload: Payload) -> Granted:
        check(status)
        return Granted(text(payload[0]), number(payload[1]) - number(payload[2]))

    return Call("begin", manager.call(), [transaction, lease_ms], parse)


def end(
    manager: ManagerKeys,
    transaction: str,
    fence: str,
    outcome: str,
    paths: Iterable[str],
    given: str = "",
    verdicts: Mapping[str, str] | None = None,
) -> Call[list[str]]:
    """Commit, abort or prepare. Answers the paths of queues that have to be named as well; empty when done.

    ``given``: how an abort gives back what was received. ``verdicts``: by lookup id, how single messages are given
    back, also by a commit. Both as ``release.given`` in lua/core/release.lua reads them.
    """
    args = [transaction, fence, outcome]
    if given or verdicts:
        args.append(given)
        for lookup_id, verdict in (verdicts or {}).items():
            args += [lookup_id, verdict]
    return Call("commit", manager.call(*paths), args, _missing)


def _missing(status: int, payload: Payload) -> list[str]:
    if status == OK:
        return []
    if status == Status.KEYS_CHANGED:
        return [keys.decode(text(item)) for item in payload]
    raise error_for(status)


def renew(manager: ManagerKeys, transaction: str, fence: str, lease_ms: int) -> Call[int]:
    """Renew the lease; answers its length in ms."""

    def parse(status: int, payload: Payload) -> int:
        check(status)
        return number(payload[0]) - number(payload[1])

    return Call("renew", manager.call(), [transaction, fence, lease_ms], parse)


def sweep(manager: ManagerKeys) -> Call[bool]:
    """Forget lapsed transactions; True if there may be more."""

    def parse(status: int, _payload: Payload) -> bool:
        if status != Status.CONTINUE:
            check(status)
        return status == Status.CONTINUE

    return Call("tx_sweep", manager.call(), [], parse)


def reject(queue: Address, transaction: str, fence: str, lookup_id: str, reason: str) -> Call[None]:
    """Mark a received message as rejected."""
    args = [transaction, fence, lookup_id, reason]
    return Call("reject", queue.call, args, lambda code, _: check(code))
