"""Which levels of durability a server can give, and by which command (docs/guarantees.md).

``drivers.durable_calls`` and its asyncio twin find the command of a level with ``wait_command``, and ``doctor.run``
reports all ``levels``. ``cli/acl.py`` has the rights for the commands.

Change together with: ``drivers.durability``, which sends the command that is found here, any but WAIT as WAITAOF.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mqredis.errors import BrokerRefused, UnsafeServer
from mqredis.models import Durability
from mqredis.operations.server_facts import LATE, ServerFacts, config_of, section
from mqredis.steps import Command, Refused, Steps, procedure

if TYPE_CHECKING:
    from mqredis.reports import Level

# The reply of a script implies the level, so no command is sent.
IMPLIED = "reply"
# These find out whether the command may be used, and answer at once: WAIT asks for 0 replicas, and WAITAOF for the
# server's own disk, which it refuses without an append-only file, and 0 replicas. Each waits for 1 ms at most.
_WAIT_PROBE = ("WAIT", 0, 1)
_WAITAOF_PROBE = ("WAITAOF", 1, 0, 1)
_HINT = "nothing was done. Use a lower durability="
# No role of `mqredis acl` may read it, since CONFIG GET also shows passwords.
_HIDDEN = (
    "may not be read by this user (if the server has this setting, use Settings(appendfsync_always=True))"
)
_TEXTS = {
    IMPLIED: "appendfsync always: the reply implies it",
    "WAIT": "by WAIT",
    "WAITAOF": "by WAITAOF",
}


@dataclass(frozen=True, slots=True)
class WaitCommand:
    """The command that waits for a level: IMPLIED, "WAIT" or "WAITAOF"; None, with the reason, if there is none."""

    command: str | None
    why: str = ""
    forbidden: bool = False


@procedure
def wait_command(level: Durability, appendfsync_always: bool = False) -> Steps[str]:
    """Find the command by which this server waits for a level.

    ``appendfsync_always``: the operator says that the server has this setting, which counts where the client may not
    read it. Raises UnsafeServer, BrokerRefused.
    """
    found = yield from find_wait_command(level, appendfsync_always)
    if found.command is not None:
        return found.command
    raise (BrokerRefused if found.forbidden else UnsafeServer)(f"durability {level!s}: {found.why}; {_HINT}")


@procedure
def find_wait_command(level: Durability, appendfsync_always: bool = False) -> Steps[WaitCommand]:
    """Find the command by which this server waits for a level, or the reason why it has none."""
    if level == Durability.REPLICA:
        reply = yield Command(_WAIT_PROBE)
        return _refused("wait", reply) if isinstance(reply, Refused) else WaitCommand("WAIT")
    reply = yield Command(_WAITAOF_PROBE)
    if not isinstance(reply, Refused):
        return (yield from _waitaof_unless_late(appendfsync_always))
    if "unknown command" not in reply.text.lower():
        return _refused("waitaof", reply)
    if level == Durability.REPLICA_FSYNC:
        return WaitCommand(None, "it needs WAITAOF (Redis 7.2), which this server does not have")
    for name, required in (
        ("appendonly", "yes"),
        ("appendfsync", "always"),
        ("no-appendfsync-on-rewrite", "no"),
    ):
        why = yield from _setting_differs(name, required, appendfsync_always)
        if why:
            return WaitCommand(None, f"without WAITAOF (Redis 7.2) it needs {why}")
    if (yield from section("persistence")).get("aof_enabled") == "0":
        return WaitCommand(None, "the server has no append-only file")
    return WaitCommand(IMPLIED)


def _waitaof_unless_late(appendfsync_always: bool) -> Steps[WaitCommand]:
    """WAITAOF, unless this release of the server replies to it before the change is on disk."""
    facts = ServerFacts((yield from section("server")))
    if facts.syncs_late:
        why = yield from _setting_differs("appendfsync", "always", appendfsync_always)
        if why:
            late = f"WAITAOF of {facts.release} answers before the change is on disk ({LATE})"
            return WaitCommand(None, f"{late}, so it needs {why}")
    return WaitCommand("WAITAOF")


def _setting_differs(name: str, required: str, promised: bool) -> Steps[str]:
    """Say how a setting of the server differs; "" if it does not, or if it is hidden and ``promised``."""
    found = config_of((yield Command(("CONFIG", "GET", name))))
    if found == required or (found is None and promised):
        return ""
    return f"`{name} {required}`, but {name} {_HIDDEN if found is None else f'is {found}'}"


def _refused(command: str, reply: Refused) -> WaitCommand:
    if reply.forbidden:
        return WaitCommand(None, f"this user may not run {command}", forbidden=True)
    return WaitCommand(None, f"the server says: {reply.text}")


@procedure
def levels(facts: ServerFacts, needed: int, appendfsync_always: bool = False) -> Steps[tuple[Level, ...]]:
    """List the levels, and whether ``durability=`` reaches each of them now.

    ``needed``: how many replicas the settings ask for. ``appendfsync_always``: see :func:`wait_command`.
    """
    from mqredis.reports import Level  # only the doctor reports levels

    out = [Level(name=Durability.MEMORY, reachable=True, text="every call")]
    for level in (Durability.FSYNC, Durability.REPLICA, Durability.REPLICA_FSYNC):
        found = yield from find_wait_command(level, appendfsync_always)
        if found.command is None:
            out.append(Level(name=level, reachable=False, text=found.why))
            continue
        text, reachable = _TEXTS[found.command], True
        if level != Durability.FSYNC:
            attached = facts.replicas
            reachable = attached is None or attached >= needed
            text += f"; replicas attached: {'unknown' if attached is None else attached}, needed: {needed}"
        out.append(Level(name=level, reachable=reachable, text=text))
    return tuple(out)
