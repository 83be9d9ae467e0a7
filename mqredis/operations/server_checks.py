"""Checks of the server before anything is written to it. Facts that the user may not read are unknown, not errors.

``connect`` runs ``admit``, and ``drivers.greeting`` runs ``keeps_nothing`` for each new server process. Sends,
schedules, transactional queues and Spark's writes raise ``refuse_volatile``.
"""

from __future__ import annotations

import logging
import shlex
from typing import Any

from mqredis.commands import manager as commands
from mqredis.errors import BrokerRefused, UnsafeServer
from mqredis.keys import ManagerKeys
from mqredis.operations.server_facts import ServerFacts, config_of, facts_of, section
from mqredis.settings import Settings
from mqredis.steps import Command, Refused, Steps, perform, procedure

log = logging.getLogger("mqredis")

# Settings of a server that keeps nothing on disk, neither a log nor snapshots.
KEEPS_NOTHING = (("appendonly", "no"), ("save", "nothing"))


@procedure
def admit(manager: ManagerKeys, settings: Settings, database: int) -> Steps[None]:
    """Raise BrokerRefused if this user may not run what the scripts run, UnsafeServer if the server may delete
    messages of its own accord. A read-only client is admitted without a question.
    """
    if settings.read_only:
        return
    refused = yield from perform(commands.preflight(manager, database))
    if refused:
        raise BrokerRefused(
            f"this user may not run {', '.join(refused)} on {manager.tag}*: nothing was written. "
            f"`{_acl_command(manager.manager, database)}` prints the rules that a user needs"
        )
    if not settings.allow_eviction:
        yield from _evicts_nothing()


def _acl_command(manager: str, database: int) -> str:
    """The command that prints the rules for users of this manager."""
    where = f" --database {database}" if database else ""
    return f"mqredis acl --manager {shlex.quote(manager)}{where}"


@procedure
def keeps_nothing() -> Steps[bool | None]:
    """Does the server keep nothing on disk? None if that is unknown, as for managed services."""
    replies = []
    for name, _ in KEEPS_NOTHING:
        replies.append(setting((yield Command(("CONFIG", "GET", name)))))
    if "" not in replies:
        return replies == [nothing for _, nothing in KEEPS_NOTHING]
    info = yield from section("persistence")
    return False if info.get("aof_enabled") == "1" else None


def _evicts_nothing() -> Steps[None]:
    policy, forbidden = yield from _policy()
    if forbidden:
        log.warning(
            "cannot check whether this server deletes messages when memory is short, since this user may run "
            "neither INFO nor CONFIG GET maxmemory-policy"
        )
    if ServerFacts(config={"maxmemory-policy": policy}).evicts:
        raise UnsafeServer(
            f"the server's eviction policy is {policy}: when memory is short it deletes messages. Set "
            "`maxmemory-policy noeviction` on the server, or accept the loss with Settings(allow_eviction=True) "
            "(MQREDIS_ALLOW_EVICTION=1)"
        )


def setting(reply: Any) -> str:
    """The value in a reply to ``CONFIG GET``, "nothing" for an empty one."""
    found = config_of(reply)
    return "nothing" if found == "" else found or ""


def refuse_volatile(what: str) -> UnsafeServer:
    """The error if a server that keeps nothing on disk gets data that must be kept."""
    return UnsafeServer(
        f"{what}: this server keeps nothing on disk (appendonly no, no save points), so its end is the end of all "
        "messages. Set `appendonly yes` on the server; or send with recoverable=False what may be lost; or accept the "
        "loss of everything with Settings(allow_volatile=True) (MQREDIS_ALLOW_VOLATILE=1)"
    )


def _policy() -> Steps[tuple[str, bool]]:
    """The eviction policy, "" if unknown; and whether it is unknown because the user lacks a permission."""
    found = config_of((yield Command(("CONFIG", "GET", "maxmemory-policy"))))
    if found:
        return found, False
    reply = yield Command(("INFO", "memory"))
    if isinstance(reply, Refused):
        return "", reply.forbidden
    return facts_of(reply).get("maxmemory_policy", ""), False
