"""Which levels of durability a server can give, and by which command (docs/guarantees.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mqredis.errors import BrokerRefused, UnsafeServer
from mqredis.models import Durability
from mqredis.operations.server_facts import LATE, ServerFacts, config_of, facts_of
from mqredis.steps import Command, Refused, Steps, procedure

if TYPE_CHECKING:
    from mqredis.reports import Level

# The reply of a script implies the level, so no command is sent.
IMPLIED = "reply"
_HINT = "nothing was done. A lower durability= needs no such thing"
# No role of `mqredis acl` may read it, since CONFIG GET also shows passwords.
_HIDDEN = "may not be read by this user (if it is so, set Settings(appendfsync_always=True))"
_TEXTS = {
    IMPLIED: "appendfsync always: the reply implies it",
    "WAIT": "by WAIT",
    "WAITAOF": "by WAITAOF",
}


@dataclass(frozen=True, slots=True)
class WaitCommand:
    """The command that waits for a level: IMPLIED, "WAIT" or "WAITAOF"; "" with the reason ``why`` there is none."""

    command: str
    why: str = ""
    forbidden: bool = False


@procedure
def wait_command(level: Durability, assured: bool = False) -> Steps[str]:
    """Find the command by which this server waits for a level.

    ``assured``: the operator says that the server has ``appendfsync always``, which counts where the client may not
    read the setting. Raises UnsafeServer, BrokerRefused.
    """
    found = yield from find_wait_command(level, assured)
    if found.command:
        return found.command
    raise (BrokerRefused if found.forbidden else UnsafeServer)(f"durability {level!s}: {found.why}; {_HINT}")


@procedure
def find_wait_command(level: Durability, assured: bool = False) -> Steps[WaitCommand]:
    """Find the command by which this server waits for a level, or the reason why it has none."""
    if level == Durability.REPLICA:
        reply = yield Command(("WAIT", 0, 1))
        return _refused("wait", reply) if isinstance(reply, Refused) else WaitCommand("WAIT")
    reply = yield Command(("WAITAOF", 1, 0, 1))
    if not isinstance(reply, Refused):
        return (yield from _waits(assured))
    if "unknown command" not in reply.text.lower():
        return _refused("waitaof", reply)
    if level == Durability.REPLICA_FSYNC:
        return WaitCommand("", "it needs WAITAOF (Redis 7.2), which this server has not")
    for name, wanted in (
        ("appendonly", "yes"),
        ("appendfsync", "always"),
        ("no-appendfsync-on-rewrite", "no"),
    ):
        found = config_of((yield Command(("CONFIG", "GET", name))))
        if found is None and assured:
            continue
        if found != wanted:
            what = _HIDDEN if found is None else f"is {found}"
            return WaitCommand("", f"without WAITAOF (Redis 7.2) it takes `{name} {wanted}`, which {what}")
    reply = yield Command(("INFO", "persistence"))
    if not isinstance(reply, Refused) and facts_of(reply).get("aof_enabled") == "0":
        return WaitCommand("", "the server has no append-only log")
    return WaitCommand(IMPLIED)


def _waits(assured: bool) -> Steps[WaitCommand]:
    """WAITAOF, unless this release of the server replies to it before the disk has the change."""
    reply = yield Command(("INFO", "server"))
    facts = ServerFacts({} if isinstance(reply, Refused) else facts_of(reply))
    if facts.syncs_late:
        found = config_of((yield Command(("CONFIG", "GET", "appendfsync"))))
        if found != "always" and not (found is None and assured):
            text = f"WAITAOF of {facts.release} answers before the disk has it ({LATE})"
            what = _HIDDEN if found is None else f"is {found}"
            return WaitCommand("", f"{text}: it takes `appendfsync always`, which {what}")
    return WaitCommand("WAITAOF")


def _refused(command: str, reply: Refused) -> WaitCommand:
    if reply.forbidden:
        return WaitCommand("", f"this user may not run {command}", forbidden=True)
    return WaitCommand("", f"the server says: {reply.text}")


@procedure
def levels(facts: ServerFacts, wanted: int, assured: bool = False) -> Steps[tuple[Level, ...]]:
    """List the levels, and whether ``durability=`` reaches each of them now.

    ``wanted``: how many replicas the settings ask for. ``assured``: see :func:`wait_command`.
    """
    from mqredis.reports import Level  # only the doctor reports levels

    out = [Level(name=Durability.MEMORY, reachable=True, text="every call")]
    for level in (Durability.FSYNC, Durability.REPLICA, Durability.REPLICA_FSYNC):
        found = yield from find_wait_command(level, assured)
        text, short = found.why or _TEXTS[found.command], False
        if found.command and level != Durability.FSYNC:
            there = facts.replicas
            short = there is not None and there < wanted
            text += f"; replicas attached: {'unknown' if there is None else there}, needed: {wanted}"
        out.append(Level(name=level, reachable=bool(found.command) and not short, text=text))
    return tuple(out)
