"""Checks of the server before anything is written to it. What it refuses to tell is unknown, never a failure."""

from __future__ import annotations

from mqredis.commands import manager as commands
from mqredis.errors import BrokerRefused, UnsafeServer
from mqredis.keys import ManagerKeys
from mqredis.operations.serverlint import ServerFacts, config_of, facts_of
from mqredis.settings import Settings
from mqredis.steps import Command, Operation, Refused, perform


def admit(manager: ManagerKeys, settings: Settings, database: int, memory: bool) -> Operation[bool]:
    """Raise BrokerRefused if this user may not run what the scripts run, UnsafeServer if the server may delete
    messages of its own accord. Answers whether it keeps nothing on disk: then it takes only what may be lost.

    ``memory``: a fake in this process, of which nobody expects that it keeps anything.
    """
    refused = yield from perform(commands.preflight(manager, database))
    if refused:
        raise BrokerRefused(
            f"this user may not run {', '.join(refused)} on {manager.tag}*: nothing was written. "
            f"`mqredis acl --manager {manager.manager}` prints the rules that a user needs"
        )
    if not settings.allow_eviction:
        yield from _evicts_nothing()
    return not (memory or settings.allow_volatile) and (yield from _keeps_nothing())


def _evicts_nothing() -> Operation[None]:
    policy = yield from _policy()
    if ServerFacts(config={"maxmemory-policy": policy}).evicts:
        raise UnsafeServer(
            f"the server's eviction policy is {policy}: when memory is short it deletes messages. Set "
            "`maxmemory-policy noeviction` on the server, or accept the loss with Settings(allow_eviction=True) "
            "(MQREDIS_ALLOW_EVICTION=1)"
        )


def _keeps_nothing() -> Operation[bool]:
    """Neither a log nor snapshots? Unknown is no: who hides CONFIG (a managed service) keeps data in its own way."""
    log = config_of((yield Command(("CONFIG", "GET", "appendonly"))))
    return log == "no" and config_of((yield Command(("CONFIG", "GET", "save")))) == ""


def refuse_volatile(what: str) -> UnsafeServer:
    """Why something that must be kept is not taken by a server that keeps nothing."""
    return UnsafeServer(
        f"{what}: this server keeps nothing on disk (appendonly no, no save points), so its end is the end of all "
        "messages. Set `appendonly yes` on the server; or send with recoverable=False what may be lost; or accept the "
        "loss of everything with Settings(allow_volatile=True) (MQREDIS_ALLOW_VOLATILE=1)"
    )


def _policy() -> Operation[str]:
    """The eviction policy; "" if the server does not tell."""
    found = config_of((yield Command(("CONFIG", "GET", "maxmemory-policy"))))
    if found:
        return found
    reply = yield Command(("INFO", "memory"))
    return "" if isinstance(reply, Refused) else facts_of(reply).get("maxmemory_policy", "")
