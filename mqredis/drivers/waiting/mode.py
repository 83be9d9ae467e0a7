"""How a server can notify waiting readers: by keyspace notifications, by PUBLISH, or not at all.

``waits`` and ``waits_aio`` ask it when the first operation waits, and again at another server process. ``cli/acl.py``
has the rights for what is asked; docs/decisions/waiting.md compares the modes.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from mqredis.commands.waiting import KEYSPACE, PUBLISH
from mqredis.operations.server_facts import announces_wakes
from mqredis.settings import Settings

_CONFIG = "notify-keyspace-events"
# The letter by which scripts know a mode; a script is given "" where readers poll.
LETTERS = {"keyspace": KEYSPACE, "publish": PUBLISH}


def union(flags: str) -> str:
    """Add the flags that mqredis needs. CONFIG SET replaces all flags, and other clients may rely on theirs."""
    out = flags if "K" in flags else flags + "K"
    return out if "s" in out or "A" in out else out + "s"


# A command to run, or (TRIAL, mode).
Question = tuple[str, ...]
TRIAL = "trial"


def choose_wake_mode(settings: Settings) -> Generator[Question, Any, str]:
    """Find out how waits can be woken.

    Yields questions: a command, which is answered with None when the server refuses it; or a trial of a mode, which is
    answered with True, False, or None when there was no connection for it. Returns "keyspace", "publish", "poll", or
    "" when the mode cannot be found out now.
    """
    wish = settings.wake
    if wish in ("poll", "publish"):
        return wish
    reply = yield ("CONFIG", "GET", _CONFIG)
    flags = None
    if isinstance(reply, list) and len(reply) == 2:
        flags = reply[1].decode() if isinstance(reply[1], bytes) else str(reply[1])
    if flags is not None and not announces_wakes(flags) and settings.configure_server:
        done = yield ("CONFIG", "SET", _CONFIG, union(flags))
        flags = flags if done is None else union(flags)
    if wish == "keyspace":
        return "keyspace"
    worked = None
    if flags is None or announces_wakes(flags):
        worked = yield (TRIAL, "keyspace")
        if worked:
            return "keyspace"
    worked = yield (TRIAL, "publish")
    if worked:
        return "publish"
    return "" if worked is None else "poll"
